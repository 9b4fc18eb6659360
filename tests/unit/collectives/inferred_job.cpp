#include "unit/collectives/inferred_job.hpp"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include "clock/coarse_clocks.hpp"
#include "collectives/layout.hpp"
#include "collectives/matching.hpp"
#include "simulation/exports.hpp"
#include "simulation/simulated_job.hpp"

namespace nsys_explain::collectives::testing {
namespace {

/// What each trace rank recorded, as extract_arrivals leaves it without payload, and which instance each truly is.
struct RecordedJob {
  std::vector<std::vector<TraceArrival>> ranks;
  std::vector<std::vector<std::uint32_t>> truth;
};

RecordedJob record(const synth::SimulatedJob& job, const synth::JobPlan& plan) {
  RecordedJob recorded;
  const auto ranks = static_cast<std::size_t>(plan.layout.ranks());
  recorded.ranks.resize(ranks);
  recorded.truth.resize(ranks);
  std::vector<std::vector<std::pair<TraceArrival, std::uint32_t>>> all(ranks);
  for (const synth::TrueArrival& true_arrival : job.arrivals) {
    const auto rank = static_cast<std::size_t>(true_arrival.rank);
    if (!synth::is_exported(job, plan, true_arrival.rank, true_arrival.activity)) continue;
    const synth::TrueSession& session = job.sessions[job.places[rank].session];
    const auto time = [&](Nanoseconds t) {
      return synth::reported_utc_start_ns(session) - synth::true_epoch_utc_ns + synth::trace_time_ns(session, t);
    };
    const synth::TrueInstance& instance = job.instances[true_arrival.instance];
    TraceArrival arrival;
    arrival.enter = TraceTime(time(true_arrival.enter_ns));
    arrival.exit = TraceTime(time(true_arrival.exit_ns));
    arrival.trace_rank = true_arrival.rank;
    arrival.operation = instance.grouped ? Operation::send_recv : instance.operation;
    arrival.stream = job.ranks[rank].activities[true_arrival.activity].stream;
    arrival.communicator = arrival.stream;
    all[rank].emplace_back(arrival, true_arrival.instance);
  }
  for (std::size_t r = 0; r < ranks; ++r) {
    std::sort(all[r].begin(), all[r].end(), [](const auto& a, const auto& b) {
      return std::tie(a.first.enter, a.first.exit, a.first.communicator) <
             std::tie(b.first.enter, b.first.exit, b.first.communicator);
    });
    std::map<std::uint64_t, std::int32_t> next_position;
    for (auto& [arrival, instance] : all[r]) {
      arrival.index = static_cast<std::int32_t>(recorded.ranks[r].size());
      arrival.position = next_position[arrival.communicator]++;
      recorded.ranks[r].push_back(arrival);
      recorded.truth[r].push_back(instance);
    }
  }
  return recorded;
}

/// Sessions of a node share its clock, if the export tells.
std::vector<clock::SessionTie> ties_of(const synth::SimulatedJob& job, const synth::JobPlan& plan) {
  std::vector<clock::SessionTie> ties;
  for (const synth::TrueSession& session : job.sessions) {
    const bool is_tied = plan.export_style.nsys_version != "2025.5";
    ties.push_back({is_tied ? session.node : -1,
                    synth::reported_utc_start_ns(session) - synth::true_epoch_utc_ns - session.system_clock_ns});
  }
  return ties;
}

std::vector<SequenceSummary> summaries_of(const RecordedJob& recorded) {
  std::vector<SequenceSummary> all;
  for (const std::vector<TraceArrival>& arrivals : recorded.ranks) {
    const auto summaries = summarise_sequences(arrivals, 0, {});
    all.insert(all.end(), summaries.begin(), summaries.end());
  }
  return all;
}

clock::CoarseClocks relate(clock::CoarseClocks clocks) {
  for (auto round = clocks.next_round(); !round.empty(); round = clocks.next_round()) {
    std::vector<clock::SessionRelation> found;
    for (const clock::SessionPair& pair : round) {
      if (const auto relation = clocks.compare(pair)) found.push_back(*relation);
    }
    clocks.accept(found);
  }
  return clocks;
}

std::vector<MatchedBlock> match(RecordedJob& recorded, const synth::SimulatedJob& job, const synth::JobPlan& plan) {
  const SequenceDigests digests = digests_of(summaries_of(recorded));
  std::vector<SampledOperation> samples;
  const clock::TraceClock clock;  // traces begin with the job
  std::vector<SessionTime> times;
  for (const std::vector<TraceArrival>& arrivals : recorded.ranks)
    for (const TraceArrival& arrival : arrivals) times.push_back(clock.session_time(arrival.enter));
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  const SessionTime centre = times[times.size() / 2];
  for (std::size_t r = 0; r < recorded.ranks.size(); ++r) {
    const auto of_rank =
        sample_streams(recorded.ranks[r], clock, static_cast<std::int32_t>(job.places[r].session), centre, 8192);
    samples.insert(samples.end(), of_rank.begin(), of_rank.end());
  }
  const clock::CoarseClocks clocks = relate({recorded_sequences(samples, digests), ties_of(job, plan), centre.ns});
  const Layout layout = choose_layout(samples, digests, clocks, {}, stream_keys);
  for (std::vector<TraceArrival>& arrivals : recorded.ranks) apply_layout(arrivals, layout, stream_keys);

  const std::vector<PlannedCommunicator> planned = plan_communicators(summaries_of(recorded));
  const auto session_of = [&](std::int32_t rank) {
    return static_cast<std::int32_t>(job.places[static_cast<std::size_t>(rank)].session);
  };
  std::vector<MatchedBlock> blocks;
  for (const MatchUnit& unit : plan_units(planned, 1, [](std::int32_t) { return 0; })) {
    const PlannedCommunicator& communicator = planned[static_cast<std::size_t>(unit.communicator)];
    std::vector<JobArrival> arrivals;
    bool is_related = true;
    for (const std::int32_t rank : communicator.trace_ranks) {
      is_related = is_related && clocks.component_of(session_of(rank)) ==
                                     clocks.component_of(session_of(communicator.trace_ranks.front()));
      for (const TraceArrival& arrival : recorded.ranks[static_cast<std::size_t>(rank)]) {
        if (arrival.communicator == communicator.source_key && arrival.position >= unit.first_position &&
            arrival.position < unit.end_position)
          arrivals.push_back({arrival, clock(arrival.enter), clock(arrival.exit)});
      }
    }
    const auto rough = [&](std::int32_t rank, JobTime t) {
      return JobTime(clocks.to_common(session_of(rank), SessionTime(t.ns)));
    };
    blocks.push_back(match_unit(unit, communicator, arrivals, {}, is_related ? RoughTime(rough) : RoughTime()));
  }
  return blocks;
}

}  // namespace

InferredScore infer_simulated(const synth::JobPlan& plan) {
  const synth::SimulatedJob job = synth::simulate(plan);
  RecordedJob recorded = record(job, plan);
  const std::vector<MatchedBlock> blocks = match(recorded, job, plan);
  InferredScore score;
  std::vector<std::int64_t> exported(job.instances.size(), 0), largest(job.instances.size(), 0);
  for (std::size_t r = 0; r < recorded.truth.size(); ++r) {
    for (const std::uint32_t instance : recorded.truth[r]) ++exported[instance];
    for (const TraceArrival& arrival : recorded.ranks[r])
      score.withheld += arrival.communicator == withheld_key ? 1 : 0;
  }
  const auto describe = [&](std::uint32_t instance) {
    const synth::TrueInstance& found = job.instances[instance];
    return fmt::format("{} {} kB of {}", operation_name(found.operation), found.call_bytes / 1'000,
                       job.communicators[found.communicator].ranks.size());
  };
  for (const MatchedBlock& block : blocks) {
    for (const Instance& instance : block.instances) {
      std::map<std::uint32_t, std::int64_t> parts;
      for (const InstanceArrival& arrival : members_of(block, instance))
        ++parts[recorded.truth[static_cast<std::size_t>(arrival.trace_rank)][static_cast<std::size_t>(arrival.index)]];
      for (auto a = parts.begin(); a != parts.end(); ++a) {
        largest[a->first] = std::max(largest[a->first], a->second);
        for (auto b = std::next(a); b != parts.end(); ++b) {
          score.wrong_pairs += a->second * b->second;
          score.mixed[describe(a->first) + " and " + describe(b->first)] += a->second * b->second;
        }
      }
    }
  }
  for (std::size_t i = 0; i < exported.size(); ++i) {
    if (exported[i] < 2) continue;
    const std::int64_t together = largest[i] > 1 ? largest[i] : 0;
    score.present += exported[i];
    score.matched += together;
    if (together < exported[i]) score.missed[describe(static_cast<std::uint32_t>(i))] += exported[i] - together;
  }
  return score;
}

std::ostream& operator<<(std::ostream& out, const InferredScore& score) {
  out << fmt::format("{} of {} matched ({:.2f}%), {} withheld, {} wrong pairs", score.matched, score.present,
                     100 * score.share(), score.withheld, score.wrong_pairs);
  for (const auto& [kind, count] : score.missed) out << fmt::format("\n  missed {} of {}", count, kind);
  for (const auto& [what, pairs] : score.mixed) out << fmt::format("\n  {} wrong pairs: {}", pairs, what);
  return out;
}

}  // namespace nsys_explain::collectives::testing
