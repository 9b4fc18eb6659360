#include "analysis/replay/excess.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <span>
#include <utility>

#include "model/hash.hpp"
#include "nsys_explain/model/algorithms.hpp"

namespace nsys_explain::analysis {
namespace {

constexpr std::size_t enough_peers = 2, enough_steps = 4;

/// What one arrival took of something.
struct ComparedValue {
  const ReplayArrival* of = nullptr;
  std::uint32_t arrival = 0;  ///< of all
  std::uint32_t rank = 0;
  bool is_first = false;       ///< of its rank
  Nanoseconds value_ns = 0;    ///< what is compared
  Nanoseconds surplus_ns = 0;  ///< what it took besides

  // Positions where it may be compared; 0: none.
  std::uint64_t position() const { return of->position; }
  std::uint64_t met_position() const { return is_first ? 0 : of->met_position; }
  std::uint64_t own_position() const { return of->own_position; }
};

/// Calls `use(values)` with those of each position, in the order that they are in.
template <class Value, class Use>
void for_each_position(const std::vector<Value>& values, std::uint64_t (Value::*position)() const, const Use& use) {
  std::vector<std::pair<std::uint64_t, std::uint32_t>> order;  // position and index: values are five times as large
  order.reserve(values.size());
  for (const Value& value : values) order.emplace_back((value.*position)(), static_cast<std::uint32_t>(order.size()));
  std::sort(order.begin(), order.end());
  std::vector<Value> here;
  for (std::size_t first = 0, end = 0; first < order.size(); first = end) {
    here.clear();
    for (; end < order.size() && order[end].first == order[first].first; ++end)
      here.push_back(values[order[end].second]);
    use(std::span<const Value>(here));
  }
}

Nanoseconds mean_of(const std::vector<Nanoseconds>& times) {
  return std::accumulate(times.begin(), times.end(), Nanoseconds{0}) / std::ssize(times);
}

/// Sets the excess over the median, or mean, of each position where enough are compared; the others stay in `values`.
void compare_by(std::uint64_t (ComparedValue::*position)() const, std::size_t enough,
                std::vector<ComparedValue>& values, std::vector<Nanoseconds>& excess_ns, bool over_mean = false) {
  std::vector<ComparedValue> left;
  std::vector<Nanoseconds> times;
  for_each_position(values, position, [&](std::span<const ComparedValue> alike) {
    if ((alike.front().*position)() == 0 || alike.size() < enough) {
      left.insert(left.end(), alike.begin(), alike.end());
      return;
    }
    times.clear();
    for (const ComparedValue& value : alike) times.push_back(value.value_ns);
    const Nanoseconds usual_ns = over_mean ? mean_of(times) : lower_median(times);
    for (const ComparedValue& value : alike) excess_ns[value.arrival] = value.value_ns + value.surplus_ns - usual_ns;
  });
  values = std::move(left);
}

/// Where records were lost, which of its kind an arrival is of those in its step is not known; what they took together
/// is. What is left of that beyond peers goes to those in `values`, which are not compared otherwise, by their parts.
void compare_steps(std::span<const ComparedValue> all, std::vector<ComparedValue>& values,
                   std::vector<Nanoseconds>& excess_ns) {
  struct OfStep {
    Nanoseconds total_ns = 0, told_ns = 0, untold_ns = 0;
    Nanoseconds usual_ns = no_time;
  };
  if (values.empty()) return;
  std::vector<bool> is_untold(excess_ns.size(), false);
  for (const ComparedValue& value : values) is_untold[value.arrival] = true;
  std::map<std::pair<std::uint64_t, std::uint32_t>, OfStep> steps;
  for (const ComparedValue& value : all) {
    if (value.of->step_position == 0) continue;
    OfStep& step = steps[{value.of->step_position, value.rank}];
    step.total_ns += value.value_ns;
    (is_untold[value.arrival] ? step.untold_ns : step.told_ns) +=
        is_untold[value.arrival] ? value.value_ns : excess_ns[value.arrival] - value.surplus_ns;
  }
  std::vector<Nanoseconds> totals;
  for (auto first = steps.begin(), end = first; first != steps.end(); first = end) {
    totals.clear();
    for (; end != steps.end() && end->first.first == first->first.first; ++end) totals.push_back(end->second.total_ns);
    if (totals.size() < enough_peers) continue;
    const Nanoseconds usual_ns = lower_median(totals);
    for (auto step = first; step != end; ++step) step->second.usual_ns = usual_ns;
  }
  std::vector<ComparedValue> left;
  for (const ComparedValue& value : values) {
    const auto found = steps.find({value.of->step_position, value.rank});
    if (found == steps.end() || found->second.usual_ns == no_time || found->second.untold_ns <= 0) {
      left.push_back(value);
      continue;
    }
    const OfStep& step = found->second;
    const auto beyond_ns = static_cast<double>(step.total_ns - step.usual_ns - step.told_ns);
    excess_ns[value.arrival] =
        value.surplus_ns +
        static_cast<Nanoseconds>(beyond_ns * static_cast<double>(value.value_ns) / static_cast<double>(step.untold_ns));
  }
  values = std::move(left);
}

/// By arrival of all: beyond peers at the same program position, in the same step or in the same collective, or
/// where there are none, beyond the same position in other steps, which shows what passes but not what lasts.
std::vector<Nanoseconds> excess_of(const std::vector<ComparedValue>& all, std::size_t arrivals) {
  std::vector<ComparedValue> values = all;
  std::vector<Nanoseconds> excess_ns(arrivals, 0);
  compare_by(&ComparedValue::position, enough_peers, values, excess_ns);
  compare_steps(all, values, excess_ns);
  compare_by(&ComparedValue::met_position, enough_peers, values, excess_ns);
  for (const ComparedValue& value : values) excess_ns[value.arrival] = value.surplus_ns;
  compare_by(&ComparedValue::own_position, enough_steps, values, excess_ns);
  return excess_ns;
}

/// By arrival of all: beyond the same position in the next step.
std::vector<Nanoseconds> excess_over_next_step(const std::vector<ComparedValue>& values, std::size_t arrivals) {
  std::vector<Nanoseconds> excess_ns(arrivals, 0);
  for_each_position(values, &ComparedValue::own_position, [&](std::span<const ComparedValue> alike) {
    for (std::size_t i = 0; alike.front().own_position() != 0 && i + 1 < alike.size(); ++i) {
      const ComparedValue &here = alike[i], &next = alike[i + 1];
      if (next.of->step != here.of->step + 1) continue;
      excess_ns[here.arrival] = here.value_ns + here.surplus_ns - next.value_ns - next.surplus_ns;
    }
  });
  return excess_ns;
}

/// By arrival of all: beyond the mean of peers at the same program position.
std::vector<Nanoseconds> excess_over_mean(const std::vector<ComparedValue>& all, std::size_t arrivals) {
  std::vector<ComparedValue> values = all;
  std::vector<Nanoseconds> excess_ns(arrivals, 0);
  compare_by(&ComparedValue::position, enough_peers, values, excess_ns, true);
  return excess_ns;
}

/// What an amount comes to in parts of so many nanoseconds each: as large a share of each. Exact.
void share_evenly(Nanoseconds amount_ns, std::span<const std::pair<Nanoseconds*, Nanoseconds>> parts) {
  Nanoseconds all_ns = 0;
  for (const auto& [part, of_ns] : parts) all_ns += of_ns;
  for (const auto& [part, of_ns] : parts) {
    if (all_ns <= 0) return;
    const auto share_ns =
        static_cast<Nanoseconds>(static_cast<long double>(amount_ns) * static_cast<long double>(of_ns) / all_ns);
    *part += share_ns;
    amount_ns -= share_ns;
    all_ns -= of_ns;
  }
}

/// From the longest part first: a pause is one part.
void share_to_longest(Nanoseconds amount_ns, std::vector<std::pair<Nanoseconds*, Nanoseconds>>& parts) {
  std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  for (const auto& [part, of_ns] : parts) {
    const Nanoseconds share_ns = std::min(amount_ns, of_ns);
    *part += share_ns;
    amount_ns -= share_ns;
    if (amount_ns <= 0) return;
  }
}

/// What every arrival took, by arrival of all, and what is compared of it.
class ArrivalComparison {
 public:
  explicit ArrivalComparison(const JobGraph& graph) : graph_(graph), first_arrival_(1, 0) {
    for (const ReplayRank& rank : graph.ranks) first_arrival_.push_back(first_arrival_.back() + rank.arrivals.size());
    for (auto* sums : {&gpu_ns_, &copy_ns_, &host_ns_}) sums->resize(first_arrival_.back(), 0);
    transfer_ns_.resize(first_arrival_.back(), no_time);
    for (std::size_t p = 0; p < graph.pieces(); ++p)
      if (const std::size_t arrival = arrival_of(p); arrival != none) add(p, arrival);
  }

