#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "clock/level_zero.hpp"
#include "nsys_explain/model/collective.hpp"
#include "nsys_explain/model/diagnostic.hpp"
#include "nsys_explain/model/identity.hpp"
#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain::clock {

/// No two clocks are known better than this: exits carry steps of 32 ns and an unknown share of systematic error.
inline constexpr double least_uncertainty_ns = 5;

/// Errors that the fitted clocks may have, drawn from their covariance. Errors that two sessions share, because both
/// hang on the same third one, cancel in their difference; single uncertainties could not tell.
struct ClockErrors {
  std::vector<Nanoseconds> at_ns;  ///< job times, ascending, at least two; errors are linear between them
  std::size_t draws = 0;           ///< 0: nothing was fitted
  std::vector<float> error_ns;     ///< [(session * at_ns.size() + time) * draws + draw]
  std::vector<float> tie_ns;       ///< per session: what its host's clock adds to them (host_ties.hpp); empty: nothing
  std::vector<std::int32_t> fitted_graph;  ///< per session; errors of equal numbers can be subtracted; -1: not fitted
};

/// One standard uncertainty, rounded up, of the difference of two times near `at_ns` of two different sessions of one
/// component. From the drawn errors where one graph of collectives relates them (known to 10-20 % by the number of
/// draws), else from their uncertainties as if independent.
Nanoseconds difference_uncertainty_ns(const std::vector<SessionClock>& clocks, const ClockErrors& errors,
                                      std::size_t session_a, std::size_t session_b, Nanoseconds at_ns);

/// One member's part in a matched instance; session time.
struct ObservedMember {
  Nanoseconds enter_ns = 0;
  Nanoseconds exit_ns = 0;
  std::int32_t session = 0;  ///< index into the sessions given to fit_clocks; several members may share one
};

/// One matched instance: members [first_member, first_member + members) of Observations.
struct ObservedInstance {
  Operation operation = Operation::unknown;
  std::uint32_t kernel_name_hash = 0;  ///< tells algorithm and protocol apart; 0 where unknown
  bool by_tree = false;                ///< NCCL's tree: its members leave one by one
  std::int64_t message_bytes = -1;     ///< -1 unknown
  std::int64_t first_member = 0;
  std::int32_t members = 0;
  std::int32_t communicator = -1;  ///< index into Observations::communicators; -1: not known
};

/// What one tool rank owns. Every instance is whole, and on one tool rank only; which one does not matter.
struct Observations {
  std::vector<ObservedInstance> instances;
  std::vector<ObservedMember> members;
  /// Sessions of each communicator, the same on every tool rank; all members of its instances are among them. Says who
  /// is observed together, which the solver goes by (communicator_clocks.hpp).
  std::vector<std::vector<std::int32_t>> communicators;
};

/// Element-wise over the tool ranks' vectors of equal length, result on every rank. Every rank calls both equally
/// often.
struct Reduction {
  using Combine = std::function<std::vector<std::int64_t>(std::span<const std::int64_t>)>;
  Combine sum;
  Combine maximum;

  static Reduction serial();
};

/// A fit is believed if exits held out of it agree better than this (median). Members of one instance leave within one
/// step of NCCL's ring or tree of each other: 512 KiB (NCCL_BUFFSIZE 4 MiB in 8 steps), which the slowest link in use,
/// 5 GB/s (40 Gb/s), carries in 100 us; measured medians are 0.3 to 20 us. Over sockets they leave up to milliseconds
/// apart, but never longer than the operation takes its last member (quality.cpp), so that is believed, too. Exits of
/// operations that do not belong together differ by the time between operations. Beyond the limit many matches must be
/// wrong, and clocks fitted to them would pass for knowledge; so only host clocks (and UTC, where the user vouches for
/// it) relate sessions then, and the residual and an error say why. Where the user forces a method, it is used.
inline constexpr Nanoseconds largest_credible_residual_ns = 100'000;

struct ClockFit {
  ClockReport report;  ///< sessions in the order given
  ClockErrors errors;  ///< of the sessions in that order
  std::vector<Warning> warnings;
};

/// Offset and drift of every session from the exits of matched synchronising collectives, which all members leave at
/// nearly the same true time (docs/method.md). The model, with session s and instance c of class k:
///
///     exit(c, s) = m(c) + offset(s) + drift(s) * (m(c) - pivot) + bias(s, k) + noise of scale(k)
///
/// m(c) is eliminated exactly; scales and weights are robust (Huber, then Tukey), so wrong matches do not count. The
/// bias of a session's exits from a class is a random effect, whose spread follows from how much they vary and how long
/// the class takes (docs/method.md, "How members leave"): classes that take least decide the offsets, while all help
/// with the drift. Sessions on one host's
/// clock count as one session, unless collectives contradict that (host_ties.hpp). Operations that do not synchronise,
/// and all-to-all, are used only between sessions that nothing better relates, with a warning.
///
/// Collective over the tool ranks of `reduction`. The result is equal bit for bit on every rank and for every
/// distribution and order of observations: whatever is summed across instances is summed in integers. Memory is
/// O(own observations + sessions + memberships of communicators); nothing of size sessions squared exists.
///
/// `uncertainty_ns` is one standard uncertainty of the offset to the component's reference at the pivot: the
/// M-estimator's sandwich covariance propagated through the graph, including what biases may contribute. Drifts of a
/// component are reported only if one of them is significant; otherwise they are 0. In runs of two minutes and more
/// drifts may change along the run (SessionClock::bends), where that is significant for any session.
ClockFit fit_clocks(std::span<const Session> sessions, Observations observations, const Reduction& reduction,
                    const ClockOptions& options = {});

}  // namespace nsys_explain::clock
