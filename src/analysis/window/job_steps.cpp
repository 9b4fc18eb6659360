#include "analysis/window/steps.hpp"

#include <cmath>
#include <numeric>

#include "analysis/statistics/significance.hpp"
#include "analysis/statistics/statistics.hpp"

namespace nsys_explain::analysis {

namespace {

/// Ranks joined by ties, with what each counts ahead of the first of its group.
class RelatedCounts {
 public:
  explicit RelatedCounts(std::size_t ranks) : parent_(ranks), ahead_(ranks, 0) {
    std::iota(parent_.begin(), parent_.end(), std::size_t{0});
  }
  /// The lowest rank of a group stands for it.
  std::size_t group_of(std::size_t rank) {
    if (parent_[rank] == rank) return rank;
    const std::size_t above = parent_[rank], top = group_of(above);
    if (above != top) ahead_[rank] += ahead_[above];
    return parent_[rank] = top;
  }
  std::int32_t ahead(std::size_t rank) {
    group_of(rank);
    return ahead_[rank];
  }
  void join(std::size_t rank, std::size_t other, std::int32_t other_is_ahead) {
    std::size_t a = group_of(rank), b = group_of(other);
    if (a == b) return;
    std::int32_t b_is_ahead = ahead_[rank] + other_is_ahead - ahead_[other];
    if (b < a) {
      std::swap(a, b);
      b_is_ahead = -b_is_ahead;
    }
    parent_[b] = a;
    ahead_[b] = b_is_ahead;
  }

 private:
  std::vector<std::size_t> parent_;
  std::vector<std::int32_t> ahead_;  ///< of the parent
};

/// Of each two ranks what most instances tell; those that most support first.
std::vector<StepTie> strongest(std::span<const StepTie> ties) {
  std::map<std::tuple<std::int32_t, std::int32_t, std::int32_t>, std::int32_t> instances;
  for (const StepTie& tie : ties) instances[{tie.rank, tie.other, tie.ahead}] += tie.instances;
  std::vector<StepTie> best;
  for (const auto& [key, count] : instances) {
    const auto [rank, other, ahead] = key;
    if (best.empty() || std::pair(best.back().rank, best.back().other) != std::pair(rank, other)) {
      best.push_back({rank, other, ahead, count});
    } else if (count > best.back().instances) {
      best.back() = {rank, other, ahead, count};
    }
  }
  std::stable_sort(best.begin(), best.end(),
                   [](const StepTie& a, const StepTie& b) { return a.instances > b.instances; });
  return best;
}

/// How many steps `other` is ahead of `rank`, by what the programs say, or the clocks.
std::int32_t ahead_without_ties(const OwnSteps& rank, const OwnSteps& other) {
  if (rank.numbered != 0 && other.numbered != 0)
    return static_cast<std::int32_t>(rank.first_number - other.first_number);
  const double steps = static_cast<double>(rank.first_ns - other.first_ns) /
                       static_cast<double>(std::max<Nanoseconds>(1, rank.usual_ns));
  constexpr double most = std::numeric_limits<std::int32_t>::max() / 4.0;
  return static_cast<std::int32_t>(std::lround(std::clamp(steps, -most, most)));
}

/// The steps that some ranks count, [first, end), by the count of their group.
std::pair<std::int64_t, std::int64_t> steps_of(std::span<const OwnSteps> own, const std::vector<std::size_t>& ranks,
                                               RelatedCounts& counts) {
  std::pair<std::int64_t, std::int64_t> range{std::numeric_limits<std::int64_t>::max(),
                                              std::numeric_limits<std::int64_t>::min()};
  for (const std::size_t r : ranks) {
    const std::int64_t first = -std::int64_t{counts.ahead(r)};
    range = {std::min(range.first, first), std::max(range.second, first + own[r].steps)};
  }
  return range;
}

/// Joins to the largest group each one that nothing ties to it and that has steps at its time or by its numbers; others
/// are of another job. Returns a rank of the largest.
std::size_t join_groups(std::span<const OwnSteps> own, RelatedCounts& counts) {
  std::map<std::size_t, std::vector<std::size_t>> groups;
  for (std::size_t r = 0; r < own.size(); ++r)
    if (own[r].steps > 0) groups[counts.group_of(r)].push_back(r);
  if (groups.empty()) return 0;
  const auto largest = std::max_element(groups.begin(), groups.end(), [](const auto& a, const auto& b) {
                         return a.second.size() < b.second.size();
                       })->second;
  const auto spokesman = [&](const std::vector<std::size_t>& group) {
    const auto numbered = std::find_if(group.begin(), group.end(), [&](std::size_t r) { return own[r].numbered != 0; });
    return numbered == group.end() ? group.front() : *numbered;
  };
  const std::size_t rank = spokesman(largest);
  const auto [first, end] = steps_of(own, largest, counts);
  for (const auto& [lowest, group] : groups) {
    const std::size_t other = spokesman(group);
    const std::int32_t ahead = ahead_without_ties(own[rank], own[other]);
    const std::int64_t shift = std::int64_t{counts.ahead(other)} - counts.ahead(rank) - ahead;
    const auto [first_of_it, end_of_it] = steps_of(own, group, counts);
    if (first_of_it + shift < end && end_of_it + shift > first) counts.join(rank, other, ahead);
  }
  return rank;
}

}  // namespace

OwnSteps summarise_steps(std::size_t rank, const Steps& steps) {
  OwnSteps own;
  own.rank = static_cast<std::int64_t>(rank);
  own.steps = std::ssize(steps.start_ns);
  own.source = static_cast<std::int64_t>(steps.source);
  own.numbered = steps.numbered ? 1 : 0;
  own.first_number = steps.first_number;
  if (steps.start_ns.empty()) return own;
  own.first_ns = steps.start_ns.front();
  std::vector<Nanoseconds> durations;
  for (std::size_t i = 0; i < steps.start_ns.size(); ++i)
    durations.push_back((i + 1 < steps.start_ns.size() ? steps.start_ns[i + 1] : steps.end_ns) - steps.start_ns[i]);
  own.usual_ns = lower_median(durations);
  return own;
}

void StepTies::add(std::span<const Member> members) {
  const Member* before = nullptr;
  for (const Member& member : members) {
    if (member.step < 0) continue;
    if (before != nullptr) ++instances_[{before->rank, member.rank, member.step - before->step}];
    before = &member;
  }
}

std::vector<StepTie> StepTies::all() const {
  std::vector<StepTie> ties;
  for (const auto& [key, count] : instances_)
    ties.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key), count});
  return ties;
}