  /// Beyond peers, where transfers over slow links count; or over the next step, where all transfers do.
  std::vector<PieceExcess> excess(Usual usual, const RunAll& run_all) const {
    const bool over_next_step = usual == Usual::next_step;
    const auto compare = over_next_step         ? &excess_over_next_step
                         : usual == Usual::mean ? &excess_over_mean
                                                : &excess_of;
    std::vector<Nanoseconds> gpu_ns, copy_ns, host_ns, transfer_ns;
    std::vector<HostExcess> host_parts_ns(graph_.pieces());
    const auto compare_others = [&](const std::vector<Nanoseconds>& values_ns) {
      if (usual == Usual::mean) return std::vector<Nanoseconds>(first_arrival_.back(), 0);
      return compare(compared(values_ns), first_arrival_.back());
    };
    run_all({[&] {
               if (usual == Usual::median) host_parts_ns = excess_of_host_parts();
             },
             [&] { gpu_ns = compare(compared(gpu_ns_, usual != Usual::mean), first_arrival_.back()); },
             [&] { copy_ns = compare_others(copy_ns_); }, [&] { host_ns = compare_others(host_ns_); },
             [&] { transfer_ns = compare_others(transfer_ns_); }});
    std::vector<PieceExcess> excess(graph_.pieces());
    Parts gpu_parts, copy_parts, host_parts, late_parts;
    for (std::size_t p = 0; p < graph_.pieces(); ++p) {
      const JobPiece& here = graph_.piece(p);
      if (here.gpu_ns > 0) gpu_parts.emplace_back(&excess[p].gpu_ns, here.gpu_ns);
      if (here.copy_ns > 0) copy_parts.emplace_back(&excess[p].gpu_ns, here.copy_ns);
      host_parts.emplace_back(&excess[p].host_ns, here.host_ns);
      if (here.after_ns > 0) host_parts.emplace_back(&excess[p].after_ns, here.after_ns);
      if (host_parts_ns[p].host_ns > 0) late_parts.emplace_back(&excess[p].host_ns, host_parts_ns[p].host_ns);
      if (host_parts_ns[p].after_ns > 0) late_parts.emplace_back(&excess[p].after_ns, host_parts_ns[p].after_ns);
      const bool is_last = p + 1 == graph_.pieces() || graph_.rank_of[p + 1] != graph_.rank_of[p];
      if (here.kind != PieceKind::collective && !is_last) continue;
      if (const std::size_t arrival = arrival_of(p); arrival != none) {
        // Ends of transfers differ from member to member on healthy links, too (see links.hpp).
        if (here.kind == PieceKind::collective && (over_next_step || graph_.arrival_of(p).slow_link))
          excess[p].gpu_ns = transfer_ns[arrival];
        share_evenly(gpu_ns[arrival], gpu_parts);
        share_to_longest(copy_ns[arrival], copy_parts);
        if (late_parts.empty() || host_ns[arrival] <= 0) {
          share_to_longest(host_ns[arrival], host_parts);
        } else {
          share_evenly(host_ns[arrival], late_parts);
        }
      }
      for (Parts* parts : {&gpu_parts, &copy_parts, &host_parts, &late_parts}) parts->clear();
    }
    return excess;
  }

