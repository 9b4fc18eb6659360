#include "pipeline/investigate/moments.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "analysis/tables/tables.hpp"
#include "clock/job_clock.hpp"
#include "clock/level_zero.hpp"
#include "model/schema/job.hpp"
#include "nsys_explain/ingest/ingest.hpp"
#include "nsys_explain/model/algorithms.hpp"
#include "pipeline/tool_rank/pack.hpp"

namespace nsys_explain::pipeline {
namespace {

/// Late trace ranks that have a moment of their own. Each costs another look at some four traces.
constexpr std::size_t most_late_moments = 3;

/// The late one, its peer, and who waited longest.
constexpr std::size_t most_trace_ranks = 4;

/// Of one trace rank in one moment. The page writes an event in some 16 bytes: 4 x 4 x 1,500 of them are 0.4 megabytes.
constexpr std::size_t most_events = 1'500;

/// Where no steps are known, work before a collective stands for one.
constexpr Nanoseconds shortest_span_ns = 1'000'000;

/// One trace rank of one moment, to be read. Trivially copyable.
struct Seat {
  std::int32_t moment = 0;
  std::int32_t place = 0;  ///< index into Moment::trace_ranks
  std::int32_t trace_rank = -1;
  std::int32_t reserved = 0;
  Nanoseconds at_ns = 0;
  Interval window;
};

/// What was seen from one seat.
struct View {
  std::int32_t moment = 0, place = 0;
  std::vector<TimelineEvent> events;
  std::vector<std::string> names;
  std::int64_t left_out = 0;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(moment, place, events, names, left_out);
  }
};

Nanoseconds usual_step_ns(const StepStarts& steps) {
  std::vector<Nanoseconds> lengths;
  for (std::size_t s = 0; s < steps.start_ns.size(); ++s)
    lengths.push_back((s + 1 < steps.start_ns.size() ? steps.start_ns[s + 1] : steps.end_ns) - steps.start_ns[s]);
  return lengths.empty() ? 0 : upper_median(lengths);
}

Interval around(Nanoseconds at_ns, Nanoseconds span_ns) {
  return {at_ns - std::max(span_ns, shortest_span_ns), at_ns + std::max(span_ns, shortest_span_ns)};
}

/// Those who waited longest in the collective, as far as the page lists its members, then those in the whole job for
/// whom the late one's delays cost most.
std::vector<std::int32_t> who_waited(const JobReport& report, const Moment& moment) {
  std::vector<std::pair<Nanoseconds, std::int32_t>> here, in_all;  // by negated wait
  for (const CollectiveDetail& one : report.detail.collectives) {
    if (one.instance != moment.instance) continue;
    for (const InstanceArrival& arrival : one.arrivals)
      here.emplace_back(-wait_ns(one.summary, arrival), arrival.trace_rank);
  }
  if (const Table* table = find_table(report.tables, schema::wait_matrix)) {
    const auto& late = column(*table, schema::wait_matrix.late_trace_rank);
    const auto& waiting = column(*table, schema::wait_matrix.waiting_trace_rank);
    const auto& cost_ns = column(*table, schema::wait_matrix.cost_ns);
    for (std::size_t r = 0; r < late.size(); ++r)
      if (late[r] == moment.late_trace_rank) in_all.emplace_back(-cost_ns[r], static_cast<std::int32_t>(waiting[r]));
  }
  std::vector<std::int32_t> trace_ranks;
  for (auto* const waits : {&here, &in_all}) {
    std::sort(waits->begin(), waits->end());
    for (const auto& [negated_ns, trace_rank] : *waits) trace_ranks.push_back(trace_rank);
  }
  return trace_ranks;
}

/// The case of the table in which the trace rank (any: -1) took longest beyond its peer, one that speaks for a cause
/// before one that does not.
std::optional<Moment> telling_moment(const JobReport& report, const schema::Cases& cases, std::int32_t trace_rank) {
  const Table* table = find_table(report.tables, cases);
  if (table == nullptr) return std::nullopt;
  const auto& whose = column(*table, cases.trace_rank);
  const auto& work_ns = column<std::int64_t>(*table, "work_ns");
  const auto& peer_work_ns = column<std::int64_t>(*table, "peer_work_ns");
  const auto& cause = column(*table, cases.cause);
  const auto weight = [&](std::size_t row) {
    return std::pair(cause[row] != "none", work_ns[row] - peer_work_ns[row]);
  };
  std::optional<std::size_t> best;
  for (std::size_t r = 0; r < whose.size(); ++r) {
    if (trace_rank >= 0 && whose[r] != trace_rank) continue;
    if (!best || weight(r) > weight(*best)) best = r;
  }
  if (!best) return std::nullopt;
  Moment moment;
  moment.instance = column(*table, cases.instance)[*best];
  moment.late_trace_rank = static_cast<std::int32_t>(whose[*best]);
  moment.peer_trace_rank = static_cast<std::int32_t>(column(*table, cases.peer_trace_rank)[*best]);
  moment.at_ns = column(*table, cases.last_enter_ns)[*best];
  const Nanoseconds step_ns = usual_step_ns(report.detail.steps);
  moment.window = around(moment.at_ns, step_ns > 0 ? step_ns : 2 * work_ns[*best]);
  moment.title = fmt::format("Rank {} comes late", moment.late_trace_rank);
  if (moment.instance >= 0) moment.title += fmt::format(" to collective {}", moment.instance);
  moment.trace_ranks = {moment.late_trace_rank, moment.peer_trace_rank};
  for (const std::int32_t waiting : who_waited(report, moment)) {
    if (moment.trace_ranks.size() == most_trace_ranks) break;
    if (std::find(moment.trace_ranks.begin(), moment.trace_ranks.end(), waiting) == moment.trace_ranks.end())
      moment.trace_ranks.push_back(waiting);
  }
  return moment;
}

/// The step in the middle of the run, or the middle itself; of the trace ranks that other moments look at, or the
/// first.
Moment usual_moment(const JobReport& report, const std::vector<Moment>& others) {
  Moment moment;
  const StepStarts& steps = report.detail.steps;
  if (!steps.start_ns.empty()) {
    const std::size_t middle = steps.start_ns.size() / 2;
    moment.at_ns = steps.start_ns[middle];
    moment.window = around(moment.at_ns, usual_step_ns(steps));
    moment.title = fmt::format("Steps {} and {}", steps.first_number + static_cast<std::int64_t>(middle) - 1,
                               steps.first_number + static_cast<std::int64_t>(middle));
    if (middle == 0) moment.title = fmt::format("Step {}", steps.first_number);
  } else {
    const Budget& budget = report.ranks.front().budget;
    moment.at_ns = budget.window_start_ns + budget.window_ns / 2;
    moment.window = around(moment.at_ns, budget.window_ns / 20);
    moment.title = "The middle of the run";
  }
  if (!others.empty()) {
    moment.trace_ranks = others.front().trace_ranks;
    std::sort(moment.trace_ranks.begin(), moment.trace_ranks.end());
    return moment;
  }
  const std::size_t all = report.ranks.size();
  for (std::size_t i = 0; i < std::min(all, most_trace_ranks); ++i)
    moment.trace_ranks.push_back(report.ranks[i * all / std::min(all, most_trace_ranks)].trace_rank);
  return moment;
}

std::vector<Moment> plan_moments(const JobReport& report) {
  std::vector<Moment> moments;
  if (report.ranks.empty()) return moments;
  std::vector<std::int32_t> late;
  for (const Straggler& straggler : report.stragglers) late.push_back(straggler.trace_rank);
  for (const SuspectedStraggler& suspect : report.suspects) late.push_back(suspect.late.trace_rank);
  for (const std::int32_t trace_rank : late) {
    if (moments.size() == most_late_moments) break;
    if (auto moment = telling_moment(report, schema::straggler_cases, trace_rank))
      moments.push_back(std::move(*moment));
  }
  if (moments.empty()) {
    if (auto moment = telling_moment(report, schema::long_waits, -1)) moments.push_back(std::move(*moment));
  }
  moments.push_back(usual_moment(report, moments));
  for (Moment& moment : moments) moment.timelines.resize(moment.trace_ranks.size());
  return moments;
}

std::vector<Seat> seats_of(const std::vector<Moment>& moments) {
  std::vector<Seat> seats;
  for (std::size_t m = 0; m < moments.size(); ++m)
    for (std::size_t r = 0; r < moments[m].trace_ranks.size(); ++r)
      seats.push_back({static_cast<std::int32_t>(m), static_cast<std::int32_t>(r), moments[m].trace_ranks[r], 0,
                       moments[m].at_ns, moments[m].window});
  return seats;
}

Interval trace_window(const clock::TraceClock& clock, const Interval& job) {
  return {clock.trace_time(JobTime(job.start_ns)).ns, clock.trace_time(JobTime(job.end_ns)).ns};
}

/// The waits of a trace rank in collectives, from its timeline: no trace is needed.
void add_waits(const LocalRank& rank, const Seat& seat, View& view) {
  std::map<std::int32_t, std::uint32_t> names;
  for (std::size_t i = 0; i < rank.timeline.arrivals.size(); ++i) {
    const analysis::Outcome& outcome = rank.timeline.outcomes[i];
    if (!rank.timeline.arrivals[i].matched || outcome.wait_ns <= 0) continue;
    const Nanoseconds enter_ns = rank.clock(rank.timeline.arrivals[i].enter).ns;
    if (enter_ns >= seat.window.end_ns || enter_ns + outcome.wait_ns < seat.window.start_ns) continue;
    const auto [name, is_new] =
        names.try_emplace(outcome.last_trace_rank, static_cast<std::uint32_t>(view.names.size()));
    if (is_new) {
      view.names.push_back(outcome.last_trace_rank < 0 ? "waits"
                                                       : fmt::format("waits for rank {}", outcome.last_trace_rank));
    }
    view.events.push_back(
        {enter_ns, enter_ns + outcome.wait_ns, 0, name->second, 0, rank.trace_rank, 0, TimelineKind::wait, 0});
  }
}

void add_work(const analysis::RankEvents& events, const LocalRank& rank, const Seat& seat, View& view) {
  Timeline timeline = analysis::timeline_of(events, trace_window(rank.clock, seat.window));
  for (TimelineEvent& event : timeline.events) {
    event.start_ns = rank.clock(TraceTime(event.start_ns)).ns;
    event.end_ns = rank.clock(TraceTime(event.end_ns)).ns;
    event.trace_rank = rank.trace_rank;
  }
  view.left_out += analysis::thin_out(timeline.events, seat.at_ns, most_events);
  const auto first_name = static_cast<std::uint32_t>(view.names.size());
  for (TimelineEvent& event : timeline.events) {
    event.name += first_name;
    view.events.push_back(event);
  }
  std::move(timeline.names.begin(), timeline.names.end(), std::back_inserter(view.names));
}

/// Names that are used, each once.
void tidy_names(View& view) {
  std::map<std::uint32_t, std::uint32_t> renumbered;
  std::vector<std::string> names;
  for (TimelineEvent& event : view.events) {
    const auto [entry, is_new] = renumbered.try_emplace(event.name, static_cast<std::uint32_t>(names.size()));
    if (is_new) names.push_back(std::move(view.names[event.name]));
    event.name = entry->second;
    event.arguments = TimelineEvent::no_arguments;  // no picture shows them
  }
  view.names = std::move(names);
}

/// What is to be seen in one input.
struct Sight {
  const ingest::ZoneMap* zones = nullptr;
  std::vector<std::pair<const LocalRank*, std::size_t>> of_ranks;  ///< and the number of the view
};

/// What the trace ranks of this tool rank show; each input is read once. One that cannot be read again shows its waits.
std::vector<View> look(const std::vector<Seat>& seats, const Inquiry& inquiry) {
  std::map<std::string, Sight> by_input;
  std::vector<View> views;
  for (const LocalTrace& trace : inquiry.local_traces) {
    for (const LocalRank& rank : trace.ranks) {
      for (const Seat& seat : seats) {
        if (seat.trace_rank != rank.trace_rank) continue;
        Sight& sight = by_input[rank.key.path];
        sight.zones = &trace.zones;
        sight.of_ranks.emplace_back(&rank, views.size());
        View& view = views.emplace_back();
        view.moment = seat.moment;
        view.place = seat.place;
        add_waits(rank, seat, view);
      }
    }
  }
  const auto seat_of = [&](const View& view) {
    return *std::find_if(seats.begin(), seats.end(),
                         [&](const Seat& seat) { return seat.moment == view.moment && seat.place == view.place; });
  };
  for (const auto& entry : by_input) {
    const auto input = std::find_if(inquiry.inputs.begin(), inquiry.inputs.end(),
                                    [&](const ingest::AssignedTrace& one) { return one.name == entry.first; });
    try {
      const Sight& sight = entry.second;
      ingest::FilePart part{sight.zones, {}};
      for (const auto& [rank, number] : sight.of_ranks)
        part.times.push_back(analysis::shown_by_timeline(trace_window(rank->clock, seat_of(views[number]).window)));
      read_again(*input, inquiry.reading, windows_of(inquiry, entry.first), part,
                 [&](const TraceRankKey& key, const analysis::RankEvents& events) {
                   for (const auto& [rank, number] : sight.of_ranks)
                     if (rank->key == key) add_work(events, *rank, seat_of(views[number]), views[number]);
                 });
    } catch (const ingest::TraceError&) {
    }
  }
  for (View& view : views) tidy_names(view);
  return views;
}

}  // namespace

Nanoseconds first_moment_ns(const JobReport& report) {
  const std::vector<Moment> moments = plan_moments(report);
  return moments.empty() ? 0 : moments.front().at_ns;
}

std::vector<Moment> gather_moments(const exchange::Communicator& communicator, const Inquiry& inquiry,
                                   const JobReport& report) {
  std::vector<Moment> moments;
  if (communicator.is_root()) moments = plan_moments(report);
  const std::vector<Seat> seats = communicator.broadcast(std::span<const Seat>(seats_of(moments)));
  std::vector<std::vector<View>> all = all_gather_packed(communicator, look(seats, inquiry));
  if (!communicator.is_root()) return {};
  for (std::vector<View>& views : all) {
    for (View& view : views) {
      Moment& moment = moments[static_cast<std::size_t>(view.moment)];
      moment.timelines[static_cast<std::size_t>(view.place)] = {std::move(view.events), std::move(view.names)};
      moment.left_out += view.left_out;
    }
  }
  return moments;
}

}  // namespace nsys_explain::pipeline
