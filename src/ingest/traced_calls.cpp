#include "ingest/event_readers.hpp"

#include <algorithm>

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

namespace {

/// Whether the thread waits for other processes in it. MPI_Ibcast, MPI_Isend, MPI_Bcast_init, MPI_Start, MPI_Test do
/// not.
bool waits_for_others(std::string_view table, std::string_view function) {
  if (function.starts_with("MPI_I") || function.ends_with("_init")) return false;
  return table == "MPI_START_WAIT_EVENTS" ? function.starts_with("MPI_Wait") : table != "MPI_OTHER_EVENTS";
}

/// Of a rank or a tag, which are -1 or less where any will do.
std::int32_t number_of(std::int64_t value) {
  return value >= 0 && value <= std::numeric_limits<std::int32_t>::max() ? static_cast<std::int32_t>(value) : -1;
}

/// Or makes a persistent request for one. MPI_Isendrecv does both, which one row does not tell apart.
bool begins_message(std::string_view table, std::string_view function) {
  if (table == "MPI_START_WAIT_EVENTS") return function.starts_with("MPI_Start");
  const bool is_nonblocking =
      function.starts_with("MPI_I") && (function.ends_with("send") || function.ends_with("Irecv"));
  return table == "MPI_P2P_EVENTS" && (is_nonblocking || function.ends_with("send_init") ||
                                       function.ends_with("Send_init") || function == "MPI_Recv_init");
}

}  // namespace

void read_mpi_calls(const Reading& reading, const std::function<void(ProcessTrace&, const NvtxRange&)>& use) {
  for (const char* table : {"MPI_P2P_EVENTS", "MPI_COLLECTIVES_EVENTS", "MPI_START_WAIT_EVENTS", "MPI_OTHER_EVENTS"}) {
    TableScan scan(reading.database, table);
    const auto start = scan.integer("start", Presence::required);
    const auto end = scan.integer("end", Presence::required);
    const auto global_tid = scan.integer("globalTid", Presence::required);
    const auto text = scan.integer("textId");
    const auto communicator = scan.integer("commUid"), handle = scan.integer("commHandle");
    const auto root = scan.integer("rootRank"), peer = scan.integer("remoteRank"), tag = scan.integer("tag");
    const auto request = scan.integer("requestHandle");
    const auto bytes = scan.integer("size"), received = scan.integer("recvSize");
    for_each_event(
        reading, table, scan, global_tid, start, end,
        [&](ProcessTrace& process, const Interval& time, std::size_t row) {
          NvtxRange range;
          range.start_ns = time.start_ns;
          range.end_ns = time.end_ns;
          range.thread_id = range.end_thread_id = thread_id_of(global_tid[row]);
          range.text = reading.strings.keep_id(text[row]);
          use(process, range);
          const std::string_view function = reading.strings.value(text[row]);
          if (!waits_for_others(table, function) && !begins_message(table, function)) return;
          MpiCall& call = process.mpi_calls.emplace_back();
          call.start_ns = time.start_ns;
          call.end_ns = time.end_ns;
          call.communicator = static_cast<std::uint64_t>(zero_if_null(communicator[row]));
          call.handle = static_cast<std::uint64_t>(zero_if_null(handle[row]));
          call.bytes = bytes[row] != no_time ? bytes[row] : received[row] != no_time ? received[row] : -1;
          call.request = static_cast<std::uint64_t>(zero_if_null(request[row]));
          call.root = number_of(root[row] != no_time ? root[row] : peer[row]);
          call.tag = number_of(tag[row]);
          call.thread_id = range.thread_id;
          call.name = range.text;
        },
        program_process_in);
  }
}

}  // namespace nsys_explain::ingest