 private:
  using Parts = std::vector<std::pair<Nanoseconds*, Nanoseconds>>;
  static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

  /// That the work of a piece lies before.
  std::size_t arrival_of(std::size_t p) const {
    const std::size_t r = graph_.rank_of[p];
    const std::size_t arrival = first_arrival_[r] + static_cast<std::size_t>(graph_.piece(p).arrival);
    return arrival < first_arrival_[r + 1] ? arrival : none;
  }

  /// Of the parts of the host's work before an arrival, where peers have as many: which of them takes longer.
  struct HostExcess {
    Nanoseconds host_ns = 0, after_ns = 0;
  };

  std::vector<HostExcess> excess_of_host_parts() const {
    std::vector<std::uint64_t> count(first_arrival_.back(), 0), next = count;
    for (std::size_t p = 0; p < graph_.pieces(); ++p)
      if (const std::size_t arrival = arrival_of(p); arrival != none) ++count[arrival];
    std::vector<std::uint64_t> positions(graph_.pieces(), 0);  // 0: not compared
    for (std::size_t p = 0; p < graph_.pieces(); ++p) {
      const std::size_t arrival = arrival_of(p);
      if (arrival == none || graph_.arrival_of(p).position == 0) continue;
      // Spread by Fibonacci hashing.
      positions[p] = ((graph_.arrival_of(p).position ^ (count[arrival] << 32U | next[arrival]++)) * golden_ratio) | 1U;
    }
    std::vector<HostExcess> excess(graph_.pieces());
    compare_pieces(positions, &ActivityPiece::host_ns, &HostExcess::host_ns, excess);
    compare_pieces(positions, &ActivityPiece::after_ns, &HostExcess::after_ns, excess);
    return excess;
  }

