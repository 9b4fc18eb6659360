#include <algorithm>
#include <cmath>
#include <deque>
#include <stdexcept>
#include <tuple>

#include <fmt/format.h>

#include "simulation/places.hpp"
#include "simulation/random.hpp"
#include "simulation/rank_machine.hpp"
#include "simulation/simulated_job.hpp"
#include "simulation/step_program.hpp"
#include "simulation/topology.hpp"

namespace nsys_explain::synth {
namespace {

struct PostedMember {
  std::int32_t rank = -1;
  Nanoseconds enter_ns = 0;
  Op op;
  bool left = false;                  ///< a sender that did not wait
  std::uint32_t activity = no_index;  ///< of one that left
};

/// Members that have reached an instance of a channel. A rank that posted goes on when the instance is resolved, but
/// for senders that do not wait: only these leave more than one instance of a channel open.
struct OpenInstance {
  std::int64_t position = 0;  ///< in the channel
  std::int32_t step = 0;
  std::vector<PostedMember> members;
};

/// Bytes one member puts on the wire per byte of NCCL's per-call size, for a ring.
double wire_factor(Operation operation, std::size_t members) {
  const double n = static_cast<double>(members);
  switch (operation) {
    case Operation::all_reduce:
      return 2 * (n - 1) / n;
    case Operation::all_gather:
    case Operation::reduce_scatter:
    case Operation::all_to_all:
      return n - 1;  // per-call bytes are one member's share
    default:
      return 1;
  }
}

/// Runs every rank's program; ranks meet at collectives.
class JobSimulator {
 public:
  explicit JobSimulator(const JobPlan& plan)
      : plan_(complete_plan(plan)), topology_(make_topology(plan_)), open_(topology_.channels.size()) {
    positions_.assign(topology_.channels.size(), 0);
    make_places(plan_, job_);
    job_.ranks.resize(static_cast<std::size_t>(plan_.layout.ranks()));
    for (std::int32_t rank = 0; rank < plan_.layout.ranks(); ++rank)
      machines_.emplace_back(plan_, topology_, job_.places[static_cast<std::size_t>(rank)], rank,
                             job_.ranks[static_cast<std::size_t>(rank)]);
  }

  SimulatedJob run() {
    std::deque<std::int32_t> runnable;
    for (std::int32_t rank = 0; rank < plan_.layout.ranks(); ++rank) runnable.push_back(rank);
    std::int32_t finished = 0;
    while (!runnable.empty()) {
      const std::int32_t rank = runnable.front();
      runnable.pop_front();
      const Op* op = machines_[static_cast<std::size_t>(rank)].run_to_collective();
      if (op == nullptr) {
        ++finished;
        continue;
      }
      meet(rank, *op, runnable);
    }
    const bool all_met = std::all_of(open_.begin(), open_.end(), [](const auto& waiting) { return waiting.empty(); });
    if (finished != plan_.layout.ranks() || !all_met)
      throw std::logic_error(fmt::format(
          "{} of {} simulated ranks wait for each other for ever, or sends are never received; this is a fault of the step program, please report the plan",
          plan_.layout.ranks() - finished, plan_.layout.ranks()));
    return finish();
  }

 private:
  /// Whether this member belongs to an instance: it is not there yet, and of a pair one receives what the other sends.
  static bool belongs(const OpenInstance& open, const Op& op, std::int32_t rank) {
    return std::all_of(open.members.begin(), open.members.end(), [&](const PostedMember& member) {
      const bool counterparts = op.sends == member.op.receives && op.receives == member.op.sends;
      return member.rank != rank && (!op.grouped || op.operation != Operation::send_recv || counterparts);
    });
  }

  /// A rank reaches a collective; who can, runs on.
  void meet(std::int32_t rank, const Op& op, std::deque<std::int32_t>& runnable) {
    const auto index = static_cast<std::uint32_t>(op.channel);
    const Channel& channel = topology_.channels[index];
    RankMachine& machine = machines_[static_cast<std::size_t>(rank)];
    std::deque<OpenInstance>& waiting = open_[index];
    auto open =
        std::find_if(waiting.begin(), waiting.end(), [&](const OpenInstance& one) { return belongs(one, op, rank); });
    if (open == waiting.end()) open = waiting.insert(waiting.end(), {positions_[index]++, machine.step(), {}});
    open->members.push_back({rank, machine.collective_enter_ns(), op});
    if (open->members.size() == channel.ranks.size()) {
      OpenInstance complete = std::move(*open);
      waiting.erase(open);
      return resolve(index, std::move(complete), runnable);
    }
    const std::vector<EndsMember> members = roles(channel, op, rank);
    if (!op.sends || !leaves_at_once(plan_.network.ends, ends_of(op, index, open->position), members)) return;
    PostedMember& sender = open->members.back();
    const std::size_t m = members[0].rank == rank ? 0 : 1;
    sender.left = true;
    sender.activity =
        machine.finish_collective(sender.enter_ns + transfer_ns(channel, index, open->position, op, open->step) +
                                      delays_ns(op, index, open->position, members)[m],
                                  no_index);
    runnable.push_back(rank);
  }

