#include "ingest/traced_calls.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "ingest/column_value.hpp"
#include "ingest/cpu_samples.hpp"
#include "ingest/process_events.hpp"

namespace nsys_explain::ingest {
namespace {

struct StackFrame {
  std::int64_t stack = 0, depth = 0, symbol = 0, module = 0;
  bool is_named = false;
};

std::vector<StackFrame> read_stack_frames(const Reading& reading) {
  TableScan scan(reading.database, "CUDA_CALLCHAINS");
  const auto id = scan.integer("id", Presence::required);
  const auto symbol = scan.integer("symbol", Presence::required);
  const auto module = scan.integer("module", Presence::required);
  const auto unresolved = scan.integer("unresolved");
  const auto depth = scan.integer("stackDepth", Presence::required);
  std::vector<StackFrame> frames;
  scan.for_each_batch([&](std::size_t rows) {
    for (std::size_t row = 0; row < rows; ++row) {
      const bool is_named = zero_if_null(unresolved[row]) == 0;
      append_event(frames, {id[row], zero_if_null(depth[row]), symbol[row], module[row], is_named},
                   [&] { return scan.share_read(row); });
    }
  });
  std::stable_sort(frames.begin(), frames.end(), [](const StackFrame& a, const StackFrame& b) {
    return std::tie(a.stack, a.depth) < std::tie(b.stack, b.depth);
  });
  return frames;
}

/// Texts of stacks by their ids. Of a run of frames of one library without known functions, one is told.
std::map<std::int64_t, StringIndex> read_stacks(const Reading& reading) {
  constexpr std::size_t most_told = 16;
  const std::vector<StackFrame> frames = read_stack_frames(reading);
  std::map<std::int64_t, StringIndex> stacks;
  for (std::size_t first = 0, next = 0; first < frames.size(); first = next) {
    std::string text;
    std::string_view last;
    std::size_t told = 0;
    for (next = first; next < frames.size() && frames[next].stack == frames[first].stack; ++next) {
      const StackFrame& frame = frames[next];
      const std::string_view module = reading.strings.value(frame.module);
      const std::string_view symbol = reading.strings.value(frame.symbol);
      if (told == most_told || is_profilers_library(module)) continue;
      const std::string_view name = frame.is_named && !symbol.starts_with("0x") ? symbol : file_name(module);
      if (name.empty() || name == last) continue;
      text.append(told++ > 0 ? " < " : "").append(name);
      last = name;
    }
    stacks.emplace(frames[first].stack, reading.strings.keep_masked(text));
  }
  return stacks;
}

/// A call with the number of its stack.
struct CallOfStack {
  ProcessTrace* process = nullptr;
  TracedCall call;
  std::int64_t stack = 0;
};

std::vector<CallOfStack> read_calls_with_stacks(const Reading& reading) {
  constexpr const char* table = "CUPTI_ACTIVITY_KIND_RUNTIME";
  TableScan scan(reading.database, table);
  const auto start = scan.integer("start", Presence::required);
  const auto end = scan.integer("end", Presence::required);
  const auto global_tid = scan.integer("globalTid", Presence::required);
  const auto name = scan.integer("nameId", Presence::required);
  const auto stack = scan.integer("callchainId");
  TimeFilter filter(reading.time_base, table);  // read_api_calls() reports what it leaves out
  std::vector<CallOfStack> calls;
  scan.for_each_batch([&](std::size_t rows) {
    for (std::size_t row = 0; row < rows; ++row) {
      if (stack[row] == no_time) continue;
      ProcessTrace* const process = process_in(reading, global_tid[row]);
      const auto time = filter.accept(start[row], end[row]);
      if (process == nullptr || !time) continue;
      const StringIndex function = reading.strings.keep(without_version_suffix(reading.strings.value(name[row])));
      calls.push_back(
          {process, {time->start_ns, time->end_ns, thread_id_of(global_tid[row]), function, 0}, stack[row]});
    }
  });
  return calls;
}

/// What to add to the numbers of calls: nsys 2022 counts calls' stacks from 0, and the stacks themselves from 1. With
/// the right one most stacks hold the function that was called.
std::int64_t shift_of_stacks(const Reading& reading, const std::map<std::int64_t, StringIndex>& stacks,
                             const std::vector<CallOfStack>& calls) {
  const auto fitting = [&](std::int64_t shift) {
    return std::count_if(calls.begin(), calls.end(), [&](const CallOfStack& call) {
      const auto known = stacks.find(call.stack + shift);
      return known != stacks.end() &&
             reading.strings.kept(known->second).find(reading.strings.kept(call.call.name)) != std::string::npos;
    });
  };
  return fitting(1) > fitting(0) ? 1 : 0;
}

void read_calls_of(const Reading& reading, const char* table, bool is_cudnn) {
  TableScan scan(reading.database, table);
  const auto start = scan.integer("start", Presence::required);
  const auto end = scan.integer("end", Presence::required);
  const auto global_tid = scan.integer("globalTid", Presence::required);
  const auto name = scan.integer("nameId", Presence::required);
  for_each_event(
      reading, table, scan, global_tid, start, end,
      [&](ProcessTrace& process, const Interval& time, std::size_t row) {
        append_event(
            process.library_calls,
            {time.start_ns, time.end_ns, thread_id_of(global_tid[row]), reading.strings.keep_id(name[row]), is_cudnn},
            [&] { return scan.share_read(row); });
      },
      program_process_in);
}

}  // namespace

void read_traced_calls(const Reading& reading) {
  const std::map<std::int64_t, StringIndex> stacks = read_stacks(reading);
  if (stacks.empty()) return;
  std::vector<CallOfStack> calls = read_calls_with_stacks(reading);
  const std::int64_t shift = shift_of_stacks(reading, stacks, calls);
  for (CallOfStack& call : calls) {
    const auto known = stacks.find(call.stack + shift);
    if (known == stacks.end()) continue;
    call.call.stack = known->second;
    call.process->traced_calls.push_back(call.call);
  }
}

void read_library_calls(const Reading& reading) {
  read_calls_of(reading, "CUBLAS_EVENTS", false);
  read_calls_of(reading, "CUDNN_EVENTS", true);
}

}  // namespace nsys_explain::ingest
