#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "report/page.hpp"
#include "report/report.hpp"
#include "sample_report.hpp"

namespace nsys_explain::report {
namespace {

constexpr std::int32_t heat_bins = 240;
constexpr std::int32_t job_spans = 80;
constexpr std::int32_t looked_into = 80;
constexpr std::int32_t of_communicators = 800;  ///< pairs are the most of these that the pipeline lets through
constexpr std::size_t listed_arrivals = 64;

/// Points in time of an hour's run, and sums of seconds.
constexpr Nanoseconds long_time = 3'600'123'456'789;
constexpr std::int64_t long_sum = 5'123'456'789;

/// What the pipeline gathers at most for `ranks` trace ranks, whatever the number of collectives.
ReportDetail full_detail(std::int32_t ranks) {
  ReportDetail detail;
  HeatMap& map = detail.heat_map;
  map.bins = heat_bins;
  map.bin_ns = 123'456'789;
  for (std::int32_t r = 0; r < ranks; ++r) map.trace_ranks.push_back(r);
  map.wait_ns.assign(static_cast<std::size_t>(ranks) * heat_bins, 98'765'432);
  map.own_lateness_ns = map.wait_ns;
  const std::int32_t wide = job_spans + looked_into;
  for (std::int32_t number = 0; number < wide + of_communicators; ++number) {
    CollectiveDetail one;
    one.instance = 1'000'000 + number;
    one.communicator = "0x0123456789abcdef";
    one.summary.comparable = true;
    one.summary.first_enter = JobTime(long_time);
    one.summary.last_enter = JobTime(long_time + 2'469'134);
    one.arrivals.resize(number < wide ? std::min<std::size_t>(listed_arrivals, static_cast<std::size_t>(ranks)) : 2);
    for (InstanceArrival& arrival : one.arrivals) {
      arrival.enter = JobTime(long_time + 1'234'567);
      arrival.exit = one.summary.last_enter + 123'456;
      arrival.own_lateness_ns = 777'778;
      arrival.lateness_split = true;
      arrival.trace_rank = ranks - 1;
    }
    detail.collectives.push_back(one);
  }
  // As many steps as lanes_of makes of a thousand trace ranks; no two neighbours are alike.
  detail.lanes.bins = 240;
  detail.lanes.trace_ranks = map.trace_ranks;
  detail.lanes.spans.resize(8);
  for (LaneSpan& span : detail.lanes.spans)
    for (std::int32_t cell = 0; cell < 240 * ranks; ++cell)
      span.cells.push_back(static_cast<std::uint8_t>(cell % 2 == 0 ? 48 : 3));
  return detail;
}

/// A table with `each` rows of every trace rank, by its columns' names.
Table rank_table(const std::string& name, std::vector<ColumnSchema> columns, std::int32_t ranks, int each) {
  columns.insert(columns.begin(), {"trace_rank", ColumnKind::integer, "", ""});
  Table table = make_table({name, "", columns});
  RowWriter rows(table);
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    for (int i = 0; i < each; ++i) {
      rows << rank;
      for (std::size_t c = 1; c < columns.size(); ++c) {
        switch (columns[c].kind) {
          case ColumnKind::integer:
            rows << long_sum + i;
            break;
          case ColumnKind::time:
            rows << long_time + i;
            break;
          case ColumnKind::real:
            rows << 12.3456789012345;
            break;
          case ColumnKind::text:
            rows << columns[c].name + std::string(150, 'x') + std::to_string(i);
        }
      }
    }
  }
  return table;
}

/// As many as there are, each as full as it can be: four trace ranks with 1,500 events and some waits.
std::vector<Moment> full_moments() {
  std::vector<Moment> moments(4);
  for (Moment& moment : moments) {
    moment.trace_ranks = {0, 1, 2, 3};
    moment.timelines.resize(4);
    for (Timeline& timeline : moment.timelines) {
      for (std::uint32_t name = 0; name < 100; ++name) timeline.names.push_back(fmt::format("{:0>200}", name));
      for (std::int64_t e = 0; e < 2'000; ++e)
        timeline.events.push_back({10'000'000 + 98'765 * e, 10'050'000 + 98'765 * e, 0,
                                   static_cast<std::uint32_t>(e % 100), 7, 0, 0,
                                   e % 4 == 0 ? TimelineKind::wait : TimelineKind::compute, 0});
    }
  }
  return moments;
}

JobReport full_report(std::int32_t ranks) {
  JobReport report = large_report(ranks);
  report.findings.resize(8);  // whatever the number of trace ranks
  report.stragglers.resize(8);
  report.detail = full_detail(ranks);
  constexpr auto integer = ColumnKind::integer;
  constexpr auto text = ColumnKind::text;
  // Those with views, and as many again as there are others.
  report.tables.push_back(rank_table("kernels",
                                     {{"name", text, "", ""},
                                      {"communication", integer, "", ""},
                                      {"total_ns", integer, "", ""},
                                      {"count", integer, "", ""}},
                                     ranks, 60));
  report.tables.push_back(
      rank_table("categories", {{"category", text, "", ""}, {"elapsed_ns", integer, "", ""}}, ranks, 14));
  report.tables.push_back(
      rank_table("idle_causes", {{"cause", text, "", ""}, {"total_ns", integer, "", ""}}, ranks, 3));
  report.tables.push_back(rank_table(
      "gpu_utilisation",
      {{"start_ns", ColumnKind::time, "", ""}, {"span_ns", integer, "", ""}, {"compute_ns", integer, "", ""}}, ranks,
      100));
  report.tables.push_back(rank_table("kernel_peers",
                                     {{"name", text, "", ""},
                                      {"count", integer, "", ""},
                                      {"ratio", ColumnKind::real, "", ""},
                                      {"peers_median_ns", integer, "", ""}},
                                     ranks, 14));
  report.tables.push_back(
      rank_table("wait_matrix", {{"waiting_trace_rank", integer, "", ""}, {"cost_ns", integer, "", ""}}, ranks, 64));
  report.tables.push_back(rank_table("level_sums",
                                     {{"place", text, "", ""},
                                      {"wait_ns", integer, "", ""},
                                      {"own_lateness_ns", integer, "", ""},
                                      {"caused_wait_ns", integer, "", ""}},
                                     ranks, 4));
  report.detail.moments = full_moments();
  for (int i = 0; i < 60; ++i) {
    report.tables.push_back(rank_table("table" + std::to_string(i),
                                       {{"name", text, "", ""},
                                        {"count", integer, "", ""},
                                        {"share", ColumnKind::real, "", ""},
                                        {"total_ns", integer, "", ""}},
                                       ranks, 10));
  }
  return report;
}

TEST(Html, StaysSmallHoweverLargeTheJob) {
  if (!has_html()) GTEST_SKIP() << "built without npm: there is no report.html";
  EXPECT_LT(to_html(full_report(64)).size(), 3'100'000U);
  EXPECT_LT(to_html(full_report(1024)).size(), 5'300'000U);
}

TEST(Html, LanesAreRunsOfEqualCells) {
  if (!has_html()) GTEST_SKIP() << "built without npm: there is no report.html";
  JobReport report = large_report(1);
  report.detail.lanes = {70, {0}, {{4, {0, 70'000}, std::vector<std::uint8_t>(66, 48)}}, 0};
  report.detail.lanes.spans[0].cells.insert(report.detail.lanes.spans[0].cells.end(), 4, 12);
  // 64 and 2 of 48 (w), then 4 of 12 (M): a digit for the cell, one for the run's length less one.
  EXPECT_NE(
      to_html(report).find(
          R"("lanes":{"bins":70,"ranks":[0],"first":0,"spans":[{"step":4,"start_ns":0,"end_ns":70000,"rows":["w_wBMD"]}]})"),
      std::string::npos);
}

TEST(Html, IsTheSameFromTheFirstRowsOfALongTable) {
  if (!has_html()) GTEST_SKIP() << "built without npm: there is no report.html";
  const std::vector<ColumnSchema> columns = {{"name", ColumnKind::text, "", ""},
                                             {"start_ns", ColumnKind::time, "", ""}};
  // Of three columns 500 rows are shown at most: all, the first of each trace rank, and those of a few trace ranks.
  for (const auto& [ranks, each] : {std::pair(3, 20), std::pair(3, 700), std::pair(400, 700)}) {
    JobReport whole = large_report(ranks);
    whole.tables.push_back(rank_table("long", columns, ranks, each));
    const TableSchema schema = whole.tables.back().schema;
    JobReport apart = large_report(ranks);
    apart.tables.push_back(make_table(schema));
    const int most = static_cast<int>(most_shown_rows(schema));
    const LongTable first{rank_table("long", columns, ranks, std::min(each, most)),
                          static_cast<std::size_t>(ranks) * static_cast<std::size_t>(each)};
    EXPECT_TRUE(to_html(whole) == to_html(apart, {{"long", first}})) << ranks << " ranks, " << each << " rows";
  }
}

TEST(PageMoments, AnEventCountsFromTheOneBeforeInItsRow) {
  Moment moment;
  moment.title = "a moment";
  moment.window = {1'000, 2'000};
  moment.trace_ranks = {3};
  const auto event = [](Nanoseconds start_ns, std::uint32_t name, TimelineKind kind, std::uint16_t lane) {
    return TimelineEvent{start_ns, start_ns + 10, 0, name, 7, 3, lane, kind, 0};
  };
  moment.timelines = {{{event(900, 0, TimelineKind::range, 0), event(1'100, 1, TimelineKind::compute, 0),
                        event(1'150, 0, TimelineKind::compute, 0), event(1'160, 1, TimelineKind::compute, 1)},
                       {"a", "b"}}};
  const auto json = moments_json({moment});
  EXPECT_EQ(json["names"]["name"].dump(), R"(["a","b","a"])");  // once as a range, once as a kernel
  EXPECT_EQ(json["names"]["kind"].dump(), R"(["range","compute","compute"])");
  std::string rows;
  for (const auto& row : json["list"][0]["rows"])
    rows += row["kind"].get<std::string>() + row["lane"].dump() + row["start"].dump() + row["name"].dump() + " ";
  EXPECT_EQ(rows, "stream0[100,50][1,2] stream1[160][1] ranges0[-100][0] ");
}

Table no_kernels() {
  return make_table({"kernels",
                     "",
                     {{"trace_rank", ColumnKind::integer, "", ""},
                      {"name", ColumnKind::text, "", ""},
                      {"communication", ColumnKind::integer, "", ""},
                      {"total_ns", ColumnKind::integer, "ns", ""},
                      {"count", ColumnKind::integer, "", ""}}});
}

TEST(PageViews, SumsAreOverAllTraceRanksAndTheMostComeFirst) {
  JobReport report = large_report(3);
  Table table = no_kernels();
  RowWriter rows(table);
  const auto add = [&](std::int64_t rank, const char* name, std::int64_t total, std::int64_t count) {
    rows << rank << name << std::int64_t{0} << total << count;
  };
  add(0, "small", 10, 1);
  add(0, "large", 20, 2);
  add(1, "small", 15, 3);
  add(2, "large", 30, 4);
  report.tables = {table};
  const std::vector<Table> views = page_views(report, {});
  ASSERT_EQ(views.size(), 1U);
  EXPECT_EQ(column<std::string>(views[0], "name"), (TextColumn{"large", "small"}));
  EXPECT_EQ(column<std::int64_t>(views[0], "total_ns"), (std::vector<std::int64_t>{50, 25}));
  EXPECT_EQ(column<std::int64_t>(views[0], "count"), (std::vector<std::int64_t>{6, 4}));
  EXPECT_EQ(column<std::int64_t>(views[0], "trace_ranks"), (std::vector<std::int64_t>{3, 3}));
}

/// The 60 with most time by name, and one row without a name for what the others hold: 1 + 2 + ... + 10 ns.
TEST(PageViews, KernelsBeyondSixtyAreOneRow) {
  JobReport report = large_report(1);
  Table table = no_kernels();
  RowWriter rows(table);
  for (std::int64_t k = 1; k <= 70; ++k)
    rows << std::int64_t{0} << "kernel " + std::to_string(k) << std::int64_t{0} << k << std::int64_t{2};
  report.tables = {table};
  const std::vector<Table> views = page_views(report, {});
  ASSERT_EQ(views.size(), 1U);
  ASSERT_EQ(views[0].row_count(), 61U);
  EXPECT_EQ(column<std::string>(views[0], "name")[59], "kernel 11");
  EXPECT_EQ(column<std::string>(views[0], "name")[60], "");
  EXPECT_EQ(column<std::int64_t>(views[0], "total_ns")[60], 55);
  EXPECT_EQ(column<std::int64_t>(views[0], "count")[60], 20);
}

/// What the pages may do is told in their first lines: nothing but their own scripts and styles.
TEST(Pages, ForbidEverythingForeign) {
  Comparison comparison;
  comparison.side_by_side = true;
  comparison.runs.resize(2);
  for (const std::string& page : {to_html(large_report(2), {}), comparison_to_html(comparison)}) {
    if (page.find("<html") == std::string::npos) continue;  // built without npm
    const std::string mark = "http-equiv=\"Content-Security-Policy\" content=\"";
    const std::size_t begin = page.find(mark);
    ASSERT_LT(begin, page.find("<style"));
    const std::string policy =
        page.substr(begin + mark.size(), page.find('"', begin + mark.size()) - begin - mark.size());
    for (const char* forbidden : {"default-src 'none'", "base-uri 'none'", "form-action 'none'"}) {
      EXPECT_NE(policy.find(forbidden), std::string::npos) << policy;
    }
    for (const char* foreign : {"http", "*", "'self'", "connect-src", "frame-src"}) {
      EXPECT_EQ(policy.find(foreign), std::string::npos) << policy;
    }
  }
}

TEST(PageViews, LateTraceRanksAreAmongThoseFollowedOverTime) {
  JobReport report = large_report(200);
  report.stragglers = {{}};
  report.stragglers.front().trace_rank = 77;
  report.stragglers.front().trace_ranks = {72, 73, 77, 79};  // of its place
  report.tables = {rank_table("gpu_utilisation", {{"start_ns", ColumnKind::time, "ns", ""}}, 200, 5)};
  const std::vector<Table> views = page_views(report, {});
  ASSERT_EQ(views.size(), 1U);
  const auto& ranks = column<std::int64_t>(views[0], "trace_rank");
  for (const std::int64_t late : {72, 73, 77, 79}) EXPECT_EQ(std::count(ranks.begin(), ranks.end(), late), 5) << late;
  EXPECT_EQ(ranks.size(), (4U + 8) * 5);
}

/// A bar for each of ten thousand trace ranks is no picture, and megabytes.
TEST(PageViews, NoMoreThanAThousandTraceRanksStandBesideEachOtherAndLateOnesAmongThem) {
  JobReport report = large_report(3000);
  report.stragglers = {{}};
  report.stragglers.front().trace_rank = 2999;
  report.tables = {rank_table(
      "idle_causes", {{"cause", ColumnKind::text, "", ""}, {"total_ns", ColumnKind::integer, "ns", ""}}, 3000, 1)};
  const std::vector<Table> views = page_views(report, {});
  ASSERT_EQ(views.size(), 1U);
  const auto& ranks = column<std::int64_t>(views[0], "trace_rank");
  EXPECT_EQ(ranks.size(), charted_ranks(report).size());
  EXPECT_LE(ranks.size(), 1024U);
  EXPECT_GE(ranks.size(), 1000U);
  EXPECT_EQ(std::count(ranks.begin(), ranks.end(), 2999), 1);
  EXPECT_EQ(charted_ranks(large_report(900)).size(), 900U) << "all of them";
}

/// Pictures over time take what rank 0 has of a long table.
TEST(PageViews, OfLongTablesTheRowsThatCame) {
  JobReport report = large_report(2);
  const Table rows = rank_table("gpu_utilisation", {{"start_ns", ColumnKind::time, "ns", ""}}, 2, 5);
  report.tables = {make_table(rows.schema)};
  const std::vector<Table> views = page_views(report, {{"gpu_utilisation", {rows, 10}}});
  ASSERT_EQ(views.size(), 1U);
  EXPECT_EQ(views[0].row_count(), 10U);
}

}  // namespace
}  // namespace nsys_explain::report
