#include <algorithm>
#include <iterator>
#include <numeric>
#include <unordered_map>

#include "analysis/waits/rank_timeline.hpp"
#include "nsys_explain/model/algorithms.hpp"
#include "nsys_explain/model/intervals.hpp"

namespace nsys_explain::analysis {

namespace {

/// What starts within this time of something else started, or was let go by its end, at that moment.
constexpr Nanoseconds moment_ns = 20'000;

/// When each arrival was ready: at its enter, or where it had queued behind a collective beside which compute went on,
/// be it while that one queued itself, once all that was launched before it was done, as on a peer whose collective was
/// over by then.
std::vector<Nanoseconds> ready_times(const RankTimeline& timeline, std::span<const WorkProfile> profiles) {
  std::vector<Nanoseconds> ready_ns;
  ready_ns.reserve(timeline.arrivals.size());
  std::vector<Nanoseconds> exits;   // of the collectives with compute beside them that go on
  Nanoseconds latest_ns = no_time;  // of the exits of those that are over
  for (std::size_t i = 0; i < timeline.arrivals.size(); ++i) {
    const TimelineArrival& arrival = timeline.arrivals[i];
    std::erase_if(exits, [&](Nanoseconds exit_ns) {
      const bool is_over = exit_ns <= arrival.enter.ns;
      if (is_over) latest_ns = latest_ns == no_time ? exit_ns : std::max(latest_ns, exit_ns);
      return is_over;
    });
    const bool held_up = latest_ns != no_time && arrival.enter.ns - latest_ns < moment_ns;
    const Nanoseconds queued_ns{profiles[i].queued_ns};
    ready_ns.push_back(arrival.enter.ns - (held_up ? queued_ns : 0));
    const Nanoseconds compute_beside_ns = Nanoseconds{profiles[i].compute_beside_ns} - (held_up ? 0 : queued_ns);
    if (!arrival.blocking || arrival.beside_compute || compute_beside_ns > moment_ns) exits.push_back(arrival.exit.ns);
  }
  return ready_ns;
}

/// When compute stood still for a collective, which is no work: by end. It may have gone on beside the collective
/// before it waited for it. Whether others stood still does not matter: ends of collectives differ. `ready_ns`: of
/// ready_times.
std::vector<Interval> find_stalls(const RankTimeline& timeline, std::span<const WorkProfile> profiles,
                                  std::span<const Nanoseconds> ready_ns) {
  std::vector<Interval> stalls;
  for (std::size_t i = 0; i < timeline.arrivals.size(); ++i) {
    const TimelineArrival& arrival = timeline.arrivals[i];
    if (arrival.beside_compute) continue;
    const Nanoseconds launched_ns = arrival.enter.ns - Nanoseconds{profiles[i].queued_ns};
    const Nanoseconds start_ns = std::max(ready_ns[i], launched_ns + Nanoseconds{profiles[i].compute_beside_ns});
    stalls.push_back({std::min(start_ns, arrival.exit.ns), arrival.exit.ns});
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
    auto position = order.end();  // most are ready when they enter
    while (position != order.begin() && ready_ns[*std::prev(position)] >= ready_ns[i] + moment_ns) --position;
    order.insert(position, i);
  }
  return order;
}

}  // namespace

void measure_work(RankTimeline& timeline, std::span<const WorkProfile> profiles) {
  const std::vector<Nanoseconds> ready_ns = ready_times(timeline, profiles);
  const std::vector<Interval> stalls = find_stalls(timeline, profiles, ready_ns);
  timeline.by_readiness = order_by_readiness(ready_ns);
  Nanoseconds before_moment_ns = no_time, latest_ns = no_time;  // ready, of the moment before and of all so far
  auto next_stall = stalls.begin();
  for (const std::uint32_t i : timeline.by_readiness) {
    TimelineArrival& arrival = timeline.arrivals[i];
    const Nanoseconds until_ns = std::max(ready_ns[i], latest_ns);
    while (next_stall != stalls.end() && next_stall->end_ns <= until_ns) ++next_stall;
    const std::span<const Interval> ended(stalls.begin(), next_stall);
    const Nanoseconds begin_ns = ended.empty() ? timeline.first_step_ns : ended.back().end_ns;
    arrival.same_moment = latest_ns != no_time && until_ns - latest_ns < moment_ns && begin_ns <= latest_ns;
    if (!arrival.same_moment) before_moment_ns = latest_ns;
    if (begin_ns != no_time && begin_ns <= until_ns) {
      arrival.work_ns = work_between(before_moment_ns == no_time ? begin_ns : before_moment_ns, until_ns, ended);
      arrival.since_step = ended.empty();
    }
    latest_ns = until_ns;
  }
}

namespace {

/// Reorders. 0 where none is known.
Nanoseconds median_of_known(std::span<Nanoseconds> times) {
  const auto unknown = std::partition(times.begin(), times.end(), [](Nanoseconds time) { return time != no_time; });
  return unknown == times.begin() ? 0 : lower_median(std::span(times.begin(), unknown));
}

/// Numbers of the samples' positions, equal where peers meet; in the order in which positions come first. Ranks of one
/// role go through the same positions in the same order, so where the last one went from the same position is tried
/// first.
std::vector<std::uint32_t> number_positions(std::span<const WorkSample> samples) {
  std::unordered_map<std::uint64_t, std::uint32_t> known;
  std::vector<std::uint64_t> positions;   // by number
  std::vector<std::uint32_t> went_on_to;  // from each position
  std::vector<std::uint32_t> numbers(samples.size());
  std::uint32_t before = 0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    std::uint32_t& next = numbers[i];
    if (i > 0 && positions[went_on_to[before]] == samples[i].position) {
      next = went_on_to[before];
    } else {
      const auto [entry, is_new] = known.try_emplace(samples[i].position, static_cast<std::uint32_t>(positions.size()));
      next = entry->second;
      if (is_new) {
        positions.push_back(samples[i].position);
        went_on_to.push_back(0);
      }
    }
    went_on_to[before] = next;
    before = next;
  }
  return numbers;
}

}  // namespace

