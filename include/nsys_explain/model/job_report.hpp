#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nsys_explain/model/collective.hpp"
#include "nsys_explain/model/diagnostic.hpp"
#include "nsys_explain/model/identity.hpp"
#include "nsys_explain/model/report_detail.hpp"
#include "nsys_explain/model/table.hpp"
#include "nsys_explain/model/time.hpp"

/// The result of one run as plain data: what report.json, report.md, report.html and the store's summaries are made of.
/// Field names follow outputs.md; everything here is independent of the number of tool ranks except `RunFacts`.
namespace nsys_explain {

enum class ClockMethod : std::uint8_t { collectives, host_clock, utc };

/// Correction on top of offset and drift at one time of the session's clock (u - offset_ns).
struct ClockBend {
  Nanoseconds at_ns = 0;
  Nanoseconds correction_ns = 0;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(at_ns, correction_ns);
  }
};

/// Job time = u - offset_ns - drift_ppb * 1e-9 * (u - offset_ns - pivot_ns), with u = UTC by the report - epoch; where
/// there are bends, minus their correction, too: linear between them, constant beyond the first and the last.
struct SessionClock {
  std::string path;
  std::string host;
  ClockMethod method = ClockMethod::utc;
  Nanoseconds offset_ns = 0;
  double drift_ppb = 0;
  std::optional<Nanoseconds>
      uncertainty_ns;          ///< one standard uncertainty; empty: nothing relates this session to others
  std::int32_t component = 0;  ///< only sessions of one component can be compared
  std::optional<double> drift_uncertainty_ppb;  ///< one standard uncertainty; empty where no drift was fitted
  std::vector<ClockBend> bends;                 ///< ascending; empty unless a long run shows that the drift changes

  template <class Archive>
  void serialize(Archive& archive) {
    archive(path, host, method, offset_ns, drift_ppb, uncertainty_ns, component, drift_uncertainty_ppb, bends);
  }
};

/// Held-out residuals of magnitude [from_ns, to_ns).
struct ResidualBin {
  Nanoseconds from_ns = 0, to_ns = 0;
  std::int64_t samples = 0;
};

/// Held-out residuals of the instances of one operation, of similar size and scope.
struct ClassResidual {
  Operation operation = Operation::unknown;
  bool one_host = false;         ///< all members on one host
  std::int64_t from_bytes = -1;  ///< message sizes [from_bytes, 2 * from_bytes); -1: not known
  bool decides = false;          ///< counts in the residual of the whole run
  std::int64_t samples = 0;
  Nanoseconds p50_ns = 0, p90_ns = 0, max_ns = 0;
};

/// How well matched ends agree after clock correction, on instances held out of the fit. Empty: nothing to hold out.
struct ClockResidual {
  std::optional<Nanoseconds> held_out_p50_ns, held_out_p90_ns, held_out_max_ns;
  std::int64_t samples = 0;
  std::vector<ResidualBin> histogram;   ///< of those samples; consecutive powers of two, the ends not empty
  std::vector<ClassResidual> by_class;  ///< all operations, also those that do not count above
};

struct ClockReport {
  std::vector<SessionClock> sessions;
  Nanoseconds pivot_ns = 0;
  ClockResidual residual;
  std::int64_t violations = 0;  ///< instances in which a member left before the last one entered
  /// An arrival skew beyond this is resolved in every collective of the run; empty where no two arrivals are
  /// comparable.
  std::optional<Nanoseconds> smallest_skew_ns;
};

struct CommunicatorSummary {
  std::string name;  ///< NCCL's hash in hexadecimal, or "inferred-N"
  std::uint64_t key = 0;
  std::vector<std::int32_t> trace_ranks;
  std::int32_t size = 0;
  std::int64_t instances = 0, complete = 0, partial = 0, unmatched_arrivals = 0;
  Evidence evidence = Evidence::kernel_name;
};

/// Sums over the complete instances of one operation; bandwidths are total bytes over total transfer time, GB = 1e9.
struct OperationSummary {
  Operation operation = Operation::unknown;
  std::int64_t instances = 0;
  std::optional<std::int64_t> bytes;
  Nanoseconds wait_ns = 0;
  Nanoseconds transfer_ns = 0;
  std::optional<double> algorithm_bandwidth_gbs, bus_bandwidth_gbs;
};

