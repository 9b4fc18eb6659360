#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <set>
#include <unordered_map>
#include <variant>

#include "ingest/kineto/trace_event.hpp"
#include "nsys_explain/model/diagnostic.hpp"

struct sqlite3;
struct sqlite3_stmt;

namespace nsys_explain::ingest {

/// A value of a row; nothing: NULL.
using Cell = std::variant<std::monostate, std::int64_t, std::string_view>;

/// A new SQLite file that is written row by row in one transaction. Throws TraceError where it cannot be written.
class ExportWriter {
 public:
  explicit ExportWriter(const std::string& path);
  ~ExportWriter();
  ExportWriter(const ExportWriter&) = delete;
  ExportWriter& operator=(const ExportWriter&) = delete;

  /// Number of rows that its last statement changed.
  std::int64_t run(const std::string& sql);
  /// Rows of integers; `use` may write rows of other tables.
  void for_each(const std::string& sql, const std::function<void(const std::vector<std::int64_t>& row)>& use);
  /// A table with these columns ("start INTEGER, name TEXT"), and its number for `row`.
  std::size_t table(const std::string& name, const std::string& columns);
  void row(std::size_t table, std::initializer_list<Cell> cells);
  /// Id of a text in StringIds.
  std::int64_t id(const std::string& text);
  void finish();

 private:
  [[noreturn]] void fail(int code) const;
  void check(int code) const;

  sqlite3* handle_ = nullptr;
  std::vector<sqlite3_stmt*> inserts_;
  std::size_t strings_ = 0;
  std::int64_t next_id_ = 1;
  std::unordered_map<std::string, std::int64_t> ids_;
};

/// What was open on a thread when it made a CUDA call: functions of Python (recorded with_stack), and the operator that
/// tells a collective. Kept in tables of the export until all calls are known. Memory: the distinct stacks.
class HostRanges {
 public:
  explicit HostRanges(ExportWriter& writer);

  void add_function(std::int64_t start_ns, std::int64_t end_ns, std::int64_t global_tid, const std::string& name);
  void add_collective(std::int64_t start_ns, std::int64_t end_ns, std::int64_t global_tid, const CollectiveCall& call);

  /// Gives each call its stack (callchainId, CUDA_CALLCHAINS), and each row of collective_kernels that tells no
  /// collective that of the operator in which the kernel was launched, if it launched no other one. Number of those.
  std::int64_t finish();

 private:
  struct Open {
    std::int64_t end = 0, name = 0, collective = 0;  ///< 0: none
  };
  std::int64_t chain_of(const std::vector<Open>& open);
  void write_contexts();

  ExportWriter& writer_;
  std::size_t ranges_, contexts_, chains_;
  std::int64_t collectives_ = 0;
  bool has_functions_ = false;
  std::map<std::vector<std::int64_t>, std::int64_t> chain_ids_;  ///< by names, innermost first
};

/// A function's name without the address of the object whose method it is, which differs from call to call:
/// "<built-in method copy_ of Tensor object at 0x7f12>" becomes "<built-in method copy_ of Tensor object>".
std::string without_address(std::string_view name);

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
