#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include "model/schema/gpu.hpp"
#include "nsys_explain/model/utf8.hpp"
#include "report/overview.hpp"
#include "report/report.hpp"
#include "report/text.hpp"
#include "sample_report.hpp"

namespace nsys_explain::report {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

/// Two of the tables that rest on links: one within another section, and one of its own.
void show_links(JobReport& report, const std::string& metric) {
  Table nvlink = make_table({"nvlink",
                             "",
                             {{"trace_rank", ColumnKind::integer, "", ""},
                              {"metric", ColumnKind::text, "", ""},
                              {"during", ColumnKind::real, "%", ""},
                              {"outside", ColumnKind::real, "%", ""},
                              {"estimated", ColumnKind::real, "GB/s", ""},
                              {"correlation", ColumnKind::real, "", ""},
                              {"lag_ns", ColumnKind::integer, "ns", ""},
                              {"p_value", ColumnKind::real, "", ""}}});
  RowWriter(nvlink) << std::int64_t{2} << metric << 41.25 << std::nan("") << 185.6 << 0.93 << std::int64_t{300'000}
                    << 0.002;
  Table network = make_table({"network_metrics",
                              "",
                              {{"metric", ColumnKind::text, "", ""},
                               {"ports", ColumnKind::integer, "", ""},
                               {"during", ColumnKind::real, "", ""},
                               {"outside", ColumnKind::real, "", ""},
                               {"unit", ColumnKind::text, "", ""},
                               {"following", ColumnKind::integer, "", ""}}});
  RowWriter(network) << metric << std::int64_t{8} << 1'500'000.0 << 20.0 << "bytes/ms" << std::int64_t{7};
  using By = FoldedColumn::By;
  report.shown.push_back({.table = "nvlink",
                          .list = "gpus",
                          .in = "nvlink",
                          .folding = {.columns = {{"trace_rank", "trace_rank", By::key},
                                                  {"metric", "metric", By::key},
                                                  {"during", "during"},
                                                  {"outside", "outside"},
                                                  {"estimated", "estimated"},
                                                  {"correlation", "correlation"},
                                                  {"lag_ns", "lag_ns"},
                                                  {"p_value", "p_value"}}},
                          .cells = {{"rank", "trace_rank"},
                                    {"direction", "metric"},
                                    {"during", "during"},
                                    {"outside", "outside"},
                                    {"estimated", "estimated"},
                                    {"correlation", "correlation"},
                                    {"lag", "lag_ns"},
                                    {"p", "p_value"}}});
  report.shown.push_back({.table = "network_metrics",
                          .findings = {"slow-link"},
                          .folding = {.columns = {{"metric", "metric", By::key},
                                                  {"ports", "ports"},
                                                  {"during", "during"},
                                                  {"outside", "outside"},
                                                  {"unit", "unit", By::key},
                                                  {"following", "following"}}},
                          .title = "Network during NCCL",
                          .derivation = "By hand.",
                          .cells = {{"metric", "metric"},
                                    {"ports", "ports"},
                                    {"during", "during"},
                                    {"outside", "outside"},
                                    {"unit", "unit"},
                                    {"ports that follow", "following"}}});
  report.tables.push_back(std::move(nvlink));
  report.tables.push_back(std::move(network));
}

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// Cells of a table row as GitHub splits them: at bars that no backslash escapes.
std::size_t cell_count(const std::string& line) {
  std::size_t bars = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\\') {
      ++i;
    } else if (line[i] == '|') {
      ++bars;
    }
  }
  return bars - 1;
}

/// Every table must have as many cells in each row as in its header.
void expect_whole_tables(const std::string& markdown) {
  std::size_t cells = 0;
  for (const std::string& line : lines_of(markdown)) {
    if (line.empty() || line[0] != '|') {
      cells = 0;
      continue;
    }
    if (cells == 0) cells = cell_count(line);
    EXPECT_EQ(cell_count(line), cells) << line;
  }
}

std::string everything(const JobReport& report) {
  return to_markdown(report) + to_summary(report, "results");
}

