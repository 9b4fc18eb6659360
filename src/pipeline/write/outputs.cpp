#include "pipeline/write/outputs.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <system_error>
#include <tuple>

#include <fmt/format.h>

#include "exchange/agree.hpp"
#include "model/schema/job.hpp"
#include "pipeline/read/rank_tables.hpp"
#include "pipeline/read/unfinished_run.hpp"
#include "pipeline/tool_rank/own_files.hpp"
#include "pipeline/tool_rank/pack.hpp"
#include "pipeline/tool_rank/slabs.hpp"
#include "pipeline/write/instance_rounds.hpp"
#include "pipeline/write/tables.hpp"
#include "report/report.hpp"
#include "store/store_writer.hpp"

namespace nsys_explain::pipeline {
namespace {

namespace fs = std::filesystem;

std::runtime_error cannot_write(const fs::path& path, const std::string& why) {
  return std::runtime_error(
      fmt::format("cannot write {}: {}; without it there is no result; choose another --out or make room there",
                  path.string(), why));
}

/// In front of the name of a staging directory inside the final one.
constexpr std::string_view staging_prefix = ".nsys-explain-";

bool is_staging(const fs::path& path) {
  return path.filename().string().starts_with(staging_prefix);
}

fs::path without_last_slash(const fs::path& path) {
  const fs::path whole = fs::absolute(path).lexically_normal();
  return whole.filename().empty() ? whole.parent_path() : whole;
}

/// What is none of the named results (a table) comes after those that come first.
std::vector<fs::path> in_order_of_appearance(std::vector<fs::path> files) {
  const auto place = [](const fs::path& file) {
    const std::string name = file.filename().string();
    return std::tuple(name == json_name, name != store_name, file);
  };
  std::sort(files.begin(), files.end(), [&](const fs::path& a, const fs::path& b) { return place(a) < place(b); });
  return files;
}

/// The same tables to the store and, where asked for, to CSV files.
class TableSinks {
 public:
  TableSinks(const OutputDirectory& directory, bool csv)
      : store_((directory.staging() / store_name).string()),
        csv_directory_(directory.staging() / tables_name),
        csv_(csv) {
    if (csv_) fs::create_directories(csv_directory_);
    store_.set_attribute("/", "schema_version", "1.0");
    store_.set_attribute("/", "format", std::string(store_mark) + ": one group per table, one dataset per column");
  }

  store::StoreWriter& store() { return store_; }

  void create(const TableSchema& schema, const TableExtent& extent) {
    store_.create_table(schema, extent);
    write_csv_header(schema);
  }
  void append(const Table& chunk) {
    store_.append(chunk);
    write_csv_rows(chunk);
  }
  void append(const Slab& slab) {
    store_.append(slab.rows);
    if (csv_) files_[slab.rows.table] << slab.csv;
  }
  void close() {
    store_.close();
    for (auto& [name, file] : files_) {
      file.close();
      if (!file) throw cannot_write(csv_directory_ / (name + ".csv"), "the disk did not take it");
    }
  }

 private:
  void write_csv_header(const TableSchema& schema) {
    if (!csv_) return;
    std::ofstream& file = files_[schema.name];
    file.open(csv_directory_ / (schema.name + ".csv"), std::ios::binary);
    if (!file) throw cannot_write(csv_directory_ / (schema.name + ".csv"), std::strerror(errno));
    file << report::csv_header(schema);
  }
  void write_csv_rows(const Table& chunk) {
    if (csv_) files_[chunk.schema.name] << report::csv_rows(chunk);
  }

