#include "pipeline/write/timeline.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <numeric>
#include <ostream>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include "analysis/tables/tables.hpp"
#include "analysis/window/window.hpp"
#include "exchange/agree.hpp"
#include "pipeline/tool_rank/pack.hpp"
#include "pipeline/tool_rank/whole_file.hpp"
#include "pipeline/write/instance_rounds.hpp"
#include "pipeline/write/outputs.hpp"
#include "report/perfetto.hpp"

namespace nsys_explain::pipeline {
namespace {

/// A whole file that is compressed while it is written. Equal texts give equal bytes: no time of writing is in it.
/// Every function throws std::runtime_error (problem, why it matters, what to do).
class GzipFile {
 public:
  explicit GzipFile(const std::string& path);
  ~GzipFile();
  GzipFile(const GzipFile&) = delete;
  GzipFile& operator=(const GzipFile&) = delete;

  void write(std::string_view text);
  void publish();

 private:
  WholeFile file_;
  gzFile_s* compressed_;
};

constexpr const char* timeline_advice = "without it there is no timeline; choose another --perfetto or make room there";

GzipFile::GzipFile(const std::string& path) : file_(path, timeline_advice) {
  const int descriptor = ::dup(file_.descriptor());
  compressed_ = descriptor < 0 ? nullptr : ::gzdopen(descriptor, "wb6");
  if (compressed_ != nullptr) return;
  if (descriptor >= 0) ::close(descriptor);
  file_.fail();
}

GzipFile::~GzipFile() {
  if (compressed_ != nullptr) ::gzclose(compressed_);
}

void GzipFile::write(std::string_view text) {
  constexpr std::size_t at_once = std::size_t{1} << 30U;  // zlib counts bytes in an int
  while (!text.empty()) {
    const std::size_t length = std::min(text.size(), at_once);
    if (::gzwrite(compressed_, text.data(), static_cast<unsigned>(length)) <= 0) file_.fail();
    text.remove_prefix(length);
  }
}

void GzipFile::publish() {
  if (::gzclose(std::exchange(compressed_, nullptr)) != Z_OK) file_.fail();
  file_.publish();
}

constexpr const char* timeline_phase = "writing the timeline";

/// Events that rank 0 holds at once while it writes: some tens of megabytes.
constexpr std::int64_t events_per_round = 1 << 18;

/// Slice and wait.
constexpr std::int64_t events_per_arrival = 2;

/// The timelines of this tool rank's trace ranks on the job clock: the earliest events of the window, as many as can
/// be shown at most.
class LocalTimelines {
 public:
  explicit LocalTimelines(const TimelineRequest& request) : request_(request) {}

  void add(std::int32_t trace_rank, Timeline timeline, const clock::TraceClock& clock) {
    const auto first_name = static_cast<std::uint32_t>(names_.size());
    std::move(timeline.names.begin(), timeline.names.end(), std::back_inserter(names_));
    for (TimelineEvent& event : timeline.events) {
      event.start_ns = clock(TraceTime(event.start_ns)).ns;
      event.end_ns = clock(TraceTime(event.end_ns)).ns;
      event.trace_rank = trace_rank;
      event.name += first_name;
      if (event.arguments != TimelineEvent::no_arguments) event.arguments += first_name;
      if (event.end_ns >= request_.window.start_ns && event.start_ns < request_.window.end_ns) events_.push_back(event);
    }
    if (static_cast<std::int64_t>(events_.size()) > 2 * request_.most_events) drop_what_cannot_be_shown();
  }

  /// By trace rank, then as each rank ordered them.
  std::vector<TimelineEvent>& events() { return events_; }
  std::vector<std::string>& names() { return names_; }

 private:
  void drop_what_cannot_be_shown() {
    std::vector<Nanoseconds> starts;
    for (const TimelineEvent& event : events_) starts.push_back(event.start_ns);
    const auto last = starts.begin() + request_.most_events;
    std::nth_element(starts.begin(), last, starts.end());
    std::erase_if(events_, [&](const TimelineEvent& event) { return event.start_ns > *last; });
  }

