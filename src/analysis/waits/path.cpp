#include "analysis/waits/path.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "analysis/window/sizes_in_steps.hpp"
#include "nsys_explain/model/intervals.hpp"
#include "nsys_explain/model/lower_median.hpp"

namespace nsys_explain::analysis {
namespace {

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15;
  return hash ^ (hash >> 29);
}

std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 1;
  for (const char c : text) hash = mix(hash, static_cast<unsigned char>(c));
  return hash;
}

std::uint32_t place_of(std::uint64_t key, std::span<const PathCommunicator> communicators) {
  const auto found = std::partition_point(communicators.begin(), communicators.end(),
                                          [&](const PathCommunicator& c) { return c.key < key; });
  return static_cast<std::uint32_t>(found - communicators.begin());
}

/// What starts within this time of something else started, or was let go by its end, at that moment.
constexpr Nanoseconds moment_ns = 20'000;

/// When each arrival was ready: at its enter, or where it had queued behind a collective beside which compute went on,
/// be it while that one queued itself, once all that was launched before it was done, as on a peer whose collective was
/// over by then.
std::vector<Nanoseconds> ready_times(const Path& path, std::span<const WorkProfile> profiles) {
  std::vector<Nanoseconds> ready_ns;
  ready_ns.reserve(path.arrivals.size());
  std::vector<Nanoseconds> exits;   // of the collectives with compute beside them that go on
  Nanoseconds latest_ns = no_time;  // of the exits of those that are over
  for (std::size_t i = 0; i < path.arrivals.size(); ++i) {
    const PathArrival& arrival = path.arrivals[i];
    std::erase_if(exits, [&](Nanoseconds exit_ns) {
      const bool is_over = exit_ns <= arrival.enter_ns;
      if (is_over) latest_ns = latest_ns == no_time ? exit_ns : std::max(latest_ns, exit_ns);
      return is_over;
    });
    const bool held_up = latest_ns != no_time && arrival.enter_ns - latest_ns < moment_ns;
    const Nanoseconds queued_ns{profiles[i].queued_ns};
    ready_ns.push_back(arrival.enter_ns - (held_up ? queued_ns : 0));
    const Nanoseconds compute_beside_ns = Nanoseconds{profiles[i].compute_beside_ns} - (held_up ? 0 : queued_ns);
    if (!arrival.blocking || arrival.beside_compute || compute_beside_ns > moment_ns) exits.push_back(arrival.exit_ns);
  }
  return ready_ns;
}

/// When compute stood still for a collective, which is no work: by end. It may have gone on beside the collective
/// before it waited for it. Whether others stood still does not matter: ends of collectives differ. `ready_ns`: of
/// ready_times.
std::vector<Interval> find_stalls(const Path& path, std::span<const WorkProfile> profiles,
                                  std::span<const Nanoseconds> ready_ns) {
  std::vector<Interval> stalls;
  for (std::size_t i = 0; i < path.arrivals.size(); ++i) {
    const PathArrival& arrival = path.arrivals[i];
    if (arrival.beside_compute) continue;
    const Nanoseconds launched_ns = arrival.enter_ns - Nanoseconds{profiles[i].queued_ns};
    const Nanoseconds start_ns = std::max(ready_ns[i], launched_ns + Nanoseconds{profiles[i].compute_beside_ns});
    stalls.push_back({std::min(start_ns, arrival.exit_ns), arrival.exit_ns});
  }
  std::sort(stalls.begin(), stalls.end(), [](const Interval& a, const Interval& b) { return a.end_ns < b.end_ns; });
  return stalls;
}

/// How long work went on; `ended` are the stalls that had ended by `until_ns`.
Nanoseconds work_between(Nanoseconds from_ns, Nanoseconds until_ns, std::span<const Interval> ended) {
  Nanoseconds work_ns = until_ns - from_ns, known_from_ns = until_ns;
  for (auto stall = ended.rbegin(); stall != ended.rend() && stall->end_ns > from_ns; ++stall) {
    const Nanoseconds start_ns = std::max(from_ns, stall->start_ns);
    work_ns -= std::max<Nanoseconds>(0, std::min(stall->end_ns, known_from_ns) - start_ns);
    known_from_ns = std::min(known_from_ns, start_ns);
  }
  return work_ns;
}

