#include "pipeline/read/record_checks.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace nsys_explain::pipeline {
namespace {

template <class Enumeration>
bool is_named(Enumeration value, Enumeration last) {
  return value <= last;  // they begin at 0 and are unsigned
}

/// A byte that is neither 0 nor 1 is no bool, and no program says what becomes of it.
bool is_bool(const bool& value) {
  unsigned char byte = 0;
  std::memcpy(&byte, &value, 1);
  return byte <= 1;
}

/// -1: none.
bool is_place(std::int64_t place, std::size_t size) {
  return place >= -1 && place < static_cast<std::int64_t>(size);
}

/// So far from the ends of the numbers that sums and differences of a few are none either: 146 years from 1970.
bool is_time(Nanoseconds time_ns) {
  constexpr Nanoseconds latest_ns = Nanoseconds{1} << 62;
  return time_ns == no_time || (time_ns > -latest_ns && time_ns < latest_ns);
}

/// In enter order, numbered as Arrival says.
bool are_arrivals(const std::vector<TraceArrival>& arrivals, std::size_t steps) {
  std::map<std::uint64_t, std::int32_t> next_position;
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    const TraceArrival& one = arrivals[i];
    const bool is_named_throughout =
        is_named(one.operation, Operation::barrier) && is_named(one.evidence, Evidence::kernel_name) &&
        is_named(one.timing_source, TimingSource::host_call) && is_named(one.directions, Directions::both);
    const bool is_in_order = one.index == static_cast<std::int64_t>(i) &&
                             one.position == next_position[one.communicator]++ &&
                             (i == 0 || arrivals[i - 1].enter <= one.enter);
    const bool has_times = is_time(one.enter.ns) && is_time(one.exit.ns) && is_time(one.work_ns) &&
                           one.enter.ns != no_time && one.enter <= one.exit;
    const bool has_places = is_place(one.step, steps) && one.peer_or_root >= several_peers && one.call_bytes >= -1;
    if (!is_named_throughout || !is_in_order || !has_times || !has_places || !is_bool(one.blocking) ||
        !is_bool(one.by_tree) || !is_bool(one.continues))
      return false;
  }
  return true;
}

/// What a piece waits for comes before it, so that nobody goes round in circles.
bool are_pieces(const std::vector<analysis::TracePiece>& pieces, std::size_t arrivals) {
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const analysis::TracePiece& one = pieces[i];
    const bool is_collective = one.kind == analysis::PieceKind::collective;
    const bool has_places = std::all_of(one.waits.begin(), one.waits.end(),
                                        [&](const analysis::PieceWait& wait) { return is_place(wait.piece, i); }) &&
                            is_bool(one.inferred) && is_bool(one.contradicted) &&
                            is_place(one.arrival, is_collective ? arrivals : arrivals + 1) &&
                            (!is_collective || one.arrival >= 0);
    if (!is_named(one.kind, analysis::PieceKind::host_wait) || !has_places || !is_time(one.start.ns) ||
        !is_time(one.end.ns)) {
      return false;
    }
  }
  return true;
}

bool are_stretches(const std::vector<analysis::ExposedStretch>& stretches, std::size_t arrivals) {
  return std::all_of(stretches.begin(), stretches.end(), [&](const analysis::ExposedStretch& one) {
    return is_named(one.operation, Operation::barrier) && is_named(one.reason, StandstillReason::not_told) &&
           is_place(one.arrival, arrivals) && is_time(one.start_ns) && is_time(one.end_ns) && is_time(one.exposed_ns);
  });
}

bool are_steps(const analysis::Steps& steps) {
  return is_named(steps.source, analysis::StepSource::periodicity) && is_bool(steps.numbered) &&
         is_time(steps.end_ns) && std::is_sorted(steps.start_ns.begin(), steps.start_ns.end()) &&
         std::all_of(steps.start_ns.begin(), steps.start_ns.end(), is_time);
}

/// Ascending indices of so many steps.
bool are_indices(const std::vector<std::int32_t>& indices, std::size_t steps) {
  return std::is_sorted(indices.begin(), indices.end(), std::less_equal<>()) &&
         (indices.empty() || (indices.front() >= 0 && static_cast<std::size_t>(indices.back()) < steps));
}

bool can_be_read(const LocalRank& rank) {
  const std::size_t arrivals = rank.arrivals.size();
  const std::vector<analysis::TracePiece> pieces = rank.pieces.rows();
  return are_steps(rank.steps) && are_indices(rank.steps_with_more, rank.steps.start_ns.size()) &&
         are_arrivals(rank.arrivals, rank.steps.start_ns.size()) && rank.profiles.rows().size() == arrivals &&
         are_pieces(pieces, arrivals) && are_stretches(rank.exposed.rows(), arrivals) && are_whole(rank.tables);
}

