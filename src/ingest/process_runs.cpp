#include <algorithm>
#include <map>
#include <utility>

#include "ingest/jobs.hpp"
#include "nsys_explain/model/intervals.hpp"

namespace nsys_explain::ingest {
namespace {

/// Communicators that are in use at overlapping times.
struct UsedTogether {
  Interval time;  ///< of their operations
  std::int64_t operations = 0;
  std::int32_t largest = 0;  ///< ranks; 0: not told
};

std::vector<UsedTogether> communicators_by_time(const ProcessTrace& process) {
  std::map<std::uint64_t, UsedTogether> by_communicator;
  for (const NcclCall& call : process.nccl_calls) {
    if (call.communicator == 0) continue;
    UsedTogether& one = by_communicator[call.communicator];
    one.largest = std::max(one.largest, call.rank_count);
    if (call.function > NcclFunction::recv) continue;
    const Nanoseconds end_ns = std::max(call.start_ns, call.end_ns);
    one.time = one.operations++ == 0
                   ? Interval{call.start_ns, end_ns}
                   : Interval{std::min(one.time.start_ns, call.start_ns), std::max(one.time.end_ns, end_ns)};
  }
  std::vector<UsedTogether> all;
  for (const auto& [communicator, one] : by_communicator)
    if (one.operations > 0) all.push_back(one);
  std::stable_sort(all.begin(), all.end(),
                   [](const UsedTogether& a, const UsedTogether& b) { return a.time.start_ns < b.time.start_ns; });
  std::vector<UsedTogether> together;
  for (const UsedTogether& one : all) {
    if (together.empty() || one.time.start_ns > together.back().time.end_ns) {
      together.push_back(one);
      continue;
    }
    UsedTogether& last = together.back();
    last.time.end_ns = std::max(last.time.end_ns, one.time.end_ns);
    last.operations += one.operations;
    last.largest = std::max(last.largest, one.largest);
  }
  return together;
}

/// Times between kernels of the process, ascending.
std::vector<Interval> gaps_of(const ProcessTrace& process) {
  std::vector<Interval> busy;
  for (const DeviceTrace& device : process.devices)
    for (const Kernel kernel : device.kernels) busy.push_back({kernel.start_ns, kernel.end_ns});
  busy = merge_intervals(std::move(busy));
  std::vector<Interval> gaps;
  for (std::size_t i = 1; i < busy.size(); ++i) gaps.push_back({busy[i - 1].end_ns, busy[i].start_ns});
  return gaps;
}

Nanoseconds length_of(const Interval& interval) {
  return interval.end_ns - interval.start_ns;
}

/// A pause of half the shorter one or more lies between two runs; within one, communicators may be made anew at once.
bool are_both_runs(const UsedTogether& a, const UsedTogether& b, const Interval& pause) {
  constexpr std::int64_t at_least_one_in = 10;
  const auto [fewer, more] = std::minmax(a.operations, b.operations);
  return a.largest > 0 && a.largest == b.largest && fewer * at_least_one_in >= more &&
         2 * length_of(pause) >= std::min(length_of(a.time), length_of(b.time));
}

}  // namespace

ProcessRuns runs_of(const ProcessTrace& process) {
  std::vector<UsedTogether> runs = communicators_by_time(process);
  if (runs.size() < 2) return {};
  std::vector<Interval> between(runs.size() - 1);  // the longest gap from each to the next
  Nanoseconds longest_within_ns = 0;
  for (const Interval& gap : gaps_of(process)) {
    bool is_between = false;
    for (std::size_t r = 0; r + 1 < runs.size(); ++r) {
      if (gap.end_ns <= runs[r].time.end_ns || gap.start_ns >= runs[r + 1].time.start_ns) continue;
      is_between = true;
      if (length_of(gap) > length_of(between[r])) between[r] = gap;
    }
    const bool is_within = !is_between && gap.start_ns >= runs.front().time.start_ns;
    if (is_within) longest_within_ns = std::max(longest_within_ns, length_of(gap));
  }
  ProcessRuns result;
  std::vector<UsedTogether> told{runs.front()};
  for (std::size_t r = 1; r < runs.size(); ++r) {
    if (are_both_runs(told.back(), runs[r], between[r - 1]) && length_of(between[r - 1]) > longest_within_ns) {
      result.pauses.push_back(between[r - 1].start_ns + length_of(between[r - 1]) / 2);
      told.push_back(runs[r]);
    } else {
      told.back().time.end_ns = runs[r].time.end_ns;
      told.back().operations += runs[r].operations;
    }
  }
  const auto size = [](const UsedTogether& run) { return std::pair(run.operations, length_of(run.time)); };
  for (std::size_t r = 1; r < told.size(); ++r)
    if (size(told[r]) > size(told[result.analysed])) result.analysed = r;
  return result;
}

}  // namespace nsys_explain::ingest
