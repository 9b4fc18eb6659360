#include "report/page.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

#include <fmt/format.h>

#include "model/schema/gpu.hpp"
#include "model/schema/host.hpp"
#include "model/schema/job.hpp"
#include "model/schema/links.hpp"
#include "model/text.hpp"

namespace nsys_explain::report {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t shown_characters = 200;

/// Rows of one trace rank, from top to bottom.
enum class RowKind : std::uint8_t { waits, stream, ranges, calls };

RowKind row_of(TimelineKind kind) {
  switch (kind) {
    case TimelineKind::wait:
      return RowKind::waits;
    case TimelineKind::range:
      return RowKind::ranges;
    case TimelineKind::call:
      return RowKind::calls;
    default:
      return RowKind::stream;
  }
}

std::string_view row_name(RowKind kind) {
  return name_in_order(kind, {"waits", "stream", "ranges", "calls"});
}

std::string_view colour_name(TimelineKind kind) {
  return name_in_order(kind, {"compute", "communication", "copy", "graph", "counter", "range", "call", "wait"});
}

/// Names with the kind of what they name, each once.
class PageNames {
 public:
  std::size_t number(const std::string& name, TimelineKind kind) {
    const auto [entry, is_new] = numbers_.try_emplace({name, kind}, numbers_.size());
    if (is_new) {
      names_.push_back(shortened(name));
      kinds_.push_back(colour_name(kind));
    }
    return entry->second;
  }
  Json json() && { return {{"name", std::move(names_)}, {"kind", std::move(kinds_)}}; }

 private:
  std::map<std::pair<std::string, TimelineKind>, std::size_t> numbers_;
  Json names_ = Json::array(), kinds_ = Json::array();
};

struct Row {
  Json start = Json::array(), duration = Json::array(), name = Json::array();
  Nanoseconds before_ns = 0;
};

Json rows_of(const Timeline& timeline, std::int32_t trace_rank, Nanoseconds first_ns, PageNames& names) {
  std::map<std::tuple<RowKind, std::uint32_t, std::uint16_t>, Row> rows;
  for (const TimelineEvent& event : timeline.events) {
    if (event.kind == TimelineKind::counter) continue;
    const auto [entry, is_new] = rows.try_emplace({row_of(event.kind), event.track_id, event.lane});
    Row& row = entry->second;
    if (is_new) row.before_ns = first_ns;
    row.start.push_back(event.start_ns - row.before_ns);
    row.duration.push_back(event.end_ns - event.start_ns);
    row.name.push_back(names.number(timeline.names[event.name], event.kind));
    row.before_ns = event.start_ns;
  }
  Json list = Json::array();
  for (auto& [key, row] : rows) {
    const auto& [kind, track, lane] = key;
    list.push_back({{"trace_rank", trace_rank},
                    {"kind", row_name(kind)},
                    {"track", track},
                    {"lane", lane},
                    {"start", std::move(row.start)},
                    {"duration", std::move(row.duration)},
                    {"name", std::move(row.name)}});
  }
  return list;
}

}  // namespace

std::string shortened(const std::string& text) {
  if (text.size() <= shown_characters) return text;
  std::size_t end = shown_characters;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;  // not within a character
  return text.substr(0, end) + "...";
}

Json moments_json(const std::vector<Moment>& moments) {
  PageNames names;
  Json list = Json::array();
  for (const Moment& moment : moments) {
    Json rows = Json::array();
    for (std::size_t r = 0; r < moment.timelines.size(); ++r) {
      for (Json& row : rows_of(moment.timelines[r], moment.trace_ranks[r], moment.window.start_ns, names))
        rows.push_back(std::move(row));
    }
    list.push_back({{"title", moment.title},
                    {"instance", moment.instance},
                    {"late_trace_rank", moment.late_trace_rank},
                    {"peer_trace_rank", moment.peer_trace_rank},
                    {"at_ns", moment.at_ns},
                    {"start_ns", moment.window.start_ns},
                    {"end_ns", moment.window.end_ns},
                    {"trace_ranks", moment.trace_ranks},
                    {"left_out", moment.left_out},
                    {"rows", std::move(rows)}});
  }
  return {{"names", std::move(names).json()}, {"list", std::move(list)}};
}

