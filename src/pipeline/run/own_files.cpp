#include "pipeline/run/own_files.hpp"

#include <algorithm>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "pipeline/run/record_directory.hpp"
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

}  // namespace nsys_explain::pipeline
