#include "analysis/verdict/stragglers.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "model/text.hpp"

namespace nsys_explain::analysis {
namespace {

std::string describe_balance(const StageBalance& stage) {
  const auto ms = [](Nanoseconds time_ns) { return static_cast<double>(time_ns) * 1e-6; };
  return fmt::format(
      "the stage computes {:.3f} ms in every span of steps, the median of the other stages {:.3f} ms; kernels of equal name, grid and block that other stages run take {:.2f} times as long here; kernels of this stage alone, such as embedding or loss ({:.3f} ms), are not counted (table stage_balance)",
      ms(stage.kernel_ns), ms(stage.others_kernel_ns),
      static_cast<double>(stage.shared_ns) / static_cast<double>(stage.others_shared_ns),
      ms(stage.kernel_ns - stage.shared_ns));
}

/// What the delays of a place cost.
Nanoseconds cost_of(const Place& place, std::span<const RankSummary> ranks) {
  Nanoseconds cost = 0;
  for (const std::size_t r : place.ranks) cost += ranks[r].caused_wait_ns;
  return cost;
}

}  // namespace

double share_of_windows(Nanoseconds cost, std::span<const RankSummary> ranks) {
  Nanoseconds windows = 0;
  for (const RankSummary& rank : ranks) windows += rank.budget.window_ns;
  return windows > 0 ? static_cast<double>(cost) / static_cast<double>(windows) : 0;
}

Straggler describe(const Place& place, double p_value, std::span<const RankSummary> ranks, const Totals& totals) {
  Straggler straggler;
  straggler.level = place.level;
  straggler.place = place.name;
  straggler.also = place.also;
  straggler.p_value = p_value;
  straggler.cost_share = share_of_windows(cost_of(place, ranks), ranks);
  const std::size_t worst = *std::max_element(
      place.ranks.begin(), place.ranks.end(),
      [&](std::size_t a, std::size_t b) { return ranks[a].caused_wait_ns < ranks[b].caused_wait_ns; });
  straggler.trace_rank = ranks[worst].trace_rank;
  std::int64_t last = 0, resolved = 0, expected_ppb = 0, own_last = 0;
  Nanoseconds caused_lateness_ns = 0;
  RankSpan span;
  for (const std::size_t r : place.ranks) {
    const RankTotals& t = totals.ranks[r];
    straggler.trace_ranks.push_back(ranks[r].trace_rank);
    straggler.own_lateness_ns += t.own_lateness_ns;
    straggler.caused_wait_ns += t.caused_wait_ns;
    straggler.delay_cost_ns += ranks[r].caused_wait_ns;
    last += t.last_arrivals;
    resolved += t.resolved;
    expected_ppb += t.expected_last_ppb;
    own_last += t.own_last_arrivals;
    caused_lateness_ns += t.caused_lateness_ns;
    span.first_ns = std::min(span.first_ns, totals.spans[r].first_ns);
    span.last_ns = std::max(span.last_ns, totals.spans[r].last_ns);
  }
  straggler.last_share = resolved > 0 ? static_cast<double>(last) / static_cast<double>(resolved) : 0;
  straggler.first_ns = own_last > 0 ? span.first_ns : no_time;
  straggler.last_ns = own_last > 0 ? span.last_ns : no_time;
  const double by_chance = static_cast<double>(expected_ppb) * 1e-9;
  straggler.evidence.push_back(
      place.ranks.size() == 1
          ? fmt::format("last in {} of {} collectives, in {:.0f} of them by chance", last, resolved, by_chance)
          : fmt::format("one of them is last in {} collectives, in {:.0f} of them by chance", last, by_chance));
  if (own_last > 0) {
    straggler.evidence.push_back(
        fmt::format("in {} of them at least half of its lateness came of its work before, {:.3f} ms on average",
                    own_last, static_cast<double>(caused_lateness_ns) * 1e-6 / static_cast<double>(own_last)));
  }
  return straggler;
}

void add_proof(const Place& place, const JobDelays& delays, Straggler& straggler) {
  const double p_value = straggler.p_value;
  if (slow_by_kernels(place, delays) == p_value) {
    double ratio = 0;
    for (const std::size_t r : place.ranks) ratio += delays.speed[r].ratio / static_cast<double>(place.ranks.size());
    straggler.evidence.push_back(fmt::format(
        "kernels of equal name, grid and block take {:.3f} times as long as on its peers (tables gpu_speed and kernel_peers); {}",
        ratio, p_value_equation(p_value)));
    return;
  }
  if (const StageBalance* stage = find_overfull_stage(delays, place.ranks)) {
    straggler.evidence.push_back(describe_balance(*stage));
    if (stage->p_value == p_value) return;
  }
  straggler.evidence.push_back(fmt::format("{} ({} {})", p_value_equation(p_value), delays.bins,
                                           !delays.by_step               ? "spans of time"
                                           : delays.bins == delays.steps ? "steps"
                                                                         : "spans of whole steps"));
}

}  // namespace nsys_explain::analysis
