#include "report/activity_json.hpp"

#include <algorithm>
#include <cstdint>
#include <variant>

namespace nsys_explain::report {

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

/// A row, an object.
Json objects_of(const Table& table) {
  Json rows = Json::array();
  for (std::size_t r = 0; r < table.row_count(); ++r) {
    Json row;
    for (std::size_t c = 0; c < table.columns.size(); ++c)
      std::visit([&](const auto& values) { row[table.schema.columns[c].name] = values[r]; }, table.columns[c]);
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

Json lists_of(const JobReport& report, std::string_view object) {
  Json lists = Json::object();
  for (const ShownTable& shown : report.shown)
    if (shown.in == object && !shown.list.empty())
      lists[std::string(shown.list)] = objects_of(sums_of(report.tables, report, shown));
  return lists;
}

Json activity_json(const JobReport& report) {
  Json all = lists_of(report, "activity");
  all["category_map"] = report.category_map;
  Nanoseconds window_ns = 0;
  for (const RankSummary& rank : report.ranks) window_ns += rank.budget.window_ns;
  all["suspects"] = suspects(all, window_ns);
  return all;
}

}  // namespace nsys_explain::report
