#include "analysis/waits/rank_timeline.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "analysis/window/steps.hpp"
#include "model/hash.hpp"
#include "nsys_explain/model/collective.hpp"

namespace nsys_explain::analysis {
namespace {

/// Where operations lie in their steps, by kind and communicator.
class PositionsInSteps {
 public:
  /// Communicator, operation, position in the step, of how many there.
  using Position = std::tuple<std::uint64_t, Operation, std::int32_t, std::int32_t>;

  PositionsInSteps(std::span<const TraceArrival> arrivals, const Steps& steps) : arrivals_(arrivals) {
    for (const TraceArrival& arrival : arrivals) {
      const std::int32_t step = steps.index_of(arrival.enter.ns);
      at_.emplace_back(step, counts_[{arrival.communicator, arrival.operation, step}]++);
    }
  }
  bool in_step(std::size_t arrival) const { return at_[arrival].first >= 0; }
  Position of(std::size_t arrival) const {
    const auto [step, position] = at_[arrival];
    const auto& [communicator, operation] = std::tie(arrivals_[arrival].communicator, arrivals_[arrival].operation);
    return {communicator, operation, position, counts_.at({communicator, operation, step})};
  }

 private:
  std::span<const TraceArrival> arrivals_;
  std::map<std::tuple<std::uint64_t, Operation, std::int32_t>, std::int32_t> counts_;  ///< by step
  std::vector<std::pair<std::int32_t, std::int32_t>> at_;  ///< of each arrival its step and position there
};

/// Arrival::call_bytes of all operations of a trace rank, also of those whose launch was lost, and with it their size;
/// -1 where nothing tells. The program does the same in each step, so an operation is as large as those at its position
/// in other steps (the same kind and communicator, as many of them in the step), if all of these agree.
std::vector<std::int64_t> sizes_in_steps(std::span<const TraceArrival> arrivals, const Steps& steps) {
  std::vector<std::int64_t> sizes;
  for (const TraceArrival& arrival : arrivals) sizes.push_back(arrival.call_bytes);
  if (std::find(sizes.begin(), sizes.end(), -1) == sizes.end()) return sizes;
  const PositionsInSteps positions(arrivals, steps);
  std::map<PositionsInSteps::Position, std::set<std::int64_t>> known;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] >= 0 && positions.in_step(i)) known[positions.of(i)].insert(sizes[i]);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] >= 0 || !positions.in_step(i)) continue;
    const auto found = known.find(positions.of(i));
    if (found != known.end() && found->second.size() == 1) sizes[i] = *found->second.begin();
  }
  return sizes;
}

std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 1;
  for (const char c : text) hash = mix_into(hash, static_cast<unsigned char>(c));
  return hash;
}

std::uint32_t communicator_of(std::uint64_t key, std::span<const TimelineCommunicator> communicators) {
  const auto found = std::partition_point(communicators.begin(), communicators.end(),
                                          [&](const TimelineCommunicator& c) { return c.key < key; });
  return static_cast<std::uint32_t>(found - communicators.begin());
}

/// Which communicators of a timeline hold all members of which others: asked again and again of the same few pairs, and
/// each may have thousands of members.
class Inclusions {
 public:
  explicit Inclusions(std::span<const TimelineCommunicator> communicators)
      : communicators_(communicators), known_(communicators.size() * communicators.size(), Answer::unknown) {}

  /// True where everybody in `part` is in `whole`, too.
  bool holds(std::uint32_t whole, std::uint32_t part) {
    Answer& answer = known_[whole * communicators_.size() + part];
    if (answer == Answer::unknown) {
      const std::span<const std::int32_t> all = communicators_[whole].trace_ranks;
      const std::span<const std::int32_t> some = communicators_[part].trace_ranks;
      answer = std::includes(all.begin(), all.end(), some.begin(), some.end()) ? Answer::yes : Answer::no;
    }
    return answer == Answer::yes;
  }

