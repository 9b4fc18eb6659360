#include "report/json_parts.hpp"

#include <algorithm>

#include "model/schema/host.hpp"
#include "nsys_explain/model/names.hpp"
#include "report/side_files.hpp"

namespace nsys_explain::report {

Json object_of(const Table& table, std::size_t row) {
  Json object;
  for (std::size_t c = 0; c < table.columns.size(); ++c)
    std::visit([&](const auto& values) { object[table.schema.columns[c].name] = values[row]; }, table.columns[c]);
  return object;
}

Json objects_of(const Table& table) {
  Json rows = Json::array();
  for (std::size_t row = 0; row < table.row_count(); ++row) rows.push_back(object_of(table, row));
  return rows;
}

namespace {

Json bend(const ClockBend& bend) {
  return {{"at_ns", bend.at_ns}, {"correction_ns", bend.correction_ns}};
}

Json session_clock(const SessionClock& session) {
  return {{"path", session.path},
          {"host", session.host},
          {"method", clock_method_name(session.method)},
          {"offset_ns", session.offset_ns},
          {"drift_ppb", session.drift_ppb},
          {"drift_uncertainty_ppb", nullable(session.drift_uncertainty_ppb)},
          {"uncertainty_ns", nullable(session.uncertainty_ns)},
          {"component", session.component},
          {"bends", array_of(session.bends, bend)}};
}

Json residual_bin(const ResidualBin& bin) {
  return {{"from_ns", bin.from_ns}, {"to_ns", bin.to_ns}, {"samples", bin.samples}};
}

Json class_residual(const ClassResidual& row) {
  return {{"operation", operation_name(row.operation)},
          {"scope", row.one_host ? "one_host" : "several_hosts"},
          {"from_bytes", row.from_bytes < 0 ? Json(nullptr) : Json(row.from_bytes)},
          {"decides", row.decides},
          {"samples", row.samples},
          {"held_out_p50_ns", row.p50_ns},
          {"held_out_p90_ns", row.p90_ns},
          {"held_out_max_ns", row.max_ns}};
}

}  // namespace

Json clock_json(const ClockReport& clock) {
  const ClockResidual& residual = clock.residual;
  return {{"sessions", array_of(clock.sessions, session_clock)},
          {"pivot_ns", clock.pivot_ns},
          {"residual",
           {{"held_out_p50_ns", nullable(residual.held_out_p50_ns)},
            {"held_out_p90_ns", nullable(residual.held_out_p90_ns)},
            {"held_out_max_ns", nullable(residual.held_out_max_ns)},
            {"samples", residual.samples},
            {"histogram", array_of(residual.histogram, residual_bin)},
            {"by_class", array_of(residual.by_class, class_residual)}}},
          {"violations", clock.violations},
          {"smallest_skew_ns", nullable(clock.smallest_skew_ns)}};
}

namespace {

/// -1 (no such rank, not known) is null.
Json known_of(const Table& table, std::size_t row) {
  Json object = object_of(table, row);
  for (Json& value : object)
    if (value == -1) value = nullptr;
  return object;
}

}  // namespace

Json matching_json(const std::vector<Table>& tables) {
  Json lacking = Json::array(), mismatches = Json::array();
  std::int64_t missing = 0, outside = 0, absent = 0;
  if (const Table* members = find_table(tables, "communicator_members")) {
    const auto& gaps = column<std::int64_t>(*members, "missing");
    const auto& trace_ranks = column<std::int64_t>(*members, "trace_rank");
    for (std::size_t m = 0; m < gaps.size(); ++m) {
      missing += gaps[m];
      absent += trace_ranks[m] < 0 ? 1 : 0;
      if (trace_ranks[m] >= 0) outside += column<std::int64_t>(*members, "outside_window")[m];
      if (gaps[m] > 0) lacking.push_back(known_of(*members, m));
    }
  }
  if (const Table* parted = find_table(tables, "communicator_mismatches"))
    for (std::size_t row = 0; row < parted->row_count(); ++row) mismatches.push_back(known_of(*parted, row));
  Json matching = {{"missing_arrivals", missing},
                   {"outside_windows", outside},
                   {"members_without_trace", absent},
                   {"lacking_members", std::move(lacking)},
                   {"first_mismatches", std::move(mismatches)}};
  if (auto inspector = inspector_json(tables)) matching["inspector"] = *std::move(inspector);
  return matching;
}

namespace {

/// The costliest of the lists, whatever their kind, as a share of the window of all trace ranks.
Json suspects(const Json& activity, Nanoseconds window_ns) {
  struct Kind {
    const char *name, *list, *told_apart;  ///< rows with 1, or that text, there are of another kind
    Json other;
  };
  const Kind kinds[] = {{"kernel", "kernels", "communication", 1},
                        {"communication", "communication_kernels", "", {}},
                        {"barrier", "barriers", "kind", "launcher_gap"},  // holds the other barriers
                        {"idle", "idle_causes", "", {}},
                        {"copy", "transfers", "", {}}};
  constexpr int most_of_kind = 3;
  Json all = Json::array();
  if (window_ns == 0) return all;  // there is nothing that they could be a share of
  for (const Kind& kind : kinds) {
    int of_kind = 0;
    for (const Json& row : activity.value(kind.list, Json::array())) {
      const auto total_ns = row.at("total_ns").get<std::int64_t>();
      const bool is_other = !kind.other.is_null() && row.at(kind.told_apart) == kind.other;
      if (total_ns <= 0 || is_other || ++of_kind > most_of_kind) continue;
      all.push_back({{"kind", kind.name},
                     {"name", row.at("name")},
                     {"count", row.at("count")},
                     {"total_ns", total_ns},
                     {"share", static_cast<double>(total_ns) / static_cast<double>(window_ns)}});
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const Json& a, const Json& b) { return a["total_ns"] > b["total_ns"]; });
  return all;
}

}  // namespace

Json lists_of(const JobReport& report, std::string_view object) {
  Json lists = Json::object();
  for (const ShownTable& shown : report.shown)
    if (shown.in == object && !shown.list.empty())
      lists[std::string(shown.list)] = objects_of(sums_of(report.tables, report, shown));
  return lists;
}

Json list_of(const JobReport& report, std::string_view list) {
  for (const ShownTable& shown : report.shown)
    if (shown.in.empty() && shown.list == list) return objects_of(sums_of(report.tables, report, shown));
  return Json::array();
}

Json activity_json(const JobReport& report) {
  Json all = lists_of(report, "activity");
  all["category_map"] = report.category_map;
  Nanoseconds window_ns = 0;
  for (const RankSummary& rank : report.ranks) window_ns += rank.budget.window_ns;
  all["suspects"] = suspects(all, window_ns);
  return all;
}

namespace {

Json percent(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? Json(100 * static_cast<double>(part) / static_cast<double>(whole)) : Json(nullptr);
}

std::int64_t total(const Table& table, const schema::Integer& of) {
  std::int64_t sum = 0;
  for (const std::int64_t value : column(table, of)) sum += value;
  return sum;
}

}  // namespace

Json attribution_json(const JobReport& report) {
  const Table* coverage = find_table(report.tables, schema::nvtx_coverage);
  if (coverage == nullptr) return nullptr;
  const std::int64_t kernel_ns = total(*coverage, schema::nvtx_coverage.kernel_ns);
  return {{"kernel_ns", kernel_ns},
          {"launched_percent", percent(total(*coverage, schema::nvtx_coverage.launched_ns), kernel_ns)},
          {"nvtx_ranges", total(*coverage, schema::nvtx_coverage.ranges)},
          {"nvtx_covered_percent", percent(total(*coverage, schema::nvtx_coverage.covered_ns), kernel_ns)}};
}

}  // namespace nsys_explain::report