/// Arrivals in the order in which they were ready; those of one moment in order of enter.
std::vector<std::uint32_t> order_by_readiness(std::span<const Nanoseconds> ready_ns) {
  std::vector<std::uint32_t> order;
  order.reserve(ready_ns.size());
  for (std::uint32_t i = 0; i < ready_ns.size(); ++i) {
    auto place = order.end();  // most are ready when they enter
    while (place != order.begin() && ready_ns[*std::prev(place)] >= ready_ns[i] + moment_ns) --place;
    order.insert(place, i);
  }
  return order;
}

/// Work is told apart arrival by arrival, blocking or not: peers then agree on what lies between two places even where
/// one had to wait at a place and another did not. Two of one moment have the same work, whichever is first.
void measure_work(Path& path, std::span<const WorkProfile> profiles) {
  const std::vector<Nanoseconds> ready_ns = ready_times(path, profiles);
  const std::vector<Interval> stalls = find_stalls(path, profiles, ready_ns);
  path.by_readiness = order_by_readiness(ready_ns);
  Nanoseconds before_moment_ns = no_time, latest_ns = no_time;  // ready, of the moment before and of all so far
  auto next_stall = stalls.begin();
  for (const std::uint32_t i : path.by_readiness) {
    PathArrival& arrival = path.arrivals[i];
    const Nanoseconds until_ns = std::max(ready_ns[i], latest_ns);
    while (next_stall != stalls.end() && next_stall->end_ns <= until_ns) ++next_stall;
    const std::span<const Interval> ended(stalls.begin(), next_stall);
    const Nanoseconds begin_ns = ended.empty() ? path.first_step_ns : ended.back().end_ns;
    arrival.same_moment = latest_ns != no_time && until_ns - latest_ns < moment_ns && begin_ns <= latest_ns;
    if (!arrival.same_moment) before_moment_ns = latest_ns;
    if (begin_ns != no_time && begin_ns <= until_ns) {
      arrival.work_ns = work_between(before_moment_ns == no_time ? begin_ns : before_moment_ns, until_ns, ended);
      arrival.since_step = ended.empty();
    }
    latest_ns = until_ns;
  }
}

/// Which communicators of a path hold all members of which others: asked again and again of the same few pairs, and
/// each may have thousands of members.
class Inclusions {
 public:
  explicit Inclusions(std::span<const PathCommunicator> communicators)
      : communicators_(communicators), known_(communicators.size() * communicators.size(), Answer::unknown) {}

  /// True where everybody in `part` is in `whole`, too.
  bool holds(std::uint32_t whole, std::uint32_t part) {
    Answer& answer = known_[whole * communicators_.size() + part];
    if (answer == Answer::unknown) {
      const std::vector<std::int32_t>& all = communicators_[whole].trace_ranks;
      const std::vector<std::int32_t>& some = communicators_[part].trace_ranks;
      answer = std::includes(all.begin(), all.end(), some.begin(), some.end()) ? Answer::yes : Answer::no;
    }
    return answer == Answer::yes;
  }

 private:
  enum class Answer : std::uint8_t { unknown, yes, no };
  std::span<const PathCommunicator> communicators_;
  std::vector<Answer> known_;
};

