#include "collectives/exit_agreement.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "collectives/clock_map.hpp"

namespace nsys_explain::collectives {
namespace {

struct Window {
  Nanoseconds centre_ns = 0;
  Nanoseconds half_width_ns = 0;
};

std::size_t agreeing_count(std::size_t operations) {
  constexpr std::size_t few = 6;
  const auto share = static_cast<std::size_t>(std::ceil(agreeing_share * static_cast<double>(operations)));
  return std::max(share, std::min(few, (3 * operations + 3) / 4));
}

/// Takes out what the rough clock missed of the drift: over the whole run it may be more than exits differ.
void remove_trend(std::vector<Nanoseconds>& differences, const std::vector<Nanoseconds>& times) {
  constexpr std::size_t fewest_for_slope = 8;
  if (times.size() < fewest_for_slope) return;
  const Nanoseconds middle_ns = times[times.size() / 2];
  std::vector<double> x, y;
  for (std::size_t i = 0; i < times.size(); ++i) {
    x.push_back(static_cast<double>(times[i] - middle_ns));
    y.push_back(static_cast<double>(differences[i]));
  }
  const ClockLine line = fit_line(x, y, middle_ns, true);
  for (std::size_t i = 0; i < times.size(); ++i)
    differences[i] -= std::llround(line.slope * static_cast<double>(times[i] - middle_ns));
}

/// The narrowest window that holds `count` of the values.
Window narrowest(std::vector<Nanoseconds> values, std::size_t count) {
  std::sort(values.begin(), values.end());
  Window best{0, std::numeric_limits<Nanoseconds>::max()};
  for (std::size_t first = 0; first + count <= values.size(); ++first) {
    const Nanoseconds width = values[first + count - 1] - values[first];
    if (width / 2 < best.half_width_ns) best = {values[first] + width / 2, width / 2};
  }
  return best;
}

std::span<const TimedOperation> within(std::span<const TimedOperation> all, Nanoseconds from_ns, Nanoseconds to_ns) {
  const auto before = [](const TimedOperation& o, Nanoseconds t) { return o.exit_ns < t; };
  const auto first = std::lower_bound(all.begin(), all.end(), from_ns, before);
  const auto end = std::lower_bound(first, all.end(), to_ns, before);
  return {first, end};
}

}  // namespace

bool may_end_together(Operation operation) {
  return is_synchronising(operation) || operation == Operation::send_recv || operation == Operation::unknown;
}

std::optional<ExitAgreement> exit_agreement(std::span<const TimedOperation> a, std::span<const TimedOperation> b,
                                            Nanoseconds far_ns) {
  if (a.size() < fewest_agreeing_pairs || b.size() < fewest_agreeing_pairs) return std::nullopt;
  const Nanoseconds from_ns = std::max(a.front().exit_ns, b.front().exit_ns) - agreement_reach_ns;
  const Nanoseconds to_ns = std::min(a.back().exit_ns, b.back().exit_ns) + agreement_reach_ns;
  a = within(a, from_ns, to_ns);
  b = within(b, from_ns, to_ns);
  const bool swapped = b.size() < a.size();
  if (swapped) std::swap(a, b);
  std::vector<Nanoseconds> exits, enters, times;
  std::size_t next = 0;
  for (const TimedOperation& one : a) {
    while (next + 1 < b.size() &&
           std::abs(b[next + 1].exit_ns - one.exit_ns) <= std::abs(b[next].exit_ns - one.exit_ns)) {
      ++next;
    }
    if (next == b.size() || std::abs(b[next].exit_ns - one.exit_ns) > agreement_reach_ns) continue;
    exits.push_back(b[next].exit_ns - one.exit_ns);
    enters.push_back(b[next].enter_ns - one.enter_ns);
    times.push_back(one.exit_ns);
  }
  const std::size_t agreeing = agreeing_count(a.size());
  if (static_cast<double>(exits.size()) < agreeing_share * static_cast<double>(b.size())) return std::nullopt;
  if (exits.size() < fewest_agreeing_pairs || exits.size() < agreeing) return std::nullopt;
  remove_trend(exits, times);
  remove_trend(enters, times);
  ExitAgreement result;
  result.pairs = exits.size();
  const Window exit = narrowest(exits, agreeing);
  result.shift_ns = swapped ? -exit.centre_ns : exit.centre_ns;
  result.exit_spread_ns = exit.half_width_ns;
  result.enter_spread_ns = narrowest(enters, agreeing).half_width_ns;
  const auto within_ns = [&](Nanoseconds reach_ns) {
    return static_cast<std::size_t>(std::count_if(
        exits.begin(), exits.end(), [&](Nanoseconds e) { return std::abs(e - exit.centre_ns) <= reach_ns; }));
  };
  result.shared_part = static_cast<double>(within_ns(std::max<Nanoseconds>(1'000, 4 * exit.half_width_ns))) /
                       static_cast<double>(b.size());
  result.covered = b.size();
  result.apart = b.size() - within_ns(far_ns);
  return result;
}

double worst_spread_ratio(std::size_t pairs) {
  return 1.4 + 2.5 / std::sqrt(static_cast<double>(pairs));
}

bool ends_together(const ExitAgreement& agreement) {
  constexpr Nanoseconds widest_spread_ns = 25'000;
  return agreement.exit_spread_ns <= widest_spread_ns && 2 * agreement.exit_spread_ns <= agreement.enter_spread_ns;
}

}  // namespace nsys_explain::collectives
