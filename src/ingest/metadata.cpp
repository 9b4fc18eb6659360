#include "ingest/metadata.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "ingest/table_scan.hpp"
#include "nsys_explain/ingest/ingest.hpp"
#include "nsys_explain/model/utf8.hpp"

namespace nsys_explain::ingest {
namespace {

/// Collects the allowed variables of one source. Several processes may have been started with different values: a
/// variable that they do not agree on says nothing.
class EnvironmentAllowList {
 public:
  void see(std::string_view name, std::string_view value) {
    const auto& allowed = environment_variables();
    if (std::find(allowed.begin(), allowed.end(), name) == allowed.end()) return;
    const auto [place, is_new] = values_.emplace(name, value);
    if (!is_new && place->second != value) contradicted_.emplace(name);
  }

  /// Adds what is not known yet.
  void add_to(std::map<std::string, std::string>& environment) const {
    for (const auto& [name, value] : values_) {
      if (contradicted_.count(name) == 0) environment.emplace(name, value);
    }
  }

 private:
  std::map<std::string, std::string> values_;
  std::set<std::string> contradicted_;
};

template <class Use>
void for_each_pair(const Database& database, std::string_view table, const Use& use) {
  TableScan scan(database, table);
  const auto name = scan.text("name", Presence::required);
  const auto value = scan.text("value", Presence::required);
  scan.for_each_batch([&](std::size_t rows) {
    for (std::size_t row = 0; row < rows; ++row) use(name[row], value[row]);
  });
}

std::int64_t number_or_zero(std::string_view text) {
  std::int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

void take_export_pair(std::string_view name, std::string_view value, Metadata& metadata) {
  if (name == "EXPORT_PRODUCT_VERSION") metadata.product_version = valid_utf8(value);
  if (name == "EXPORT_SCHEMA_VERSION_MAJOR") metadata.schema_major = static_cast<int>(number_or_zero(value));
  if (name == "EXPORT_SCHEMA_VERSION" && metadata.schema_major == 0) {
    metadata.schema_major = static_cast<int>(number_or_zero(value));
  }
  if (name == "EXPORT_PARAM_TIME_NORMALIZE") metadata.times_are_utc = value == "true";
  // The command line's value. EXPORT_CONFIG_TIME_SHIFT repeats it where the exporter's configuration carries it.
  if (name == "EXPORT_PARAM_TIME_SHIFT" && number_or_zero(value) != 0) metadata.time_shift_ns = number_or_zero(value);
  if (name == "EXPORT_CONFIG_TIME_SHIFT" && metadata.time_shift_ns == 0) metadata.time_shift_ns = number_or_zero(value);
  if (name == "EXPORT_PARAM_TABLES_TO_EXPORT" || name == "EXPORT_PARAM_TIMES_TO_EXPORT") {
    metadata.partial_export = metadata.partial_export || !value.empty();
  }
}

/// `NAME="value"`; the quotes may be missing.
void take_environment_pair(std::string_view pair, EnvironmentAllowList& environment) {
  const std::size_t equals = pair.find('=');
  if (equals == std::string_view::npos) return;
  std::string_view value = pair.substr(equals + 1);
  if (value.size() >= 2 && value.front() == '"' && value.back() == '"') value = value.substr(1, value.size() - 2);
  environment.see(pair.substr(0, equals), value);
}

void read_capture(const Database& database, Metadata& metadata, EnvironmentAllowList& environment) {
  bool include_mode = false, names_nccl = false, has_filter = false;
  for_each_pair(database, "META_DATA_CAPTURE", [&](std::string_view name, std::string_view value) {
    if (name == "CAPTURE_EVENT_TYPE" && value == "PyTorch profiler") metadata.is_of_pytorch = true;
    if (name == "PROFILING_SESSION_UUID") metadata.session_uuid = valid_utf8(value);
    if (name == "DEVICE_DISPLAY_NAME") metadata.device_display_name = valid_utf8(value);
    if (name.ends_with(":ENVIRONMENT_VARIABLE") && name.starts_with("PROCESS_")) {
      take_environment_pair(value, environment);
    }
    if (name.ends_with("COLLECT_CUDA_TRACE")) metadata.cuda_traced = metadata.cuda_traced == true || value == "true";
    if (name.ends_with("NVTX_DOMAIN_FILTER_STRING") && !value.empty()) {
      has_filter = true;
      names_nccl = names_nccl || value.find("NCCL") != std::string_view::npos;
    }
    if (name.find("NVTX_DOMAIN_FILTER") != std::string_view::npos && name.ends_with("MODE_INCLUDE")) {
      include_mode = value == "true";
    }
  });
  metadata.nccl_domain_filtered = has_filter && names_nccl != include_mode;
}

/// TARGET_INFO_SYSTEM_ENV holds the environment of the profiler itself as one string `K=V;K=V;...`.
void read_system_environment(const Database& database, EnvironmentAllowList& environment) {
  for_each_pair(database, "TARGET_INFO_SYSTEM_ENV", [&](std::string_view name, std::string_view value) {
    if (name != "DeviceEnvironment") return;
    while (!value.empty()) {
      const std::size_t end = std::min(value.find(';'), value.size());
      take_environment_pair(value.substr(0, end), environment);
      value.remove_prefix(std::min(end + 1, value.size()));
    }
  });
}

void refuse_foreign_database(const Database& database) {
  const bool looks_like_nsys = database.has_table("StringIds") || database.has_table("NVTX_EVENTS") ||
                               std::any_of(database.tables().begin(), database.tables().end(), [](const auto& table) {
                                 return table.first.starts_with("CUPTI_ACTIVITY_KIND_");
                               });
  if (!looks_like_nsys) {
    throw TraceError(
        "this SQLite database is not an export of Nsight Systems (it has none of its tables): nothing can be analysed; make one with: nsys export --type sqlite --include-blobs=true REPORT.nsys-rep");
  }
}

}  // namespace

const std::vector<std::string>& environment_variables() {
  static const std::vector<std::string> names = {"RANK",
                                                 "OMPI_COMM_WORLD_RANK",
                                                 "PMIX_RANK",
                                                 "PMI_RANK",
                                                 "SLURM_PROCID",
                                                 "MV2_COMM_WORLD_RANK",
                                                 "CUDA_VISIBLE_DEVICES",
                                                 "CUDA_DEVICE_MAX_CONNECTIONS",
                                                 "CUDA_LAUNCH_BLOCKING",
                                                 "WORLD_SIZE"};
  return names;
}

Metadata read_metadata(const Database& database) {
  refuse_foreign_database(database);
  Metadata metadata;
  for (const char* table : {"EXPORT_META_DATA", "META_DATA_EXPORT"}) {
    metadata.has_export_table = metadata.has_export_table || database.has_table(table);
    for_each_pair(database, table,
                  [&](std::string_view name, std::string_view value) { take_export_pair(name, value, metadata); });
  }
  if (metadata.schema_major != 0 && metadata.schema_major != 2 && metadata.schema_major != 3) {
    throw TraceError(fmt::format(
        "the export has schema version {}, and this tool knows 2 and 3 (nsys 2022.1 to 2026.x): its tables may mean something else; use a newer version of this tool or another nsys for the export",
        metadata.schema_major));
  }
  // What the profiled process was started with is closer to it than the profiler's own environment.
  EnvironmentAllowList of_process, of_profiler;
  read_capture(database, metadata, of_process);
  read_system_environment(database, of_profiler);
  of_process.add_to(metadata.environment);
  of_profiler.add_to(metadata.environment);
  return metadata;
}

}  // namespace nsys_explain::ingest