/// The latest blocking arrival before each one that ended before it and tied this rank to the same members: it had the
/// same ones, or all of a communicator that holds them. Who comes late to a broadcast that all others have left is not
/// tied to them by it: they wait for it in what follows.
void find_synchronisations(Path& path) {
  Inclusions inclusions(path.communicators);
  std::vector<std::size_t> latest;  // blocking arrival of each communicator and set of partners, in order
  const auto have_same_members = [&](std::size_t a, std::size_t b) {
    return path.arrivals[a].communicator == path.arrivals[b].communicator &&
           path.outcomes[a].partners == path.outcomes[b].partners;
  };
  for (std::size_t i = 0; i < path.arrivals.size(); ++i) {
    PathArrival& arrival = path.arrivals[i];
    const auto ties = [&](std::size_t index) {
      const PathArrival& earlier = path.arrivals[index];
      return earlier.exit_ns <= arrival.enter_ns &&
             (have_same_members(index, i) ||
              (path.outcomes[index].complete && inclusions.holds(earlier.communicator, arrival.communicator)));
    };
    const auto found = std::find_if(latest.rbegin(), latest.rend(), ties);
    if (found != latest.rend()) arrival.synchronised = static_cast<std::int32_t>(*found);
    if (!arrival.blocking || arrival.beside_compute || !arrival.matched || !path.outcomes[i].tied) continue;
    const auto replaced =
        std::find_if(latest.rbegin(), latest.rend(), [&](std::size_t index) { return have_same_members(index, i); });
    if (replaced != latest.rend()) latest.erase(std::next(replaced).base());
    latest.push_back(i);
  }
}

/// The kinds of operation alone: all there is to compare where a capture has no steps, and may begin anywhere.
std::uint64_t digest_of_kinds(const Path& path) {
  std::set<std::uint64_t> kinds;
  std::uint64_t latest = 0;
  for (const PathArrival& arrival : path.arrivals) {
    if (!kinds.empty() && arrival.symbol == latest) continue;
    kinds.insert(latest = arrival.symbol);
  }
  std::uint64_t digest = 0;
  for (const std::uint64_t kind : kinds) digest = mix(digest, kind);
  return digest;
}

std::uint64_t commonest(const std::map<std::uint64_t, std::int64_t>& votes) {
  return std::max_element(votes.begin(), votes.end(), [](auto& a, auto& b) { return a.second < b.second; })->first;
}

/// A digest of what each step consists of, communicator by communicator: operations of different communicators may
/// overtake each other. The commonest digest is the role.
void find_role(Path& path) {
  path.role = digest_of_kinds(path);
  std::map<std::uint64_t, std::int64_t> votes;
  std::vector<std::uint64_t> sequences(path.communicators.size(), 0);  // of the step at hand
  std::vector<bool> in_step(path.communicators.size(), false);
  for (std::size_t i = 0; i < path.arrivals.size();) {
    const std::int32_t step = path.arrivals[i].step;
    const bool whole = path.arrivals[i].whole_step;
    std::fill(sequences.begin(), sequences.end(), 0);
    std::fill(in_step.begin(), in_step.end(), false);
    for (; i < path.arrivals.size() && path.arrivals[i].step == step; ++i) {
      const PathArrival& arrival = path.arrivals[i];
      sequences[arrival.communicator] = mix(sequences[arrival.communicator], arrival.symbol);
      in_step[arrival.communicator] = true;
    }
    if (!whole) continue;
    std::uint64_t digest = 0;
    for (std::size_t c = 0; c < sequences.size(); ++c) digest += in_step[c] ? mix(sequences[c], 1) : 0;
    ++votes[digest];
  }
  if (!votes.empty()) path.role = commonest(votes);
  path.role = mix(path.role, path.kind);
}

/// What each lane carries in a step, which is the program's; who shares an inferred communicator, and so its size, may
/// be wrong on one rank and right on its peers. Without steps: the kinds of operation.
std::map<std::uint64_t, std::uint64_t> lane_programs(std::span<const Arrival> arrivals, const Steps& steps) {
  std::map<std::uint64_t, std::set<std::uint64_t>> kinds;
  std::map<std::pair<std::uint64_t, std::int32_t>, std::uint64_t> sequences;  // by lane and step
  for (const Arrival& arrival : arrivals) {
    const auto operation = static_cast<std::uint64_t>(arrival.operation);
    kinds[arrival.communicator].insert(operation);
    const std::int32_t step = steps.index_of(arrival.enter_ns);
    if (step < 0) continue;
    std::uint64_t& sequence = sequences[{arrival.communicator, step}];
    sequence = mix(sequence, operation);
  }
  std::map<std::uint64_t, std::uint64_t> programs;
  for (const auto& [lane, operations] : kinds)
    programs[lane] = std::accumulate(operations.begin(), operations.end(), std::uint64_t{0}, mix);
  std::map<std::uint64_t, std::map<std::uint64_t, std::int64_t>> votes;
  for (const auto& [key, sequence] : sequences) ++votes[key.first][sequence];
  for (const auto& [lane, of_lane] : votes) programs[lane] = commonest(of_lane);
  return programs;
}

