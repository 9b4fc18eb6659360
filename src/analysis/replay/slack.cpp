#include "analysis/replay/slack.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

#include "analysis/statistics/statistics.hpp"
#include "model/schema/links.hpp"

namespace nsys_explain::analysis {
namespace {

/// Goes back in time through what waits for what; a piece is met after all that waits for it.
class WayBackFromCompute {
 public:
  explicit WayBackFromCompute(const JobGraph& graph) : graph_(graph), of_instance_(graph.instances(), not_bound) {
    for (std::size_t r = 0; r < graph.ranks.size(); ++r) bound_by_steps(r);
  }

  std::vector<Nanoseconds> slack() {
    const std::vector<std::uint32_t> order = graph_.events_by_time();
    for (auto event = order.rbegin(); event != order.rend(); ++event)
      *event % 2 == 1 ? leave(*event / 2) : start(*event / 2);
    return std::move(of_instance_);
  }

 private:
  static constexpr Nanoseconds not_bound = std::numeric_limits<Nanoseconds>::max();

  /// What a step leaves is taken up by the next: a collective may last until compute begins after the last one of its
  /// step. Where no step is known, and of all else, until the end of the run.
  void bound_by_steps(std::size_t r) {
    std::map<std::int32_t, JobTime> last_exit;  // by step
    std::vector<JobTime> compute_starts;
    for (const JobPiece& piece : graph_.ranks[r].pieces)
      if (piece.kind == PieceKind::compute) compute_starts.push_back(piece.start);
    std::sort(compute_starts.begin(), compute_starts.end());
    for (const ReplayArrival& arrival : graph_.ranks[r].arrivals) {
      JobTime& last = last_exit.try_emplace(arrival.step, arrival.exit).first->second;
      last = std::max(last, arrival.exit);
    }
    for (const JobPiece& piece : graph_.ranks[r].pieces) {
      JobTime until(graph_.end_ns);
      if (piece.kind == PieceKind::collective) {
        const std::int32_t step = graph_.ranks[r].arrivals[static_cast<std::size_t>(piece.arrival)].step;
        const auto next = step < 0 ? compute_starts.end()
                                   : std::lower_bound(compute_starts.begin(), compute_starts.end(), last_exit[step]);
        if (next != compute_starts.end()) until = std::min(until, *next);
      }
      after_end_.push_back(std::max<Nanoseconds>(0, until - piece.end));
    }
  }

  /// Members that left before the last one entered did not take part in what followed.
  void leave(std::size_t p) {
    const std::uint32_t instance = graph_.instance_of[p];
    if (graph_.piece(p).end >= last_enter(instance))
      of_instance_[instance] = std::min(of_instance_[instance], after_end_[p]);
  }

  void start(std::size_t p) {
    const JobPiece& here = graph_.piece(p);
    const Nanoseconds slack_ns = slack_of_start(p);
    for (std::size_t w = 0; w < here.waits.size(); ++w)
      bound(graph_.waited_for(p, w), here.waits[w].slack_ns, slack_ns);
    bound(graph_.host_wait_before[p], here.after_host_ns, slack_ns);
  }

  /// How much later the piece could have begun; compute not at all.
  Nanoseconds slack_of_start(std::size_t p) const {
    const JobPiece& here = graph_.piece(p);
    if (here.kind == PieceKind::compute) return 0;
    if (here.kind == PieceKind::host_wait) return after_end_[p];
    const std::uint32_t instance = graph_.instance_of[p];
    // One that enters before the last may come later by that, too.
    const Nanoseconds of_instance_ns = of_instance_[instance];
    if (of_instance_ns == not_bound) return after_end_[p];
    return of_instance_ns + (last_enter(instance) - here.start);
  }

  void bound(std::int32_t before, std::uint32_t after_ns, Nanoseconds slack_ns) {
    if (before < 0 || after_ns == no_bound) return;
    Nanoseconds& after_end_ns = after_end_[static_cast<std::size_t>(before)];
    after_end_ns = std::min(after_end_ns, slack_ns + after_ns);
  }

