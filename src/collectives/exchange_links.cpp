#include "collectives/exchange_links.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>
#include <tuple>

#include "collectives/unevenness.hpp"
#include "nsys_explain/model/algorithms.hpp"
#include "nsys_explain/model/end_model.hpp"

namespace nsys_explain::collectives {
namespace {

/// Ends of exchanges differ by up to some hundred microseconds between two members; beyond that clocks are not common.
constexpr Nanoseconds link_reach_ns = 500'000;
/// Around what two ends always differ by they vary by this at least; by how much, the pairs tell.
constexpr auto even_ns = static_cast<Nanoseconds>(EndModel::spread_ns(0));
/// Fewer pairs than this may be even by chance.
constexpr std::size_t fewest_linked = 6;

struct CandidateLink {
  ExchangeLink link;
  double mean_log_residual = 0;
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  std::vector<double> log_residuals;  ///< of the pairs
  double takes_ns = 0;                ///< the member that an exchange takes less, in the middle
  double log_tolerance = 0;           ///< what an exchange without counterpart differs by at least
};

/// The exchanges of a and b whose exits are nearest to each other, both ways, once b is moved by -offset_ns.
std::vector<std::pair<std::size_t, std::size_t>> nearest_pairs(const MemberExchanges& a, const MemberExchanges& b,
                                                               Nanoseconds offset_ns, Nanoseconds reach_ns) {
  const auto nearest = [reach_ns](const std::vector<Nanoseconds>& exits, Nanoseconds t) -> std::ptrdiff_t {
    const auto next = std::lower_bound(exits.begin(), exits.end(), t);
    std::ptrdiff_t best = -1;
    Nanoseconds least_ns = reach_ns + 1;
    for (const auto& candidate : {next, next == exits.begin() ? exits.end() : std::prev(next)}) {
      if (candidate == exits.end() || std::abs(*candidate - t) >= least_ns) continue;
      least_ns = std::abs(*candidate - t);
      best = candidate - exits.begin();
    }
    return best;
  };
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  for (std::size_t i = 0; i < a.exit_ns.size(); ++i) {
    const std::ptrdiff_t j = nearest(b.exit_ns, a.exit_ns[i] + offset_ns);
    if (j < 0) continue;
    const auto other = static_cast<std::size_t>(j);
    if (nearest(a.exit_ns, b.exit_ns[other] - offset_ns) != static_cast<std::ptrdiff_t>(i)) continue;
    // Both are in it at once.
    if (a.enter_ns[i] + offset_ns > b.exit_ns[other] || b.enter_ns[other] > a.exit_ns[i] + offset_ns) continue;
    pairs.emplace_back(i, other);
  }
  return pairs;
}

/// The middle of the narrowest window of differences that holds `share` of them, and half its width.
std::pair<Nanoseconds, Nanoseconds> narrowest_window(std::vector<Nanoseconds> differences, double share) {
  std::sort(differences.begin(), differences.end());
  const auto held = std::max<std::size_t>(1, static_cast<std::size_t>(share * static_cast<double>(differences.size())));
  std::pair<Nanoseconds, Nanoseconds> best{0, link_reach_ns};
  for (std::size_t first = 0; first + held <= differences.size(); ++first) {
    const Nanoseconds low = differences[first], high = differences[first + held - 1];
    if ((high - low) / 2 < best.second) best = {low + (high - low) / 2, (high - low) / 2};
  }
  return best;
}

/// For that the ends of two members waited for each other. Others that something holds in step end together, too, but
/// then they also enter together.
LogRatio ratio_of_waiting(const CandidateLink& candidate, const MemberExchanges& of_a, const MemberExchanges& of_b) {
  const double bias_ns = end_model(Operation::send_recv).always * candidate.takes_ns;  // of the clock
  std::vector<double> exits, enters;
  for (const auto& [i, j] : candidate.pairs) {
    exits.push_back(static_cast<double>(of_b.exit_ns[j] - of_a.exit_ns[i] - candidate.link.offset_ns));
    const auto later = static_cast<double>(of_b.enter_ns[j] - of_a.enter_ns[i] - candidate.link.offset_ns);
    enters.push_back(std::copysign(std::max(0.0, std::abs(later) - bias_ns), later));
  }
  LogRatio result;
  weigh(exits, enters, result);
  return result;
}

/// How two members' exchanges end, by those left over on both sides; too few pairs: nothing is linked.
CandidateLink candidate_link(std::size_t a, std::size_t b, const MemberExchanges& of_a, const MemberExchanges& of_b) {
  // A stage between two others shares every other exchange with each, and some records are lost.
  constexpr double share = 0.4;
  CandidateLink candidate;
  candidate.link = {a, b, 0, 0, false};
  std::vector<std::pair<std::size_t, std::size_t>> all = nearest_pairs(of_a, of_b, 0, link_reach_ns);
  std::vector<Nanoseconds> differences, takes;
  for (const auto& [i, j] : all) {
    differences.push_back(of_b.exit_ns[j] - of_a.exit_ns[i]);
    takes.push_back(std::min(of_a.exit_ns[i] - of_a.enter_ns[i], of_b.exit_ns[j] - of_b.enter_ns[j]));
  }
  if (all.size() < fewest_linked) return candidate;
  candidate.takes_ns = static_cast<double>(lower_median(takes));
  std::tie(candidate.link.offset_ns, candidate.link.spread_ns) = narrowest_window(differences, share);
  const Nanoseconds tolerance_ns = 4 * std::max(candidate.link.spread_ns, even_ns);
  const auto log_of = [](Nanoseconds residual_ns) {
    return std::log(static_cast<double>(residual_ns) + static_cast<double>(even_ns) / 2);
  };
  candidate.log_tolerance = log_of(tolerance_ns);
  for (const auto& [i, j] : nearest_pairs(of_a, of_b, candidate.link.offset_ns, tolerance_ns)) {
    candidate.pairs.emplace_back(i, j);
    candidate.log_residuals.push_back(log_of(std::abs(of_b.exit_ns[j] - of_a.exit_ns[i] - candidate.link.offset_ns)));
    candidate.mean_log_residual += candidate.log_residuals.back();
  }
  candidate.mean_log_residual /= static_cast<double>(std::max<std::size_t>(1, candidate.pairs.size()));
  candidate.link.waited = ratio_of_waiting(candidate, of_a, of_b).is_clear();
  return candidate;
}

/// How many exchanges of a member lie between the first and the last of another.
std::size_t captured_with(const MemberExchanges& own, const MemberExchanges& other) {
  if (other.exit_ns.empty()) return 0;
  const auto first = std::lower_bound(own.exit_ns.begin(), own.exit_ns.end(), other.exit_ns.front() - link_reach_ns);
  const auto last = std::upper_bound(first, own.exit_ns.end(), other.exit_ns.back() + link_reach_ns);
  return static_cast<std::size_t>(last - first);
}

/// Which exchanges of each member have a counterpart.
using Taken = std::vector<std::vector<bool>>;

std::size_t left_of(const CandidateLink& candidate, const Taken& taken) {
  return static_cast<std::size_t>(std::count_if(candidate.pairs.begin(), candidate.pairs.end(), [&](const auto& pair) {
    return !taken[candidate.link.a][pair.first] && !taken[candidate.link.b][pair.second];
  }));
}

/// Whether the candidate may link its members: enough of it is left, about half of what either did at least.
bool is_link(const CandidateLink& candidate, std::span<const MemberExchanges> members, const Taken& taken) {
  constexpr double least_share = 0.3;
  const std::size_t left = left_of(candidate, taken);
  const std::size_t shared = std::min(captured_with(members[candidate.link.a], members[candidate.link.b]),
                                      captured_with(members[candidate.link.b], members[candidate.link.a]));
  return left >= fewest_linked && static_cast<double>(left) >= least_share * static_cast<double>(shared);
}

/// Candidates, the most even first. Programs lay pipelines out with equal distances between neighbours, so of many
/// members a few are compared with all others, and the rest at the distances found.
std::vector<CandidateLink> candidate_links(std::span<const MemberExchanges> members) {
  constexpr std::size_t most_compared_with_all = 64;
  std::vector<CandidateLink> candidates;
  std::set<std::size_t> distances;
  const std::size_t probes = std::min(members.size(), most_compared_with_all);
  for (std::size_t a = 0; a < members.size(); ++a) {
    for (std::size_t b = a + 1; b < members.size(); ++b) {
      if (a >= probes && !distances.contains(b - a)) continue;
      CandidateLink candidate = candidate_link(a, b, members[a], members[b]);
      if (candidate.pairs.size() < fewest_linked) continue;
      distances.insert(b - a);
      candidates.push_back(std::move(candidate));
    }
  }
  std::stable_sort(candidates.begin(), candidates.end(), [](const CandidateLink& x, const CandidateLink& y) {
    return x.mean_log_residual < y.mean_log_residual;
  });
  return candidates;
}

/// Chooses links among candidates.
class LinkChooser {
 public:
  LinkChooser(std::span<const MemberExchanges> members, std::vector<CandidateLink> candidates)
      : members_(members), candidates_(std::move(candidates)), of_member_(members.size()) {
    for (const MemberExchanges& member : members) taken_.emplace_back(member.exit_ns.size(), false);
    for (std::size_t c = 0; c < candidates_.size(); ++c) {
      of_member_[candidates_[c].link.a].push_back(c);
      of_member_[candidates_[c].link.b].push_back(c);
    }
  }

