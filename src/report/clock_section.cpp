#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "nsys_explain/model/names.hpp"
#include "report/inspector_summary.hpp"
#include "report/markdown_parts.hpp"
#include "report/markdown_sections.hpp"
#include "report/markdown_table.hpp"
#include "report/mismatch_text.hpp"
#include "report/overview.hpp"
#include "report/report.hpp"
#include "report/text.hpp"

namespace nsys_explain::report {

namespace {

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
  if (!residual.held_out_p50_ns || !residual.held_out_p90_ns || !residual.held_out_max_ns) {
    return "No ends of collectives could be held out of the fit, so how well the clocks agree was not checked.";
  }
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