namespace {

using Names = std::vector<std::string_view>;
using Sums = std::vector<schema::Integer>;
using Rows = std::vector<std::size_t>;

/// Kinds of things that one picture shows apart.
constexpr std::size_t most_kinds = 14;
constexpr std::size_t most_named_kernels = 60;
/// Trace ranks whose course over time the page holds: late ones, and some others beside them.
constexpr std::size_t most_late_courses = 16;
constexpr std::size_t other_courses = 8;
/// Trace ranks beside each other in one picture.
constexpr std::size_t most_charted = 1000;
constexpr std::size_t most_rows = 600;

Rows all_row_numbers(const Table& table) {
  Rows rows(table.row_count());
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  return rows;
}

Table pick(const Table& table, const Rows& rows, const Names& columns) {
  Table picked;
  picked.schema = {table.schema.name, table.schema.description, {}};
  for (const std::string_view name : columns) {
    const std::size_t c = table.schema.index_of(name);
    picked.schema.columns.push_back(table.schema.columns[c]);
    std::visit(
        [&](const auto& values) {
          std::decay_t<decltype(values)> chosen;
          for (const std::size_t r : rows) chosen.push_back(values[r]);
          picked.columns.emplace_back(std::move(chosen));
        },
        table.columns[c]);
  }
  return picked;
}

Names every_column(const Table& table) {
  Names names;
  for (const ColumnSchema& column : table.schema.columns) names.push_back(column.name);
  return names;
}

/// The rows with the most of an integer column, most first; among equals the first.
Rows top_rows(const Table& table, const schema::Integer& weight, std::size_t most) {
  const auto& weights = column(table, weight);
  Rows rows = all_row_numbers(table);
  std::stable_sort(rows.begin(), rows.end(), [&](std::size_t a, std::size_t b) { return weights[a] > weights[b]; });
  rows.resize(std::min(rows.size(), most));
  return rows;
}

/// A row for all that agree in the `keys`, with the sums of integer columns, most of the first sum first.
Table sum_by(const Table& table, const Names& keys, const Sums& sums, std::size_t most) {
  Folding folding{.order = sums.front(), .most = most};
  for (const std::string_view key : keys) folding.columns.push_back({key, key, FoldedColumn::By::key});
  for (const std::string_view sum : sums) folding.columns.push_back({sum, sum});
  return fold_rows(table, folding);
}

/// Kernels by time, most first; where there are more than the page names, one row without a name holds the others'
/// sums. Of a long table the rows of some trace ranks are at hand: how many these are stands in every row.
Table kernel_sums(const Table& table) {
  const auto& of = schema::kernels;
  const Table all =
      sum_by(table, {of.name, of.communication}, {of.durations.total, of.durations.count}, table.row_count());
  Rows kept = all_row_numbers(all);
  kept.resize(std::min(kept.size(), most_named_kernels));
  Table named = pick(all, kept, every_column(all));
  if (kept.size() < all.row_count()) {
    const auto rest = [&](const schema::Integer& sum) {
      const auto& values = column(all, sum);
      return std::accumulate(values.begin() + std::ptrdiff_t{most_named_kernels}, values.end(), std::int64_t{0});
    };
    RowWriter(named) << "" << std::int64_t{0} << rest(of.durations.total) << rest(of.durations.count);
  }
  const auto& ranks = column(table, schema::trace_rank);
  const auto summed = static_cast<std::int64_t>(std::set(ranks.begin(), ranks.end()).size());
  named.schema.columns.push_back({"trace_ranks", ColumnKind::integer, "", "trace ranks whose kernels are added up"});
  named.columns.emplace_back(std::vector<std::int64_t>(named.row_count(), summed));
  return named;
}

/// The rows of the names that have most of an integer column in all, of some trace ranks; by trace rank as they were.
Table of_top_names(const Table& table, const schema::Text& name, const schema::Integer& weight, const Names& columns,
                   const std::set<std::int64_t>& ranks) {
  const Table top = sum_by(table, {name}, {weight}, most_kinds);
  const auto& chosen = column(top, name);
  const std::set<std::string> wanted(chosen.begin(), chosen.end());
  const auto& names = column(table, name);
  const auto& numbers = column(table, schema::trace_rank);
  Rows rows;
  for (std::size_t r = 0; r < names.size(); ++r)
    if (wanted.contains(names[r]) && ranks.contains(numbers[r])) rows.push_back(r);
  return pick(table, rows, columns);
}

Table of_ranks(const Table& table, const std::set<std::int64_t>& ranks) {
  const auto& numbers = column(table, schema::trace_rank);
  Rows rows;
  for (std::size_t r = 0; r < numbers.size(); ++r)
    if (ranks.contains(numbers[r])) rows.push_back(r);
  return pick(table, rows, every_column(table));
}

Rows first_rows(const Table& table) {
  Rows rows = all_row_numbers(table);
  rows.resize(std::min(rows.size(), most_rows));
  return rows;
}

/// `chosen` and `others` more of the job, evenly spread; of one without GPU work its processes.
std::set<std::int64_t> with_others(std::set<std::int64_t> chosen, std::size_t others, const JobReport& report) {
  const auto& from = report.trace_ranks.empty() ? report.host_processes : report.trace_ranks;
  const std::size_t all = from.size();
  others = std::min(all, others);
  for (std::size_t i = 0; i < others; ++i) chosen.insert(from[i * all / others].trace_rank);
  return chosen;
}

}  // namespace

