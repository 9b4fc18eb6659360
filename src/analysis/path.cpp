#include "nsys_explain/analysis/path.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

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

const PathCommunicator& communicator_of(const Path& path, const PathArrival& arrival) {
  return *std::partition_point(path.communicators.begin(), path.communicators.end(),
                               [&](const PathCommunicator& c) { return c.key < arrival.communicator; });
}

/// What starts within this time of something else started, or was let go by its end, at that moment.
constexpr Nanoseconds moment_ns = 20'000;

/// Work is told apart arrival by arrival, blocking or not: peers then agree on what lies between two places even where
/// one had to wait at a place and another did not. Two that enter at one moment have the same work, whichever is first.
/// One that had queued behind a collective beside compute may have been ready long before: its work is not known, and
/// it does not cut the work around it in two.
void measure_work(Path& path) {
  std::vector<Nanoseconds> exits, exits_beside_compute;
  for (const PathArrival& arrival : path.arrivals)
    (arrival.blocking ? exits : exits_beside_compute).push_back(arrival.exit_ns);
  std::sort(exits.begin(), exits.end());
  std::sort(exits_beside_compute.begin(), exits_beside_compute.end());
  const auto had_queued = [&](Nanoseconds enter_ns) {
    const auto later = std::upper_bound(exits_beside_compute.begin(), exits_beside_compute.end(), enter_ns);
    return later != exits_beside_compute.begin() && enter_ns - *std::prev(later) < moment_ns;
  };
  Nanoseconds earlier_enter = no_time, latest_enter = no_time;  // of the moment before, and of all so far
  for (PathArrival& arrival : path.arrivals) {
    const auto later = std::upper_bound(exits.begin(), exits.end(), arrival.enter_ns);
    const Nanoseconds begin = later == exits.begin() ? path.first_step_ns : *std::prev(later);
    if (had_queued(arrival.enter_ns)) continue;
    arrival.same_moment =
        latest_enter != no_time && arrival.enter_ns - latest_enter < moment_ns && begin <= latest_enter;
    if (!arrival.same_moment) earlier_enter = latest_enter;
    if (begin != no_time && begin <= arrival.enter_ns) {
      arrival.work_ns = arrival.enter_ns - (earlier_enter == no_time ? begin : std::max(begin, earlier_enter));
      arrival.since_step = later == exits.begin();
    }
    latest_enter = arrival.enter_ns;
  }
}

/// True where everybody in `part` is in `whole`, too.
bool holds(const PathCommunicator& whole, const PathCommunicator& part) {
  return std::includes(whole.trace_ranks.begin(), whole.trace_ranks.end(), part.trace_ranks.begin(),
                       part.trace_ranks.end());
}

/// The latest blocking arrival before each one that ended before it and tied this rank to the same members: it had the
/// same ones, or all of a communicator that holds them.
void find_synchronisations(Path& path) {
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::size_t> latest_of;  // by communicator and partners
  for (std::size_t i = 0; i < path.arrivals.size(); ++i) {
    PathArrival& arrival = path.arrivals[i];
    const PathCommunicator& own = communicator_of(path, arrival);
    for (const auto& [members, index] : latest_of) {
      const PathArrival& earlier = path.arrivals[index];
      const bool same = members == std::pair(arrival.communicator, arrival.outcome.partners);
      if (earlier.exit_ns > arrival.enter_ns) continue;
      if (same || (earlier.outcome.complete && holds(communicator_of(path, earlier), own)))
        arrival.synchronised = std::max(arrival.synchronised, static_cast<std::int32_t>(index));
    }
    if (arrival.blocking && arrival.matched) latest_of[{arrival.communicator, arrival.outcome.partners}] = i;
  }
}

