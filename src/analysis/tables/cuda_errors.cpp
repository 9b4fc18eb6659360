#include "analysis/tables/cuda_errors.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "analysis/trace/gpu_activity.hpp"
#include "model/schema/host.hpp"

namespace nsys_explain::analysis {
namespace {

struct Status {
  std::int16_t number;
  std::string_view name;
  StatusSeverity severity;
};

/// Numbers and consequences as in CUDA 13's driver_types.h; what is not here counts as an answer.
constexpr auto statuses = std::to_array<Status>({
    {2, "cudaErrorMemoryAllocation", StatusSeverity::failure},
    {46, "cudaErrorDevicesUnavailable", StatusSeverity::failure},
    {98, "cudaErrorInvalidDeviceFunction", StatusSeverity::failure},
    {209, "cudaErrorNoKernelImageForDevice", StatusSeverity::failure},
    {214, "cudaErrorECCUncorrectable", StatusSeverity::fatal},
    {220, "cudaErrorNvlinkUncorrectable", StatusSeverity::fatal},
    {226, "cudaErrorContained", StatusSeverity::fatal},
    {500, "cudaErrorSymbolNotFound", StatusSeverity::answer},
    {600, "cudaErrorNotReady", StatusSeverity::answer},
    {700, "cudaErrorIllegalAddress", StatusSeverity::fatal},
    {701, "cudaErrorLaunchOutOfResources", StatusSeverity::failure},
    {702, "cudaErrorLaunchTimeout", StatusSeverity::fatal},
    {704, "cudaErrorPeerAccessAlreadyEnabled", StatusSeverity::answer},
    {709, "cudaErrorContextIsDestroyed", StatusSeverity::answer},
    {710, "cudaErrorAssert", StatusSeverity::fatal},
    {714, "cudaErrorHardwareStackError", StatusSeverity::fatal},
    {715, "cudaErrorIllegalInstruction", StatusSeverity::fatal},
    {716, "cudaErrorMisalignedAddress", StatusSeverity::fatal},
    {717, "cudaErrorInvalidAddressSpace", StatusSeverity::fatal},
    {718, "cudaErrorInvalidPc", StatusSeverity::fatal},
    {719, "cudaErrorLaunchFailure", StatusSeverity::fatal},
    {721, "cudaErrorTensorMemoryLeak", StatusSeverity::fatal},
    {801, "cudaErrorNotSupported", StatusSeverity::answer},
    {810, "cudaErrorMpsClientTerminated", StatusSeverity::fatal},
    {911, "cudaErrorExternalDevice", StatusSeverity::fatal},
    {999, "cudaErrorUnknown", StatusSeverity::failure},
});

Status status_of(std::int16_t number) {
  const auto known =
      std::find_if(statuses.begin(), statuses.end(), [&](const Status& one) { return one.number == number; });
  return known != statuses.end() ? *known : Status{number, "", StatusSeverity::answer};
}

struct Returned {
  std::int64_t count = 0;
  Nanoseconds first_ns = 0;
};

}  // namespace

Table cuda_errors_table(const RankEvents& events) {
  Table table = make_table(schema::cuda_errors);
  if (!speaks_for_process(events.process, events.device)) return table;
  std::map<std::pair<std::string_view, std::int16_t>, Returned> by_name;
  for (const ApiCall& call : events.process.api_calls) {
    if (call.return_value == 0) continue;
    Returned& returned = by_name[{events.trace.strings[call.name], call.return_value}];
    returned.first_ns = returned.count == 0 ? call.end_ns : std::min(returned.first_ns, call.end_ns);
    ++returned.count;
  }
  struct Row {
    std::string_view name;
    Status status;
    Returned returned;
  };
  std::vector<Row> rows;
  for (const auto& [key, returned] : by_name) rows.push_back({key.first, status_of(key.second), returned});
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return std::tie(b.status.severity, a.returned.first_ns) < std::tie(a.status.severity, b.returned.first_ns);
  });
  RowWriter row(table);
  for (const auto& [name, status, returned] : rows)
    row << name << std::int64_t{status.number} << status.name << returned.count << returned.first_ns
        << static_cast<std::int64_t>(status.severity);
  return table;
}

}  // namespace nsys_explain::analysis