/// What compute waited.
Nanoseconds blocking_wait(const Path& path, std::size_t i) {
  return path.arrivals[i].blocking ? path.outcomes[i].wait_ns : 0;
}

/// What compute waited once everybody was there.
Nanoseconds blocking_transfer(const Path& path, std::size_t i) {
  const PathArrival& arrival = path.arrivals[i];
  if (!arrival.blocking || !arrival.matched) return 0;
  return std::max<Nanoseconds>(0, arrival.exit_ns - arrival.enter_ns - path.outcomes[i].wait_ns);
}

/// Surplus of the work before an arrival: a part of it.
Nanoseconds surplus_work(const PathArrival& arrival) {
  return std::min(arrival.surplus_ns, arrival.work_ns);
}

/// What compute would have waited without the surplus: who was not the last would have waited longer. no_time where it
/// is not known what it waited.
Nanoseconds wait_without_surplus(const Path& path, std::size_t i) {
  if (!path.arrivals[i].matched) return no_time;
  const Nanoseconds wait_ns = blocking_wait(path, i);
  return wait_ns > 0 ? wait_ns + surplus_work(path.arrivals[i]) : 0;
}

/// WorkSample::place.
std::uint64_t digest_of_place(const Path& path, std::size_t i) {
  const PathArrival& arrival = path.arrivals[i];
  if (arrival.step < 0) {
    const Outcome& outcome = path.outcomes[i];
    return mix(mix(mix(path.role, 2), static_cast<std::uint64_t>(outcome.communicator)),
               static_cast<std::uint64_t>(outcome.sequence));
  }
  const auto in_step =
      static_cast<std::uint64_t>(arrival.occurrences) << 32U | static_cast<std::uint32_t>(arrival.occurrence);
  return mix(mix(mix(path.role, arrival.symbol), in_step), static_cast<std::uint64_t>(arrival.step));
}

void set_excess_over(Path& path, std::size_t i, const UsualWork& usual) {
  PathArrival& arrival = path.arrivals[i];
  arrival.compared = true;
  arrival.excess_work_ns = arrival.work_ns - usual.work_ns;
  arrival.excess_wait_ns = arrival.matched ? blocking_wait(path, i) - usual.wait_ns : 0;
  // Ends of transfers differ from member to member on healthy links, too (see slow_links.hpp).
  if (!path.outcomes[i].slow_link) return;
  path.excess_transfers_ns.resize(path.arrivals.size(), 0);
  path.excess_transfers_ns[i] = blocking_transfer(path, i) - usual.transfer_ns;
}

/// Sets Excess::work_ns; the excess work up to and with each arrival, by index.
std::vector<Nanoseconds> add_up_excess_work(Path& path) {
  std::vector<Nanoseconds> with_it_ns(path.arrivals.size());
  Nanoseconds before_moment_ns = 0, in_moment_ns = 0;
  for (const std::uint32_t i : path.by_readiness) {
    const PathArrival& arrival = path.arrivals[i];
    if (!arrival.same_moment) {
      before_moment_ns += in_moment_ns;
      in_moment_ns = 0;
    }
    if (arrival.compared) in_moment_ns = arrival.excess_work_ns;
    path.before[i].work_ns = before_moment_ns;
    with_it_ns[i] = before_moment_ns + in_moment_ns;
  }
  path.before.back().work_ns = before_moment_ns + in_moment_ns;
  return with_it_ns;
}

/// Sets Path::transfers_before_ns.
void add_up_transfers(Path& path) {
  const std::vector<Nanoseconds>& excess_ns = path.excess_transfers_ns;
  if (excess_ns.empty()) return;
  path.transfers_before_ns.assign(excess_ns.size() + 1, 0);
  std::partial_sum(excess_ns.begin(), excess_ns.end(), path.transfers_before_ns.begin() + 1);
}

