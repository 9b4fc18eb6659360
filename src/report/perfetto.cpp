#include "report/perfetto.hpp"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "model/text.hpp"
#include "nsys_explain/model/trace.hpp"
#include "nsys_explain/model/utf8.hpp"
#include "report/text.hpp"

namespace nsys_explain::report {
namespace {

/// Names of kernels with all their template arguments have thousands of characters.
constexpr std::size_t event_name_characters = 120;

// Where tracks stand within a process.
constexpr std::int64_t first_communicator = 1;
constexpr std::int64_t first_stream = 1'000'000;
constexpr std::int64_t first_thread = 10'000'000;  // two tracks each; viewers sort by 32 bits, and thread ids have 24

/// Stands before every event but the first.
constexpr std::string_view separator = ",\n";

/// A JSON string, quotes included.
std::string json_string(std::string_view text) {
  return nlohmann::json(valid_utf8(text)).dump();
}

std::string shown(std::string_view text) {
  return json_string(plain_text(text, event_name_characters));
}

std::string_view category_of(TimelineKind kind) {
  return name_in_order(kind, {"compute", "communication", "copy", "graph", "counter", "nvtx", "call", "wait"});
}

/// What a track is called, and where it stands among those of its trace rank.
std::pair<std::string, std::int64_t> track_of(const TimelineEvent& event) {
  const std::string lane = event.lane > 0 ? fmt::format(" ({})", event.lane + 1) : "";
  if (event.kind == TimelineKind::range)
    return {fmt::format("NVTX, thread {}{}", event.track_id, lane), first_thread + 2 * std::int64_t{event.track_id}};
  if (event.kind == TimelineKind::call)
    return {fmt::format("calls, thread {}{}", event.track_id, lane),
            first_thread + 2 * std::int64_t{event.track_id} + 1};
  if (event.track_id == stream_of_calls) return {"collectives of the host", first_stream + event.track_id};
  return {fmt::format("stream {}{}", event.track_id, lane), first_stream + event.track_id};
}

/// Nanoseconds as microseconds, exact.
std::string microseconds(Nanoseconds time_ns) {
  return fmt::format("{}{}.{:03}", time_ns < 0 ? "-" : "", std::abs(time_ns) / 1000, std::abs(time_ns) % 1000);
}

/// From a call to what it launched. Collectives' arrows have smaller numbers: those of their instances.
std::string launch_arrow(const TimelineEvent& event) {
  const std::int64_t number = (std::int64_t{event.trace_rank} + 1) << 32U | event.launch;
  const bool is_call = event.kind == TimelineKind::call;
  return fmt::format(R"(,"bind_id":{},"flow_in":{},"flow_out":{})", number, !is_call, is_call);
}

/// "registers=32 grid=8x1x1" as members of an object.
std::string json_members(std::string_view arguments) {
  std::string members;
  while (!arguments.empty()) {
    const std::string_view one = arguments.substr(0, arguments.find(' '));
    arguments.remove_prefix(std::min(arguments.size(), one.size() + 1));
    const std::string_view value = one.substr(one.find('=') + 1);
    const bool is_number = value.find_first_not_of("0123456789") == std::string_view::npos;
    members += fmt::format("{}{}:{}", members.empty() ? "" : ",", json_string(one.substr(0, one.find('='))),
                           is_number ? std::string(value) : json_string(value));
  }
  return members;
}

std::string metadata(std::string_view kind, std::int64_t process_id, std::int64_t thread_id,
                     std::string_view arguments) {
  return fmt::format(R"({}{{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{{}}}}})", separator, kind, process_id,
                     thread_id, arguments);
}

std::string process_metadata(std::int64_t process_id, std::string_view name) {
  return metadata("process_name", process_id, 0, fmt::format(R"("name":{})", shown(name))) +
         metadata("process_sort_index", process_id, 0, fmt::format(R"("sort_index":{})", process_id));
}

}  // namespace

PerfettoTrace::PerfettoTrace(const std::vector<TraceRankIdentity>& trace_ranks, Nanoseconds shift_ns)
    : shift_ns_(shift_ns) {
  std::map<std::string, std::vector<const TraceRankIdentity*>> by_host;
  for (const TraceRankIdentity& rank : trace_ranks) by_host[rank.host].push_back(&rank);
  std::int64_t next = process_of_findings_ + 1;
  for (const auto& [host, ranks] : by_host) {
    const std::string shown_host = host.empty() ? "unknown host" : host;
    process_of_host_[host] = next++;
    for (const TraceRankIdentity* rank : ranks) {
      ranks_[rank->trace_rank] = {next++, host,
                                  fmt::format("rank {}, {}{}{}", rank->trace_rank, shown_host,
                                              rank->gpu_name.empty() ? "" : ", ", rank->gpu_name)};
    }
  }
  critical_path_process_ = next;
}

std::int64_t PerfettoTrace::process_of(std::int32_t trace_rank) const {
  return ranks_.at(trace_rank).process_id;
}

std::string PerfettoTrace::time(Nanoseconds time_ns) const {
  return microseconds(time_ns + shift_ns_);
}

PerfettoTrace::Track& PerfettoTrace::track(std::string& out, std::int32_t trace_rank, std::int64_t order,
                                           const std::string& name) {
  const auto [entry, is_new] = tracks_.try_emplace({trace_rank, order, name});
  if (is_new) {
    // Distinct in the whole file: some viewers know threads by their number alone.
    const std::int64_t process_id = process_of(trace_rank);
    entry->second.thread_id = 1'000'000 + static_cast<std::int64_t>(tracks_.size());
    out += metadata("thread_name", process_id, entry->second.thread_id, fmt::format(R"("name":{})", shown(name)));
    out += metadata("thread_sort_index", process_id, entry->second.thread_id, fmt::format(R"("sort_index":{})", order));
  }
  return entry->second;
}

std::string PerfettoTrace::begin(const std::map<std::string, std::string>& facts) {
  std::string out = R"({"displayTimeUnit":"ns","otherData":{)";
  for (const auto& [name, fact] : facts)
    out += fmt::format("{}{}:{}", out.back() == '{' ? "" : ",", json_string(name), json_string(fact));
  out += "},\"traceEvents\":[\n";
  std::string processes;
  for (const auto& [host, process_id] : process_of_host_)
    processes += process_metadata(process_id, "host " + (host.empty() ? "unknown" : host));
  for (const auto& [number, rank] : ranks_) processes += process_metadata(rank.process_id, rank.name);
  return out + processes.substr(std::min(processes.size(), separator.size()));
}

std::string PerfettoTrace::event(const TimelineEvent& event, const std::vector<std::string>& names) {
  std::string out;
  if (event.kind == TimelineKind::counter) {
    return fmt::format(R"({}{{"ph":"C","name":{},"pid":{},"tid":0,"ts":{},"args":{{"value":{}}}}})", separator,
                       shown(names[event.name]), process_of(event.trace_rank), time(event.start_ns), event.value);
  }
  const auto [name, order] = track_of(event);
  const Track& where = track(out, event.trace_rank, order, name);
  out += fmt::format(R"({}{{"ph":"X","cat":"{}","name":{},"pid":{},"tid":{},"ts":{},"dur":{})", separator,
                     category_of(event.kind), shown(names[event.name]), process_of(event.trace_rank), where.thread_id,
                     time(event.start_ns), microseconds(event.end_ns - event.start_ns));
  if (event.launch != 0) out += launch_arrow(event);
  if (event.arguments != TimelineEvent::no_arguments)
    out += fmt::format(R"(,"args":{{{}}})", json_members(names[event.arguments]));
  return out + '}';
}

/// Collectives of one communicator overlap where several streams run it, or where clocks are not well known.
PerfettoTrace::Track& PerfettoTrace::free_track(std::string& out, const TimelineCollective& collective,
                                                const InstanceArrival& arrival) {
  const auto next = first_communicator + static_cast<std::int64_t>(communicators_.size());
  const std::int64_t order = communicators_.try_emplace(std::string(collective.communicator), next).first->second;
  for (int lane = 1;; ++lane) {
    std::string name = fmt::format("collectives of {}", collective.communicator);
    if (lane > 1) name += fmt::format(" ({})", lane);
    Track& where = track(out, arrival.trace_rank, order, name);
    if (where.taken_until > arrival.enter) continue;
    where.taken_until = arrival.exit;
    return where;
  }
}

std::string PerfettoTrace::collective(const TimelineCollective& collective) {
  const Instance& summary = *collective.summary;
  std::string out;
  for (std::size_t a = 0; a < collective.arrivals.size(); ++a) {
    const InstanceArrival& arrival = collective.arrivals[a];
    const Nanoseconds waited_ns = wait_ns(summary, arrival);
    const std::int64_t thread_id = free_track(out, collective, arrival).thread_id;
    const std::int64_t process_id = process_of(arrival.trace_rank);
    const std::string place =
        fmt::format(R"("pid":{},"tid":{},"ts":{})", process_id, thread_id, time(arrival.enter.ns));
    // The arrows are the slice's own: an arrow drawn by an event starts at the innermost slice of its time, the wait.
    const bool has_previous = a > 0, has_next = a + 1 < collective.arrivals.size();
    std::string arrows;
    if (has_previous || has_next) {
      arrows =
          fmt::format(R"(,"bind_id":{},"flow_in":{},"flow_out":{})", collective.instance + 1, has_previous, has_next);
    }
    out += fmt::format(
        R"({}{{"ph":"X","cat":"collective","name":"{}",{},"dur":{}{},"args":{{"instance":{},"communicator":{},"bytes":{},"last_trace_rank":{},)"
        R"("wait_us":{},"own_lateness_us":{}}}}})",
        separator, operation_name(summary.operation), place, microseconds(arrival.exit - arrival.enter), arrows,
        collective.instance, json_string(collective.communicator), summary.message_bytes, summary.last_trace_rank,
        microseconds(waited_ns), microseconds(arrival.own_lateness_ns));
    if (waited_ns > 0) {
      out += fmt::format(
          R"({}{{"ph":"X","cat":"wait","name":"wait","cname":"terrible",{},"dur":{},"args":{{"for_trace_rank":{}}}}})",
          separator, place, microseconds(waited_ns), summary.last_trace_rank);
    }
  }
  return out;
}

std::string PerfettoTrace::waiting(const HeatMap& map, const Interval& window) {
  std::string out;
  const auto bins = static_cast<std::size_t>(map.bins);
  std::map<std::string, std::vector<Nanoseconds>> wait_of_host;
  for (std::size_t r = 0; r < map.trace_ranks.size(); ++r) {
    std::vector<Nanoseconds>& sum = wait_of_host[ranks_.at(map.trace_ranks[r]).host];
    sum.resize(bins);
    for (std::size_t b = 0; b < bins; ++b) sum[b] += map.wait_ns[r * bins + b];
  }
  for (const auto& [host, sums] : wait_of_host) {
    for (std::size_t b = 0; b < bins; ++b) {
      const Nanoseconds start_ns = map.start_ns + static_cast<Nanoseconds>(b) * map.bin_ns;
      if (start_ns < window.start_ns || start_ns >= window.end_ns) continue;
      out += fmt::format(R"({}{{"ph":"C","name":"ranks waiting","pid":{},"tid":0,"ts":{},"args":{{"value":{:.3f}}}}})",
                         separator, process_of_host_.at(host), time(start_ns),
                         static_cast<double>(sums[b]) / static_cast<double>(map.bin_ns));
    }
  }
  return out;
}

std::string PerfettoTrace::findings(const std::vector<Finding>& findings, const std::vector<Moment>& moments,
                                    const Interval& span) {
  std::string out;
  if (span.end_ns <= span.start_ns) return out;
  if (!findings.empty()) out += process_metadata(process_of_findings_, "findings");
  for (std::size_t f = 0; f < findings.size(); ++f) {
    const auto thread_id = static_cast<std::int64_t>(f) + 1;
    out += metadata("thread_name", process_of_findings_, thread_id, fmt::format(R"("name":"finding {}")", f + 1));
    out += fmt::format(
        R"({}{{"ph":"X","cat":"finding","name":{},"pid":{},"tid":{},"ts":{},"dur":{},"args":{{"id":{},"next":{}}}}})",
        separator, json_string(findings[f].title), process_of_findings_, thread_id, time(span.start_ns),
        microseconds(span.end_ns - span.start_ns), json_string(findings[f].id),
        json_string(findings[f].recommendation));
  }
  for (const Moment& moment : moments) {
    if (moment.late_trace_rank < 0 || moment.at_ns < span.start_ns || moment.at_ns >= span.end_ns) continue;
    out += mark(moment.at_ns, moment.title);
  }
  return out;
}

std::string PerfettoTrace::critical_path(std::span<const CriticalSegment> path, const Interval& window) {
  constexpr std::int64_t thread_id = 1'000'000;  // below those of all tracks
  std::string out;
  for (const CriticalSegment& segment : path) {
    if (segment.start_ns < window.start_ns || segment.start_ns >= window.end_ns) continue;
    if (out.empty()) {
      out = process_metadata(critical_path_process_, "critical path") +
            metadata("thread_name", critical_path_process_, thread_id, R"("name":"what the end waited for")");
    }
    out +=
        fmt::format(R"({}{{"ph":"X","cat":"critical_path","name":"{} on rank {}","pid":{},"tid":{},"ts":{},"dur":{}}})",
                    separator, critical_kind_name(segment.kind), segment.trace_rank, critical_path_process_, thread_id,
                    time(segment.start_ns), microseconds(segment.end_ns - segment.start_ns));
  }
  return out;
}

std::string PerfettoTrace::mark(Nanoseconds time_ns, std::string_view text) {
  return fmt::format(R"({}{{"ph":"i","s":"g","cat":"timeline","name":{},"pid":{},"tid":0,"ts":{}}})", separator,
                     json_string(text), process_of_host_.begin()->second, time(time_ns));
}

std::string PerfettoTrace::end() const {
  return "\n]}\n";
}

}  // namespace nsys_explain::report
