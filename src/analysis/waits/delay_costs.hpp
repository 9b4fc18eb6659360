#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/waits/path.hpp"

/// Delay costs (after Boehme et al. 2016, Scalasca): waiting is charged to the delay that caused it, wherever that
/// lies. The last arriver of an instance is late by work beyond that of its peers since it was last tied to those who
/// wait (its own), and by waiting beyond theirs (inherited); the first part stays with it, the second is handed on to
/// the last arrivers of the instances in which it waited. What is more of one and less of the other made nobody late:
/// longer work that only shortened a wait, or a wait after shorter work.
///
/// Example: rank 1 works 100 longer than its peers, then meets rank 0, which waits 100; then rank 0 meets ranks 2 and
/// 3, which wait 100 each. Rank 0 worked no longer than its peers, but waited 100 more: all 200 go on to rank 1, whose
/// cost is 300: 100 of rank 0's waiting, 100 of rank 2's and 100 of rank 3's.
namespace nsys_explain::analysis {

/// Waiting to be charged to the last arriver of an instance. Trivially copyable.
struct Claim {
  std::int32_t trace_rank = -1;  ///< the last arriver
  std::int32_t index = -1;       ///< its arrival
  Nanoseconds amount_ns = 0;     ///< GPU time
  Nanoseconds lateness_ns = 0;   ///< how late the last arriver made the claimant: no smaller delay explains it all
  std::int32_t waiting = -1;     ///< whose waiting it is, wherever the claim has been handed on to: a trace rank, or a
                                 ///< number that stands for one or several
  std::int32_t reserved = 0;
};

/// The claims of those who waited in an instance, all of them on its last arriver; `waiting` is their trace rank. What
/// cannot be charged to anybody, because clocks do not tell, is `untold`.
struct OpeningClaims {
  std::vector<Claim> claims;
  std::vector<Claim> untold;
};
/// Into `opening`, whose memory is used again.
void open_claims(const Instance& instance, std::span<const InstanceArrival> members, OpeningClaims& opening);

/// GPU time that somebody waited.
struct Waiting {
  std::int32_t waiting = -1;  ///< as in Claim
  Nanoseconds amount_ns = 0;
};

Nanoseconds total(std::span<const Waiting> waits);

/// Takes in claims on one arrival, in any order and piece by piece: what its delay explains of them is added to
/// `explained`, which ascends by who waits; the rest is put behind `unexplained`.
void explain(const Delay& delay, std::span<const Claim> claims, std::vector<Waiting>& explained,
             std::vector<Waiting>& unexplained);

/// How what an arrival explains of the claims on it is met; own + unattributed + all of `onward` is its sum, to the
/// nanosecond, for each of those who wait.
struct Settlement {
  std::vector<Waiting> own;           ///< ascending by who waits, none of them 0
  std::vector<Waiting> unattributed;  ///< of waits that the clocks cannot tell from none; in any order
  std::vector<Claim> onward;
};
/// `delay` is that of path.arrivals[index], `explained` what it explains of all claims on it, and is used up. Into
/// `settlement`, whose memory is used again.
void settle(const Path& path, std::int32_t index, const Delay& delay, std::vector<Waiting>& explained,
            Settlement& settlement);

/// Shares `amount` out by weights (not negative, sum above 0) in whole nanoseconds, by largest remainder; ties go to
/// the earlier.
std::vector<Nanoseconds> share_out(Nanoseconds amount, std::span<const Nanoseconds> weights);

}  // namespace nsys_explain::analysis
