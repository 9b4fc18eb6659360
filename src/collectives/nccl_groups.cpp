#include "collectives/nccl_groups.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "collectives/extraction.hpp"

namespace nsys_explain::collectives {
namespace {

bool is_point_to_point(const NcclCall& call) {
  return call.function == NcclFunction::send || call.function == NcclFunction::recv;
}

bool moves_data(const NcclCall& call) {
  switch (call.function) {
    case NcclFunction::group_start:
    case NcclFunction::group_end:
    case NcclFunction::comm_init:
    case NcclFunction::comm_split:
    case NcclFunction::comm_destroy:
    case NcclFunction::other:
      return false;
    default:
      return true;
  }
}

/// Calls that one kernel carries, seen as one operation.
CarriedCall merge_calls(std::span<const NcclCall> calls, bool inside_all_to_all) {
  CarriedCall merged;
  if (calls.empty()) return merged;
  merged.operation = operation_of(calls.front().function);
  merged.communicator = communicator_key(calls.front());
  merged.peer_or_root = calls.front().peer_or_root;
  if (!std::all_of(calls.begin(), calls.end(), is_point_to_point)) {
    merged.sequence = calls.front().sequence;
    if (calls.size() > 1) merged.fused.assign(calls.begin(), calls.end());
    merged.call_bytes = 0;
    for (const NcclCall& call : calls) {
      if (operation_of(call.function) != merged.operation) merged.operation = Operation::unknown;
      merged.call_bytes = call.bytes < 0 || merged.call_bytes < 0 ? -1 : merged.call_bytes + call.bytes;
    }
    return merged;
  }
  // A kernel of sends and receives: its size is what this rank sends.
  std::int64_t sends = 0, sent_bytes = 0;
  bool bytes_known = true;
  std::set<std::int32_t> peers;
  for (const NcclCall& call : calls) {
    peers.insert(call.peer_or_root);
    if (call.function != NcclFunction::send) continue;
    ++sends;
    sent_bytes += std::max<std::int64_t>(call.bytes, 0);
    bytes_known = bytes_known && call.bytes >= 0;
  }
  const std::int64_t receives = static_cast<std::int64_t>(calls.size()) - sends;
  merged.call_bytes = bytes_known && sends > 0 ? sent_bytes : -1;
  if (peers.size() > 1) merged.peer_or_root = several_peers;
  merged.directions = receives == 0 ? Directions::sends : sends == 0 ? Directions::receives : Directions::both;
  if (inside_all_to_all && sends == receives && sends > 1) {
    merged.operation = Operation::all_to_all;
    merged.directions = Directions::unknown;
    merged.peer_or_root = -1;
    // NCCL's convention for all-to-all is the size per peer.
    if (merged.call_bytes >= 0) merged.call_bytes /= sends;
  }
  return merged;
}

/// Ranges named like "nccl:all_to_all, op_id = 7" that PyTorch puts around its NCCL calls, by thread.
std::map<std::uint32_t, std::vector<Interval>> all_to_all_ranges(const Trace& trace, const ProcessTrace& process) {
  std::map<std::uint32_t, std::vector<Interval>> ranges;
  for (const NvtxRange& range : process.nvtx_ranges) {
    if (range.is_nccl_call || range.end_ns == no_time) continue;
    if (!trace.strings[range.text].starts_with("nccl:all_to_all")) continue;
    ranges[range.thread_id].push_back({range.start_ns, range.end_ns});
  }
  for (auto& [thread, intervals] : ranges) {
    std::sort(intervals.begin(), intervals.end(),
              [](const Interval& a, const Interval& b) { return a.start_ns < b.start_ns; });
  }
  return ranges;
}

bool lies_in_any(const std::vector<Interval>& sorted, Nanoseconds time_ns) {
  const auto after = std::upper_bound(sorted.begin(), sorted.end(), time_ns,
                                      [](Nanoseconds t, const Interval& i) { return t < i.start_ns; });
  return after != sorted.begin() && time_ns < std::prev(after)->end_ns;
}

/// Walks the calls of one thread and keeps track of nested groups.
class GroupBuilder {
 public:
  explicit GroupBuilder(std::vector<NcclGroup>& groups) : groups_(groups) {}

  void add(const NcclCall& call) {
    if (call.function == NcclFunction::group_start) {
      if (depth_++ == 0) pending_.clear();
    } else if (call.function == NcclFunction::group_end) {
      // An end without a start: the capture began inside the group; its calls are not known.
      if (depth_ > 0 && --depth_ > 0) return;
      emit(call, std::move(pending_));
      pending_.clear();
      group_end_ns_ = call.end_ns;
    } else if (moves_data(call) && call.start_ns >= group_end_ns_) {
      if (depth_ > 0) {
        pending_.push_back(call);
      } else {
        emit(call, {call});
      }
    }
  }

