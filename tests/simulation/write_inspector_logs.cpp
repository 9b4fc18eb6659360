#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>

#include <fmt/format.h>

#include "simulation/exports.hpp"
#include "simulation/places.hpp"
#include "simulation/random.hpp"

namespace nsys_explain::synth {
namespace {

constexpr std::int64_t least_bytes = 8192;  // NCCL_INSPECTOR_DUMP_MIN_SIZE_BYTES
constexpr Nanoseconds dump_interval_ns = 200'000'000;

/// NCCL's names.
std::optional<const char*> name_of(Operation operation) {
  switch (operation) {
    case Operation::all_reduce:
      return "AllReduce";
    case Operation::all_gather:
      return "AllGather";
    case Operation::reduce_scatter:
      return "ReduceScatter";
    case Operation::broadcast:
      return "Broadcast";
    case Operation::reduce:
      return "Reduce";
    case Operation::all_to_all:
      return "AlltoAll";
    default:
      return std::nullopt;
  }
}

/// One line of a log, and when it was written.
struct Line {
  Nanoseconds dumped_ns = 0;
  std::uint32_t communicator = 0;
  std::string text;
};

class LogWriter {
 public:
  LogWriter(const SimulatedJob& job, const JobPlan& plan, std::int32_t rank)
      : job_(job),
        plan_(plan),
        rank_(rank),
        place_(job.places[static_cast<std::size_t>(rank)]),
        session_(job.sessions[place_.session]) {}

  std::vector<Line> lines() {
    const RankEvents& events = job_.ranks[static_cast<std::size_t>(rank_)];
    std::vector<Line> lines;
    for (std::uint32_t i = 0; i < events.activities.size(); ++i) {
      if (events.activities[i].arrival != no_index) add(i, events.activities[i], lines);
    }
    // A dump goes communicator by communicator.
    std::stable_sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) {
      return std::pair(a.dumped_ns, a.communicator) < std::pair(b.dumped_ns, b.communicator);
    });
    return lines;
  }

 private:
  std::int64_t utc_us(Nanoseconds true_ns) const {
    return (reported_utc_start_ns(session_) + trace_time_ns(session_, true_ns)) / 1'000;
  }