/// What tool ranks agree about rests on these: at least one begin where there are steps, and as many lengths.
bool are_recorded_steps(const analysis::RecordedSteps& steps) {
  const auto is_end = [](Nanoseconds time_ns) {
    return is_time(time_ns) || time_ns == analysis::open_begin_ns || time_ns == analysis::open_end_ns;
  };
  const auto are_times = [&](const std::vector<Nanoseconds>& times, const auto& is_one) {
    return std::all_of(times.begin(), times.end(), is_one) && std::is_sorted(times.begin(), times.end());
  };
  const auto are_finite = [](const std::vector<float>& values) {
    return std::all_of(values.begin(), values.end(), [](float one) { return std::isfinite(one); });
  };
  const bool has_steps = steps.source != analysis::StepSource::none;
  constexpr std::int64_t largest_number = 1'000'000'000;  // as of ranges (step_candidates.cpp)
  return is_named(steps.source, analysis::StepSource::periodicity) && is_bool(steps.numbered) &&
         std::abs(steps.first_number) <= largest_number &&
         (has_steps ? !steps.begin_ns.empty() && steps.begin_ns.front() != no_time && are_times(steps.begin_ns, is_time)
                    : steps.begin_ns.size() <= 1 && are_times(steps.begin_ns, is_end)) &&
         is_end(steps.end_ns) && is_end(steps.cut_off_ns) &&
         steps.own_length.size() == (has_steps ? steps.begin_ns.size() : 0) &&
         steps.length.size() == steps.own_length.size() && are_finite(steps.own_length) && are_finite(steps.length) &&
         steps.usual_ns >= 0 && is_time(steps.usual_ns) && are_times(steps.communication_ns, is_time) &&
         steps.last_exit_ns.size() == steps.own_length.size() &&
         std::all_of(steps.last_exit_ns.begin(), steps.last_exit_ns.end(),
                     [](Nanoseconds time_ns) { return time_ns == no_time || is_time(time_ns); });
}

bool can_be_read(const TraceFacts& facts) {
  const auto is_warning = [](const Warning& one) {
    return is_named(one.severity, Severity::error) && is_named(one.source, WarningSource::analysis);
  };
  const auto is_identity = [&](const TraceRankIdentity& one) {
    return one.key.path == facts.session.path && is_named(one.rank_source, RankSource::file_order) &&
           is_bool(one.is_gpu_presumed) &&
           std::all_of(one.claims.begin(), one.claims.end(),
                       [](const RankClaim& claim) { return is_named(claim.source, RankSource::file_order); });
  };
  const auto is_helper = [&](const HelperProcess& one) {
    return one.key.path == facts.session.path && one.trace_ranks.empty() && is_time(one.busy_ns) &&
           is_time(one.recorded_ns);
  };
  const auto is_process = [](const ingest::ProcessFacts& one) {
    return is_time(one.recorded.start_ns) && is_time(one.recorded.end_ns) && one.collectives >= 0 &&
           one.runs.analysed <= one.runs.pauses.size() &&
           std::all_of(one.runs.pauses.begin(), one.runs.pauses.end(), is_time);
  };
  return std::all_of(facts.helpers.begin(), facts.helpers.end(), is_helper) &&
         std::all_of(facts.processes.begin(), facts.processes.end(), is_process) &&
         is_named(facts.input.status, InputStatus::failed) && is_bool(facts.analysed) &&
         (!facts.analysed || facts.session.path == facts.input.path) && is_time(facts.session.utc_start_ns) &&
         is_time(facts.session.system_clock_ns) && is_time(facts.extent.recorded.start_ns) &&
         is_time(facts.extent.recorded.end_ns) &&
         std::all_of(facts.warnings.begin(), facts.warnings.end(), is_warning) &&
         std::all_of(facts.identities.begin(), facts.identities.end(), is_identity) &&
         std::all_of(facts.hosts.begin(), facts.hosts.end(), is_identity);
}

}  // namespace

bool can_be_read(const LocalTrace& trace) {
  const auto is_known = [&](const auto& steps) {
    return are_recorded_steps(steps.second) && trace.windows.contains(steps.first);
  };
  const auto can_rank_be_read = [](const LocalRank& rank) { return can_be_read(rank); };
  return can_be_read(trace.facts) && std::all_of(trace.recorded_steps.begin(), trace.recorded_steps.end(), is_known) &&
         std::all_of(trace.ranks.begin(), trace.ranks.end(), can_rank_be_read) &&
         std::all_of(trace.hosts.begin(), trace.hosts.end(), can_rank_be_read);
}

}  // namespace nsys_explain::pipeline