/// Line breaks are spaces to a reader.
std::string unwrapped(const std::string& text) {
  std::string result;
  for (const std::string& line : lines_of(text)) {
    const std::size_t start = std::min(line.find_first_not_of(' '), line.size());
    result += line.substr(start) + ' ';
  }
  return result;
}

TEST(Markdown, SaysFirstWhoIsLateAndWhatItCosts) {
  const std::string text = unwrapped(to_markdown(small_report()));
  EXPECT_THAT(text, StartsWith("# Why is this job slow?  **Rank 2 (GPU 0 on node02) makes the others wait.**"));
  EXPECT_THAT(text, HasSubstr("**Next:** compare its clocks"));
  EXPECT_THAT(text, HasSubstr("| rank 2 | persistent | slow_kernel |"));
}

/// Lines of a report before its first table.
std::size_t lines_before_tables(const std::string& markdown) {
  const std::vector<std::string> lines = lines_of(markdown);
  return static_cast<std::size_t>(
      std::find_if(lines.begin(), lines.end(), [](const std::string& line) { return line.starts_with('|'); }) -
      lines.begin());
}

TEST(Markdown, TellsWhatMattersOnTwoScreensBeforeTheTables) {
  JobReport report = small_report();
  const Finding finding{"gpu-idle", FindingSeverity::high, std::string(190, 't'),
                        std::vector<std::string>(9, "evidence of a line " + std::string(100, 'e')),
                        std::string(200, 'n')};
  report.findings.assign(12, finding);
  report.findings[7] = {"hint", FindingSeverity::low, "hardly anything", {"not told"}, "nothing to do"};
  const std::string markdown = to_markdown(report);
  EXPECT_LE(lines_before_tables(markdown), 120U);
  EXPECT_THAT(unwrapped(markdown), HasSubstr("... and 4 more (`findings` in report.json)")) << "evidence of the first";
  EXPECT_THAT(markdown, HasSubstr("**[low]** hardly anything\n"));
  EXPECT_THAT(markdown, Not(HasSubstr("not told")));
  EXPECT_THAT(markdown, HasSubstr("... and 4 more (`findings` in report.json)"));
}

TEST(Markdown, TellsHowGoodTheDataAre) {
  const std::string text = unwrapped(to_markdown(small_report()));
  EXPECT_THAT(text, HasSubstr("5 inputs: 3 ok, 1 degraded, 1 failed."));
  EXPECT_THAT(text, HasSubstr("100 collectives matched: 10 complete, 90 partial; 2 arrivals without counterpart."));
  EXPECT_THAT(text, HasSubstr("4 sessions, 2 by collectives, 1 by host_clock and 1 by utc"));
  EXPECT_THAT(text, HasSubstr("ends of collectives agree within 2.500 us (90% of them)"));
  EXPECT_THAT(text, HasSubstr("delays below 15.00 us are not seen"));
  EXPECT_THAT(text, HasSubstr("1 session is related to no other"));
}

TEST(Markdown, ShowsWhatTheClockAndTheMatchingAreWorth) {
  const std::string markdown = to_markdown(small_report());
  const std::string text = unwrapped(markdown);
  EXPECT_THAT(text, HasSubstr("## Clock and matching quality"));
  EXPECT_THAT(text, HasSubstr("Arrival skews above 15.00 us are resolved in every collective"));
  EXPECT_THAT(text, HasSubstr("1 session is related to no other: no lateness is stated between it and the rest."));
  EXPECT_THAT(text, HasSubstr("In 1 collective a member left before the last one entered"));
  EXPECT_THAT(text, HasSubstr("1 collective is not judged"));
  EXPECT_THAT(text, HasSubstr("-12.5 ppb, bent"));
  // The fullest bin has 40 signs; 20 of 70 are 11.4 of them, rounded up.
  EXPECT_THAT(markdown, HasSubstr("\nbelow  1.024 us  " + std::string(40, '#') + "          70   58.3%\n"));
  EXPECT_THAT(markdown, HasSubstr("\nbelow  2.048 us  " + std::string(12, '#') + ' '));
  EXPECT_THAT(markdown, HasSubstr("\nbelow  8.192 us  " + std::string(40, ' ') + "           0    0.0%\n"));
  EXPECT_THAT(text, HasSubstr("all_gather, size not known, one host"));
}