/// The kinds of operation alone: all there is to compare where a capture has no steps, and may begin anywhere.
std::uint64_t digest_of_kinds(const Path& path) {
  std::set<std::uint64_t> kinds;
  for (const PathArrival& arrival : path.arrivals) kinds.insert(arrival.symbol);
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
  std::map<std::pair<std::int32_t, std::uint64_t>, std::uint64_t> sequences;  // by step and communicator
  for (const PathArrival& arrival : path.arrivals) {
    if (!arrival.whole_step) continue;
    std::uint64_t& sequence = sequences[{arrival.step, arrival.communicator}];
    sequence = mix(sequence, arrival.symbol);
  }
  std::map<std::int32_t, std::uint64_t> digests;
  for (const auto& [key, sequence] : sequences) digests[key.first] += mix(sequence, 1);
  std::map<std::uint64_t, std::int64_t> votes;
  for (const auto& [step, digest] : digests) ++votes[digest];
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
Nanoseconds blocking_wait(const PathArrival& arrival) {
  return arrival.blocking ? arrival.outcome.wait_ns : 0;
}

/// Surplus of the work before an arrival: a part of it.
Nanoseconds surplus_work(const PathArrival& arrival) {
  return std::min(arrival.surplus_ns, arrival.work_ns);
}

/// What compute would have waited without the surplus: who was not the last would have waited longer.
Nanoseconds wait_without_surplus(const PathArrival& arrival) {
  const Nanoseconds wait_ns = blocking_wait(arrival);
  return wait_ns > 0 ? wait_ns + surplus_work(arrival) : 0;
}

void add_up_excess(Path& path) {
  path.work_before_ns.assign(1, 0);
  path.waiting_before_ns.assign(1, 0);
  Nanoseconds before_moment_ns = 0, in_moment_ns = 0, at_latest_blocking_ns = 0;
  for (PathArrival& arrival : path.arrivals) {
    if (!arrival.same_moment) {
      before_moment_ns = path.work_before_ns.back();
      in_moment_ns = 0;
    }
    if (arrival.compared) in_moment_ns = arrival.excess_work_ns;
    path.work_before_ns.back() = before_moment_ns;
    path.work_before_ns.push_back(before_moment_ns + in_moment_ns);
    path.waiting_before_ns.push_back(path.waiting_before_ns.back() + (arrival.blocking ? arrival.excess_wait_ns : 0));
    arrival.own_excess_ns = path.work_before_ns.back() - at_latest_blocking_ns;
    if (arrival.blocking) at_latest_blocking_ns = path.work_before_ns.back();
  }
}

}  // namespace

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
  const bool sizes_known =
      std::any_of(arrivals.begin(), arrivals.end(), [](const Arrival& arrival) { return arrival.call_bytes >= 0; });
  std::map<std::uint64_t, std::uint64_t> lanes;
  if (!sizes_known) {
    path.kind = kernel_names;
    lanes = lane_programs(arrivals, steps);
  }
  path.communicators = std::move(communicators);
  if (!arrivals.empty()) path.trace_rank = arrivals.front().trace_rank;
  if (steps.source == StepSource::nvtx) path.first_step_ns = steps.start_ns.front();
  std::map<std::int32_t, std::int64_t> arrivals_of_step;
  for (const Arrival& arrival : arrivals) {
    PathArrival here;
    here.enter_ns = arrival.enter_ns;
    here.exit_ns = arrival.exit_ns;
    here.communicator = arrival.communicator;
    here.blocking = arrival.blocking;
    here.symbol = mix(mix(1, static_cast<std::uint64_t>(arrival.operation)),
                      sizes_known ? mix(static_cast<std::uint64_t>(arrival.call_bytes),
                                        static_cast<std::uint64_t>(communicator_of(path, here).size))
                                  : lanes[arrival.communicator]);
    here.step = steps.index_of(arrival.enter_ns);
    ++arrivals_of_step[here.step];
    path.arrivals.push_back(here);
  }
  // The capture may have begun or ended within the first or the last step; then places in it are not where they seem.
  std::vector<std::int64_t> counts;
  for (const auto& [step, count] : arrivals_of_step)
    if (step >= 0) counts.push_back(count);
  const std::int64_t usual = counts.empty() ? 0 : lower_median(counts);
  const std::int32_t first = 0, last = static_cast<std::int32_t>(steps.start_ns.size()) - 1;
  std::map<std::pair<std::int32_t, std::uint64_t>, std::int32_t> occurrences;
  for (PathArrival& here : path.arrivals) {
    const bool at_the_edge = here.step == first || here.step == last;
    here.whole_step = here.step >= 0 && (!at_the_edge || arrivals_of_step[here.step] >= usual);
    here.occurrence = occurrences[{here.step, here.symbol}]++;
  }
  return path;
}

