#include "analysis/tables/tables.hpp"

#include <fmt/format.h>

#include "analysis/statistics/delimited_text.hpp"
#include "analysis/trace/rank_events.hpp"
#include "model/schema/host.hpp"
#include "nsys_explain/model/intervals.hpp"

namespace nsys_explain::analysis {
namespace {

constexpr std::size_t shown_cases = 50;
constexpr std::int64_t small_upload_bytes = 64'000;
constexpr Nanoseconds shortest_gap_ns = 500'000'000;
constexpr std::size_t utilisation_parts = 30;

struct Case {
  Nanoseconds start_ns = 0;
  Nanoseconds duration_ns = 0;
  std::int64_t bytes = 0;
  std::string detail;
};

struct Rule {
  std::string_view name;
  std::int64_t cases = 0;
  Nanoseconds total_ns = 0;
  std::int64_t bytes = 0;
  std::vector<Case> longest{};

  void add(Case found) {
    ++cases;
    total_ns += found.duration_ns;
    bytes += found.bytes;
    longest.push_back(std::move(found));
    if (longest.size() >= 2 * shown_cases) shorten();
  }
  void shorten() {
    std::sort(longest.begin(), longest.end(), [](const Case& a, const Case& b) {
      return std::tuple(-a.duration_ns, a.start_ns, std::string_view(a.detail)) <
             std::tuple(-b.duration_ns, b.start_ns, std::string_view(b.detail));
    });
    if (longest.size() > shown_cases) longest.resize(shown_cases);
  }
};

void add_memory_cases(const RankEvents& events, Rule& async_copy, Rule& sync_copy, Rule& sync_set) {
  constexpr std::int16_t pageable = 0, pinned = 1, managed = 4;
  constexpr std::int16_t host_to_device = 1, within_device = 8;
  for (const MemoryOperation& m : events.device.memory_operations) {
    const auto call = events.launches.find(m.correlation_id, m.start_ns);
    if (!call) continue;
    const std::string& name = events.trace.strings[call->name];
    const bool is_async = contains(name, "Async");
    const auto found = [&] {
      return Case{m.start_ns, m.end_ns - m.start_ns, m.bytes,
                  fmt::format("{} {}, {} to {}", name, operation_label(m), memory_kind_name(m.source_kind),
                              memory_kind_name(m.destination_kind))};
    };
    if (m.is_set) {
      const bool on_host = m.destination_kind == pinned || m.destination_kind == managed;
      if (contains(name, "emset") && !is_async && on_host) sync_set.add(found());
    } else if (contains(name, "emcpy")) {
      const bool touches_pageable = m.source_kind == pageable || m.destination_kind == pageable;
      const bool is_harmless =
          (m.copy_kind == host_to_device && m.bytes <= small_upload_bytes) || m.copy_kind == within_device;
      if (is_async && touches_pageable) async_copy.add(found());
      if (!is_async && !is_harmless) sync_copy.add(found());
    }
  }
}

void add_sync_cases(const RankEvents& events, Rule& rule) {
  if (!speaks_for_process(events.process, events.device)) return;
  std::vector<bool> synchronises;  // by name: calls are many, names few
  for (const std::string& name : events.trace.strings)
    synchronises.push_back(name.starts_with("cudaDeviceSynchronize") || name.starts_with("cudaStreamSynchronize"));
  for (const ApiCall& call : events.process.api_calls) {
    if (!synchronises[call.name]) continue;
    rule.add({call.start_ns, call.end_ns - call.start_ns, 0, events.trace.strings[call.name]});
  }
}

void add_gap_cases(const RankEvents& events, Rule& rule) {
  std::vector<Interval> gaps;
  std::optional<Nanoseconds> busy_until_ns;
  for_each_gpu_activity(events.device, [&](const GpuActivity& activity) {
    if (busy_until_ns && activity.start_ns - *busy_until_ns >= shortest_gap_ns)
      gaps.push_back({*busy_until_ns, activity.start_ns});
    busy_until_ns = std::max(busy_until_ns.value_or(activity.end_ns), activity.end_ns);
  });
  std::vector<Interval> profiling;
  for (const Overhead& overhead : events.process.overheads)
    if (overhead.is_profiler) profiling.push_back({overhead.start_ns, overhead.end_ns});
  for (const Interval& gap : subtract(gaps, merge_intervals(std::move(profiling)))) {
    const Nanoseconds length_ns = gap.end_ns - gap.start_ns;
    if (length_ns >= shortest_gap_ns) rule.add({gap.start_ns, length_ns, 0, "no GPU activity"});
  }
}

/// Parts of the window with their sum of durations; neighbours under the limit are one case.
void add_utilisation_cases(const RankEvents& events, Rule& rule) {
  const DeviceTrace& device = events.device;
  const Interval window = gpu_window(device);
  const Nanoseconds window_ns = window.end_ns - window.start_ns;
  if (window_ns < static_cast<Nanoseconds>(utilisation_parts)) return;
  std::array<Nanoseconds, utilisation_parts + 1> borders{};
  for (std::size_t part = 0; part < borders.size(); ++part) {
    const auto parts = static_cast<Nanoseconds>(utilisation_parts), p = static_cast<Nanoseconds>(part);
    borders[part] =
        window.start_ns + window_ns / parts * p + window_ns % parts * p / parts;  // long traces: no overflow
  }
  const auto border = [&](std::size_t part) { return borders[part]; };
  std::array<Nanoseconds, utilisation_parts> busy_ns{};
  const auto add_all = [&](const auto& activities) {
    std::size_t first = 0;
    for (const auto& activity : activities) {
      while (first + 1 < utilisation_parts && border(first + 1) <= activity.start_ns) ++first;
      for (std::size_t part = first; part < utilisation_parts && border(part) < activity.end_ns; ++part) {
        busy_ns[part] += std::max<Nanoseconds>(
            0, std::min(border(part + 1), activity.end_ns) - std::max(border(part), activity.start_ns));
      }
    }
  };
  add_all(device.kernels);
  add_all(device.memory_operations);
  add_all(device.graph_launches);
  const auto is_low = [&](std::size_t part) { return 2 * busy_ns[part] < border(part + 1) - border(part); };
  for (std::size_t begin = 0; begin < utilisation_parts;) {
    if (!is_low(begin)) {
      ++begin;
      continue;
    }
    std::size_t end = begin;
    Nanoseconds sum_ns = 0;
    while (end < utilisation_parts && is_low(end)) sum_ns += busy_ns[end++];
    const Nanoseconds length_ns = border(end) - border(begin);
    rule.add({border(begin), length_ns, 0,
              fmt::format("{:.1f}% busy", 100.0 * static_cast<double>(sum_ns) / static_cast<double>(length_ns))});
    begin = end;
  }
}

}  // namespace

std::vector<Table> expert_rule_tables(const RankEvents& events) {
  std::array<Rule, 6> rules{{{"cuda_memcpy_async"},
                             {"cuda_memcpy_sync"},
                             {"cuda_memset_sync"},
                             {"cuda_api_sync"},
                             {"gpu_gaps"},
                             {"gpu_time_util"}}};
  add_memory_cases(events, rules[0], rules[1], rules[2]);
  add_sync_cases(events, rules[3]);
  add_gap_cases(events, rules[4]);
  add_utilisation_cases(events, rules[5]);

  std::vector<Table> tables;
  tables.push_back(make_table(schema::expert_rules));
  tables.push_back(make_table({"expert_rule_cases",
                               "Up to 50 cases of each rule, longest first",
                               {{"rule", ColumnKind::text, "", "as in expert_rules"},
                                {"start_ns", ColumnKind::time, "ns", ""},
                                {"duration_ns", ColumnKind::integer, "ns", ""},
                                {"bytes", ColumnKind::integer, "bytes", ""},
                                {"detail", ColumnKind::text, "", "call, operation and kinds of memory"}}}));
  RowWriter rule_row(tables[0]), case_row(tables[1]);
  for (Rule& rule : rules) {
    rule_row << rule.name << rule.cases << rule.total_ns << rule.bytes;
    rule.shorten();
    for (const Case& found : rule.longest) {
      case_row << rule.name << found.start_ns << found.duration_ns << found.bytes << found.detail;
    }
  }
  return tables;
}

}  // namespace nsys_explain::analysis
