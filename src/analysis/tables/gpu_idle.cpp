#include "analysis/tables/tables.hpp"

#include "analysis/statistics/statistics.hpp"
#include "analysis/trace/rank_events.hpp"
#include "model/schema/gpu.hpp"
#include "nsys_explain/model/run_map.hpp"

namespace nsys_explain::analysis {
namespace {

constexpr std::size_t longest_gaps = 200;

using IdleStreamKey = std::pair<std::uint32_t, std::uint32_t>;  ///< context, stream

/// When a stream was told to wait for an event of another stream, by the host's clock; ascending.
class StreamWaits {
 public:
  explicit StreamWaits(const RankEvents& events) {
    std::unordered_map<std::uint32_t, IdleStreamKey> recorded_on;  // by event_sync_id
    for (const EventRecord& record : events.process.event_records) {
      if (record.event_sync_id != 0)
        recorded_on.emplace(record.event_sync_id, IdleStreamKey(record.context_id, record.stream_id));
    }
    for (const Synchronization& wait : events.process.synchronizations) {
      if (wait.kind != SyncKind::stream_wait_event) continue;
      const IdleStreamKey stream(wait.context_id, wait.stream_id);
      const auto record = recorded_on.find(wait.event_sync_id);
      // Without its record a wait counts: a stream is not made to wait for itself.
      if (record != recorded_on.end() && record->second == stream) continue;
      of_stream_[stream].times.push_back(wait.start_ns);
    }
  }

  /// Whether the stream was told to wait after `begin` and no later than `end`.
  bool any_between(IdleStreamKey stream, Nanoseconds begin, Nanoseconds end) {
    Waits* const waits = of_stream_.find(stream);
    if (waits == nullptr) return false;
    waits->latest = upper_bound_near(waits->times, waits->latest, begin, std::less<>());
    return waits->latest < waits->times.size() && waits->times[waits->latest] <= end;
  }

 private:
  struct Waits {
    std::vector<Nanoseconds> times;
    std::size_t latest = 0;  ///< the first after the latest `begin` that was asked for
  };
  RunMap<IdleStreamKey, Waits> of_stream_;
};

struct Gap {
  Nanoseconds start_ns = 0;
  GpuActivity next;
  Nanoseconds launched_ns = no_time;
  IdleCause cause = IdleCause::other;
  Nanoseconds length_ns() const { return next.start_ns - start_ns; }
};

/// Longest first, then earliest.
bool is_longer(const Gap& a, const Gap& b) {
  return a.length_ns() != b.length_ns() ? a.length_ns() > b.length_ns() : a.start_ns < b.start_ns;
}

class GapFinder {
 public:
  explicit GapFinder(const RankEvents& events) : events_(events), waits_(events) {}

  void add(const GpuActivity& activity) {
    Latest& latest = latest_on_stream_[{activity.context_id, activity.stream_id}];
    if (busy_until_ && activity.start_ns > *busy_until_) {
      const Interval idle{*busy_until_, activity.start_ns};
      if (meets_any(events_.holes, idle)) {
        holes_ns_ += idle.end_ns - idle.start_ns;
      } else {
        keep(explain(activity, latest));
      }
    }
    busy_until_ = std::max(busy_until_.value_or(activity.end_ns), activity.end_ns);
    latest = {activity.correlation_id, activity.start_ns};
  }

  /// Idle times that meet a hole of the recording: nothing is known of them.
  Nanoseconds holes_ns() const { return holes_ns_; }
  Statistics lengths(IdleCause cause) { return lengths_[static_cast<std::size_t>(cause)].summarise(); }

  /// The longest gaps by start.
  std::vector<Gap> longest() {
    shorten();
    std::sort(longest_.begin(), longest_.end(), [](const Gap& a, const Gap& b) { return a.start_ns < b.start_ns; });
    return std::move(longest_);
  }

 private:
  /// What started last on a stream.
  struct Latest {
    std::uint32_t correlation_id = 0;
    Nanoseconds start_ns = no_time;  ///< no_time, which is before all times: nothing yet
  };

  Gap explain(const GpuActivity& next, const Latest& latest) {
    Gap gap{*busy_until_, next};
    const auto launch = events_.launches.find(next.correlation_id, next.start_ns);
    if (!launch) return gap;
    gap.launched_ns = launch->start_ns;
    if (launch->start_ns > gap.start_ns) {
      gap.cause = IdleCause::launch_starved;
      return gap;
    }
    const auto before = events_.launches.find(latest.correlation_id, latest.start_ns);
    const Nanoseconds previous_launch_ns = before ? before->start_ns : latest.start_ns;
    const IdleStreamKey stream(next.context_id, next.stream_id);
    if (waits_.any_between(stream, previous_launch_ns, launch->start_ns)) gap.cause = IdleCause::dependency_stalled;
    return gap;
  }

  void keep(const Gap& gap) {
    lengths_[static_cast<std::size_t>(gap.cause)].push_back(gap.length_ns());
    if (gap.length_ns() < shortest_kept_ns_) return;
    longest_.push_back(gap);
    if (longest_.size() >= 2 * longest_gaps) shorten();
  }

  void shorten() {
    if (longest_.size() <= longest_gaps) return;
    std::nth_element(longest_.begin(), longest_.begin() + (longest_gaps - 1), longest_.end(), is_longer);
    longest_.resize(longest_gaps);
    shortest_kept_ns_ = longest_.back().length_ns();
  }

  const RankEvents& events_;
  StreamWaits waits_;
  std::optional<Nanoseconds> busy_until_;
  RunMap<IdleStreamKey, Latest> latest_on_stream_;
  std::array<CompactValues, idle_cause_count> lengths_;
  std::vector<Gap> longest_;
  Nanoseconds holes_ns_ = 0;
  Nanoseconds shortest_kept_ns_ = 0;  ///< of those kept when there were too many: what is shorter cannot count any more
};

}  // namespace

std::string_view idle_cause_name(IdleCause cause) {
  constexpr std::array<std::string_view, idle_cause_count> names{"launch_starved", "dependency_stalled", "other"};
  return names[static_cast<std::size_t>(cause)];
}

std::vector<Table> idle_tables(const RankEvents& events) {
  GapFinder finder(events);
  std::optional<Interval> window;
  for_each_gpu_activity(events.device, [&](const GpuActivity& activity) {
    if (!window) window = Interval{activity.start_ns, activity.end_ns};
    window->end_ns = std::max(window->end_ns, activity.end_ns);
    finder.add(activity);
  });
  const auto window_ns = window ? static_cast<double>(window->end_ns - window->start_ns - finder.holes_ns()) : 0.0;

  std::vector<Table> tables;
  tables.push_back(make_table(schema::idle_causes));
  RowWriter cause_row(tables.back());
  for (std::size_t c = 0; c < idle_cause_count; ++c) {
    const Statistics statistics = finder.lengths(static_cast<IdleCause>(c));
    cause_row << idle_cause_name(static_cast<IdleCause>(c))
              << (window_ns > 0 ? 100 * static_cast<double>(statistics.total) / window_ns : 0.0);
    write_statistics(cause_row, statistics);
  }

  tables.push_back(make_table(schema::idle_gaps));
  RowWriter gap_row(tables.back());
  for (const Gap& gap : finder.longest()) {
    gap_row << gap.start_ns << gap.length_ns() << idle_cause_name(gap.cause) << gap.launched_ns
            << activity_name(events.trace, events.device, gap.next);
  }
  return tables;
}

}  // namespace nsys_explain::analysis