  JobTime last_enter(std::uint32_t instance) const { return graph_.members_of(instance).back().enter; }

  const JobGraph& graph_;
  std::vector<Nanoseconds> after_end_;    ///< by piece: how much later it could have ended
  std::vector<Nanoseconds> of_instance_;  ///< the least of its members met so far
};

/// Collectives of one row of the table.
struct SlackClass {
  std::vector<std::int64_t> transfer_ns, slack_ns;
  std::vector<double> required_gbs, measured_gbs;  ///< bus bandwidth; empty where sizes are not recorded
  std::int64_t without_slack = 0;
  std::int32_t members = 0;
};

/// From the last enter until the first exit after it.
Nanoseconds transfer_of(std::span<const JobGraph::Member> members) {
  constexpr JobTime never(std::numeric_limits<Nanoseconds>::max());
  JobTime exit = never;
  for (const JobGraph::Member& member : members)
    if (member.exit > members.back().enter) exit = std::min(exit, member.exit);
  return exit == never ? 0 : exit - members.back().enter;
}

std::int64_t rounded(double value) {
  return static_cast<std::int64_t>(std::llround(value));
}

double quantile(std::vector<double> values, double share) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto place = static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size()))) - 1;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(place), values.end());
  return values[place];
}

}  // namespace

std::vector<Nanoseconds> slack_of_instances(const JobGraph& graph) {
  return WayBackFromCompute(graph).slack();
}

Table slack_table(const JobGraph& graph, std::span<const CollectiveSize> sizes, std::span<const std::string> names) {
  constexpr double most = 0.9;
  const std::vector<Nanoseconds> slack = slack_of_instances(graph);
  std::map<std::tuple<std::int64_t, Operation, std::int64_t>, SlackClass> classes;
  for (std::uint32_t i = 0; i < graph.instances(); ++i) {
    const std::span<const JobGraph::Member> members = graph.members_of(i);
    const std::int64_t instance = graph.arrival_of(members.front().piece).instance;
    const auto size =
        std::lower_bound(sizes.begin(), sizes.end(), instance,
                         [](const CollectiveSize& a, std::int64_t wanted) { return a.instance < wanted; });
    const Nanoseconds transfer_ns = transfer_of(members);
    if (size == sizes.end() || size->instance != instance || transfer_ns <= 0) continue;
    const bool sized = size->message_bytes > 0;
    SlackClass& of = classes[{
        instance >> 32, size->operation,
        sized ? static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(size->message_bytes))) : -1}];
    of.members = std::max(of.members, static_cast<std::int32_t>(members.size()));
    of.transfer_ns.push_back(transfer_ns);
    of.slack_ns.push_back(slack[i]);
    of.without_slack += slack[i] == 0 ? 1 : 0;
    if (!sized) continue;
    const double bytes =
        bus_bandwidth_factor(size->operation, std::ssize(members)) * static_cast<double>(size->message_bytes);
    of.measured_gbs.push_back(bytes / static_cast<double>(transfer_ns));
    of.required_gbs.push_back(bytes / static_cast<double>(transfer_ns + slack[i]));
  }
  Table table = make_table(schema::slack);
  RowWriter rows(table);
  for (auto& [key, of] : classes) {
    const auto& [communicator, operation, from_bytes] = key;
    std::sort(of.transfer_ns.begin(), of.transfer_ns.end());
    std::sort(of.slack_ns.begin(), of.slack_ns.end());
    rows << std::string_view(names[static_cast<std::size_t>(communicator)]) << operation_name(operation) << from_bytes
         << std::int64_t{of.members} << static_cast<std::int64_t>(of.slack_ns.size()) << of.without_slack
         << rounded(percentile(of.transfer_ns, 0.5)) << rounded(percentile(of.slack_ns, 1 - most))
         << rounded(percentile(of.slack_ns, 0.5)) << quantile(of.required_gbs, most) << quantile(of.measured_gbs, 0.5);
  }
  return table;
}

}  // namespace nsys_explain::analysis
