#include "collectives/extraction.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "collectives/graph_captures.hpp"
#include "collectives/nccl_groups.hpp"
#include "nsys_explain/model/algorithms.hpp"
#include "nsys_explain/model/launch_index.hpp"

namespace nsys_explain::collectives {
namespace {

/// A communication kernel, or a copy that NCCL launched, with the group it was launched in, or captured in where a
/// graph replays it.
struct Launched {
  Interval interval;
  Nanoseconds launch_ns = no_time;  ///< of a replayed kernel: when it was captured
  std::uint64_t captured_node = 0;  ///< 0: not replayed by a graph whose capture was recorded
  const NcclGroup* group = nullptr;
  std::size_t device = 0;
  std::uint32_t stream_id = 0;
  std::uint32_t name_hash = 0;
  Operation operation = Operation::unknown;
  TimingSource timing_source = TimingSource::kernel;
  bool by_tree = false;
};

std::uint32_t hash_name(std::string_view name) {
  std::uint32_t hash = 2166136261U;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return hash;
}

/// Of one stream, in enter order.
using OnStream = std::span<TraceArrival* const>;

bool is_told(const TraceArrival& arrival) {
  return arrival.communicator != 0;
}

/// True where no communicator comes back to the stream after another has used it: what lies between two calls of one
/// communicator is that communicator's, too.
bool share_no_stream(OnStream on_stream) {
  std::set<std::uint64_t> seen;
  std::uint64_t current = 0;
  for (const TraceArrival* arrival : on_stream) {
    if (!is_told(*arrival) || arrival->communicator == current) continue;
    current = arrival->communicator;
    if (!seen.insert(current).second) return false;
  }
  return true;
}

/// What kernels of one name do on one communicator, as their calls tell: operations, and whether with several peers.
using KernelUses = std::map<std::pair<std::uint64_t, std::uint32_t>, std::set<std::pair<Operation, bool>>>;

void adopt(TraceArrival& kernel, std::uint64_t communicator, const KernelUses& uses) {
  kernel.communicator = communicator;
  kernel.evidence = Evidence::order;
  const auto use = uses.find({communicator, kernel.kernel_name_hash});
  if (use == uses.end() || use->second.size() != 1) return;
  const auto& [operation, with_several_peers] = *use->second.begin();
  kernel.operation = operation;
  if (with_several_peers) kernel.peer_or_root = several_peers;
}

/// Kernels whose calls were not recorded do what all others of their name do on their stream, where calls tell that.
void adopt_operations(OnStream on_stream) {
  std::map<std::uint32_t, std::set<std::pair<Operation, bool>>> uses;
  for (const TraceArrival* arrival : on_stream) {
    if (arrival->evidence != Evidence::kernel_name)
      uses[arrival->kernel_name_hash].emplace(arrival->operation, arrival->peer_or_root == several_peers);
  }
  for (TraceArrival* arrival : on_stream) {
    const auto use = uses.find(arrival->kernel_name_hash);
    if (arrival->evidence != Evidence::kernel_name || use == uses.end() || use->second.size() != 1) continue;
    const auto& [operation, with_several_peers] = *use->second.begin();
    arrival->operation = operation;
    if (with_several_peers) arrival->peer_or_root = several_peers;
  }
}

/// Kernels whose calls were not recorded, as those launched before the capture began, belong to the communicator of
/// their neighbours on the stream, and do what its other kernels of that name do.
void adopt_neighbours_communicators(OnStream on_stream) {
  if (!share_no_stream(on_stream)) return;
  KernelUses uses;
  std::uint64_t before = 0;
  std::vector<TraceArrival*> waiting;  // for what comes after them
  for (const TraceArrival* arrival : on_stream) {
    if (!is_told(*arrival)) continue;
    uses[{arrival->communicator, arrival->kernel_name_hash}].emplace(arrival->operation,
                                                                     arrival->peer_or_root == several_peers);
  }
  for (TraceArrival* arrival : on_stream) {
    if (!is_told(*arrival)) {
      waiting.push_back(arrival);
      continue;
    }
    const std::uint64_t after = arrival->communicator;
    for (TraceArrival* kernel : waiting) {
      if (before == 0 || before == after) adopt(*kernel, after, uses);
    }
    waiting.clear();
    before = after;
  }
  for (TraceArrival* kernel : waiting) {
    if (before != 0) adopt(*kernel, before, uses);
  }
}

/// In the order in which the host launched or captured them, which is the order of the calls in a group; replays of one
/// node after each other.
bool launched_before(const Launched& a, const Launched& b) {
  return std::tuple(a.launch_ns, a.captured_node, a.interval.start_ns, a.device, a.stream_id) <
         std::tuple(b.launch_ns, b.captured_node, b.interval.start_ns, b.device, b.stream_id);
}

/// What was launched at one time: one kernel, or all replays of one captured node.
using LaunchedOnce = std::vector<const Launched*>;

void append(std::vector<LaunchedOnce>& of_group, const Launched& launched) {
  const bool is_replay = launched.captured_node != 0 && !of_group.empty() &&
                         of_group.back().front()->captured_node == launched.captured_node;
  if (!is_replay) of_group.emplace_back();
  of_group.back().push_back(&launched);
}

class ProcessExtractor {
 public:
  ProcessExtractor(const Trace& trace, const ProcessTrace& process, const KernelClasses& classes,
                   const LaunchIndex& launches)
      : trace_(trace),
        process_(process),
        classes_(classes),
        launches_(launches),
        captures_(process.graph_nodes),
        groups_(find_nccl_groups(trace, process)),
        group_has_kernel_(groups_.size(), false) {}