  EndsInstance ends_of(const Op& op, std::uint32_t channel, std::int64_t position) const {
    return {plan_.seed, op.operation, op.bytes, channel, position};
  }

  /// Of all members of a channel, ascending, as one of them sees it.
  static std::vector<EndsMember> roles(const Channel& channel, const Op& op, std::int32_t own_rank) {
    std::vector<EndsMember> members;
    for (const std::int32_t rank : channel.ranks) {
      const bool own = rank == own_rank;
      members.push_back({rank, own ? op.sends : op.receives, own ? op.receives : op.sends});
    }
    return members;
  }

  Nanoseconds transfer_ns(const Channel& channel, std::uint32_t index, std::int64_t position, const Op& op,
                          std::int32_t step) const {
    const Network& network = plan_.network;
    const double bandwidth = channel.crosses_nodes ? network.bandwidth_inter_gbs : network.bandwidth_intra_gbs;
    const double latency =
        static_cast<double>(channel.crosses_nodes ? network.latency_inter_ns : network.latency_intra_ns);
    // GB/s is bytes per nanosecond.
    double time = latency + static_cast<double>(op.bytes) * wire_factor(op.operation, channel.ranks.size()) / bandwidth;
    Draw draw(plan_.seed, Purpose::transfer, index, static_cast<std::uint64_t>(position));
    time *= std::max(0.5, 1 + network.transfer_noise * draw.normal());
    for (const Fault& fault : plan_.faults)
      if (fault.kind == FaultKind::slow_link && fault.active(step) && uses_link(fault, channel))
        time *=
            fault.factor_at(strength(fault.law, plan_.seed, 2'000'000 + index, static_cast<std::uint64_t>(position)));
    return static_cast<Nanoseconds>(time);
  }

  /// After the planned end, of each member.
  std::vector<Nanoseconds> delays_ns(const Op& op, std::uint32_t channel, std::int64_t position,
                                     const std::vector<EndsMember>& members) const {
    const Network& network = plan_.network;
    const std::vector<double> law = end_delays_ns(network.ends, ends_of(op, channel, position), members);
    std::vector<Nanoseconds> delays;
    for (std::size_t m = 0; m < members.size(); ++m) {
      const auto rank = static_cast<std::uint64_t>(members[m].rank);
      double delay = network.end_jitter_scale * law[m];
      if (const auto own = network.end_jitter_of.find(op.operation); own != network.end_jitter_of.end())
        delay *= own->second;
      if (network.heavy_tails) {
        Draw draw(plan_.seed, Purpose::end_tail, channel, static_cast<std::uint64_t>(position), rank);
        delay *= std::min(100.0, 1 / std::sqrt(1 - draw.uniform()));  // Pareto's law with index 2
      }
      Draw bias(plan_.seed, Purpose::end_bias, channel, rank);
      delay += static_cast<double>(network.end_bias_max_ns) * bias.uniform();
      delays.push_back(static_cast<Nanoseconds>(delay));
    }
    return delays;
  }

  bool uses_link(const Fault& fault, const Channel& channel) const {
    const auto has_rank = [&](std::int32_t rank) {
      return std::binary_search(channel.ranks.begin(), channel.ranks.end(), rank);
    };
    const auto has_node = [&](std::int32_t node) {
      const auto first =
          std::lower_bound(channel.ranks.begin(), channel.ranks.end(), node * plan_.layout.gpus_per_node);
      return first != channel.ranks.end() && *first / plan_.layout.gpus_per_node == node;
    };
    return std::all_of(fault.ranks.begin(), fault.ranks.end(), has_rank) &&
           std::all_of(fault.nodes.begin(), fault.nodes.end(), has_node);
  }

  /// When an operation begins for a member. Broadcast: a receiver needs the root only. Reduce: only the root needs
  /// everybody. A sender need not wait. The rest synchronise.
  static Nanoseconds begin_ns(const PostedMember& member, Nanoseconds last_enter_ns, const PostedMember* root,
                              bool sender_leaves_at_once) {
    if (member.op.operation == Operation::broadcast) return std::max(member.enter_ns, root ? root->enter_ns : 0);
    if (member.op.operation == Operation::reduce && &member != root) return member.enter_ns;
    return sender_leaves_at_once && member.op.sends ? member.enter_ns : last_enter_ns;
  }