  ExchangeLinks run() {
    std::vector<const CandidateLink*> chosen;
    for (std::size_t c = 0; c < candidates_.size(); ++c) {
      const CandidateLink& candidate = candidates_[c];
      if (!is_link(candidate, members_, taken_)) continue;
      if (has_rival(c, candidate.link.a) || has_rival(c, candidate.link.b)) continue;
      chosen.push_back(&candidate);
      for (const auto& [i, j] : candidate.pairs) taken_[candidate.link.a][i] = taken_[candidate.link.b][j] = true;
    }
    return unambiguous(chosen);
  }

 private:
  /// The links, and those pairs of theirs of which no other link explains either end.
  ExchangeLinks unambiguous(std::span<const CandidateLink* const> chosen) const {
    std::map<std::pair<std::size_t, std::size_t>, int> explained;  // member, exchange: by so many links
    for (const CandidateLink* candidate : chosen) {
      for (const auto& [i, j] : candidate->pairs) {
        ++explained[{candidate->link.a, i}];
        ++explained[{candidate->link.b, j}];
      }
    }
    ExchangeLinks result;
    for (const CandidateLink* candidate : chosen) {
      const auto [a, b] = std::pair(candidate->link.a, candidate->link.b);
      result.links.push_back(candidate->link);
      for (const auto& [i, j] : candidate->pairs) {
        if (explained.at({a, i}) == 1 && explained.at({b, j}) == 1) result.pairs.push_back({a, b, i, j});
      }
    }
    return result;
  }

