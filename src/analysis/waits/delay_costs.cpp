#include "analysis/waits/delay_costs.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "analysis/waits/waits.hpp"

namespace nsys_explain::analysis {
namespace {

__extension__ using Wide = __int128;

/// Waits of one interval that are handed on; the rest are of the size of noise, and there may be hundreds.
constexpr std::size_t most_onward = 16;

/// Blocking arrivals of an interval in which the rank waited longer than its peers, longest first.
std::vector<std::size_t> excess_waits(const Path& path, std::size_t begin, std::size_t end) {
  std::vector<std::size_t> waits;
  for (std::size_t i = begin; i < end; ++i) {
    const PathArrival& arrival = path.arrivals[i];
    if (arrival.blocking && arrival.matched && arrival.excess_wait_ns > 0) waits.push_back(i);
  }
  std::stable_sort(waits.begin(), waits.end(), [&](std::size_t a, std::size_t b) {
    return path.arrivals[a].excess_wait_ns > path.arrivals[b].excess_wait_ns;
  });
  waits.resize(std::min(waits.size(), most_onward));
  return waits;
}

/// Takes `amount` out of what is left, from each of those who wait in proportion: `use(waiting, amount_ns)`, none of
/// them 0. 0 <= amount <= the sum of what is left.
template <class Use>
void take(std::vector<Waiting>& left, Nanoseconds amount, const Use& use) {
  if (amount == 0) return;
  if (amount == total(left)) {
    for (const auto& [waiting, amount_ns] : left)
      if (amount_ns > 0) use(waiting, amount_ns);
    left.clear();
    return;
  }
  std::vector<Nanoseconds> weights;
  weights.reserve(left.size());
  for (const Waiting& part : left) weights.push_back(part.amount_ns);
  const std::vector<Nanoseconds> shares = share_out(amount, weights);
  for (std::size_t k = 0; k < left.size(); ++k) {
    if (shares[k] == 0) continue;
    left[k].amount_ns -= shares[k];
    use(left[k].waiting, shares[k]);
  }
}

/// Charges `inherited` to the last arrivers of the `waits`, in proportion to how long each was.
void hand_on(const Path& path, const std::vector<std::size_t>& waits, std::vector<Waiting>& inherited,
             Settlement& settlement) {
  std::vector<Nanoseconds> excess;
  for (const std::size_t i : waits) excess.push_back(path.arrivals[i].excess_wait_ns);
  const std::vector<Nanoseconds> shares = share_out(total(inherited), excess);
  for (std::size_t k = 0; k < waits.size(); ++k) {
    const Outcome& outcome = path.outcomes[waits[k]];
    take(inherited, shares[k], [&](std::int32_t waiting, Nanoseconds amount_ns) {
      if (outcome.judged) {
        settlement.onward.push_back({outcome.last_trace_rank, outcome.last_index, amount_ns, excess[k], waiting});
      } else {
        settlement.unattributed.push_back({waiting, amount_ns});
      }
    });
  }
}

}  // namespace

Nanoseconds total(std::span<const Waiting> waits) {
  return std::accumulate(waits.begin(), waits.end(), Nanoseconds{0},
                         [](Nanoseconds sum, const Waiting& one) { return sum + one.amount_ns; });
}

void open_claims(const Instance& instance, std::span<const InstanceArrival> members, OpeningClaims& opening) {
  opening.claims.clear();
  opening.untold.clear();
  const auto last = std::find_if(members.begin(), members.end(), [&](const InstanceArrival& member) {
    return member.trace_rank == instance.last_trace_rank;
  });
  const std::int32_t last_index = last == members.end() ? -1 : last->index;
  for (const InstanceArrival& member : members) {
    const Nanoseconds waited_ns = wait_ns(instance, member);
    if (waited_ns == 0) continue;
    (waited_for_last(instance, member) ? opening.claims : opening.untold)
        .push_back({instance.last_trace_rank, last_index, waited_ns, waited_ns, member.trace_rank});
  }
}

namespace {

/// In whole nanoseconds, rounded down, with what rounding left of each; `Product` holds amount times any weight.
template <class Product>
std::vector<Nanoseconds> share_out_in(Nanoseconds amount, std::span<const Nanoseconds> weights, Product sum) {
  std::vector<Nanoseconds> shares(weights.size());
  std::vector<std::pair<Product, std::size_t>> remainders(weights.size());
  Nanoseconds left = amount;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const Product product = static_cast<Product>(amount) * weights[i];
    shares[i] = static_cast<Nanoseconds>(product / sum);
    left -= shares[i];
    remainders[i] = {-(product % sum), i};
  }
  const auto first_without = remainders.begin() + static_cast<std::ptrdiff_t>(left);
  if (left > 0) std::nth_element(remainders.begin(), first_without - 1, remainders.end());
  for (auto remainder = remainders.begin(); remainder != first_without; ++remainder) ++shares[remainder->second];
  return shares;
}

}  // namespace

std::vector<Nanoseconds> share_out(Nanoseconds amount, std::span<const Nanoseconds> weights) {
  const Wide sum = std::accumulate(weights.begin(), weights.end(), Wide{0});
  const Wide largest_product = static_cast<Wide>(amount) * *std::max_element(weights.begin(), weights.end());
  constexpr Nanoseconds most = std::numeric_limits<Nanoseconds>::max();
  if (sum <= most && largest_product <= most) return share_out_in(amount, weights, static_cast<Nanoseconds>(sum));
  return share_out_in(amount, weights, sum);  // division of 128 bits takes ten times as long
}

void explain(const Delay& delay, std::span<const Claim> claims, std::vector<Waiting>& explained,
             std::vector<Waiting>& unexplained) {
  const Nanoseconds delay_ns = delay.own_ns + delay.inherited_ns;
  auto place = explained.begin();
  for (const Claim& claim : claims) {
    Nanoseconds part = claim.amount_ns;
    if (claim.lateness_ns > delay_ns) {
      part = claim.amount_ns == claim.lateness_ns  // as opening claims are
                 ? delay_ns
                 : static_cast<Nanoseconds>(static_cast<Wide>(claim.amount_ns) * delay_ns / claim.lateness_ns);
      if (part < claim.amount_ns) unexplained.push_back({claim.waiting, claim.amount_ns - part});
    }
    if (part == 0) continue;
    // Claims come in order of who waits, or nearly so.
    if (place != explained.begin() && std::prev(place)->waiting >= claim.waiting) place = explained.begin();
    while (place != explained.end() && place->waiting < claim.waiting) ++place;
    if (place == explained.end() || place->waiting != claim.waiting)
      place = explained.insert(place, {claim.waiting, 0});
    place->amount_ns += part;
  }
}

void settle(const Path& path, std::int32_t index, const Delay& delay, std::vector<Waiting>& explained,
            Settlement& settlement) {
  settlement.own.clear();
  settlement.unattributed.clear();
  settlement.onward.clear();
  const Nanoseconds all_explained = total(explained);
  if (all_explained == 0) return;
  const Nanoseconds weights[] = {delay.own_ns, delay.inherited_ns};
  const Nanoseconds own = delay.inherited_ns == 0 ? all_explained : share_out(all_explained, weights)[0];
  take(explained, own, [&](std::int32_t waiting, Nanoseconds amount_ns) {
    settlement.own.push_back({waiting, amount_ns});
  });
  if (own == all_explained) return;
  const auto end = static_cast<std::size_t>(index);
  hand_on(path, excess_waits(path, first_since_tied(path.arrivals[end]), end), explained, settlement);
}

}  // namespace nsys_explain::analysis
