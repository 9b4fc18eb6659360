#include <cmath>

#include <fmt/format.h>

#include "nsys_explain/model/names.hpp"
#include "report/markdown.hpp"
#include "report/report.hpp"
#include "report/side_files.hpp"
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
    for (std::size_t i = 0; i < std::min(ranks.size(), named_ranks); ++i)
      names += fmt::format("{}rank {} lacks {}", i == 0 ? "" : ", ", ranks[i].first, format_count(ranks[i].second));
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

/// Who lacks what, and where members first part, as list items of report.md; empty where members agree.
std::string mismatch_text(const std::vector<Table>& tables) {
  std::string text;
  if (const Table* members = find_table(tables, "communicator_members"))
    text += lacking_sentence(*members) + absent_sentence(*members);
  if (const Table* parted = find_table(tables, "communicator_mismatches")) text += mismatches_table(*parted);
  return text;
}

using Align = MarkdownTable::Align;

constexpr std::size_t bar_width = 40;

std::string sessions_table(const ClockReport& clock) {
  MarkdownTable table;
  table.columns = {{"session", Align::left},
                   {"host", Align::left},
                   {"method", Align::left},
                   {"offset"},
                   {"drift"},
                   {"uncertainty"},
                   {"group"}};
  const std::vector<SessionClock> sessions =
      most_telling(clock.sessions, [](const SessionClock& a, const SessionClock& b) {
        if (a.uncertainty_ns.has_value() != b.uncertainty_ns.has_value()) return !a.uncertainty_ns.has_value();
        return a.uncertainty_ns > b.uncertainty_ns;
      });
  for (const SessionClock& s : sessions) {
    const std::string drift = fmt::format("{:.4g} ppb", s.drift_ppb);
    table.rows.push_back(
        {markdown_path(s.path, 32), markdown_code(s.host, 16), std::string(clock_method_name(s.method)),
         format_duration(s.offset_ns), s.bends.empty() ? drift : drift + ", bent",
         s.uncertainty_ns ? format_duration(*s.uncertainty_ns) : "unknown", fmt::format("{}", s.component)});
  }
  return table.to_string() + rest_note(clock.sessions.size(), sessions.size(), "table `clock_sessions` of store.h5");
}

/// One line per power of two; bars are in proportion to the fullest one.
std::string histogram(const ClockResidual& residual) {
  if (residual.histogram.empty()) return {};
  std::int64_t most = 1;
  for (const ResidualBin& bin : residual.histogram) most = std::max(most, bin.samples);
  std::string out = "\nResiduals of the ends held out of the fit:\n\n```text\n";
  for (const ResidualBin& bin : residual.histogram) {
    const double share = static_cast<double>(bin.samples) / static_cast<double>(most);
    const auto length = static_cast<std::size_t>(std::ceil(share * static_cast<double>(bar_width)));
    out += fmt::format("below {:>9}  {:<{}}  {:>10}  {:>6}\n", format_duration(bin.to_ns), std::string(length, '#'),
                       bar_width, format_count(bin.samples), format_share(bin.samples, residual.samples));
  }
  return out + "```\n";
}

std::string class_name(const ClassResidual& row) {
  const std::string size = row.from_bytes < 0    ? "size not known"
                           : row.from_bytes == 0 ? "0 bytes"
                                                 : "from " + format_bytes(row.from_bytes);
  return fmt::format("{}, {}, {}", operation_name(row.operation), size, row.one_host ? "one host" : "several hosts");
}

std::string classes_table(const ClockResidual& residual) {
  if (residual.by_class.empty()) return {};
  MarkdownTable table;
  table.columns = {{"ends of", Align::left}, {"samples"}, {"median"}, {"90%"}, {"most"}, {"decides", Align::left}};
  const std::vector<ClassResidual> rows = most_telling(
      residual.by_class, [](const ClassResidual& a, const ClassResidual& b) { return a.samples > b.samples; });
  for (const ClassResidual& row : rows) {
    table.rows.push_back({class_name(row), format_count(row.samples), format_duration(row.p50_ns),
                          format_duration(row.p90_ns), format_duration(row.max_ns), row.decides ? "yes" : "no"});
  }
  return '\n' + table.to_string() +
         rest_note(residual.by_class.size(), rows.size(), "table `clock_residuals` of store.h5");
}

std::string residual_sentence(const ClockResidual& residual) {
  if (!residual.held_out_p50_ns || !residual.held_out_p90_ns || !residual.held_out_max_ns)
    return "No ends of collectives could be held out of the fit, so how well the clocks agree was not checked.";
  return fmt::format(
      "Ends of collectives held out of the fit differ by {} (median), {} (90% of them less) and {} (most), over {}.",
      format_duration(*residual.held_out_p50_ns), format_duration(*residual.held_out_p90_ns),
      format_duration(*residual.held_out_max_ns), counted(residual.samples, "sample"));
}

std::vector<std::string> clock_sentences(const JobReport& report) {
  const ClockReport& clock = report.clock;
  std::vector<std::string> sentences{residual_sentence(clock.residual)};
  if (clock.smallest_skew_ns) {
    sentences.push_back(
        fmt::format("Arrival skews above {} are resolved in every collective; below, the last arriver may be unknown.",
                    format_duration(*clock.smallest_skew_ns)));
  }
  const auto unrelated = std::count_if(clock.sessions.begin(), clock.sessions.end(),
                                       [](const SessionClock& session) { return !session.uncertainty_ns; });
  if (unrelated > 0 && clock.sessions.size() > 1) {
    sentences.push_back(
        fmt::format("{} to no other: no lateness is stated between {} and the rest.",
                    unrelated == 1 ? "1 session is related" : format_count(unrelated) + " sessions are related",
                    unrelated == 1 ? "it" : "them"));
  }
  sentences.push_back(
      clock.violations == 0
          ? "In no collective did a member leave before the last one entered."
          : fmt::format(
                "In {} a member left before the last one entered, which a correct clock and match never show; no lateness is stated for them.",
                counted(clock.violations, "collective")));
  return sentences;
}

}  // namespace

std::string clock_and_matching_section(const JobReport& report) {
  const ClockReport& clock = report.clock;
  if (clock.sessions.size() < 2 && clock.violations == 0 && report.instances == 0) return {};
  std::string out = heading(
      "Clock and matching quality",
      "One clock correction per session (report file): by matched ends of collectives, by a clock that sessions of one host share, or by UTC alone. Uncertainty is one standard uncertainty; only sessions of one group can be compared. Half of the collectives at a time is held out of the fit to see how well it foretells their ends.");
  if (clock.sessions.size() > 1) {
    out += sessions_table(clock) + '\n';
    for (const std::string& sentence : clock_sentences(report)) out += wrap(sentence, "- ", "  ");
  }
  out += wrap(matching_quality(report), "- ", "  ");
  if (report.unjudged > 0) {
    out += wrap(fmt::format("{} judged: the clocks cannot be compared, or the times are impossible.",
                            report.unjudged == 1 ? "1 collective is not"
                                                 : format_count(report.unjudged) + " collectives are not"),
                "- ", "  ");
  }
  if (const std::string keys = inspector_sentence(report.tables); !keys.empty()) out += wrap(keys, "- ", "  ");
  out += mismatch_text(report.tables);
  return out + histogram(clock.residual) + classes_table(clock.residual);
}

}  // namespace nsys_explain::report