void add_up_excess(Path& path) {
  const std::size_t arrivals = path.arrivals.size();
  path.before.resize(arrivals + 1);
  const std::vector<Nanoseconds> work_with_it_ns = add_up_excess_work(path);
  add_up_transfers(path);
  path.own_excess_ns.resize(arrivals);
  Nanoseconds at_latest_blocking_ns = 0, waiting_ns = 0;
  for (std::size_t i = 0; i < arrivals; ++i) {
    const PathArrival& arrival = path.arrivals[i];
    path.before[i].waiting_ns = waiting_ns;
    const auto after_tied = static_cast<std::size_t>(std::int64_t{arrival.synchronised} + 1);
    path.own_excess_ns[i] =
        arrival.compared ? work_with_it_ns[i] - at_latest_blocking_ns + excess_transfers_between(path, after_tied, i)
                         : no_time;
    if (arrival.matched && arrival.blocking && path.outcomes[i].tied) at_latest_blocking_ns = work_with_it_ns[i];
    if (arrival.blocking && !arrival.beside_compute) waiting_ns += arrival.excess_wait_ns;
  }
  path.before.back().waiting_ns = waiting_ns;
}

/// Arrivals of each step; those outside of all steps come last.
std::vector<std::int64_t> arrivals_by_step(const Path& path, std::size_t steps) {
  std::vector<std::int64_t> counts(steps + 1, 0);
  for (const PathArrival& arrival : path.arrivals)
    ++counts[arrival.step < 0 ? steps : static_cast<std::size_t>(arrival.step)];
  return counts;
}

/// The capture may have begun or ended within the first or the last step; then places in it are not where they seem.
void find_whole_steps(Path& path, std::size_t steps) {
  const std::vector<std::int64_t> of_step = arrivals_by_step(path, steps);
  std::vector<std::int64_t> counts;
  std::copy_if(of_step.begin(), of_step.end() - 1, std::back_inserter(counts), [](std::int64_t n) { return n > 0; });
  const std::int64_t usual = counts.empty() ? 0 : lower_median(counts);
  for (PathArrival& arrival : path.arrivals) {
    if (arrival.step < 0) continue;
    const auto step = static_cast<std::size_t>(arrival.step);
    const bool at_the_edge = step == 0 || step + 1 == steps;
    arrival.whole_step = !at_the_edge || of_step[step] >= usual;
  }
}

/// Counts the arrivals of each symbol, anew in each step; those outside of all steps count together.
void number_occurrences(Path& path) {
  struct Count {
    std::uint64_t symbol;
    std::int32_t step = -1, in_step = 0, outside = 0;
  };
  std::vector<Count> counts;
  for (PathArrival& arrival : path.arrivals) {
    auto found = std::partition_point(counts.begin(), counts.end(),
                                      [&](const Count& count) { return count.symbol < arrival.symbol; });
    if (found == counts.end() || found->symbol != arrival.symbol) found = counts.insert(found, {arrival.symbol});
    if (arrival.step < 0) {
      arrival.occurrence = found->outside++;
      continue;
    }
    if (found->step != arrival.step) std::tie(found->step, found->in_step) = std::pair(arrival.step, 0);
    arrival.occurrence = found->in_step++;
  }
}

/// How often the kind of each arrival occurs in its step.
void count_in_steps(std::span<const std::uint64_t> kinds, Path& path) {
  std::map<std::uint64_t, std::int32_t> counts;
  for (std::size_t first = 0, end = 0; first < kinds.size(); first = end) {
    const std::int32_t step = path.arrivals[first].step;
    counts.clear();
    for (; end < kinds.size() && path.arrivals[end].step == step; ++end) ++counts[kinds[end]];
    if (step < 0) continue;
    for (std::size_t i = first; i < end; ++i) path.arrivals[i].occurrences = counts[kinds[i]];
  }
}