std::vector<std::int32_t> relate_steps(std::span<const OwnSteps> own, std::span<const StepTie> ties) {
  if (own.empty()) return {};
  RelatedCounts counts(own.size());
  for (const StepTie& tie : strongest(ties))
    counts.join(static_cast<std::size_t>(tie.rank), static_cast<std::size_t>(tie.other), tie.ahead);
  const std::size_t of_job = counts.group_of(join_groups(own, counts));
  // Who counts more for the same step began earlier.
  std::vector<std::int32_t> first(own.size(), not_counted);
  std::int32_t earliest = std::numeric_limits<std::int32_t>::max();
  for (std::size_t r = 0; r < own.size(); ++r) {
    if (own[r].steps == 0 || counts.group_of(r) != of_job) continue;
    first[r] = -counts.ahead(r);
    earliest = std::min(earliest, first[r]);
  }
  for (std::int32_t& step : first)
    if (step != not_counted) step -= earliest;
  return first;
}

std::int32_t common_step(std::span<std::int32_t> steps) {
  const auto known = std::partition(steps.begin(), steps.end(), [](std::int32_t step) { return step < 0; });
  if (known == steps.end()) return -1;
  if (std::all_of(known, steps.end(), [&](std::int32_t step) { return step == *known; })) return *known;
  std::sort(known, steps.end());
  std::int32_t best = -1;
  std::ptrdiff_t most = 0;
  for (auto first = known, end = first; first != steps.end(); first = end) {
    end = std::find_if(first, steps.end(), [&](std::int32_t step) { return step != *first; });
    if (end - first > most) std::tie(best, most) = std::pair(*first, end - first);
  }
  return best;
}

void describe_changes(const Steps& job, StepTime& time) {
  std::vector<std::int64_t> durations;
  for (std::size_t step = 1; step < job.start_ns.size(); ++step)
    durations.push_back(job.start_ns[step] - job.start_ns[step - 1]);
  // The last step may be cut off by the end of the capture; of one or two with a range of their own each counts.
  if (job.source == StepSource::nvtx && !job.start_ns.empty() && job.start_ns.size() < 3)
    durations.push_back(job.end_ns - job.start_ns.back());
  if (durations.empty()) return;
  for (const ChangePoint& change : change_points(durations))
    time.change_points.push_back(
        {job.first_number + static_cast<std::int64_t>(change.first), change.before, change.after, change.p_value});
  std::sort(durations.begin(), durations.end());
  time.steps = std::ssize(durations);
  time.median_ns = std::llround(percentile(durations, 0.5));
  time.p95_ns = std::llround(percentile(durations, 0.95));
  time.spread_ns = static_cast<Nanoseconds>(percentile(durations, 0.75) - percentile(durations, 0.25));
}

}  // namespace nsys_explain::analysis
