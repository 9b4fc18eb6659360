#include "pipeline/attribute/exposed_time.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace nsys_explain::pipeline {
namespace {

/// A stretch that lies on both sides of the latest enter belongs to them by the lengths of its parts.
void add_stretch(const LocalRank& rank, std::span<const WorkProfile> profiles, const analysis::ExposedStretch& stretch,
                 ExposedTime& sum) {
  const auto of = [&](CollectivePhase phase) -> Nanoseconds& {
    return sum.duration_ns[static_cast<std::size_t>(phase)][static_cast<std::size_t>(stretch.reason)];
  };
  const auto arrival = static_cast<std::size_t>(stretch.arrival);
  if (stretch.arrival < 0 || !rank.path.outcomes[arrival].matched) {
    of(CollectivePhase::unmatched) += stretch.exposed_ns;
    return;
  }
  if (!rank.path.outcomes[arrival].split_told) {
    of(CollectivePhase::inconclusive) += stretch.exposed_ns;
    return;
  }
  const Nanoseconds latest_enter_ns = profiles[arrival].enter_ns + rank.path.outcomes[arrival].wait_ns;
  const Nanoseconds length_ns = stretch.end_ns - stretch.start_ns,
                    before_ns = std::clamp<Nanoseconds>(latest_enter_ns - stretch.start_ns, 0, length_ns);
  const auto skew_ns = before_ns == length_ns
                           ? stretch.exposed_ns
                           : static_cast<Nanoseconds>(static_cast<double>(stretch.exposed_ns) *
                                                      static_cast<double>(before_ns) / static_cast<double>(length_ns));
  of(CollectivePhase::arrival_skew) += skew_ns;
  of(CollectivePhase::transfer) += stretch.exposed_ns - skew_ns;
}

}  // namespace

std::vector<ExposedTime> gather_exposed_time(const exchange::Communicator& communicator,
                                             std::vector<LocalTrace>& local_traces) {
  std::vector<ExposedTime> mine;
  for (LocalTrace& trace : local_traces) {
    for (LocalRank& rank : trace.ranks) {
      std::map<Operation, ExposedTime> sums;
      const std::vector<WorkProfile> profiles = rank.profiles.rows();
      for (const analysis::ExposedStretch& stretch : rank.exposed.rows())
        add_stretch(rank, profiles, stretch, sums[stretch.operation]);
      rank.exposed.release();
      for (auto& [operation, sum] : sums) {
        sum.trace_rank = rank.trace_rank;
        sum.operation = operation;
        mine.push_back(sum);
      }
    }
  }
  std::vector<ExposedTime> all = communicator.gather(std::span<const ExposedTime>(mine)).values;
  std::sort(all.begin(), all.end(), [](const ExposedTime& a, const ExposedTime& b) {
    return std::tie(a.trace_rank, a.operation) < std::tie(b.trace_rank, b.operation);
  });
  return all;
}

}  // namespace nsys_explain::pipeline