 private:
  enum class Answer : std::uint8_t { unknown, yes, no };
  std::span<const TimelineCommunicator> communicators_;
  std::vector<Answer> known_;
};

/// The latest blocking arrival before each one that ended before it and tied this rank to the same members: it had the
/// same ones, or all of a communicator that holds them. Who comes late to a broadcast that all others have left is not
/// tied to them by it: they wait for it in what follows.
void find_synchronisations(RankTimeline& timeline) {
  Inclusions inclusions(timeline.communicators);
  std::vector<std::size_t> latest;  // blocking arrival of each communicator and set of partners, in order
  const auto have_same_members = [&](std::size_t a, std::size_t b) {
    return timeline.arrivals[a].communicator == timeline.arrivals[b].communicator &&
           timeline.outcomes[a].partners == timeline.outcomes[b].partners;
  };
  for (std::size_t i = 0; i < timeline.arrivals.size(); ++i) {
    TimelineArrival& arrival = timeline.arrivals[i];
    const auto ties = [&](std::size_t index) {
      const TimelineArrival& earlier = timeline.arrivals[index];
      return earlier.exit <= arrival.enter &&
             (have_same_members(index, i) ||
              (timeline.outcomes[index].complete && inclusions.holds(earlier.communicator, arrival.communicator)));
    };
    const auto found = std::find_if(latest.rbegin(), latest.rend(), ties);
    if (found != latest.rend()) arrival.synchronised = static_cast<std::int32_t>(*found);
    if (!arrival.blocking || arrival.beside_compute || !arrival.matched || !timeline.outcomes[i].tied) continue;
    const auto replaced =
        std::find_if(latest.rbegin(), latest.rend(), [&](std::size_t index) { return have_same_members(index, i); });
    if (replaced != latest.rend()) latest.erase(std::next(replaced).base());
    latest.push_back(i);
  }
}

/// What each lane carries in a step, which is the program's; who shares an inferred communicator, and so its size, may
/// be wrong on one rank and right on its peers. Without steps: the kinds of operation.
std::map<std::uint64_t, std::uint64_t> lane_programs(std::span<const TraceArrival> arrivals, const Steps& steps) {
  std::map<std::uint64_t, std::set<std::uint64_t>> kinds;
  std::map<std::pair<std::uint64_t, std::int32_t>, std::uint64_t> sequences;  // by lane and step
  for (const TraceArrival& arrival : arrivals) {
    const auto operation = static_cast<std::uint64_t>(arrival.operation);
    kinds[arrival.communicator].insert(operation);
    const std::int32_t step = steps.index_of(arrival.enter.ns);
    if (step < 0) continue;
    std::uint64_t& sequence = sequences[{arrival.communicator, step}];
    sequence = mix_into(sequence, operation);
  }
  std::map<std::uint64_t, std::uint64_t> programs;
  for (const auto& [lane, operations] : kinds)
    programs[lane] = std::accumulate(operations.begin(), operations.end(), std::uint64_t{0}, mix_into);
  std::map<std::uint64_t, std::map<std::uint64_t, std::int64_t>> votes;
  for (const auto& [key, sequence] : sequences) ++votes[key.first][sequence];
  for (const auto& [lane, of_lane] : votes) {
    programs[lane] =
        std::max_element(of_lane.begin(), of_lane.end(), [](auto& a, auto& b) { return a.second < b.second; })->first;
  }
  return programs;
}

/// How much each member of an exchange sends is data, not program: the tokens of an expert, that differ from rank to
/// rank and from step to step. So its size tells no role and no position.
bool has_own_size(const TraceArrival& arrival) {
  return arrival.operation == Operation::all_to_all || arrival.peer_or_root == several_peers;
}

}  // namespace

std::uint64_t digest_of_partners(std::uint64_t others, std::int32_t trace_rank) {
  return (others ^ static_cast<std::uint64_t>(trace_rank)) * golden_ratio + 1;
}