  std::vector<DeviceArrivals> run() {
    result_.resize(process_.devices.size());
    staged_.resize(process_.devices.size());
    for (std::size_t d = 0; d < process_.devices.size(); ++d) {
      result_[d].device_id = process_.devices[d].device_id;
      collect_kernels(d);
    }
    for (std::size_t d = 0; d < process_.devices.size(); ++d) collect_projections(d);
    join_groups();
    release(launched_);  // what is done with goes: a trace has hundreds of thousands of arrivals
    release(groups_);
    for (std::size_t d = 0; d < result_.size(); ++d) finish(std::exchange(staged_[d], {}), result_[d].arrivals);
    return std::move(result_);
  }

 private:
  const NcclGroup* group_of(const std::optional<ApiCall>& launch) const {
    return !launch ? nullptr : enclosing_group(groups_, launch->thread_id, launch->start_ns);
  }

  /// The call that launched a kernel; of a kernel that a graph replays the one that captured it.
  void place_launch(Launched& launched, const Kernel& kernel, std::uint64_t graph_node_id) const {
    if (graph_node_id == 0) {
      const std::optional<ApiCall> launch = launches_.find(kernel.correlation_id, kernel.start_ns);
      launched.group = group_of(launch);
      if (launch) launched.launch_ns = launch->start_ns;
      return;
    }
    launched.timing_source = TimingSource::graph_node;
    const GraphNode* captured = captures_.origin(graph_node_id);
    if (captured == nullptr) return;
    launched.launch_ns = captured->created_ns;
    launched.captured_node = captured->node_id;
    launched.group = enclosing_group(groups_, captured->thread_id, captured->created_ns);
  }

  void collect_kernels(std::size_t d) {
    const DeviceTrace& device = process_.devices[d];
    const std::vector<bool> communication = classes_.communication_kinds(device);
    launched_.reserve(launched_.size() + static_cast<std::size_t>(std::count_if(
                                             device.kernels.begin(), device.kernels.end(),
                                             [&](const Kernel& kernel) { return communication[kernel.kind]; })));
    for (const Kernel& kernel : device.kernels) {
      if (!communication[kernel.kind]) continue;
      const KernelKind& kind = device.kind_of(kernel);
      Launched launched;
      launched.interval = {kernel.start_ns, kernel.end_ns};
      launched.launch_ns = kernel.start_ns;
      launched.device = d;
      launched.stream_id = kind.stream_id;
      const std::string_view name = trace_.strings[kind.short_name];
      launched.name_hash = hash_name(name);
      launched.by_tree = name.find("_TREE") != std::string_view::npos;
      launched.operation = classes_.of(kind).operation;
      place_launch(launched, kernel, kind.graph_node_id);
      if (launched.group != nullptr)
        group_has_kernel_[static_cast<std::size_t>(launched.group - groups_.data())] = true;
      launched_.push_back(launched);
    }
  }