  const TimelineRequest& request_;
  std::vector<TimelineEvent> events_;
  std::vector<std::string> names_;
};

void read_timelines(const Inquiry& inquiry, LocalTimelines& timelines) {
  std::map<std::string, std::vector<const LocalRank*>> by_input;
  for (const LocalTrace& trace : inquiry.local_traces) {
    for (const LocalRank& rank : trace.ranks) by_input[rank.key.path].push_back(&rank);
  }
  for (const auto& [name, ranks] : by_input) {
    const auto input =
        std::find_if(inquiry.inputs.begin(), inquiry.inputs.end(),
                     [&, &wanted = name](const ingest::AssignedTrace& one) { return one.name == wanted; });
    read_again(
        *input, inquiry.reading, windows_of(inquiry, name), {},
        [&, &local = ranks](const TraceRankKey& key, const analysis::RankEvents& events) {
          for (const LocalRank* rank : local) {
            if (!(rank->key == key)) continue;
            const Interval whole{std::numeric_limits<Nanoseconds>::min(), std::numeric_limits<Nanoseconds>::max()};
            Timeline timeline = analysis::timeline_of(events, whole);
            analysis::add_link_traffic(events, timeline);
            timelines.add(rank->trace_rank, std::move(timeline), rank->clock);
          }
        });
  }
  std::stable_sort(timelines.events().begin(), timelines.events().end(),
                   [](const TimelineEvent& a, const TimelineEvent& b) { return a.trace_rank < b.trace_rank; });
}

/// Collective: every name once, sorted; those of the events become indices into them.
std::vector<std::string> agree_on_names(const exchange::Communicator& communicator, LocalTimelines& mine) {
  std::vector<std::string> all;
  for (std::vector<std::string>& names : all_gather_packed(communicator, mine.names())) {
    std::move(names.begin(), names.end(), std::back_inserter(all));
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
  }
  std::vector<std::uint32_t> number;
  for (const std::string& name : mine.names()) {
    number.push_back(static_cast<std::uint32_t>(std::lower_bound(all.begin(), all.end(), name) - all.begin()));
  }
  for (TimelineEvent& event : mine.events()) {
    event.name = number[event.name];
    if (event.arguments != TimelineEvent::no_arguments) event.arguments = number[event.arguments];
  }
  return all;
}

bool is_shown(const Instance& instance, const Interval& window) {
  return instance.last_enter.ns >= window.start_ns && instance.last_enter.ns < window.end_ns;
}

/// Collective: the latest end of the window with which no more events are shown than asked for.
Nanoseconds find_end(const exchange::Communicator& communicator, const TimelineRequest& request, const CrossRank& cross,
                     const std::vector<TimelineEvent>& events, const CriticalPath& path) {
  std::vector<Nanoseconds> times;
  for (const CriticalSegment& segment : path.segments)
    if (segment.start_ns >= request.window.start_ns && segment.start_ns < request.window.end_ns)
      times.push_back(segment.start_ns);
  for (const TimelineEvent& event : events) times.push_back(event.start_ns);
  for (const MatchedBlock& block : cross.blocks) {
    for (const Instance& instance : block.instances) {
      if (!is_shown(instance, request.window)) continue;
      times.insert(times.end(), static_cast<std::size_t>(events_per_arrival * instance.arrivals),
                   instance.last_enter.ns);
    }
  }
  std::sort(times.begin(), times.end());
  const auto shown_before = [&](Nanoseconds end_ns) {
    return communicator.sum(std::lower_bound(times.begin(), times.end(), end_ns) - times.begin());
  };
  if (shown_before(request.window.end_ns) <= request.most_events) return request.window.end_ns;
  constexpr Nanoseconds none = -std::numeric_limits<Nanoseconds>::max();
  Nanoseconds fits = -communicator.maximum(times.empty() ? none : -times.front());
  Nanoseconds does_not = communicator.maximum(times.empty() ? none : times.back()) + 1;
  while (does_not - fits > 1) {
    const Nanoseconds middle = fits + (does_not - fits) / 2;
    (shown_before(middle) <= request.most_events ? fits : does_not) = middle;
  }
  return fits;
}

/// Collective: the events of all tool ranks in the order of their trace ranks, some of them at a time on rank 0.
void write_events(const exchange::Communicator& communicator, const JobRanks& job,
                  const std::vector<TimelineEvent>& events, const std::function<void(const TimelineEvent&)>& write) {
  std::vector<std::int64_t> counts(job.numbers.size(), 0);
  for (const TimelineEvent& event : events) ++counts[job.index_of(event.trace_rank)];
  counts = communicator.sum(counts);
  std::vector<std::int64_t> first(counts.size() + 1, 0);
  std::partial_sum(counts.begin(), counts.end(), first.begin() + 1);

  // Where each event of this tool rank stands among those of all.
  std::vector<std::int64_t> place;
  for (std::size_t e = 0; e < events.size(); ++e) {
    const bool same = e > 0 && events[e].trace_rank == events[e - 1].trace_rank;
    place.push_back(same ? place.back() + 1 : first[job.index_of(events[e].trace_rank)]);
  }
  for (std::int64_t start = 0; start < first.back(); start += events_per_round) {
    const auto from = std::lower_bound(place.begin(), place.end(), start) - place.begin();
    const auto to = std::lower_bound(place.begin(), place.end(), start + events_per_round) - place.begin();
    auto round = communicator
                     .gather(std::span<const TimelineEvent>(events).subspan(static_cast<std::size_t>(from),
                                                                            static_cast<std::size_t>(to - from)))
                     .values;
    // Each tool rank's part is in order; a stable sort by trace rank puts the parts in order.
    std::stable_sort(round.begin(), round.end(),
                     [](const TimelineEvent& a, const TimelineEvent& b) { return a.trace_rank < b.trace_rank; });
    exchange::run_agreed(communicator, timeline_phase, [&] { std::for_each(round.begin(), round.end(), write); });
  }
}

/// The collectives of one round whose last member entered in the window.
void write_collectives(InstanceRound round, const Inquiry& inquiry, std::span<const std::int64_t> first_instance,
                       const Interval& window, report::PerfettoTrace& trace, GzipFile& file) {
  auto next = round.arrivals.begin();
  for (const InstanceRow& row : round.instances) {
    std::vector<InstanceArrival> arrivals;
    for (std::int32_t a = 0; a < row.instance.arrivals; ++a) arrivals.push_back(*next++);
    if (!is_shown(row.instance, window)) continue;
    // Viewers take slices of equal starts by falling length, and arrows in the order in which they take their slices.
    std::sort(arrivals.begin(), arrivals.end(), [](const InstanceArrival& a, const InstanceArrival& b) {
      return std::tuple(a.enter, b.exit, a.trace_rank) < std::tuple(b.enter, a.exit, b.trace_rank);
    });
    const auto c = static_cast<std::size_t>(row.communicator);
    file.write(trace.collective(
        {first_instance[c] + row.instance.sequence, inquiry.cross.communicators[c].name, &row.instance, arrivals}));
  }
}

/// The part of the window in which trace ranks have a window of their own.
Interval shown_span(const JobReport& report, const Interval& window) {
  Interval span{window.end_ns, window.start_ns};
  for (const RankSummary& rank : report.ranks) {
    span.start_ns = std::min(span.start_ns, rank.budget.window_start_ns);
    span.end_ns = std::max(span.end_ns, rank.budget.window_start_ns + rank.budget.window_ns);
  }
  return {std::max(span.start_ns, window.start_ns), std::min(span.end_ns, window.end_ns)};
}

/// Collective: viewers refuse negative times, and corrected clocks can make some; a start before 0 moves everything.
Nanoseconds find_shift(const exchange::Communicator& communicator, const CrossRank& cross,
                       const std::vector<TimelineEvent>& events) {
  Nanoseconds earliest_ns = 0;
  for (const TimelineEvent& event : events) earliest_ns = std::min(earliest_ns, event.start_ns);
  for (const MatchedBlock& block : cross.blocks) {
    for (const Instance& instance : block.instances) earliest_ns = std::min(earliest_ns, instance.first_enter.ns);
  }
  return communicator.maximum(-earliest_ns);
}

}  // namespace

std::optional<TimelineRequest> read_timeline_request(const JobSpecification& job) {
  if (job.perfetto_path.empty()) return std::nullopt;
  TimelineRequest request{job.perfetto_path,
                          {std::numeric_limits<Nanoseconds>::min(), std::numeric_limits<Nanoseconds>::max()},
                          job.perfetto_events};
  if (!job.perfetto_window.empty())
    request.window = analysis::parse_time_window("--perfetto-window", job.perfetto_window);
  return request;
}

void write_timeline(const exchange::Communicator& communicator, const TimelineRequest& request, const Inquiry& inquiry,
                    const JobReport& report, std::ostream& problems) {
  LocalTimelines mine(request);
  exchange::run_agreed(communicator, timeline_phase, [&] { read_timelines(inquiry, mine); });
  const std::vector<std::string> names = agree_on_names(communicator, mine);
  const Interval window{request.window.start_ns,
                        find_end(communicator, request, inquiry.cross, mine.events(), report.critical_path)};
  std::erase_if(mine.events(), [&](const TimelineEvent& event) { return event.start_ns >= window.end_ns; });
  const Nanoseconds shift_ns = find_shift(communicator, inquiry.cross, mine.events());

  std::map<std::string, std::string> facts{{"epoch_utc_ns", std::to_string(report.epoch_utc_ns)},
                                           {"time", fmt::format("job time plus {} ns", shift_ns)}};
  std::string cut;
  if (window.end_ns != request.window.end_ns) {
    cut = fmt::format(
        "the timeline ends at job time {:.6f} s: it holds at most {} events (--perfetto-events); look at a part of the run with --perfetto-window",
        static_cast<double>(window.end_ns) * 1e-9, request.most_events);
    facts["cut"] = cut;
  }
  report::PerfettoTrace trace(inquiry.job.trace_ranks, shift_ns);
  std::unique_ptr<GzipFile> file;  // on rank 0 only
  exchange::run_agreed(communicator, timeline_phase, [&] {
    if (!communicator.is_root()) return;
    file = std::make_unique<GzipFile>(request.path);
    file->write(trace.begin(facts));
    file->write(trace.waiting(report.detail.heat_map, window));
    file->write(trace.findings(report.findings, report.detail.moments, shown_span(report, window)));
    file->write(trace.critical_path(report.critical_path.segments, window));
    if (!cut.empty()) file->write(trace.mark(window.end_ns, cut));
  });
  const std::vector<std::int64_t> first_instance = first_instances(report);
  gather_instances(communicator, inquiry.cross, [&](const InstanceRound& round) {
    exchange::run_agreed(communicator, timeline_phase, [&] {
      if (file) write_collectives(round, inquiry, first_instance, window, trace, *file);
    });
  });
  write_events(communicator, inquiry.job, mine.events(),
               [&](const TimelineEvent& event) { file->write(trace.event(event, names)); });
  exchange::run_agreed(communicator, timeline_phase, [&] {
    if (!file) return;
    file->write(trace.end());
    file->publish();
  });
  if (communicator.is_root() && !cut.empty()) problems << "nsys-explain-mpi: " << cut << '\n';
}

}  // namespace nsys_explain::pipeline
