#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <vector>

#include "nsys_explain/model/collective.hpp"
#include "nsys_explain/model/time.hpp"

namespace nsys_explain::collectives {

/// Operations whose members leave together; a kernel of which nothing is known may be one.
bool may_end_together(Operation operation);

/// One operation on a common clock.
struct TimedOperation {
  Nanoseconds enter_ns = 0;
  Nanoseconds exit_ns = 0;
};

/// The one whose exit is nearest to a time; of operations by exit, at least one.
template <typename Timed>
const Timed& nearest_exit(const std::vector<Timed>& by_exit, Nanoseconds exit_ns) {
  const auto next = std::lower_bound(by_exit.begin(), by_exit.end(), exit_ns,
                                     [](const Timed& operation, Nanoseconds t) { return operation.exit_ns < t; });
  if (next == by_exit.end()) return by_exit.back();
  if (next == by_exit.begin() || next->exit_ns - exit_ns < exit_ns - std::prev(next)->exit_ns) return *next;
  return *std::prev(next);
}

/// How two members' operations of one kind lie against each other. `shift_ns` is the exit difference (b - a) around
/// which most lie: clock error and the members' habit of leaving early or late. A spread is half the width of the
/// narrowest window that holds `agreeing_share` of them (three in four where they are few).
struct ExitAgreement {
  Nanoseconds shift_ns = 0;
  Nanoseconds exit_spread_ns = 0;
  Nanoseconds enter_spread_ns = 0;
  std::size_t pairs = 0;    ///< nearest exits within reach
  double shared_part = 0;   ///< of the operations of the member that did more, those that end with one of the other
  std::size_t covered = 0;  ///< operations of the member that did more, over the time that both cover
  std::size_t apart = 0;    ///< of these, those of which the other's nearest ends more than `far_ns` off
};

/// Of two members in a communicator that share only half of their operations (a pipeline stage with its neighbour), and
/// that lost some, this share still agrees.
inline constexpr double agreeing_share = 0.4;
/// Rough clocks and systematic differences of exits are smaller than this.
inline constexpr Nanoseconds agreement_reach_ns = 200'000;
inline constexpr std::size_t fewest_agreeing_pairs = 4;

/// Compares operations of one symbol, both sorted by exit, over the time that both cover. Empty where fewer than
/// fewest_agreeing_pairs have a nearest exit within reach, or fewer than agreeing_share of either member's.
std::optional<ExitAgreement> exit_agreement(std::span<const TimedOperation> a, std::span<const TimedOperation> b,
                                            Nanoseconds far_ns = 5'000);

/// True where exits agree far better than enters: operations that are merely of the same kind at the same time (those
/// of another group of the same job) agree as well as their enters do, and no better.
bool ends_together(const ExitAgreement& agreement);

/// How much worse than the best agreement of a member another one may be and still be of the same operations. Groups
/// that are coupled through a third one agree with each other, too, but at least twice as badly as their own members:
/// their transfers differ. Few pairs know their spread badly.
double worst_spread_ratio(std::size_t pairs);

}  // namespace nsys_explain::collectives