std::vector<UsualWork> usual_work(std::span<const WorkSample> samples, bool with_transfers) {
  const std::vector<std::uint32_t> position = number_positions(samples);
  const std::size_t positions =
      position.empty() ? 0 : std::size_t{*std::max_element(position.begin(), position.end())} + 1;
  std::vector<std::size_t> first(positions + 2,
                                 0);  // of each position's samples; shifted by one until they are filled in
  for (const std::uint32_t p : position) ++first[p + 2];
  std::partial_sum(first.begin(), first.end(), first.begin());
  std::vector<Nanoseconds> work(samples.size()), wait(samples.size()), transfer(with_transfers ? samples.size() : 0);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const std::size_t at = first[position[i] + 1]++;
    work[at] = samples[i].work_ns;
    wait[at] = samples[i].wait_ns;
    if (with_transfers) transfer[at] = samples[i].transfer_ns;
  }
  std::vector<UsualWork> of_position(positions);
  for (std::size_t p = 0; p < positions; ++p) {
    const std::size_t count = first[p + 1] - first[p];
    if (count < 2) continue;
    of_position[p].work_ns = lower_median(std::span(work).subspan(first[p], count));
    of_position[p].wait_ns = median_of_known(std::span(wait).subspan(first[p], count));
    of_position[p].transfer_ns = with_transfers ? lower_median(std::span(transfer).subspan(first[p], count)) : 0;
  }
  std::vector<UsualWork> usual(samples.size());
  for (std::size_t i = 0; i < samples.size(); ++i) usual[i] = of_position[position[i]];
  return usual;
}

}  // namespace nsys_explain::analysis