  void add(std::uint32_t activity_index, const DeviceActivity& activity, std::vector<Line>& lines) {
    const TrueInstance& instance = job_.instances[job_.arrivals[activity.arrival].instance];
    if (instance.grouped) return add_exchanges(activity_index, activity, instance, lines);
    const auto name = name_of(instance.operation);
    if (!name) return;
    const std::int64_t sequence = next_[{instance.communicator, instance.operation}]++;
    if (instance.call_bytes < least_bytes) return;  // counted, but not logged
    Draw draw(plan_.seed, Purpose::inspector, static_cast<std::uint64_t>(rank_), activity_index);
    const TrueCommunicator& communicator = job_.communicators[instance.communicator];
    const Nanoseconds in_kernel_ns = activity.end_ns - activity.start_ns - draw.integer(1'500, 4'000);
    const Nanoseconds seen_ns = activity.end_ns + draw.integer(5'000, 60'000);  // the plugin polls
    const Nanoseconds dumped_ns = (seen_ns / dump_interval_ns + 1) * dump_interval_ns;
    lines.push_back(
        {dumped_ns, instance.communicator,
         fmt::format(R"({{{},"coll_perf":{{"coll":"{}","coll_sn":{},"coll_msg_size_bytes":{},)"
                     R"("coll_exec_time_us":{},"coll_timing_source":"kernel_gpu",)"
                     R"("coll_algobw_gbs":0.000000,"coll_busbw_gbs":0.000000{}}}}})",
                     preamble(communicator, dumped_ns), *name, sequence, instance.call_bytes,
                     std::max<Nanoseconds>(in_kernel_ns, 0) / 1'000, times("coll", activity.start_ns, seen_ns))});
  }

  /// What only verbose logs tell.
  std::string times(const char* kind, Nanoseconds start_ns, Nanoseconds seen_ns) const {
    if (plan_.export_style.inspector_logs != InspectorLogs::verbose) return {};
    return fmt::format(R"(,"event_trace_ts":{{"{0}_start_ts":{1},"{0}_stop_ts":{2},"kernel_events":[{{"channel_id":0,)"
                       R"("kernel_start_ts":{3},"kernel_stop_ts":{4},"kernel_record_ts":{4}}}]}})",
                       kind, utc_us(start_ns) - 20, utc_us(start_ns) - 10, utc_us(start_ns) + 15, utc_us(seen_ns));
  }

  /// The sends and receives of a kernel; of a group some are done before the others. NCCL counts them together.
  void add_exchanges(std::uint32_t activity_index, const DeviceActivity& activity, const TrueInstance& instance,
                     std::vector<Line>& lines) {
    if (instance.call_bytes < least_bytes) return;  // neither counted nor logged
    Draw draw(plan_.seed, Purpose::inspector, static_cast<std::uint64_t>(rank_), activity_index);
    const TrueCommunicator& communicator = job_.communicators[instance.communicator];
    const Nanoseconds seen_ns = activity.end_ns + draw.integer(5'000, 60'000);
    const Nanoseconds dumped_ns = (seen_ns / dump_interval_ns + 1) * dump_interval_ns;
    bool is_first = true;
    const auto log = [&](const char* name, std::int32_t peer) {
      const Nanoseconds length_ns = activity.end_ns - activity.start_ns;
      const Nanoseconds early_ns = is_first ? 0 : length_ns * draw.integer(0, 60) / 100;
      is_first = false;
      const Nanoseconds in_kernel_ns = length_ns - early_ns - draw.integer(1'500, 4'000);
      lines.push_back({dumped_ns, instance.communicator,
                       fmt::format(R"({{{},"p2p_perf":{{"p2p":"{}","p2p_sn":{},"p2p_peer":{},"p2p_msg_size_bytes":{},)"
                                   R"("p2p_exec_time_us":{},"p2p_timing_source":"kernel_gpu",)"
                                   R"("p2p_algobw_gbs":0.000000,"p2p_busbw_gbs":0.000000{}}}}})",
                                   preamble(communicator, dumped_ns), name, ++exchanges_[instance.communicator], peer,
                                   instance.call_bytes, std::max<Nanoseconds>(in_kernel_ns, 0) / 1'000,
                                   times("p2p", activity.start_ns, seen_ns - early_ns))});
    };
    if (instance.operation == Operation::all_to_all) {
      for (std::size_t peer = 0; peer < communicator.ranks.size(); ++peer) {
        log("Send", static_cast<std::int32_t>(peer));
        log("Recv", static_cast<std::int32_t>(peer));
      }
      return;
    }
    const TrueArrival& arrival = job_.arrivals[activity.arrival];
    if (arrival.sends) log("Send", arrival.peer);
    if (arrival.receives) log("Recv", arrival.peer);
  }

  std::string preamble(const TrueCommunicator& communicator, Nanoseconds dumped_ns) const {
    const auto member = std::find(communicator.ranks.begin(), communicator.ranks.end(), rank_);
    return fmt::format(R"("header":{{"id":"{:#x}","rank":{},"n_ranks":{},"nnodes":{}}},)"
                       R"("metadata":{{"inspector_output_format_version":"v4.0","git_rev":"","rec_mechanism":)"
                       R"("nccl_profiler_interface","dump_timestamp_us":{},"hostname":"{}","pid":{}}})",
                       communicator.hash, member - communicator.ranks.begin(), communicator.ranks.size(),
                       plan_.layout.nodes, utc_us(dumped_ns), node_name(place_.node), place_.process_id);
  }

  const SimulatedJob& job_;
  const JobPlan& plan_;
  std::int32_t rank_;
  const RankPlace& place_;
  const TrueSession& session_;
  std::map<std::pair<std::uint32_t, Operation>, std::int64_t> next_;
  std::map<std::uint32_t, std::int64_t> exchanges_;
};

}  // namespace

void write_inspector_logs(const SimulatedJob& job, const JobPlan& plan, const std::string& directory) {
  if (plan.export_style.inspector_logs == InspectorLogs::none) return;
  std::filesystem::create_directories(directory);
  std::set<std::filesystem::path> begun;  // ranks of one process share its log
  for (std::int32_t rank = 0; rank < plan.layout.ranks(); ++rank) {
    const RankPlace& place = job.places[static_cast<std::size_t>(rank)];
    const std::filesystem::path path =
        std::filesystem::path(directory) / fmt::format("{}-pid{}.log", node_name(place.node), place.process_id);
    std::ofstream file(path, begun.insert(path).second ? std::ios::trunc : std::ios::app);
    for (const Line& line : LogWriter(job, plan, rank).lines()) file << line.text << '\n';
    file.close();
    if (!file) {
      throw std::runtime_error(
          fmt::format("{} cannot be written, so the job has no Inspector log of rank {}; check the disk and rerun",
                      path.string(), rank));
    }
  }
}

}  // namespace nsys_explain::synth