TEST(Markdown, SaysWhereNothingCouldBeHeldOut) {
  JobReport report = small_report();
  report.clock.residual = {};
  report.clock.violations = 0;
  const std::string text = unwrapped(to_markdown(report));
  EXPECT_THAT(text, HasSubstr("No ends of collectives could be held out of the fit"));
  EXPECT_THAT(text, HasSubstr("In no collective did a member leave before the last one entered."));
  EXPECT_THAT(text, Not(HasSubstr("Residuals of the ends")));
}

TEST(Markdown, OfOneSessionNeedsNoCorrection) {
  JobReport report = small_report();
  report.clock.sessions.resize(1);
  EXPECT_THAT(unwrapped(to_markdown(report)), HasSubstr("Clock: one session, so all times share one clock."));
}

TEST(Markdown, OfAJobWithoutStragglersSaysWhyWaitingHasNoCulprit) {
  JobReport report = small_report();
  report.stragglers.clear();
  EXPECT_THAT(unwrapped(to_markdown(report)),
              AllOf(HasSubstr("Waiting in collectives adds up to 350.0 ms of GPU time, 8.8% of all GPU time."),
                    HasSubstr("the last arriver in 90 of 100 collectives"), HasSubstr("rank 2, 81 times")));
  for (RankSummary& rank : report.ranks) rank.last_arrivals = 0;
  EXPECT_THAT(unwrapped(to_markdown(report)), HasSubstr("in none of the 100 collectives is the last arriver later"));
}

TEST(Markdown, OfAJobWithoutStragglersSaysWhoHasNoPeer) {
  JobReport report = small_report();
  report.stragglers.clear();
  const std::string trace_ranks = std::to_string(report.ranks.size());
  Table& places = report.tables.emplace_back(make_table({"rank_places",
                                                         "",
                                                         {{"trace_rank", ColumnKind::integer, "", ""},
                                                          {"level", ColumnKind::text, "", ""},
                                                          {"place", ColumnKind::text, "", ""}}}));
  RowWriter row(places);
  row << std::int64_t{0} << "pipeline_stage"
      << "0";
  row << std::int64_t{0} << "node"
      << "n1";
  row << std::int64_t{1} << "pipeline_stage"
      << "0";
  EXPECT_THAT(unwrapped(to_markdown(report)), Not(HasSubstr("pipeline stages without peers")));
  row << std::int64_t{2} << "pipeline_stage"
      << "1";
  EXPECT_THAT(unwrapped(to_markdown(report)),
              HasSubstr("1 of " + trace_ranks + " ranks are pipeline stages without peers"));
}

TEST(Markdown, HoldsTheTablesThatItsFindingsRestOn) {
  JobReport report = small_report();
  EXPECT_THAT(to_markdown(report), AllOf(HasSubstr("## Who waits for whom"), Not(HasSubstr("## Communicators"))));
  report.findings[0] = {"missing-ranks", FindingSeverity::medium, "a rank is missing", {}, ""};
  EXPECT_THAT(to_markdown(report), AllOf(Not(HasSubstr("## Who waits for whom")), HasSubstr("## Communicators")));
  report.findings[0].severity = FindingSeverity::low;
  EXPECT_THAT(to_markdown(report), AllOf(Not(HasSubstr("## Communicators")), HasSubstr("nsys-explain-mpi show .")));
}

TEST(Markdown, OfAnEmptyReportSaysSo) {
  const std::string text = to_markdown(JobReport{});
  EXPECT_THAT(text, HasSubstr("0 inputs"));
  EXPECT_THAT(text, Not(HasSubstr("nan")));
}

