#include "ingest/metadata.hpp"

#include <algorithm>
#include <charconv>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ingest/table_scan.hpp"
#include "nsys_explain/model/utf8.hpp"

namespace nsys_explain::ingest {
namespace {

bool is_number(std::string_view text) {
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
      if (name[row] == "CAPTURE_EVENT_TYPE" && capture.traced.size() < most_kinds) {
        capture.traced.insert(bounded(value[row]));
      }
      // Of the capture or, before 2026, of the process that was started.
      if (name[row].ends_with("CUDA_GRAPH_TRACE_OPTIONS:MODE") && capture.cuda_graphs.empty()) {
        capture.cuda_graphs = bounded(value[row]);
      }
    }
  });
  return capture;
}

}  // namespace

std::string driver_version(std::string_view recorded) {
  if (!is_number(recorded) || recorded.size() < 5 || recorded.size() > 8) return std::string(recorded);
  const std::string_view major = recorded.substr(0, 3), last = recorded.substr(recorded.size() - 2);
  const std::string_view minor = recorded.substr(3, recorded.size() - 5);
  return minor.empty() ? fmt::format("{}.{}", major, last) : fmt::format("{}.{}.{}", major, minor, last);
}

std::string cuda_version(std::string_view recorded) {
  int number = 0;
  if (!is_number(recorded) || recorded.size() > 6) return {};
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
    if (value != metadata.environment.end() && is_number(value->second)) add(name, bounded(value->second));
  }
  return facts;
}

}  // namespace nsys_explain::ingest