  /// By exchange of the member that is not taken; NaN where the candidate has none.
  std::vector<double> residuals_at(const CandidateLink& candidate, std::size_t member) const {
    std::vector<double> residuals(taken_[member].size(), std::nan(""));
    for (std::size_t p = 0; p < candidate.pairs.size(); ++p) {
      const auto& [i, j] = candidate.pairs[p];
      if (!taken_[candidate.link.a][i] && !taken_[candidate.link.b][j])
        residuals[candidate.link.a == member ? i : j] = candidate.log_residuals[p];
    }
    return residuals;
  }

  /// Whether another candidate explains half of the same exchanges of the member and is not clearly less even in them.
  bool has_rival(std::size_t c, std::size_t member) const {
    constexpr double clear = 4;  // standard errors: chance exceeds that once in thirty thousand times
    const std::vector<double> own = residuals_at(candidates_[c], member);
    for (const std::size_t other : of_member_[member]) {
      if (other == c || !is_link(candidates_[other], members_, taken_)) continue;
      const std::vector<double> its = residuals_at(candidates_[other], member);
      double sum = 0, squares = 0, count = 0, shared = 0;
      for (std::size_t i = 0; i < own.size(); ++i) {
        if (std::isnan(own[i])) continue;
        const double advantage = (std::isnan(its[i]) ? candidates_[other].log_tolerance : its[i]) - own[i];
        sum += advantage;
        squares += advantage * advantage;
        count += 1;
        shared += std::isnan(its[i]) ? 0 : 1;
      }
      if (2 * shared < count) continue;
      const double mean = sum / count, variance = std::max(1e-6, squares / count - mean * mean);
      if (mean < clear * std::sqrt(variance / count)) return true;
    }
    return false;
  }

  std::span<const MemberExchanges> members_;
  std::vector<CandidateLink> candidates_;
  std::vector<std::vector<std::size_t>> of_member_;  ///< candidates
  Taken taken_;
};

}  // namespace

ExchangeLinks link_exchanges(std::span<const MemberExchanges> members) {
  return LinkChooser(members, candidate_links(members)).run();
}

}  // namespace nsys_explain::collectives