TEST(Markdown, FailedInputsAndWarningsAreShownWithTheirMessages) {
  const std::string text = unwrapped(to_markdown(small_report()));
  EXPECT_THAT(text, HasSubstr("**failed** `traces/rank_4.sqlite`: the file is not an SQLite database"));
  EXPECT_THAT(text, HasSubstr("**data_loss** (trace, 1,234 times) CUPTI dropped events"));
  EXPECT_LT(text.find("**data_loss**"), text.find("rank 4 was never captured"));
  EXPECT_LT(text.find("**[high]**"), text.find("**[info]**"));
}

TEST(Markdown, FitsATerminal) {
  for (const std::string& line : lines_of(everything(small_report()))) EXPECT_LE(text_width(line), 112u) << line;
}

TEST(Markdown, OfAThousandRanksStaysShort) {
  const std::string text = to_markdown(large_report(1000));
  EXPECT_LT(lines_of(text).size(), 200u);
  EXPECT_LT(text.size(), 60'000u);
  EXPECT_THAT(text, HasSubstr("... and 980 more (table `ranks` of store.h5)."));
  EXPECT_THAT(text, HasSubstr("... and 992 more (`findings` in report.json)"));
  // The most telling ranks come first, whatever their number.
  EXPECT_THAT(lines_of(text), Contains(StartsWith("|  999 |    1,000 |")));
  expect_whole_tables(text);
}

TEST(Markdown, SurvivesHostileText) {
  const std::vector<std::string> hostile{"a|b||c\\|",
                                         "`tick` ``` ```` `",
                                         "<script>alert(1)</script><img src=x onerror=y>",
                                         "line\nbreak\r\n# heading\n\n| a | b |\n|---|---|\n",
                                         std::string(5000, 'x'),
                                         "\x1b[2J\x1b]0;title\x07 \x9b \xff\xfe \u202E",
                                         "![i](javascript:alert(1)) [l](x) &lt;b&gt; $x$"};
  for (const std::string& text : hostile) {
    JobReport report = small_report();
    for (TraceRankIdentity& rank : report.trace_ranks) rank.host = rank.gpu_name = rank.key.path = text;
    for (SessionClock& session : report.clock.sessions) session.host = session.path = text;
    for (InputReport& input : report.inputs) {
      input.path = input.message = text;
      input.status = InputStatus::failed;
    }
    for (CommunicatorSummary& communicator : report.communicators) communicator.name = text;
    for (Finding& finding : report.findings) finding = {text, finding.severity, text, {text, text}, text};
    for (Warning& warning : report.warnings) warning.message = text;
    report.nvlink = {true, text};
    show_links(report, text);
    const std::string summary = to_summary(report, text);
    EXPECT_LE(lines_of(summary).size(), 25u);
    const std::string markdown = to_markdown(report);
    const std::string out = markdown + summary;
    expect_whole_tables(out);
    EXPECT_EQ(valid_utf8(out), out);
    for (const char c : out) {
      EXPECT_TRUE(c == '\n' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7F)) << static_cast<int>(c);
    }
    EXPECT_THAT(lines_of(out), Not(Contains(StartsWith("# heading"))));
    for (const std::string& line : lines_of(out)) EXPECT_LE(text_width(line), 5000u);
    // Outside of code spans no tag may start.
    bool code = false;
    for (std::size_t i = 0; i < markdown.size(); ++i) {
      if (markdown[i] == '`') code = !code;
      if (!code && markdown[i] == '<') {
        EXPECT_EQ(markdown[i - 1], '\\') << markdown.substr(i, 40);
      }
    }
  }
}

TEST(Summary, IsAFewLines) {
  const std::string text = to_summary(small_report(), "results/today");
  EXPECT_LE(lines_of(text).size(), 25u);
  EXPECT_THAT(text, StartsWith("Rank 2 (GPU 0 on node02) makes the others wait.\nNext: compare its clocks"));
  EXPECT_THAT(text, HasSubstr("Findings: 1 high, 1 info. Warnings: 0 error, 1 data loss."));
  EXPECT_THAT(text, HasSubstr("Reports: results/today/report."));
  EXPECT_LE(lines_of(to_summary(large_report(1000), "x")).size(), 25u);
  EXPECT_LE(lines_of(to_summary(JobReport{}, "x")).size(), 12u);
}