/// By symbol, as often as most of its arrivals have it in their steps; of two alike the more.
std::map<std::uint64_t, std::int32_t> commonest_occurrences(const Path& path) {
  std::map<std::uint64_t, std::map<std::int32_t, std::int64_t>> arrivals;
  for (const PathArrival& arrival : path.arrivals)
    if (arrival.step >= 0) ++arrivals[arrival.symbol][arrival.occurrences];
  std::map<std::uint64_t, std::int32_t> commonest;
  for (const auto& [symbol, counts] : arrivals) {
    commonest[symbol] =
        std::max_element(counts.begin(), counts.end(), [](auto& a, auto& b) { return a.second <= b.second; })->first;
  }
  return commonest;
}

}  // namespace

std::uint64_t digest_of_partners(std::uint64_t others, std::int32_t trace_rank) {
  return (others ^ static_cast<std::uint64_t>(trace_rank)) * 0x9E3779B97F4A7C15 + 1;
}

std::uint64_t names_of_kernels(const RankEvents& events) {
  std::set<StringIndex> names;
  const std::vector<KernelKind>& kinds = events.device.kernel_kinds;
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    if (!events.communication_kinds[k]) names.insert(kinds[k].short_name);
  }
  std::uint64_t digest = 0;  // a sum: string indices differ from file to file, and so does their order
  for (const StringIndex name : names) {
    digest += hash_of(events.trace.strings[name]);
  }
  return digest;
}

Path make_path(std::span<const Arrival> arrivals, std::vector<PathCommunicator> communicators, const Steps& steps,
               std::uint64_t kernel_names) {
  Path path;
  // Of most: a capture whose CUDA graphs were made before it began knows the sizes of a few calls outside of them.
  const auto sized =
      std::count_if(arrivals.begin(), arrivals.end(), [](const Arrival& arrival) { return arrival.call_bytes >= 0; });
  const bool sizes_known = 2 * sized > std::ssize(arrivals);
  std::map<std::uint64_t, std::uint64_t> lanes;
  if (!sizes_known) {
    path.kind = kernel_names;
    lanes = lane_programs(arrivals, steps);
  }
  path.communicators = std::move(communicators);
  if (!arrivals.empty()) path.trace_rank = arrivals.front().trace_rank;
  if (steps.source == StepSource::nvtx) path.first_step_ns = steps.start_ns.front();
  path.arrivals.reserve(arrivals.size());
  // Without sizes communicators are inferred, and which one an arrival is of may be known on some ranks only.
  std::vector<std::uint64_t> kinds;
  const std::vector<std::int64_t> sizes = sizes_known ? sizes_in_steps(arrivals, steps) : std::vector<std::int64_t>();
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    const Arrival& arrival = arrivals[i];
    PathArrival here;
    here.enter_ns = arrival.enter_ns;
    here.exit_ns = arrival.exit_ns;
    here.communicator = place_of(arrival.communicator, path.communicators);
    here.blocking = arrival.blocking;
    here.beside_compute = !arrival.blocking;
    here.symbol = mix(mix(1, static_cast<std::uint64_t>(arrival.operation)),
                      sizes_known ? mix(static_cast<std::uint64_t>(sizes[i]),
                                        static_cast<std::uint64_t>(path.communicators[here.communicator].size))
                                  : lanes[arrival.communicator]);
    here.step = steps.index_of(arrival.enter_ns);
    path.arrivals.push_back(here);
    kinds.push_back(sizes_known ? here.symbol : static_cast<std::uint64_t>(arrival.operation));
  }
  path.outcomes.resize(arrivals.size());
  find_whole_steps(path, steps.start_ns.size());
  number_occurrences(path);
  count_in_steps(kinds, path);
  return path;
}

void take_outcome(Path& path, const RoutedOutcome& routed) {
  path.outcomes[static_cast<std::size_t>(routed.index)] = routed.outcome;
}

void measure(Path& path, std::span<const WorkProfile> profiles) {
  for (std::size_t i = 0; i < path.arrivals.size(); ++i) {
    if (!path.outcomes[i].matched) continue;
    path.arrivals[i].matched = true;
    path.arrivals[i].blocking = path.outcomes[i].blocking;
  }
  measure_work(path, profiles);
  find_synchronisations(path);
  find_role(path);
}