/// Where the time of one trace rank went; the parts add up to window_ns exactly (algorithms.md 7).
struct Budget {
  Nanoseconds window_start_ns = 0;  ///< job time
  Nanoseconds window_ns = 0;
  Nanoseconds compute_ns = 0;
  Nanoseconds communication_ns = 0;
  Nanoseconds overlapped_ns = 0;
  Nanoseconds exposed_communication_ns = 0;
  Nanoseconds copy_ns = 0;
  Nanoseconds opaque_graph_ns = 0;
  Nanoseconds idle_ns = 0;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(window_start_ns, window_ns, compute_ns, communication_ns, overlapped_ns, exposed_communication_ns, copy_ns,
            opaque_graph_ns, idle_ns);
  }
};

struct RankSummary {
  std::int32_t trace_rank = -1;
  Budget budget;
  std::int64_t arrivals = 0;
  std::int64_t last_arrivals = 0;  ///< resolved instances in which this rank was last
  Nanoseconds wait_ns = 0;
  Nanoseconds caused_wait_ns = 0;
  Nanoseconds own_lateness_ns = 0;
  Nanoseconds inherited_lateness_ns = 0;
};

enum class Pattern : std::uint8_t { persistent, transient, periodic, rotating };

enum class Cause : std::uint8_t {
  slow_kernel,
  extra_work,
  launch_starved,
  sync_stall,
  blocking_copy,
  allocation,
  slow_link,
  profiler_overhead,
  unknown
};

/// A trace rank with statistically and physically significant lateness of its own.
struct Straggler {
  std::int32_t trace_rank = -1;
  Pattern pattern = Pattern::persistent;
  Cause cause = Cause::unknown;
  Nanoseconds own_lateness_ns = 0;
  Nanoseconds caused_wait_ns = 0;
  double last_share = 0;  ///< of the resolved instances it took part in
  double p_value = 1;
  Nanoseconds first_ns = 0, last_ns = 0;  ///< job time of the first and last instance it delayed
  std::vector<std::string> evidence;
};

enum class FindingSeverity : std::uint8_t { high, medium, low, info };

struct Finding {
  std::string id;  ///< stable, kebab-case: scripts may look for it
  FindingSeverity severity = FindingSeverity::info;
  std::string title;
  std::vector<std::string> evidence;
  std::string recommendation;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(id, severity, title, evidence, recommendation);
  }
};

/// NVLink counters against collectives.
struct NvlinkReport {
  bool available = false;
  std::string message;
};

/// Facts of this run of the tool; the only part of a report that may differ between two runs over the same traces.
struct RunFacts {
  std::string date_utc;
  std::string tool_version;
  std::int32_t tool_ranks = 1;
  std::vector<std::string> hosts;
  std::int32_t threads = 1;  ///< of each tool rank
  struct Phase {
    std::string name;
    double seconds = 0;                  ///< of the slowest tool rank
    std::int64_t rows = 0, bytes = 0;    ///< handled by all tool ranks; 0: the phase handles none to speak of
    std::int64_t peak_memory_bytes = 0;  ///< of the tool rank that held most
  };
  std::vector<Phase> phases;
};

struct JobReport {
  Nanoseconds epoch_utc_ns = 0;
  std::string window;  ///< the options that chose a part of the run; empty: all of it
  std::vector<InputReport> inputs;             ///< sorted by path
  std::vector<Session> sessions;               ///< sorted by path
  std::vector<TraceRankIdentity> trace_ranks;  ///< sorted by trace_rank
  ClockReport clock;
  std::vector<CommunicatorSummary> communicators;
  std::int64_t instances = 0, complete = 0, partial = 0, unmatched_arrivals = 0;
  std::int64_t unjudged =
      0;  ///< of the instances: those with incomparable clocks or impossible times; nothing rests on them
  std::vector<OperationSummary> by_operation;
  std::vector<RankSummary> ranks;  ///< same order as trace_ranks
  std::vector<Straggler> stragglers;
  NvlinkReport nvlink;
  std::vector<Finding> findings;
  std::vector<Warning> warnings;
  std::vector<Table> tables;  ///< small tables that go to the store and CSV besides the streamed ones
  ReportDetail detail;
  RunFacts run;
};

}  // namespace nsys_explain
