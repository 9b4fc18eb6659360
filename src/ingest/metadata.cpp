#include "ingest/metadata.hpp"

#include <algorithm>
#include <charconv>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

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
    for (const auto& [name, value] : values_)
      if (contradicted_.count(name) == 0) environment.emplace(name, value);
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
  if (name == "EXPORT_SCHEMA_VERSION" && metadata.schema_major == 0)
    metadata.schema_major = static_cast<int>(number_or_zero(value));
  if (name == "EXPORT_PARAM_TIME_NORMALIZE") metadata.times_are_utc = value == "true";
  // The command line's value. EXPORT_CONFIG_TIME_SHIFT repeats it where the exporter's configuration carries it.
  if (name == "EXPORT_PARAM_TIME_SHIFT" && number_or_zero(value) != 0) metadata.time_shift_ns = number_or_zero(value);
  if (name == "EXPORT_CONFIG_TIME_SHIFT" && metadata.time_shift_ns == 0) metadata.time_shift_ns = number_or_zero(value);
  if (name == "EXPORT_PARAM_TABLES_TO_EXPORT" || name == "EXPORT_PARAM_TIMES_TO_EXPORT")
    metadata.partial_export = metadata.partial_export || !value.empty();
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
    if (name.ends_with(":ENVIRONMENT_VARIABLE") && name.starts_with("PROCESS_"))
      take_environment_pair(value, environment);
    if (name.ends_with("COLLECT_CUDA_TRACE")) metadata.cuda_traced = metadata.cuda_traced == true || value == "true";
    if (name.ends_with("NVTX_DOMAIN_FILTER_STRING") && !value.empty()) {
      has_filter = true;
      names_nccl = names_nccl || value.find("NCCL") != std::string_view::npos;
    }
    if (name.find("NVTX_DOMAIN_FILTER") != std::string_view::npos && name.ends_with("MODE_INCLUDE"))
      include_mode = value == "true";
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

const std::vector<std::string>& rank_variables() {
  static const std::vector<std::string> names = {"RANK",     "OMPI_COMM_WORLD_RANK", "PMIX_RANK",
                                                 "PMI_RANK", "SLURM_PROCID",         "MV2_COMM_WORLD_RANK"};
  return names;
}

const std::vector<std::string>& launcher_variables() {
  static const std::vector<std::string> names = {"SLURM_JOB_ID",        "PBS_JOBID",      "LSB_JOBID",
                                                 "TORCHELASTIC_RUN_ID", "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"};
  return names;
}

const std::vector<std::string>& environment_variables() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all = {"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_LAUNCH_BLOCKING",
                                    "WORLD_SIZE"};
    for (const auto* some : {&rank_variables(), &launcher_variables()})
      all.insert(all.end(), some->begin(), some->end());
    return all;
  }();
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

namespace {

bool has_only_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string bounded(std::string_view value) {
  return valid_utf8(value.substr(0, longest_fact));
}

struct SystemEntry {
  std::string_view fact;
  std::string_view name;  ///< in TARGET_INFO_SYSTEM_ENV
};

constexpr std::array system_entries{SystemEntry{"driver", "NvDriverVersion"},
                                    SystemEntry{"cuda_driver", "CudaDriverVersion"},
                                    SystemEntry{"os", "OsDescription"},
                                    SystemEntry{"linux_kernel", "SoftwareReleaseVersion"},
                                    SystemEntry{"cpu", "CpuDescription"},
                                    SystemEntry{"cpu_cores", "CpuCores"},
                                    SystemEntry{"network_driver", "OfedDriverVersion"}};

/// By fact; the first where an entry repeats.
std::map<std::string_view, std::string> read_system(const Database& database) {
  std::map<std::string_view, std::string> values;
  TableScan scan(database, "TARGET_INFO_SYSTEM_ENV");
  const auto name = scan.text("name"), value = scan.text("value");
  scan.for_each_batch([&](std::size_t rows) {
    for (std::size_t row = 0; row < rows; ++row) {
      const auto entry = std::find_if(system_entries.begin(), system_entries.end(),
                                      [&](const SystemEntry& e) { return e.name == name[row]; });
      if (entry == system_entries.end() || value[row].empty() || value[row] == "unknown") continue;
      std::string text = bounded(value[row]);
      if (entry->fact == "driver") text = driver_version(text);
      if (entry->fact == "cuda_driver") text = cuda_version(text);
      if (!text.empty()) values.try_emplace(entry->fact, std::move(text));
    }
  });
  return values;
}

struct Capture {
  std::set<std::string> traced;
  std::string cuda_graphs;
};

Capture read_capture(const Database& database) {
  constexpr std::size_t most_kinds = 32;
  Capture capture;
  TableScan scan(database, "META_DATA_CAPTURE");
  const auto name = scan.text("name"), value = scan.text("value");
  scan.for_each_batch([&](std::size_t rows) {
    for (std::size_t row = 0; row < rows; ++row) {
      if (name[row] == "CAPTURE_EVENT_TYPE" && capture.traced.size() < most_kinds)
        capture.traced.insert(bounded(value[row]));
      // Of the capture or, before 2026, of the process that was started.
      if (name[row].ends_with("CUDA_GRAPH_TRACE_OPTIONS:MODE") && capture.cuda_graphs.empty())
        capture.cuda_graphs = bounded(value[row]);
    }
  });
  return capture;
}

}  // namespace

std::string driver_version(std::string_view recorded) {
  if (!has_only_digits(recorded) || recorded.size() < 5 || recorded.size() > 8) return std::string(recorded);
  const std::string_view major = recorded.substr(0, 3), last = recorded.substr(recorded.size() - 2);
  const std::string_view minor = recorded.substr(3, recorded.size() - 5);
  return minor.empty() ? fmt::format("{}.{}", major, last) : fmt::format("{}.{}.{}", major, minor, last);
}

std::string cuda_version(std::string_view recorded) {
  int number = 0;
  if (!has_only_digits(recorded) || recorded.size() > 6) return {};
  std::from_chars(recorded.data(), recorded.data() + recorded.size(), number);
  return number < 1000 ? std::string() : fmt::format("{}.{}", number / 1000, number % 1000 / 10);
}

std::vector<RunFact> read_run_facts(const Database& database, const Metadata& metadata) {
  std::vector<RunFact> facts;
  const auto add = [&](std::string_view name, std::string value) {
    if (!value.empty()) facts.push_back({std::string(name), std::move(value)});
  };
  add("nsys", bounded(metadata.product_version));
  std::map<std::string_view, std::string> system = read_system(database);
  for (const SystemEntry& entry : system_entries) add(entry.fact, std::move(system[entry.fact]));
  Capture capture = read_capture(database);
  capture.traced.erase("");
  add("traced", bounded(fmt::format("{}", fmt::join(capture.traced, ", "))));
  add("cuda_graphs", std::move(capture.cuda_graphs));
  for (const char* name : {"CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_LAUNCH_BLOCKING"}) {
    const auto value = metadata.environment.find(name);
    if (value != metadata.environment.end() && has_only_digits(value->second)) add(name, bounded(value->second));
  }
  return facts;
}

}  // namespace nsys_explain::ingest
