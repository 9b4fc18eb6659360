#include "analysis/replay/sampled_steps.hpp"

#include <algorithm>
#include <numeric>

#include "analysis/statistics/significance.hpp"
#include "model/hash.hpp"

namespace nsys_explain::analysis {
namespace {

/// In one run the first is not counted; of the others all but two predict the next (measure_error), eight then.
constexpr std::size_t fewest_chosen = fewest_samples + 3;
/// A fifth of the steps is not counted then; longer runs would be fewer.
constexpr std::size_t steps_of_run = 5;

/// One run in each equal part, not at the same place of it: what a program does every ten steps would lie in all runs,
/// or in none. Multiples of the golden ratio spread evenly, too.
std::vector<bool> evenly_spread(std::size_t chosen, std::size_t steps) {
  const std::size_t runs = std::min(chosen / steps_of_run, (chosen - fewest_samples - 1) / 2);
  std::vector<bool> is_chosen(steps, false);
  for (std::size_t run = 0; run < runs; ++run) {
    const std::size_t length = chosen * (run + 1) / runs - chosen * run / runs;
    const std::size_t part = steps * run / runs, part_end = steps * (run + 1) / runs;
    const std::size_t room = std::max(part_end, part + length) - part - length;
    const std::size_t place = ((run + 1) * golden_ratio >> 32U) * room >> 32U;
    const std::size_t first = std::min(part + place, steps - length);
    std::fill_n(is_chosen.begin() + static_cast<std::ptrdiff_t>(first), length, true);
  }
  return is_chosen;
}

/// New numbers of those kept, by old number; -1: left out.
template <class IsKept>
std::vector<std::int32_t> numbers_of_kept(std::size_t count, const IsKept& is_kept) {
  std::vector<std::int32_t> numbers(count, -1);
  std::int32_t next = 0;
  for (std::size_t i = 0; i < count; ++i)
    if (is_kept(i)) numbers[i] = next++;
  return numbers;
}

template <class Row>
void leave_out(std::vector<Row>& rows, const std::vector<std::int32_t>& numbers) {
  std::size_t next = 0;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (numbers[i] >= 0) rows[next++] = rows[i];
  rows.resize(next);
}

}  // namespace

std::vector<bool> sampled_steps(std::span<const std::int64_t> arrivals, std::int64_t most) {
  const std::int64_t all = std::accumulate(arrivals.begin(), arrivals.end(), std::int64_t{0});
  if (all <= most) return std::vector<bool>(arrivals.size(), true);
  const auto share = static_cast<double>(most) / static_cast<double>(all);
  auto chosen = static_cast<std::size_t>(share * static_cast<double>(arrivals.size()));
  for (; chosen >= fewest_chosen; --chosen) {
    std::vector<bool> steps = evenly_spread(chosen, arrivals.size());
    std::int64_t held = 0;
    for (std::size_t step = 0; step < steps.size(); ++step) held += steps[step] ? arrivals[step] : 0;
    if (held <= most) return steps;
  }
  return std::vector<bool>(arrivals.size(), false);
}

void keep_steps(const std::vector<bool>& steps, std::vector<ReplayArrival>& arrivals, std::vector<JobPiece>& pieces) {
  const std::vector<std::int32_t> arrival_numbers = numbers_of_kept(arrivals.size(), [&](std::size_t a) {
    const std::int32_t step = arrivals[a].step;
    return step >= 0 && static_cast<std::size_t>(step) < steps.size() && steps[static_cast<std::size_t>(step)];
  });
  const auto arrival_of = [&](const JobPiece& piece) {
    const auto arrival = static_cast<std::size_t>(piece.arrival);
    return arrival < arrival_numbers.size() ? arrival_numbers[arrival] : -1;  // of none: behind the last
  };
  const std::vector<std::int32_t> piece_numbers =
      numbers_of_kept(pieces.size(), [&](std::size_t p) { return arrival_of(pieces[p]) >= 0; });
  for (std::size_t p = 0; p < pieces.size(); ++p) {
    if (piece_numbers[p] < 0) continue;
    pieces[p].arrival = arrival_of(pieces[p]);
    for (PieceWait& wait : pieces[p].waits) {
      if (!wait.is_one()) continue;
      wait.piece = piece_numbers[static_cast<std::size_t>(wait.piece)];
      if (wait.piece < 0) wait = {};
    }
  }
  leave_out(arrivals, arrival_numbers);
  leave_out(pieces, piece_numbers);
}

}  // namespace nsys_explain::analysis
