#include "report/perfetto.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace nsys_explain::report {
namespace {

using Json = nlohmann::json;

TraceRankIdentity rank(std::int32_t number, const std::string& host) {
  TraceRankIdentity identity;
  identity.trace_rank = number;
  identity.host = host;
  identity.gpu_name = "H100";
  return identity;
}

TEST(Perfetto, TimesAreExactAndMovedToWhereViewersTakeThem) {
  PerfettoTrace trace({rank(0, "a")}, 5'000);
  std::string text = trace.begin({{"fact", "\"quoted\""}});
  text += trace.event({-4'999, 1, 0, 0, 3, 0, 0, TimelineKind::compute, 0}, {"<b>\xff\"name\""});
  text += trace.event({3'600'000'000'000'001, 3'600'000'000'000'001, 12.5, 1, 0, 0, 0, TimelineKind::counter, 0},
                      {"", "NVLink"});
  const Json file = Json::parse(text + trace.end());
  EXPECT_EQ(file["otherData"]["fact"], "\"quoted\"");
  const Json& events = file["traceEvents"];
  const auto slice = std::find_if(events.begin(), events.end(), [](const Json& one) { return one["ph"] == "X"; });
  ASSERT_NE(slice, events.end());
  EXPECT_NE(text.find("\"ts\":0.001,\"dur\":5.000"), std::string::npos) << text;
  EXPECT_EQ((*slice)["name"], "<b>\xEF\xBF\xBD\"name\"");
  EXPECT_NE(text.find("\"ts\":3600000000005.001,\"args\":{\"value\":12.5}"), std::string::npos) << text;
}

TEST(Perfetto, AnArrowFollowsTheOrderOfArrivalAndWaitsLieInTheirSlices) {
  PerfettoTrace trace({rank(0, "a"), rank(1, "b"), rank(2, "b")}, 0);
  Instance summary;
  summary.operation = Operation::all_reduce;
  summary.last_trace_rank = 2;
  summary.comparable = true;
  summary.last_enter = JobTime(3'000);
  std::vector<InstanceArrival> arrivals(3);
  for (std::int32_t r = 0; r < 3; ++r) {
    InstanceArrival& one = arrivals[static_cast<std::size_t>(r)];
    one.trace_rank = r;
    one.enter = JobTime(1'000 * (r + 1));
    one.exit = JobTime(5'000);
  }
  std::string text = trace.begin({}) + trace.collective({41, "c0", &summary, arrivals});
  // The same communicator a second time, overlapping the first: on a track of its own.
  text += trace.collective({42, "c0", &summary, std::span(arrivals).first(1)});
  const Json file = Json::parse(text + trace.end());
  std::string flow;
  std::vector<std::string> tracks;
  double waits = 0;
  for (const Json& event : file["traceEvents"]) {
    const std::string phase = event["ph"];
    if (event.contains("bind_id") && event["bind_id"] == 42) {
      EXPECT_EQ(event["cat"], "collective");
      flow +=
          fmt::format("{}{}{} ", event["flow_in"] ? ">" : "", event["pid"].get<int>(), event["flow_out"] ? ">" : "");
    }
    if (phase == "M" && event["name"] == "thread_name") tracks.push_back(event["args"]["name"]);
    if (phase == "X" && event["cat"] == "wait") waits += event["dur"].get<double>();
  }
  EXPECT_EQ(flow, "3> >5> >6 ");  // findings are 1, host a 2, its rank 3; host b is 4, its ranks 5 and 6
  EXPECT_EQ(tracks, (std::vector<std::string>{"collectives of c0", "collectives of c0", "collectives of c0",
                                              "collectives of c0 (2)"}));
  EXPECT_DOUBLE_EQ(waits, 2 + 1 + 2);
}

TEST(Perfetto, FindingsLieOverTheSpanAndThreadsHaveTracksOfTheirOwn) {
  PerfettoTrace trace({rank(0, "a")}, 1'000);
  Finding finding;
  finding.id = "straggler";
  finding.title = "rank 0 is <late>";
  finding.recommendation = "look at it";
  Moment moment, usual;
  moment.title = "Rank 0 comes late to collective 7";
  moment.late_trace_rank = 0;
  moment.at_ns = 4'000;
  std::string text = trace.begin({}) + trace.findings({finding}, {moment, usual}, {2'000, 9'000});
  text += trace.event({3'000, 5'000, 0, 0, 77, 0, 0, TimelineKind::range, 0}, {"step"});
  text += trace.event({3'100, 3'200, 0, 0, 77, 0, 1, TimelineKind::call, 0}, {"cudaFree"});
  std::vector<std::string> slices, marks, tracks;
  const Json file = Json::parse(text + trace.end());
  for (const Json& event : file["traceEvents"]) {
    if (event["ph"] == "X")
      slices.push_back(fmt::format("{} {} {} {}", event["cat"].get<std::string>(), event["name"].get<std::string>(),
                                   event["ts"].get<double>(), event["dur"].get<double>()));
    if (event["ph"] == "i")
      marks.push_back(fmt::format("{} {}", event["name"].get<std::string>(), event["ts"].get<double>()));
    if (event["name"] == "thread_name") tracks.push_back(event["args"]["name"]);
  }
  EXPECT_EQ(slices,
            (std::vector<std::string>{"finding rank 0 is <late> 3 7", "nvtx step 4 2", "call cudaFree 4.1 0.1"}));
  EXPECT_EQ(marks, (std::vector<std::string>{"Rank 0 comes late to collective 7 5"}));
  EXPECT_EQ(tracks, (std::vector<std::string>{"finding 1", "NVTX, thread 77", "calls, thread 77 (2)"}));
}

TEST(Perfetto, AKernelCarriesItsLaunchAndAnArrowLeadsToItFromTheCall) {
  PerfettoTrace trace({rank(0, "a"), rank(3, "a")}, 0);
  const std::vector<std::string> names{"gemm", "grid=8x4x1 registers=32", "cudaLaunchKernel"};
  std::string text = trace.begin({});
  text += trace.event({1'000, 2'000, 0, 2, 77, 3, 0, TimelineKind::call, 0, TimelineEvent::no_arguments, 5}, names);
  text += trace.event({3'000, 9'000, 0, 0, 7, 3, 0, TimelineKind::compute, 0, 1, 5}, names);
  std::vector<Json> slices;
  const Json file = Json::parse(text + trace.end());
  for (const Json& event : file["traceEvents"])
    if (event["ph"] == "X") slices.push_back(event);
  ASSERT_EQ(slices.size(), 2U);
  for (const Json& slice : slices) EXPECT_EQ(slice["bind_id"], (std::int64_t{4} << 32) + 5);  // its rank and one
  EXPECT_EQ(slices[0]["flow_out"], true);
  EXPECT_EQ(slices[0]["flow_in"], false);
  EXPECT_EQ(slices[1]["flow_out"], false);
  EXPECT_EQ(slices[1]["flow_in"], true);
  EXPECT_FALSE(slices[0].contains("args"));
  EXPECT_EQ(slices[1]["args"], (Json{{"grid", "8x4x1"}, {"registers", 32}}));
}

TEST(Perfetto, AnEmptyTimelineIsStillAFile) {
  PerfettoTrace trace({}, 0);
  const std::string text = trace.begin({});
  EXPECT_TRUE(Json::parse(text + trace.end())["traceEvents"].empty());
}

}  // namespace
}  // namespace nsys_explain::report
