#include "pipeline/tool_rank/own_files.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "pipeline/tool_rank/record_directory.hpp"
#include "pipeline/tool_rank/user_options.hpp"
#include "report/report.hpp"
#include "store/store_reader.hpp"

namespace nsys_explain::pipeline {

namespace {

namespace fs = std::filesystem;

/// Not through links: what they lead to is not in the directory.
fs::file_type type_of_entry(const fs::path& path) {
  std::error_code ignored;
  return fs::symlink_status(path, ignored).type();
}

void add_entry(OwnFiles& files, const fs::path& path, bool is_ours) {
  (is_ours ? files.ours : files.others).push_back(path);
}

/// Adds a directory of ours with what it holds; nothing where there is none.
template <class IsOurs>
void add_directory(OwnFiles& files, const fs::path& directory, const IsOurs& is_ours) {
  const fs::file_type type = type_of_entry(directory);
  if (type == fs::file_type::not_found) return;
  if (type != fs::file_type::directory) return add_entry(files, directory, false);
  std::vector<fs::path> paths(fs::directory_iterator(directory), {});
  std::sort(paths.begin(), paths.end());
  OwnFiles held;
  for (const fs::path& path : paths) {
    add_entry(held, path, type_of_entry(path) == fs::file_type::regular && is_ours(path));
  }
  if (!held.ours.empty() && held.others.empty()) files.ours.push_back(directory);
  files.ours.insert(files.ours.end(), held.ours.begin(), held.ours.end());
  files.others.insert(files.others.end(), held.others.begin(), held.others.end());
}

/// Null where the file is none, or none of ours.
std::unique_ptr<store::StoreReader> open_own_store(const fs::path& path) {
  if (type_of_entry(path) != fs::file_type::regular) return nullptr;
  try {
    auto store = std::make_unique<store::StoreReader>(path.string());
    return store->attribute("/", "format").value_or("").starts_with(store_mark) ? std::move(store) : nullptr;
  } catch (const std::exception&) {
    return nullptr;  // not HDF5, or damaged
  }
}

bool is_csv_of(const store::StoreReader& store, const fs::path& path) {
  const std::string table = path.stem().string();
  if (path.extension() != ".csv" || !store.has_table(table)) return false;
  const std::string header = report::csv_header(store.schema(table));
  std::string beginning(header.size(), '\0');
  std::ifstream(path, std::ios::binary).read(beginning.data(), static_cast<std::streamsize>(beginning.size()));
  return beginning == header;
}

}  // namespace

OwnFiles results_in(const fs::path& output_directory) {
  const std::unique_ptr<store::StoreReader> store = open_own_store(output_directory / store_name);
  OwnFiles files;
  for (const std::string_view name : result_names) {
    const fs::path path = output_directory / name;
    const fs::file_type type = type_of_entry(path);
    if (type != fs::file_type::not_found) add_entry(files, path, store && type == fs::file_type::regular);
  }
  add_directory(files, output_directory / tables_name,
                [&](const fs::path& path) { return store && is_csv_of(*store, path); });
  return files;
}

OwnFiles comparison_in(const fs::path& output_directory) {
  // How our JSON begins (report::comparison_to_json); whatever else holds both of these words was meant to look like
  // it.
  std::string beginning(200, '\0');
  std::ifstream(output_directory / comparison_json_name, std::ios::binary)
      .read(beginning.data(), static_cast<std::streamsize>(beginning.size()));
  const bool ours = beginning.find("\"schema_version\"") != std::string::npos &&
                    beginning.find("\"side_by_side\"") != std::string::npos;
  OwnFiles files;
  for (const std::string_view name : comparison_names) {
    const fs::path path = output_directory / name;
    const fs::file_type type = type_of_entry(path);
    if (type != fs::file_type::not_found) add_entry(files, path, ours && type == fs::file_type::regular);
  }
  return files;
}

OwnFiles records_in(const fs::path& directory) {
  OwnFiles files;
  add_directory(files, directory, &RecordDirectory::is_record);
  return files;
}

std::vector<fs::path> only_ours(OwnFiles files) {
  if (files.others.empty()) return std::move(files.ours);
  throw std::runtime_error(fmt::format(
      "cannot put results where {} lies: nothing says that this program wrote it, so it is not replaced; move it away, or give another --out",
      files.others.front().string()));
}

namespace {

namespace fs = std::filesystem;

struct OutsideFile {
  std::string_view option;
  fs::path path;          ///< empty: not asked for
  std::string_view mark;  ///< how one of ours begins; empty: nothing tells
};

std::array<OutsideFile, 2> outside_files(const JobSpecification& job) {
  return {{{"--prometheus", job.prometheus_path, report::prometheus_mark}, {"--perfetto", job.perfetto_path, ""}}};
}

bool is_ours(const OutsideFile& file) {
  std::error_code ignored;
  if (file.mark.empty() || !fs::is_regular_file(fs::symlink_status(file.path, ignored))) return false;
  std::string beginning(file.mark.size(), '\0');
  std::ifstream(file.path, std::ios::binary).read(beginning.data(), static_cast<std::streamsize>(beginning.size()));
  return beginning == file.mark;
}

/// Under whatever name: what counts are device and inode.
bool is_same(const fs::path& one, const fs::path& other) {
  std::error_code ignored;
  return fs::equivalent(one, other, ignored);
}

/// Whether it is there and is what is read, or lies there and is none of ours.
bool is_read(const OutsideFile& file, const fs::path& read) {
  std::error_code error;
  if (is_same(file.path, read)) return true;
  const fs::path real = fs::canonical(file.path, error);
  if (is_ours(file)) return false;
  for (fs::path place = real.parent_path(); !error && place != place.root_path(); place = place.parent_path()) {
    if (is_same(place, read)) return true;
  }
  return false;
}

fs::path place_of(const fs::path& path) {
  std::error_code ignored;
  return fs::weakly_canonical(fs::absolute(path, ignored), ignored);
}

bool is_result(const fs::path& path, const JobSpecification& job) {
  const fs::path place = place_of(path), results = place_of(fs::path(job.output_directory) / "");
  const auto lies_in = [&](const fs::path& directory) { return place.parent_path() / "" == directory / ""; };
  const bool is_named =
      std::find(result_names.begin(), result_names.end(), place.filename().string()) != result_names.end();
  return (is_named && lies_in(results)) || lies_in(results / tables_name) || lies_in(results / "shards");
}

void require_replaceable(const OutsideFile& file, bool overwrite) {
  std::error_code ignored;
  const fs::file_status present = fs::symlink_status(file.path, ignored);
  if (!fs::exists(present)) return;
  if (!fs::is_regular_file(present) && !fs::is_symlink(present)) {
    throw std::runtime_error(fmt::format("{} is no file, so {} cannot replace it by one; give another {}",
                                         file.path.string(), file.option, file.option));
  }
  if (overwrite || is_ours(file)) return;
  throw std::runtime_error(fmt::format(
      "{} exists, and nothing says that {} wrote it, so it is not replaced; give another {}, or --force to replace it",
      file.path.string(), file.option, file.option));
}

[[noreturn]] void refuse_input(const OutsideFile& file, const std::string& read) {
  throw std::runtime_error(fmt::format("{} of {} is {}, which this run reads, so it is not replaced; give another {}",
                                       file.path.string(), file.option, read, file.option));
}

}  // namespace

void check_outside_files(const JobSpecification& job) {
  const std::array<OutsideFile, 2> files = outside_files(job);
  JobSpecification paths = job;
  for (const OutsideFile& file : files) {
    if (file.path.empty()) continue;
    for (const std::string* read : paths_to_read(paths)) {
      if (!read->empty() && is_read(file, *read)) refuse_input(file, *read);
    }
    for (const std::string& read : job.shard_directories) {
      if (is_read(file, read)) refuse_input(file, read);
    }
    if (is_result(file.path, job)) {
      throw std::runtime_error(
          fmt::format("{} of {} is a place for results of this run, so one would replace the other; give another {}",
                      file.path.string(), file.option, file.option));
    }
    require_replaceable(file, job.overwrite);
  }
  if (!files[0].path.empty() && !files[1].path.empty() && place_of(files[0].path) == place_of(files[1].path)) {
    throw std::runtime_error(
        fmt::format("{} is the file of {} and of {}, so one would replace the other; give two files",
                    files[0].path.string(), files[0].option, files[1].option));
  }
}

void require_outside_of_traces(const JobSpecification& job, const ingest::MergedDiscovery& found) {
  for (const OutsideFile& file : outside_files(job)) {
    std::error_code ignored;
    if (file.path.empty() || !fs::exists(file.path, ignored)) continue;
    const auto check = [&](const std::string& path) {
      for (const char* suffix : {"", "-wal", "-journal", "-shm"}) {
        if (is_same(file.path, path + suffix)) refuse_input(file, path);
      }
    };
    for (const ingest::AssignedTrace& trace : found.traces) check(trace.path);
    for (const InputReport& input : found.failed) check(input.path);
  }
}

}  // namespace nsys_explain::pipeline