 private:
  void emit(const NcclCall& range, std::vector<NcclCall> calls) {
    const Nanoseconds end = range.end_ns == no_time ? std::numeric_limits<Nanoseconds>::max() : range.end_ns;
    groups_.push_back({range.start_ns, end, range.thread_id, false, std::move(calls)});
  }

  std::vector<NcclGroup>& groups_;
  std::vector<NcclCall> pending_;
  Nanoseconds group_end_ns_ = no_time;  ///< within it the advanced trace shows calls once more, as they are run
  int depth_ = 0;
};

}  // namespace

Operation operation_of(NcclFunction function) {
  switch (function) {
    case NcclFunction::all_reduce:
      return Operation::all_reduce;
    case NcclFunction::all_gather:
      return Operation::all_gather;
    case NcclFunction::reduce_scatter:
      return Operation::reduce_scatter;
    case NcclFunction::broadcast:
      return Operation::broadcast;
    case NcclFunction::reduce:
      return Operation::reduce;
    case NcclFunction::all_to_all:
      return Operation::all_to_all;
    case NcclFunction::gather:
      return Operation::gather;
    case NcclFunction::scatter:
      return Operation::scatter;
    case NcclFunction::send:
    case NcclFunction::recv:
      return Operation::send_recv;
    default:
      return Operation::unknown;
  }
}

std::uint64_t communicator_key(const NcclCall& call) {
  if (call.communicator >= first_nccl_key) return call.communicator;
  return call.category == 0 ? 0 : first_category_key + call.category;
}

std::vector<NcclGroup> find_nccl_groups(const Trace& trace, const ProcessTrace& process) {
  std::map<std::uint32_t, std::vector<const NcclCall*>> calls_of_thread;
  for (const NcclCall& call : process.nccl_calls) calls_of_thread[call.thread_id].push_back(&call);
  const auto all_to_all = all_to_all_ranges(trace, process);

  std::vector<NcclGroup> groups;
  for (auto& [thread, calls] : calls_of_thread) {
    const std::size_t first = groups.size();
    GroupBuilder builder(groups);
    for (const NcclCall* call : calls) builder.add(*call);
    const auto named = all_to_all.find(thread);
    if (named == all_to_all.end()) continue;
    for (std::size_t i = first; i < groups.size(); ++i) {
      groups[i].inside_all_to_all = lies_in_any(named->second, groups[i].start_ns);
    }
  }
  return groups;
}

const NcclGroup* enclosing_group(std::span<const NcclGroup> groups, std::uint32_t thread_id, Nanoseconds time_ns) {
  const auto after = std::upper_bound(groups.begin(), groups.end(), std::pair(thread_id, time_ns),
                                      [](const std::pair<std::uint32_t, Nanoseconds>& key, const NcclGroup& g) {
                                        return key < std::pair(g.thread_id, g.start_ns);
                                      });
  if (after == groups.begin()) return nullptr;
  const NcclGroup& group = *std::prev(after);
  return group.thread_id == thread_id && time_ns < group.end_ns ? &group : nullptr;
}

std::vector<CarriedCall> share_out_calls(const NcclGroup& group, std::size_t kernels) {
  std::vector<CarriedCall> carried(kernels);
  const std::vector<NcclCall>& calls = group.calls;
  if (calls.empty() || kernels == 0) return carried;

  // All sends and receives of one communicator travel in one kernel, each collective in one of its own.
  std::vector<std::vector<NcclCall>> units;
  std::map<std::uint64_t, std::size_t> point_to_point_unit;
  for (const NcclCall& call : calls) {
    if (!is_point_to_point(call)) {
      units.push_back({call});
      continue;
    }
    const auto [unit, is_new] = point_to_point_unit.try_emplace(communicator_key(call), units.size());
    if (is_new) units.emplace_back();
    units[unit->second].push_back(call);
  }
  if (units.size() > kernels) {
    // NCCL fused collectives: first those of one communicator, in call order.
    std::vector<std::vector<NcclCall>> by_communicator;
    std::map<std::uint64_t, std::size_t> unit_of;
    for (const auto& unit : units) {
      const auto [position, is_new] = unit_of.try_emplace(communicator_key(unit.front()), by_communicator.size());
      if (is_new) by_communicator.emplace_back();
      auto& merged = by_communicator[position->second];
      merged.insert(merged.end(), unit.begin(), unit.end());
    }
    if (by_communicator.size() == kernels) units = std::move(by_communicator);
  }
  for (std::size_t k = 0; k < kernels; ++k) {
    if (units.size() <= kernels) {
      // More kernels than calls: one call was cut into several, or several devices do the same call.
      carried[k] = merge_calls(units[k * units.size() / kernels], group.inside_all_to_all);
    } else {
      std::vector<NcclCall> merged;
      for (std::size_t u = k * units.size() / kernels; u < (k + 1) * units.size() / kernels; ++u) {
        merged.insert(merged.end(), units[u].begin(), units[u].end());
      }
      carried[k] = merge_calls(merged, group.inside_all_to_all);
    }
  }
  return carried;
}

}  // namespace nsys_explain::collectives