  store::StoreWriter store_;
  fs::path csv_directory_;
  bool csv_;
  std::map<std::string, std::ofstream> files_;
};

void write_instances(const exchange::Communicator& communicator, const JobReport& report, const CrossRank& cross,
                     bool with_csv, TableSinks* sinks) {
  InstanceRows instances(communicator, cross, first_instances(report));
  const TableExtent extent = instances_extent(instances.instances_in_all(), cross.communicators);
  const TableExtent of_arrivals = arrivals_extent(instances.arrivals_in_all());
  exchange::run_agreed(communicator, "writing results", [&] {
    if (sinks == nullptr) return;
    sinks->create(schema::collective_instances.table_schema(), extent);
    sinks->create(schema::collective_arrivals.table_schema(), of_arrivals);
  });
  const auto write = [&](const Slab& slab) { sinks->append(slab); };
  const DealtTable tables[] = {{extent, [&](auto, auto end) { return instances.take_instances(end); }, write},
                               {of_arrivals, [&](auto, auto end) { return instances.take_arrivals(end); }, write}};
  write_by_slabs(communicator, tables, with_csv);
}

void write_steps(const exchange::Communicator& communicator, const JobReport& report, const std::vector<StepRow>& rows,
                 TableSinks* sinks) {
  const std::int64_t all_rows = communicator.sum(std::ssize(rows));
  exchange::run_agreed(communicator, "writing results", [&] {
    if (sinks == nullptr) return;
    sinks->create(schema::steps.table_schema(), steps_extent(all_rows));
    sinks->store().set_attribute("/steps", "source", report.delay.step_source);
  });
  const std::int64_t per_round =
      std::max<std::int64_t>(1, arrivals_per_round / static_cast<std::int64_t>(report.trace_ranks.size()));
  const std::int64_t rounds = (report.delay.steps + per_round - 1) / per_round;
  for (std::int64_t round = 0; round < rounds; ++round) {
    const std::int64_t end = report.delay.first_step + (round + 1) * per_round;
    std::vector<StepRow> part;
    for (const StepRow& row : rows)
      if (row.step >= end - per_round && row.step < end) part.push_back(row);
    auto all = communicator.gather(std::span<const StepRow>(part)).values;
    exchange::run_agreed(communicator, "writing results", [&] {
      if (sinks == nullptr) return;
      std::sort(all.begin(), all.end(), [](const StepRow& a, const StepRow& b) {
        return std::pair(a.step, a.trace_rank) < std::pair(b.step, b.trace_rank);
      });
      sinks->append(steps_chunk(all));
    });
  }
}

/// Collective: tables of which rank 0 has all rows; `joined` counts there only.
std::vector<DealtTable> dealt_from_root(const exchange::Communicator& communicator,
                                        std::span<const Table* const> joined,
                                        const std::function<void(const Slab&)>& write) {
  std::vector<TableExtent> extents;
  for (const Table* table : joined) extents.push_back(extent_of(*table));
  const std::string packed = pack(extents);
  const std::vector<char> shared = communicator.broadcast(std::span<const char>(packed));
  extents = unpack<std::vector<TableExtent>>(std::string_view(shared.data(), shared.size()));
  std::vector<DealtTable> tables;
  for (std::size_t t = 0; t < extents.size(); ++t) {
    const auto take = [table = joined.empty() ? nullptr : joined[t]](std::int64_t first, std::int64_t end) {
      std::vector<RowRun> runs;
      if (table == nullptr) return runs;
      runs.push_back({first, make_table(table->schema)});
      append_run(*table, static_cast<std::size_t>(first), static_cast<std::size_t>(end - first), runs.front().rows);
      return runs;
    };
    tables.push_back({extents[t], take, write});
  }
  return tables;
}

/// Collective: the tables of the report, the long ones from where they are. Returns what report.html needs of those.
std::map<std::string, report::LongTable> write_tables(const exchange::Communicator& communicator,
                                                      const JobReport& report, std::vector<LocalTrace>& local_traces,
                                                      bool with_csv, TableSinks* sinks) {
  std::vector<std::int32_t> trace_ranks;
  for (const TraceRankIdentity& identity : report.trace_ranks) trace_ranks.push_back(identity.trace_rank);
  for (const TraceRankIdentity& host : report.host_processes) trace_ranks.push_back(host.trace_rank);
  std::sort(trace_ranks.begin(), trace_ranks.end());
  const std::map<std::string, LongRows> long_rows = measure_long_tables(communicator, trace_ranks, local_traces);
  std::map<std::string, report::LongTable> long_tables;
  std::vector<const Table*> joined;
  exchange::run_agreed(communicator, "writing results", [&] {
    if (sinks == nullptr) return;
    for (const Table& table : report.tables) {
      const auto rows = long_rows.find(table.schema.name);
      if (rows == long_rows.end()) {
        joined.push_back(&table);
        sinks->create(table.schema, extent_of(table));
      } else {
        sinks->create(table.schema, rows->second.extent);
        long_tables.emplace(table.schema.name, report::LongTable{make_table(table.schema), rows->second.extent.rows});
      }
    }
  });
  std::vector<std::int64_t> followed;
  if (communicator.is_root()) {
    const std::set<std::int64_t> ranks = report::ranks_to_follow(report);
    followed.assign(ranks.begin(), ranks.end());
  }
  followed = communicator.broadcast(std::span<const std::int64_t>(followed));
  const auto most_rows = [&](const TableSchema& schema, std::int32_t trace_rank) -> std::size_t {
    const LongRows& rows = long_rows.at(schema.name);
    const std::size_t shown = report::most_shown_rows(schema);
    if (std::binary_search(followed.begin(), followed.end(), trace_rank))
      return std::max(shown, report::most_followed_rows);
    return report::shows_every_rank(schema, rows.extent.rows, rows.trace_ranks) ? shown : 0;
  };
  std::vector<Table> first_rows = gather_first_rows(communicator, trace_ranks, local_traces, most_rows);
  exchange::run_agreed(communicator, "writing results", [&] {
    for (Table& rows : first_rows) long_tables.at(rows.schema.name).first_rows = std::move(rows);
  });
  const auto write = [&](const Slab& slab) { sinks->append(slab); };
  std::vector<DealtTable> tables = dealt_from_root(communicator, joined, write);
  for (const auto& entry : long_rows) {
    const auto take = [&](auto first, auto end) {
      return take_long_rows(entry.first, entry.second, first, end, local_traces);
    };
    tables.push_back({entry.second.extent, take, write});
  }
  write_by_slabs(communicator, tables, with_csv);
  return long_tables;
}

}  // namespace

void check_output_directory(const std::string& path, bool overwrite) {
  std::error_code error;
  if (overwrite || !fs::is_directory(path, error)) return;
  for (const auto& entry : fs::directory_iterator(path)) {
    if (entry.path() == shard_directory(path)) {
      only_ours(records_in(entry.path()));
      continue;
    }
    if (is_staging(entry.path())) continue;
    throw std::runtime_error(fmt::format(
        "{} is not empty; older results there would be replaced; give another --out, or --force to replace them",
        path));
  }
}

void require_place_for_directory(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return;
  const fs::path entry = without_last_slash(path);
  if (fs::exists(entry, error)) throw cannot_write(path, "it exists and is not a directory");
  if (fs::is_symlink(entry, error)) throw cannot_write(path, "it is a symbolic link that leads nowhere");
}

void check_own_places(const std::string& output_directory) {
  only_ours(records_in(shard_directory(output_directory)));
  only_ours(results_in(output_directory));
}

OutputDirectory::OutputDirectory(const std::string& final_path) : final_(final_path) {
  std::error_code error;
  require_place_for_directory(final_);
  const fs::path whole = without_last_slash(final_), parent = whole.parent_path();
  fs::create_directories(parent, error);
  if (error) throw cannot_write(final_, error.message());
  const std::string beside = "." + whole.filename().string() + "-";
  const bool exists = fs::is_directory(final_);
  try {
    // Beside the final directory or inside of it, so that the last step is a rename on one file system.
    if (exists) ingest::remove_abandoned(parent, beside);
    staging_.emplace(exists ? whole : parent, exists ? staging_prefix : beside);
  } catch (const std::system_error& failure) {
    throw cannot_write(final_, failure.code().message());
  }
}

void OutputDirectory::write_text(std::string_view name, const std::string& text) const {
  std::ofstream file(staging() / name, std::ios::binary);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.close();
  if (!file) throw cannot_write(final_ / name, std::strerror(errno));
}

void OutputDirectory::publish(const std::vector<fs::path>& older) {
  std::error_code error;
  fs::permissions(staging(),
                  fs::perms::owner_all | fs::perms::group_read | fs::perms::group_exec | fs::perms::others_read |
                      fs::perms::others_exec,
                  error);
  if (!fs::exists(final_)) {
    if (staging_->become(final_)) return;
    fs::create_directories(final_, error);
    if (error) throw cannot_write(final_, error.message());
  }
  // Backwards, and forwards again: whatever comes between, no file stands beside those of another run.
  const std::vector<fs::path> replaced = in_order_of_appearance(older);
  for (auto file = replaced.rbegin(); file != replaced.rend(); ++file) {
    fs::remove(*file, error);
    if (error) throw cannot_write(*file, error.message());
  }
  for (const fs::path& file : in_order_of_appearance({fs::directory_iterator(staging()), {}})) {
    if (file.filename() == ingest::StagingDirectory::owner_name) continue;
    const fs::path target = final_ / file.filename();
    fs::rename(file, target, error);
    if (error) throw cannot_write(target, error.message());
  }
}

void write_results(const exchange::Communicator& communicator, const JobSpecification& job, const JobReport& report,
                   const CrossRank& cross, const std::vector<StepRow>& step_rows, std::vector<LocalTrace>& local_traces,
                   OutputDirectory* directory) {
  std::unique_ptr<TableSinks> sinks;
  exchange::run_agreed(communicator, "writing results", [&] {
    if (directory != nullptr) sinks = std::make_unique<TableSinks>(*directory, job.write_csv);
  });
  write_instances(communicator, report, cross, job.write_csv, sinks.get());
  if (report.delay.steps > 0) write_steps(communicator, report, step_rows, sinks.get());
  const std::map<std::string, report::LongTable> long_tables =
      write_tables(communicator, report, local_traces, job.write_csv, sinks.get());
  exchange::run_agreed(communicator, "writing results", [&] {
    if (directory == nullptr) return;
    sinks->store().set_attribute("/", "epoch_utc_ns", report.epoch_utc_ns);
    sinks->store().set_attribute("/run", "date_utc", report.run.date_utc);
    sinks->store().set_attribute("/run", "tool_version", report.run.tool_version);
    sinks->store().set_attribute("/run", "tool_ranks", std::int64_t{report.run.tool_ranks});
    sinks->close();
    directory->write_text(json_name, report::to_json(report));
    directory->write_text(markdown_name, report::to_markdown(report));
    if (report::has_html()) directory->write_text(page_name, report::to_html(report, long_tables));
  });
}

}  // namespace nsys_explain::pipeline
