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

/// Members that have reached the current instance of a channel. A rank that posted goes on only when the instance is
/// resolved, so a channel has at most one open instance.
struct OpenInstance {
  std::vector<std::int32_t> ranks;
  std::vector<Nanoseconds> enters;
  std::vector<const Op*> ops;
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
      if (post(rank, *op)) resolve(static_cast<std::uint32_t>(op->channel), runnable);
    }
    if (finished != plan_.layout.ranks())
      throw std::logic_error(
          fmt::format("{} of {} simulated ranks wait for each other for ever; this is a fault of the "
                      "step program, please report the plan",
                      plan_.layout.ranks() - finished, plan_.layout.ranks()));
    return finish();
  }

 private:
  bool post(std::int32_t rank, const Op& op) {
    OpenInstance& open = open_[static_cast<std::size_t>(op.channel)];
    open.ranks.push_back(rank);
    open.enters.push_back(machines_[static_cast<std::size_t>(rank)].collective_enter_ns());
    open.ops.push_back(&op);
    return open.ranks.size() == topology_.channels[static_cast<std::size_t>(op.channel)].ranks.size();
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
      if (fault.kind == FaultKind::slow_link && fault.active(step) && uses_link(fault, channel)) time *= fault.factor;
    return static_cast<Nanoseconds>(time);
  }

  double scaled_jitter_ns(double jitter, Operation operation, std::uint32_t channel, std::int64_t position,
                          std::int32_t rank) const {
    const Network& network = plan_.network;
    jitter *= network.end_jitter_scale;
    if (const auto own = network.end_jitter_of.find(operation); own != network.end_jitter_of.end())
      jitter *= own->second;
    if (network.heavy_tails) {
      Draw draw(plan_.seed, Purpose::end_tail, channel, static_cast<std::uint64_t>(position),
                static_cast<std::uint64_t>(rank));
      jitter *= std::min(100.0, 1 / std::sqrt(1 - draw.uniform()));  // Pareto's law with index 2
    }
    Draw bias(plan_.seed, Purpose::end_bias, channel, static_cast<std::uint64_t>(rank));
    return jitter + static_cast<double>(network.end_bias_max_ns) * bias.uniform();
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

  /// All members are there: decide when each leaves, note the instance, let them run on.
  void resolve(std::uint32_t channel_index, std::deque<std::int32_t>& runnable) {
    const Channel& channel = topology_.channels[channel_index];
    OpenInstance& open = open_[channel_index];
    const Op& op = *open.ops.front();
    const std::int64_t position = positions_[channel_index]++;

    TrueInstance instance;
    instance.communicator = channel.communicator;
    instance.operation = op.operation;
    instance.grouped = op.grouped;
    instance.call_bytes = op.bytes;
    instance.step = machines_[static_cast<std::size_t>(open.ranks.front())].step();
    instance.transfer_ns = transfer_ns(channel, channel_index, position, op, instance.step);
    instance.first_arrival = static_cast<std::uint32_t>(job_.arrivals.size());
    instance.arrivals = static_cast<std::uint32_t>(open.ranks.size());
    instance.last_enter_ns = *std::max_element(open.enters.begin(), open.enters.end());

    std::vector<std::size_t> by_rank(open.ranks.size());
    for (std::size_t i = 0; i < by_rank.size(); ++i) by_rank[i] = i;
    std::sort(by_rank.begin(), by_rank.end(),
              [&](std::size_t a, std::size_t b) { return open.ranks[a] < open.ranks[b]; });
    Nanoseconds root_enter_ns = 0;
    const std::int32_t root =
        op.root >= 0 ? topology_.communicators[channel.communicator].ranks[static_cast<std::size_t>(op.root)] : -1;
    for (const std::size_t i : by_rank)
      if (open.ranks[i] == root) root_enter_ns = open.enters[i];

    const EndsInstance ends{plan_.seed, op.operation, op.bytes, channel_index, position};
    std::vector<EndsMember> members;
    for (const std::size_t i : by_rank) members.push_back({open.ranks[i], open.ops[i]->sends, open.ops[i]->receives});
    const std::vector<double> delays = end_delays_ns(plan_.network.ends, ends, members);
    const bool eager = leaves_at_once(plan_.network.ends, ends, members);

    for (std::size_t m = 0; m < by_rank.size(); ++m) {
      const std::size_t i = by_rank[m];
      const std::int32_t rank = open.ranks[i];
      // Broadcast: a receiver needs the root only. Reduce: only the root needs everybody. The rest synchronise.
      Nanoseconds begin = instance.last_enter_ns;
      if (op.operation == Operation::broadcast) begin = std::max(open.enters[i], root_enter_ns);
      if (op.operation == Operation::reduce && rank != root) begin = open.enters[i];
      if (eager && members[m].sends) begin = open.enters[i];
      const double jitter = scaled_jitter_ns(delays[m], op.operation, channel_index, position, rank);
      const Nanoseconds exit = begin + instance.transfer_ns + static_cast<Nanoseconds>(jitter);

      TrueArrival arrival;
      arrival.rank = rank;
      arrival.enter_ns = open.enters[i];
      arrival.exit_ns = exit;
      arrival.peer = open.ops[i]->root;
      arrival.sends = open.ops[i]->sends;
      arrival.receives = open.ops[i]->receives;
      arrival.wait_ns = std::min(instance.last_enter_ns, exit) - arrival.enter_ns;
      RankMachine& machine = machines_[static_cast<std::size_t>(rank)];
      arrival.activity = machine.finish_collective(exit, static_cast<std::uint32_t>(job_.arrivals.size()));
      if (instance.last_rank < 0 && arrival.enter_ns == instance.last_enter_ns) instance.last_rank = rank;
      job_.arrivals.push_back(arrival);
    }
    job_.instances.push_back(instance);
    for (const std::size_t i : by_rank) runnable.push_back(open.ranks[i]);
    open.ranks.clear();
    open.enters.clear();
    open.ops.clear();
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
  std::vector<OpenInstance> open_;
  std::vector<std::int64_t> positions_;
  std::deque<RankMachine> machines_;
};

}  // namespace

SimulatedJob simulate(const JobPlan& plan) {
  return JobSimulator(plan).run();
}

}  // namespace nsys_explain::synth