TEST(CaptureAdvice, NamesTheCommandForEachGap) {
  JobReport report = small_report();
  report.ranks[0].budget.opaque_graph_ns = 1;
  std::vector<std::string> commands;
  for (const CaptureAdvice& advice : capture_advice(report)) {
    commands.insert(commands.end(), advice.commands.begin(), advice.commands.end());
  }
  EXPECT_THAT(commands, Contains(HasSubstr("--cuda-graph-trace=node")));
  EXPECT_THAT(commands, Contains(HasSubstr("--gpu-metrics-devices=cuda-visible")));
  EXPECT_THAT(commands, Contains(HasSubstr("--include-blobs=true --include-json=true")));
  EXPECT_THAT(commands, Contains(HasSubstr("--enable vclock")));
  EXPECT_THAT(commands, Contains(HasSubstr("-t cuda,nvtx,nccl")));
}

TEST(CaptureAdvice, AsksForNoGpuMetricsThatAreThere) {
  const auto asks_for_metrics = [](const JobReport& report) {
    const auto advice = capture_advice(report);
    return std::any_of(advice.begin(), advice.end(), [](const CaptureAdvice& one) {
      return one.missing.find("NVLink traffic was not analysed") != std::string::npos;
    });
  };
  JobReport report = small_report();
  std::erase_if(report.tables, [](const Table& table) { return table.schema.name == "gpu_counters"; });
  EXPECT_TRUE(asks_for_metrics(report));
  Table counters = make_table(schema::gpu_counters);  // of a GPU without NVLink
  RowWriter(counters) << "window"
                      << "sms_active" << std::int64_t{10} << 50.0 << 60.0 << 50.0;
  report.tables.push_back(counters);
  EXPECT_FALSE(asks_for_metrics(report));
}

TEST(CaptureAdvice, OfInputsWithoutGpuWorkIsWhatTheirMessagesSay) {
  JobReport report;
  report.inputs = {{"a.sqlite", InputStatus::degraded, "the export holds no kernels; open it later"}};
  report.clock.sessions.resize(2);
  EXPECT_TRUE(capture_advice(report).empty());
}

TEST(Markdown, ShowsNvlinkAndNetworkDuringCollectives) {
  JobReport report = small_report();
  report.nvlink = {true, "counters of 1 GPU"};
  show_links(report, "NVLink receive, user data");
  EXPECT_THAT(to_markdown(report), Not(HasSubstr("during NCCL"))) << "no finding rests on it";
  report.findings.push_back({"slow-link", FindingSeverity::medium, "a link is slow", {}, ""});
  const std::string markdown = to_markdown(report);
  EXPECT_THAT(markdown, HasSubstr("## NVLink during NCCL"));
  EXPECT_THAT(markdown, HasSubstr("counters of 1 GPU\n\n| rank | direction                 | during |"));
  EXPECT_THAT(markdown, HasSubstr("|  41.2% |       - |  186 GB/s |        0.93 | 300.0 us | 0.002 |"));
  EXPECT_THAT(markdown, HasSubstr("## Network during NCCL"));
  EXPECT_THAT(markdown, HasSubstr("|     8 | 1.5e+06 |      20 | bytes/ms |                 7 |"));
}

TEST(CaptureAdvice, IsEmptyWhereNothingIsMissing) {
  JobReport report = small_report();
  report.nvlink.available = true;
  report.clock.sessions[3].uncertainty_ns = 1;
  report.communicators[0].size = 4;
  report.communicators[1].evidence = Evidence::nccl_payload;
  EXPECT_TRUE(capture_advice(report).empty());
  EXPECT_THAT(to_markdown(report), Not(HasSubstr("What to capture next time")));
}

}  // namespace
}  // namespace nsys_explain::report