void tell_stages_apart(Path& path, std::string_view stage) {
  path.role = mix(path.role, hash_of(stage));
}

PlaceInStep place_in_step(const PathArrival& arrival) {
  return {arrival.symbol, arrival.occurrence, arrival.occurrences};
}

std::optional<WorkSample> work_sample(const Path& path, std::size_t i) {
  const PathArrival& arrival = path.arrivals[i];
  if (arrival.work_ns == no_time || !(arrival.step >= 0 ? arrival.whole_step : arrival.matched)) return std::nullopt;
  return WorkSample{digest_of_place(path, i), arrival.work_ns - surplus_work(arrival), wait_without_surplus(path, i),
                    blocking_transfer(path, i)};
}

std::uint64_t place_among_peers(const Path& path, std::size_t i) {
  const PathArrival& arrival = path.arrivals[i];
  return (arrival.step >= 0 ? arrival.whole_step : arrival.matched) ? digest_of_place(path, i) : 0;
}

std::uint64_t step_among_peers(const Path& path, std::size_t i) {
  const PathArrival& arrival = path.arrivals[i];
  if (arrival.step < 0 || !arrival.whole_step) return 0;
  return mix(mix(path.role, 3), static_cast<std::uint64_t>(arrival.step));
}

std::uint64_t place_among_steps(const Path& path, std::size_t i) {
  const PathArrival& arrival = path.arrivals[i];
  if (arrival.step < 0 || !arrival.whole_step) return 0;
  return mix(mix(static_cast<std::uint64_t>(path.trace_rank), arrival.symbol),
             static_cast<std::uint64_t>(arrival.occurrences) << 32U | static_cast<std::uint32_t>(arrival.occurrence));
}

void take_usual(Path& path, std::size_t arrival, const UsualWork& usual) {
  if (usual.work_ns == no_time) return;
  set_excess_over(path, arrival, usual);
  path.arrivals[arrival].has_peers = true;
}

void finish_excess(Path& path) {
  constexpr std::size_t enough_steps = 4;
  std::map<PlaceInStep, std::vector<std::size_t>> alone;
  for (std::size_t i = 0; i < path.arrivals.size(); ++i) {
    const PathArrival& arrival = path.arrivals[i];
    if (!arrival.compared && arrival.step >= 0 && arrival.whole_step && arrival.work_ns != no_time &&
        !arrival.since_step)
      alone[place_in_step(arrival)].push_back(i);
  }
  std::map<std::uint64_t, std::int32_t> usual_counts;
  if (!alone.empty()) usual_counts = commonest_occurrences(path);
  std::vector<Nanoseconds> work, wait, transfer;
  for (const auto& [place, indices] : alone) {
    // Where some of its kind were lost, which it is of those in other steps is not known.
    if (indices.size() < enough_steps || place.occurrences < usual_counts.at(place.symbol)) continue;
    work.clear();
    wait.clear();
    transfer.clear();
    for (const std::size_t i : indices) {
      work.push_back(path.arrivals[i].work_ns - surplus_work(path.arrivals[i]));
      if (path.arrivals[i].matched) wait.push_back(wait_without_surplus(path, i));
      transfer.push_back(blocking_transfer(path, i));
    }
    const UsualWork own{lower_median(work), wait.empty() ? 0 : lower_median(wait), lower_median(transfer)};
    for (const std::size_t i : indices) set_excess_over(path, i, own);
  }
  add_up_excess(path);
}

Nanoseconds excess_transfers_between(const Path& path, std::size_t begin, std::size_t end) {
  const std::vector<Nanoseconds>& before_ns = path.transfers_before_ns;
  return before_ns.empty() ? 0 : before_ns[end] - before_ns[begin];
}

Nanoseconds excess_at(const Path& path, std::size_t arrival) {
  const Excess &before = path.before[arrival], &after = path.before[arrival + 1];
  return after.work_ns - before.work_ns + excess_transfers_between(path, arrival, arrival + 1);
}

}  // namespace nsys_explain::analysis