  /// All members are there: decide when each leaves, note the instance, let them run on.
  void resolve(std::uint32_t channel_index, OpenInstance open, std::deque<std::int32_t>& runnable) {
    const Channel& channel = topology_.channels[channel_index];
    const Op op = open.members.front().op;
    std::sort(open.members.begin(), open.members.end(),
              [](const PostedMember& a, const PostedMember& b) { return a.rank < b.rank; });

    TrueInstance instance;
    instance.communicator = channel.communicator;
    instance.operation = op.operation;
    instance.grouped = op.grouped;
    instance.call_bytes = op.bytes;
    instance.step = open.step;
    instance.transfer_ns = transfer_ns(channel, channel_index, open.position, op, open.step);
    instance.first_arrival = static_cast<std::uint32_t>(job_.arrivals.size());
    instance.arrivals = static_cast<std::uint32_t>(open.members.size());

    const std::int32_t root_rank =
        op.root >= 0 ? topology_.communicators[channel.communicator].ranks[static_cast<std::size_t>(op.root)] : -1;
    const PostedMember* root = nullptr;
    std::vector<EndsMember> members;
    for (const PostedMember& member : open.members) {
      if (member.enter_ns > instance.last_enter_ns || instance.last_rank < 0) {
        instance.last_enter_ns = member.enter_ns;
        instance.last_rank = member.rank;
      }
      if (member.rank == root_rank) root = &member;
      members.push_back({member.rank, member.op.sends, member.op.receives});
    }
    const std::vector<Nanoseconds> delays = delays_ns(op, channel_index, open.position, members);
    const bool at_once = leaves_at_once(plan_.network.ends, ends_of(op, channel_index, open.position), members);
    for (std::size_t m = 0; m < open.members.size(); ++m)
      add_arrival(open.members[m],
                  begin_ns(open.members[m], instance.last_enter_ns, root, at_once) + instance.transfer_ns + delays[m],
                  instance.last_enter_ns);
    job_.instances.push_back(instance);
    for (const PostedMember& member : open.members)
      if (!member.left) runnable.push_back(member.rank);
  }

  void add_arrival(const PostedMember& member, Nanoseconds exit_ns, Nanoseconds last_enter_ns) {
    const auto index = static_cast<std::uint32_t>(job_.arrivals.size());
    const auto rank = static_cast<std::size_t>(member.rank);
    TrueArrival arrival;
    arrival.rank = member.rank;
    arrival.enter_ns = member.enter_ns;
    arrival.exit_ns = exit_ns;
    arrival.peer = member.op.root;
    arrival.sends = member.op.sends;
    arrival.receives = member.op.receives;
    arrival.wait_ns = std::min(last_enter_ns, exit_ns) - member.enter_ns;
    arrival.activity = member.left ? member.activity : machines_[rank].finish_collective(exit_ns, index);
    job_.ranks[rank].activities[arrival.activity].arrival = index;
    job_.arrivals.push_back(arrival);
  }

  SimulatedJob finish() {
    job_.communicators = topology_.communicators;
    std::stable_sort(job_.instances.begin(), job_.instances.end(), [](const TrueInstance& a, const TrueInstance& b) {
      return std::tie(a.communicator, a.last_enter_ns) < std::tie(b.communicator, b.last_enter_ns);
    });
    std::int64_t sequence = 0;
    for (std::size_t i = 0; i < job_.instances.size(); ++i) {
      if (i > 0 && job_.instances[i].communicator != job_.instances[i - 1].communicator) sequence = 0;
      TrueInstance& instance = job_.instances[i];
      instance.sequence = sequence++;
      for (std::uint32_t k = 0; k < instance.arrivals; ++k)
        job_.arrivals[instance.first_arrival + k].instance = static_cast<std::uint32_t>(i);
    }
    for (const RankEvents& events : job_.ranks) {
      for (const DeviceActivity& activity : events.activities) job_.end_ns = std::max(job_.end_ns, activity.end_ns);
      if (!events.calls.empty()) job_.end_ns = std::max(job_.end_ns, events.calls.back().end_ns);
    }
    return std::move(job_);
  }

  JobPlan plan_;
  Topology topology_;
  SimulatedJob job_;
  std::vector<std::deque<OpenInstance>> open_;  ///< by channel, oldest first
  std::vector<std::int64_t> positions_;
  std::deque<RankMachine> machines_;
};

}  // namespace

SimulatedJob simulate(const JobPlan& plan) {
  return JobSimulator(plan).run();
}

}  // namespace nsys_explain::synth
