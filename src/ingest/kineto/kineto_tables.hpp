#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ingest/kineto/export_writer.hpp"
#include "ingest/kineto/host_ranges.hpp"
#include "ingest/kineto/trace_event.hpp"
#include "nsys_explain/model/diagnostic.hpp"

namespace nsys_explain::ingest {

/// Writes events and members of a Kineto trace as rows of Nsight Systems' tables. All of a trace is one process: the
/// profiler sees no other. Times count from the first complete event.
class KinetoTables {
 public:
  explicit KinetoTables(const std::string& exported);

  void add_event(const std::string& object);
  void add_member(std::string_view name, const std::string& value);
  /// Of the trace's file, as tensorboard_trace_handler calls it: HOST_PROCESS.NANOSECONDS.pt.trace.json
  void add_file_name(std::string_view name) { file_name_ = name; }
  /// `left_out`: elements that the splitter left out.
  std::vector<Warning> finish(std::int64_t left_out);

  bool is_amd() const { return is_amd_; }
  std::int64_t events() const { return events_; }

 private:
  struct Span {
    std::int64_t start = 0, end = 0;
  };
  std::optional<Span> span(const TraceEvent& event);
  void add_kernel(const TraceEvent& event, const Span& time);
  void add_memory(const TraceEvent& event, const Span& time, bool is_set);
  void add_call(const TraceEvent& event, const Span& time);
  void add_wait(const TraceEvent& event, const Span& time);
  void add_range(const TraceEvent& event, const Span& time, bool is_operator);
  void add_collective(const TraceEvent& event);
  std::string host() const;
  std::int64_t global_pid() const;
  std::int64_t global_tid(const TraceEvent& event);
  void write_calls_into_nccl();
  void write_session();
  void write_devices();

  ExportWriter writer_;
  HostRanges host_ranges_{writer_};
  EventParser parser_;
  std::size_t kernels_, copies_, sets_, calls_, waits_, records_, ranges_, collectives_;
  std::int64_t process_ = -1;  ///< of the first event of the host
  bool has_rows_before_process_ = false, is_amd_ = false;
  std::optional<Nanoseconds> origin_ns_;
  std::int64_t base_ns_ = 0;
  std::int64_t events_ = 0, unreadable_ = 0, communication_kernels_ = 0, told_collectives_ = 0;
  std::map<std::int64_t, std::int64_t> thread_numbers_;  ///< of threads whose ids have more than 24 bits
  std::map<std::int64_t, std::string> process_names_;
  std::set<std::int64_t> recorded_;  ///< correlation ids of event records that have a row
  std::vector<DeviceProperties> devices_;
  DistributedInfo distributed_;
  std::string driver_, host_, file_name_;
};

/// "node7" of "node7_4242.1751410836000000000.pt.trace.json.gz", if 4242 is the process; else empty.
std::string host_in_file_name(std::string_view name, std::int64_t process);

}  // namespace nsys_explain::ingest