  /// Copy-engine collectives have no kernel: the copies launched inside the call's range stand for it.
  void collect_projections(std::size_t d) {
    std::map<const NcclGroup*, Launched> projections;
    for (const MemoryOperation& copy : process_.devices[d].memory_operations) {
      if (copy.is_set) continue;
      const std::optional<ApiCall> launch = launches_.find(copy.correlation_id, copy.start_ns);
      const NcclGroup* group = group_of(launch);
      if (group == nullptr || group->calls.empty() ||
          group_has_kernel_[static_cast<std::size_t>(group - groups_.data())]) {
        continue;
      }
      const auto [entry, is_new] = projections.try_emplace(group, Launched{.interval = {copy.start_ns, copy.end_ns},
                                                                           .launch_ns = launch->start_ns,
                                                                           .group = group,
                                                                           .device = d,
                                                                           .stream_id = copy.stream_id,
                                                                           .timing_source = TimingSource::projection});
      Interval& interval = entry->second.interval;
      interval = {std::min(interval.start_ns, copy.start_ns), std::max(interval.end_ns, copy.end_ns)};
    }
    for (const auto& [group, launched] : projections) launched_.push_back(launched);
  }

  /// Those launched outside of any group first.
  void join_groups() {
    const auto has_calls = [](const Launched& launched) {
      return launched.group != nullptr && !launched.group->calls.empty();
    };
    const auto place = [&](const Launched& launched) {
      return has_calls(launched) ? launched.group - groups_.data() : std::ptrdiff_t{-1};
    };
    sort_nearly_sorted(launched_, launched_before);
    sort_nearly_sorted(launched_, [&](const Launched& a, const Launched& b) { return place(a) < place(b); });
    std::vector<std::size_t> counts(staged_.size(), 0);
    for (const Launched& launched : launched_) ++counts[launched.device];
    for (std::size_t d = 0; d < counts.size(); ++d) staged_[d].reserve(counts[d]);
    std::vector<LaunchedOnce> kernels;  // of one group
    for (std::size_t i = 0; i < launched_.size(); ++i) {
      if (!has_calls(launched_[i])) {
        add_arrival(launched_[i], nullptr);
        continue;
      }
      append(kernels, launched_[i]);
      const NcclGroup* const group = launched_[i].group;
      if (i + 1 < launched_.size() && launched_[i + 1].group == group) continue;
      const std::vector<CarriedCall> carried = share_out_calls(*group, kernels.size());
      for (std::size_t k = 0; k < kernels.size(); ++k) {
        for (const Launched* launched : kernels[k]) add_arrival(*launched, &carried[k]);
      }
      kernels.clear();
    }
  }

  void add_arrival(const Launched& launched, const CarriedCall* call) {
    DeviceArrivals& device = result_[launched.device];
    TraceArrival arrival;
    arrival.enter = TraceTime(launched.interval.start_ns);
    arrival.exit = TraceTime(launched.interval.end_ns);
    arrival.kernel_name_hash = launched.name_hash;
    arrival.by_tree = launched.by_tree;
    arrival.operation = launched.operation;
    arrival.timing_source = launched.timing_source;
    if (call == nullptr) {
      ++device.without_call;
      const bool is_replayed = launched.timing_source == TimingSource::graph_node && launched.captured_node == 0;
      device.replayed += is_replayed ? 1 : 0;
      arrival.evidence = Evidence::kernel_name;
    } else {
      if (call->operation != Operation::unknown) arrival.operation = call->operation;
      arrival.communicator = call->communicator;
      arrival.call_bytes = call->call_bytes;
      arrival.peer_or_root = call->peer_or_root;
      arrival.sequence = call->sequence;
      arrival.directions = call->directions;
      arrival.evidence = call->communicator >= first_nccl_key ? Evidence::nccl_payload : Evidence::order;
      for (const NcclCall& carried : call->fused) device.fused.push_back({arrival.enter, carried});
    }
    staged_[launched.device].push_back({launched.stream_id, arrival});
  }

  using Staged = std::pair<std::uint32_t, TraceArrival>;  ///< with its stream

