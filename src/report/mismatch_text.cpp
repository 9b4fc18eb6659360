#include "report/mismatch_text.hpp"

#include <algorithm>
#include <map>
#include <string_view>

#include <fmt/format.h>

#include "report/markdown_parts.hpp"
#include "report/markdown_table.hpp"
#include "report/report.hpp"
#include "report/text.hpp"

namespace nsys_explain::report {

namespace {

constexpr std::size_t named_ranks = 8;

/// Trace ranks that lack operations inside of what they captured, over all communicators, most first.
std::string lacking_sentence(const Table& members) {
  std::map<std::int64_t, std::int64_t> missing_of;
  std::int64_t missing = 0, outside = 0;
  for (std::size_t m = 0; m < members.row_count(); ++m) {
    const std::int64_t trace_rank = column<std::int64_t>(members, "trace_rank")[m];
    if (trace_rank < 0) continue;
    const std::int64_t here = column<std::int64_t>(members, "missing")[m];
    missing += here;
    outside += column<std::int64_t>(members, "outside_window")[m];
    if (here > 0) missing_of[trace_rank] += here;
  }
  std::string text;
  if (missing > 0) {
    std::vector<std::pair<std::int64_t, std::int64_t>> ranks(missing_of.begin(), missing_of.end());
    std::stable_sort(ranks.begin(), ranks.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
    std::string names;
    for (std::size_t i = 0; i < std::min(ranks.size(), named_ranks); ++i) {
      names += fmt::format("{}rank {} lacks {}", i == 0 ? "" : ", ", ranks[i].first, format_count(ranks[i].second));
    }
    if (ranks.size() > named_ranks) names += fmt::format(", and {} more", ranks.size() - named_ranks);
    text += wrap(fmt::format("{} missing in the middle of what was captured (lost, never done, or not matched): {}.",
                             missing == 1 ? "1 arrival is" : format_count(missing) + " arrivals are", names),
                 "- ", "  ");
  }
  if (outside > 0) {
    text += wrap(fmt::format("{} outside of what the rank captured.",
                             outside == 1 ? "1 arrival lies" : format_count(outside) + " arrivals lie"),
                 "- ", "  ");
  }
  return text;
}

/// "captured 3 of 8" of the communicators with members that have no trace.
std::string absent_sentence(const Table& members) {
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> seen_of;  // of how many, by communicator
  for (std::size_t m = 0; m < members.row_count(); ++m) {
    auto& [seen, all] = seen_of[column<std::string>(members, "communicator")[m]];
    seen += column<std::int64_t>(members, "trace_rank")[m] >= 0 ? 1 : 0;
    ++all;
  }
  std::string names;
  std::size_t communicators = 0;
  for (const auto& [name, counts] : seen_of) {
    if (counts.first == counts.second || communicators++ >= named_ranks) continue;
    names += fmt::format("{}{} of {} of {}", names.empty() ? "" : ", ", counts.first, counts.second,
                         markdown_code(name, 24));
  }
  if (names.empty()) return {};
  if (communicators > named_ranks) names += fmt::format(", and {} more communicators", communicators - named_ranks);
  return wrap(fmt::format("Members with a trace: {}.", names), "- ", "  ");
}

std::string operation_text(const Table& table, std::size_t row, std::string_view side) {
  const std::string& operation = column<std::string>(table, fmt::format("{}operation", side))[row];
  const std::int64_t bytes = column<std::int64_t>(table, fmt::format("{}call_bytes", side))[row];
  if (operation == "none") return "nothing";
  return bytes < 0 ? operation : fmt::format("{} of {}", operation, format_bytes(bytes));
}

std::string mismatches_table(const Table& parted) {
  if (parted.row_count() == 0) return {};
  MarkdownTable table;
  using Align = MarkdownTable::Align;
  table.columns = {{"communicator", Align::left},
                   {"at"},
                   {"differs", Align::left},
                   {"members"},
                   {"rank"},
                   {"position"},
                   {"does", Align::left},
                   {"rank"},
                   {"position"},
                   {"does", Align::left}};
  const auto number = [&](std::string_view name, std::size_t row) {
    return format_count(column<std::int64_t>(parted, name)[row]);
  };
  const std::size_t shown = std::min(parted.row_count(), shown_rows);
  for (std::size_t row = 0; row < shown; ++row) {
    table.rows.push_back({markdown_code(column<std::string>(parted, "communicator")[row], 24),
                          format_duration(column<std::int64_t>(parted, "at_ns")[row]),
                          column<std::string>(parted, "difference")[row], number("differing_members", row),
                          number("trace_rank", row), number("position", row), operation_text(parted, row, ""),
                          number("peer_trace_rank", row), number("peer_position", row),
                          operation_text(parted, row, "peer_")});
  }
  return "\nThe first operation of each communicator at which its members part:\n\n" + table.to_string() +
         rest_note(parted.row_count(), shown, "table `communicator_mismatches` of store.h5");
}

}  // namespace

std::string mismatch_text(const std::vector<Table>& tables) {
  std::string text;
  if (const Table* members = find_table(tables, "communicator_members")) {
    text += lacking_sentence(*members) + absent_sentence(*members);
  }
  if (const Table* parted = find_table(tables, "communicator_mismatches")) text += mismatches_table(*parted);
  return text;
}

}  // namespace nsys_explain::report