std::set<std::int64_t> ranks_to_follow(const JobReport& report) {
  std::set<std::int64_t> chosen;
  // The costliest of every place first, then those that share it.
  for (const Straggler& straggler : report.stragglers)
    if (chosen.size() < most_late_courses) chosen.insert(straggler.trace_rank);
  for (const Straggler& straggler : report.stragglers) {
    for (const std::int32_t trace_rank : straggler.trace_ranks)
      if (chosen.size() < most_late_courses) chosen.insert(trace_rank);
  }
  return with_others(std::move(chosen), other_courses, report);
}

std::set<std::int64_t> charted_ranks(const JobReport& report) {
  return with_others(ranks_to_follow(report), most_charted, report);
}

std::vector<Table> page_views(const JobReport& report, const std::map<std::string, LongTable>& long_tables) {
  using namespace schema;
  const std::set<std::int64_t> followed = ranks_to_follow(report), charted = charted_ranks(report);
  std::map<std::string_view, std::function<Table(const Table&)>> makers;
  const auto sums_of = [&](const Declaration& table, const Names& keys, const Sums& sums, std::size_t most) {
    makers[table.table_name()] = [=](const Table& t) { return sum_by(t, keys, sums, most); };
  };
  const auto top_names_of = [&](const Declaration& table, const Text& name, const Integer& weight, const Names& kept) {
    makers[table.table_name()] = [=, &charted](const Table& t) { return of_top_names(t, name, weight, kept, charted); };
  };
  const auto top_rows_of = [&](const Declaration& table, const Integer& weight, std::size_t most) {
    makers[table.table_name()] = [=](const Table& t) { return pick(t, top_rows(t, weight, most), every_column(t)); };
  };
  makers[kernels.table_name()] = kernel_sums;
  sums_of(launch_latency, {launch_latency.lower_ns}, {launch_latency.count}, most_rows);
  sums_of(stream_concurrency, {stream_concurrency.busy_streams}, {stream_concurrency.duration_ns}, most_rows);
  sums_of(barriers, {barriers.kind, barriers.name}, {barriers.total_ns, barriers.count}, most_rows);
  sums_of(schema::critical_path, {schema::critical_path.step, schema::critical_path.kind},
          {schema::critical_path.duration_ns}, 4 * most_rows);
  sums_of(exposed_communication, {trace_rank, exposed_communication.collective}, {exposed_communication.duration_ns},
          6 * most_rows);
  top_names_of(categories, categories.category, categories.elapsed_ns,
               {trace_rank, categories.category, categories.elapsed_ns});
  top_names_of(idle_causes, idle_causes.cause, idle_causes.gaps.total,
               {trace_rank, idle_causes.cause, idle_causes.gaps.total});
  top_names_of(phases, phases.phase, phases.projected_ns, {trace_rank, phases.phase, phases.projected_ns});
  top_names_of(kernel_peers, kernel_peers.name, kernel_peers.count,
               {kernel_peers.name, trace_rank, kernel_peers.ratio, kernel_peers.peers_median_ns});
  top_rows_of(idle_gaps, idle_gaps.duration_ns, 60);
  top_rows_of(cpu_functions, cpu_functions.time_ns, 60);
  top_rows_of(schema::bandwidth, schema::bandwidth.transfer_ns, most_rows);
  top_rows_of(schema::slack, schema::slack.instances, most_rows);
  top_rows_of(schema::step_budget, schema::step_budget.arrival_skew_ns, most_rows);
  top_rows_of(collectives_in_step, collectives_in_step.skew_ns, most_rows);
  top_rows_of(byte_matrix, byte_matrix.sent_bytes, 4 * most_rows);
  top_rows_of(wait_matrix, wait_matrix.cost_ns, 4 * most_rows);
  top_rows_of(level_sums, level_sums.caused_wait_ns, most_rows);
  for (const Declaration* of :
       std::initializer_list<const Declaration*>{&long_waits, &straggler_cases, &straggler_differences})
    makers[of->table_name()] = [](const Table& t) { return pick(t, first_rows(t), every_column(t)); };
  for (const Declaration* of : std::initializer_list<const Declaration*>{&roofline, &kernel_counters, &gpu_utilisation,
                                                                         &nvlink_over_time, &gpu_counters})
    makers[of->table_name()] = [&](const Table& t) { return of_ranks(t, followed); };
  std::vector<Table> views;
  for (const Table& table : report.tables) {
    const auto maker = makers.find(table.schema.name);
    if (maker == makers.end()) continue;
    const auto long_one = long_tables.find(table.schema.name);
    views.push_back(maker->second(long_one == long_tables.end() ? table : long_one->second.first_rows));
  }
  return views;
}

}  // namespace nsys_explain::report