void set_outcomes(Path& path, std::span<const Outcome> outcomes) {
  for (const Outcome& outcome : outcomes) {
    PathArrival& arrival = path.arrivals[static_cast<std::size_t>(outcome.index)];
    arrival.matched = true;
    arrival.outcome = outcome;
    arrival.blocking = outcome.blocking;
  }
  measure_work(path);
  find_synchronisations(path);
  find_role(path);
}

void tell_stages_apart(Path& path, std::string_view stage) {
  path.role = mix(path.role, hash_of(stage));
}

std::vector<WorkSample> work_samples(const Path& path) {
  std::vector<WorkSample> samples;
  for (std::size_t i = 0; i < path.arrivals.size(); ++i) {
    const PathArrival& arrival = path.arrivals[i];
    if (!arrival.matched || arrival.work_ns == no_time || (arrival.step >= 0 && !arrival.whole_step)) continue;
    WorkSample sample{path.role,
                      arrival.symbol,
                      arrival.occurrence,
                      arrival.step,
                      path.trace_rank,
                      static_cast<std::int32_t>(i),
                      0,
                      arrival.work_ns,
                      surplus_work(arrival),
                      wait_without_surplus(arrival)};
    if (arrival.step < 0) {
      sample.symbol = mix(2, static_cast<std::uint64_t>(arrival.outcome.communicator));
      sample.place = arrival.outcome.sequence;
    }
    samples.push_back(sample);
  }
  return samples;
}

std::vector<UsualWork> usual_work(std::span<const WorkSample> samples) {
  std::vector<std::size_t> order(samples.size());
  std::iota(order.begin(), order.end(), 0);
  const auto key = [&](std::size_t i) {
    return std::tuple(samples[i].role, samples[i].step, samples[i].symbol, samples[i].place);
  };
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::tuple_cat(key(a), std::tuple(samples[a].trace_rank)) <
           std::tuple_cat(key(b), std::tuple(samples[b].trace_rank));
  });
  std::vector<UsualWork> usual(samples.size());
  std::vector<Nanoseconds> work, wait;
  for (std::size_t first = 0; first < order.size();) {
    work.clear();
    wait.clear();
    std::size_t end = first;
    for (; end < order.size() && key(order[end]) == key(order[first]); ++end) {
      work.push_back(samples[order[end]].work_ns - samples[order[end]].surplus_ns);
      wait.push_back(samples[order[end]].wait_ns);
    }
    const bool peers = end - first >= 2;
    const Nanoseconds usual_work_ns = peers ? lower_median(work) : no_time;
    const Nanoseconds usual_wait_ns = peers ? lower_median(wait) : no_time;
    for (; first < end; ++first) {
      const WorkSample& sample = samples[order[first]];
      usual[order[first]] = {sample.trace_rank, sample.index, usual_work_ns, usual_wait_ns};
    }
  }
  return usual;
}

void set_excess(Path& path, std::span<const UsualWork> usual) {
  constexpr std::size_t enough_steps = 4;
  std::map<std::pair<std::uint64_t, std::int32_t>, std::vector<std::size_t>> alone;  // by symbol and occurrence
  for (const UsualWork& u : usual) {
    const auto i = static_cast<std::size_t>(u.index);
    PathArrival& arrival = path.arrivals[i];
    if (u.work_ns == no_time) {
      if (arrival.step >= 0 && !arrival.since_step) alone[{arrival.symbol, arrival.occurrence}].push_back(i);
      continue;
    }
    arrival.compared = true;
    arrival.excess_work_ns = arrival.work_ns - u.work_ns;
    arrival.excess_wait_ns = blocking_wait(arrival) - u.wait_ns;
  }
  std::vector<Nanoseconds> work, wait;
  for (const auto& [place, indices] : alone) {
    if (indices.size() < enough_steps) continue;
    work.clear();
    wait.clear();
    for (const std::size_t i : indices) {
      work.push_back(path.arrivals[i].work_ns - surplus_work(path.arrivals[i]));
      wait.push_back(wait_without_surplus(path.arrivals[i]));
    }
    const Nanoseconds usual_work_ns = lower_median(work), usual_wait_ns = lower_median(wait);
    for (const std::size_t i : indices) {
      PathArrival& arrival = path.arrivals[i];
      arrival.compared = true;
      arrival.excess_work_ns = arrival.work_ns - usual_work_ns;
      arrival.excess_wait_ns = blocking_wait(arrival) - usual_wait_ns;
    }
  }
  add_up_excess(path);
}

}  // namespace nsys_explain::analysis