std::uint64_t names_of_kernels(const RankEvents& events, const Steps& steps) {
  struct Use {
    std::size_t latest_step = 0, steps = 0;  ///< steps count from 1 here; 0: before the first
  };
  std::map<StringIndex, Use> names;
  std::vector<Use*> of_kind;
  for (const KernelKind& kind : events.device.kernel_kinds) of_kind.push_back(&names[kind.short_name]);
  std::size_t step = 0;
  for (const Kernel& kernel : events.device.kernels) {
    while (step < steps.start_ns.size() && kernel.start_ns >= steps.start_ns[step]) ++step;
    Use& use = *of_kind[kernel.kind];
    if (events.is_communication(kernel) || step == use.latest_step) continue;
    use = {step, use.steps + 1};
  }
  std::set<StringIndex> computing;
  for (std::size_t k = 0; k < of_kind.size(); ++k)
    if (!events.communication_kinds[k]) computing.insert(events.device.kernel_kinds[k].short_name);
  std::uint64_t digest = 0;  // a sum: string indices differ from file to file, and so does their order
  for (const StringIndex name : computing)
    if (2 * names[name].steps >= steps.start_ns.size()) digest += hash_of(events.trace.strings[name]);
  return digest;
}

RankTimeline make_timeline(std::span<const TraceArrival> arrivals, std::vector<TimelineCommunicator> communicators,
                           const Steps& steps, std::uint64_t kernel_names) {
  RankTimeline timeline;
  // Of most: a capture whose CUDA graphs were made before it began knows the sizes of a few calls outside of them.
  const auto sized = std::count_if(arrivals.begin(), arrivals.end(),
                                   [](const TraceArrival& arrival) { return arrival.call_bytes >= 0; });
  const bool sizes_known = timeline.sizes_known = 2 * sized > std::ssize(arrivals);
  std::map<std::uint64_t, std::uint64_t> lanes;
  if (!sizes_known) {
    timeline.kind = kernel_names;
    lanes = lane_programs(arrivals, steps);
  }
  timeline.communicators = std::move(communicators);
  if (!arrivals.empty()) timeline.trace_rank = arrivals.front().trace_rank;
  if (steps.source == StepSource::nvtx) timeline.first_step_ns = steps.start_ns.front();
  timeline.arrivals.reserve(arrivals.size());
  const std::vector<std::int64_t> sizes = sizes_known ? sizes_in_steps(arrivals, steps) : std::vector<std::int64_t>();
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    const TraceArrival& arrival = arrivals[i];
    TimelineArrival here;
    here.enter = arrival.enter;
    here.exit = arrival.exit;
    here.communicator = communicator_of(arrival.communicator, timeline.communicators);
    here.operation = arrival.operation;
    here.blocking = arrival.blocking;
    here.beside_compute = !arrival.blocking;
    here.symbol =
        mix_into(mix_into(1, static_cast<std::uint64_t>(arrival.operation)),
                 sizes_known ? mix_into(has_own_size(arrival) ? 0 : static_cast<std::uint64_t>(sizes[i]),
                                        static_cast<std::uint64_t>(timeline.communicators[here.communicator].size))
                             : lanes[arrival.communicator]);
    here.step = steps.index_of(arrival.enter.ns);
    timeline.arrivals.push_back(here);
  }
  timeline.outcomes.resize(arrivals.size());
  return timeline;
}

void measure(RankTimeline& timeline, std::span<const WorkProfile> profiles) {
  for (std::size_t i = 0; i < timeline.arrivals.size(); ++i) {
    if (!timeline.outcomes[i].matched) continue;
    timeline.arrivals[i].matched = true;
    timeline.arrivals[i].blocking = timeline.outcomes[i].blocking;
  }
  find_positions(timeline);
  measure_work(timeline, profiles);
  find_synchronisations(timeline);
  find_role(timeline);
}

void tell_stages_apart(RankTimeline& timeline, std::string_view stage) {
  timeline.role = mix_into(timeline.role, hash_of(stage));
}

}  // namespace nsys_explain::analysis