  /// Sorts, gives streams without communicator a stream key, numbers positions and arrivals.
  static void finish(std::vector<Staged> staged, std::vector<TraceArrival>& arrivals) {
    const auto order = [](const Staged& one) {
      return std::tuple(one.second.enter, one.second.exit, one.second.communicator, one.first);
    };
    sort_nearly_sorted(staged, [&](const Staged& a, const Staged& b) { return order(a) < order(b); });
    std::map<std::uint32_t, std::vector<TraceArrival*>> streams;
    for (auto& [stream_id, arrival] : staged) streams[stream_id].push_back(&arrival);
    std::uint8_t stream = 0;
    for (const auto& [stream_id, on_stream] : streams) {
      adopt_operations(on_stream);
      adopt_neighbours_communicators(on_stream);
      for (TraceArrival* arrival : on_stream) arrival->stream = stream;
      if (stream != any_stream) ++stream;
    }
    std::map<std::uint32_t, std::uint64_t> lane_of_stream;
    std::map<std::uint64_t, std::int32_t> next_position;
    std::int32_t next_index = 0;
    arrivals.reserve(staged.size());
    for (auto& [stream_id, arrival] : staged) {
      arrival.index = next_index++;
      if (arrival.communicator == 0)
        arrival.communicator = lane_of_stream.try_emplace(stream_id, lane_of_stream.size()).first->second;
      arrival.position = next_position[arrival.communicator]++;
      arrivals.push_back(arrival);
    }
    measure_work(arrivals);
  }

  /// The latest exit before an enter is not that of the previous enter where communicators overlap.
  static void measure_work(std::vector<TraceArrival>& arrivals) {
    std::vector<TraceTime> exits;
    exits.reserve(arrivals.size());
    for (const TraceArrival& arrival : arrivals) exits.push_back(arrival.exit);
    sort_nearly_sorted(exits, std::less<>());
    for (TraceArrival& arrival : arrivals) {
      const auto later = std::upper_bound(exits.begin(), exits.end(), arrival.enter);
      if (later != exits.begin()) arrival.work_ns = arrival.enter - *std::prev(later);
    }
  }

  const Trace& trace_;
  const ProcessTrace& process_;
  const KernelClasses& classes_;
  const LaunchIndex& launches_;
  GraphCaptures captures_;
  std::vector<NcclGroup> groups_;
  std::vector<bool> group_has_kernel_;
  std::vector<Launched> launched_;
  std::vector<std::vector<Staged>> staged_;  ///< per device
  std::vector<DeviceArrivals> result_;
};

}  // namespace

std::vector<DeviceArrivals> extract_arrivals(const Trace& trace, const ProcessTrace& process,
                                             const KernelClasses& classes, const LaunchIndex& launches) {
  return ProcessExtractor(trace, process, classes, launches).run();
}

Table fused_operations_table(const std::vector<FusedCall>& fused) {
  Table table = make_table({"fused_operations",
                            "collectives that NCCL ran together in one kernel, in call order",
                            {{"enter_ns", ColumnKind::time, "ns", "job time at which the kernel starts"},
                             {"communicator", ColumnKind::text, "", "NCCL's hash of the communicator"},
                             {"operation", ColumnKind::text, "", "what the call does"},
                             {"call_bytes", ColumnKind::integer, "bytes", "NCCL's per-call size; -1 unknown"}}});
  RowWriter row(table);
  for (const FusedCall& carried : fused) {
    row << carried.enter.ns << fmt::format("{:#018x}", carried.call.communicator)
        << operation_name(operation_of(carried.call.function)) << carried.call.bytes;
  }
  return table;
}

std::map<std::uint64_t, std::string> communicator_names(const Trace& trace, const ProcessTrace& process) {
  std::map<std::uint64_t, std::string> names;
  for (const NcclCall& call : process.nccl_calls) {
    if (call.category_name != 0) names.try_emplace(communicator_key(call), trace.strings[call.category_name]);
  }
  return names;
}

std::vector<CommunicatorMembership> communicator_memberships(const ProcessTrace& process) {
  std::vector<CommunicatorMembership> memberships;
  const auto key = [](const CommunicatorMembership& m) {
    return std::tuple(m.communicator, m.rank, m.rank_count, m.device);
  };
  for (const NcclCall& call : process.nccl_calls) {
    // Legacy ranges tell it where communicators are made and destroyed, the advanced trace with every call.
    if (call.communicator == 0 || call.rank < 0 || call.rank_count <= 0) continue;
    memberships.push_back({call.communicator, call.rank, call.rank_count, call.device});
  }
  std::sort(memberships.begin(), memberships.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
  memberships.erase(std::unique(memberships.begin(), memberships.end(),
                                [&](const auto& a, const auto& b) { return key(a) == key(b); }),
                    memberships.end());
  return memberships;
}

}  // namespace nsys_explain::collectives