  /// Sets what each piece took beyond the median of those at its position, where enough are compared.
  void compare_pieces(const std::vector<std::uint64_t>& positions, std::uint32_t ActivityPiece::*part,
                      Nanoseconds HostExcess::*result, std::vector<HostExcess>& excess) const {
    struct ComparedPiece {
      std::uint64_t at;
      std::uint32_t arrival;  ///< number of the piece
      std::uint32_t value_ns;
      std::uint64_t position() const { return at; }
    };
    std::vector<ComparedPiece> pieces;
    pieces.reserve(positions.size());
    for (std::size_t p = 0; p < positions.size(); ++p)
      if (positions[p] != 0) pieces.push_back({positions[p], static_cast<std::uint32_t>(p), graph_.piece(p).*part});
    std::vector<Nanoseconds> times;
    for_each_position(pieces, &ComparedPiece::position, [&](std::span<const ComparedPiece> alike) {
      if (alike.size() < enough_peers) return;
      times.clear();
      for (const ComparedPiece& one : alike) times.push_back(one.value_ns);
      const Nanoseconds usual_ns = lower_median(times);
      for (const ComparedPiece& one : alike) excess[one.arrival].*result = one.value_ns - usual_ns;
    });
  }

  void add(std::size_t p, std::size_t arrival) {
    const JobPiece& here = graph_.piece(p);
    gpu_ns_[arrival] += Nanoseconds{here.gpu_ns} - here.contention_ns;
    copy_ns_[arrival] += here.copy_ns;
    host_ns_[arrival] += Nanoseconds{here.host_ns} + here.after_ns;
    if (here.kind != PieceKind::collective) return;
    const JobTime latest_enter = graph_.members_of(graph_.instance_of[p]).back().enter;
    transfer_ns_[arrival] = std::max<Nanoseconds>(0, here.end - latest_enter);
  }

  /// Values by arrival of all, but for no_time. `less_surplus`: what is compared is without the surplus.
  std::vector<ComparedValue> compared(const std::vector<Nanoseconds>& values_ns, bool less_surplus = false) const {
    std::vector<ComparedValue> values;
    values.reserve(values_ns.size());
    for (std::size_t r = 0; r < graph_.ranks.size(); ++r) {
      const std::span<const ReplayArrival> arrivals = graph_.ranks[r].arrivals;
      for (std::size_t i = 0; i < arrivals.size(); ++i) {
        const std::size_t arrival = first_arrival_[r] + i;
        const Nanoseconds value_ns = values_ns[arrival];
        if (value_ns == no_time) continue;
        const Nanoseconds surplus_ns = less_surplus ? std::min(arrivals[i].surplus_ns, value_ns) : 0;
        values.push_back({&arrivals[i], static_cast<std::uint32_t>(arrival), static_cast<std::uint32_t>(r), i == 0,
                          value_ns - surplus_ns, surplus_ns});
      }
    }
    return values;
  }

  const JobGraph& graph_;
  std::vector<std::size_t> first_arrival_;                             ///< of each rank; one entry more
  std::vector<Nanoseconds> gpu_ns_, copy_ns_, host_ns_, transfer_ns_;  ///< by arrival of all; no_time: none
};

/// What the host took too long since its latest wait is late together.
std::vector<PieceExcess> added_up(const JobGraph& graph, std::vector<PieceExcess> excess) {
  Nanoseconds since_wait_ns = 0;
  for (std::size_t p = 0; p < excess.size(); ++p) {
    if (p == graph.first_piece[graph.rank_of[p]]) since_wait_ns = 0;
    excess[p].host_ns = since_wait_ns += excess[p].host_ns;
    if (graph.piece(p).kind == PieceKind::host_wait) since_wait_ns = 0;
  }
  return excess;
}

}  // namespace

std::vector<PieceExcess> find_excess(const JobGraph& graph, Usual usual, const RunAll& run_all) {
  return added_up(graph, ArrivalComparison(graph).excess(usual, run_all));
}

}  // namespace nsys_explain::analysis
