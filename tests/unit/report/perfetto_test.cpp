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
  summary.last_enter_ns = 3'000;
  std::vector<InstanceArrival> arrivals(3);
  for (std::int32_t r = 0; r < 3; ++r) {
    InstanceArrival& one = arrivals[static_cast<std::size_t>(r)];
    one.trace_rank = r;
    one.enter_ns = 1'000 * (r + 1);
    one.exit_ns = 5'000;
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
  EXPECT_EQ(flow, "2> >4> >5 ");  // host a is 1, its rank 2; host b is 3, its ranks 4 and 5
  EXPECT_EQ(tracks, (std::vector<std::string>{"collectives of c0", "collectives of c0", "collectives of c0",
                                              "collectives of c0 (2)"}));
  EXPECT_DOUBLE_EQ(waits, 2 + 1 + 2);
}

TEST(Perfetto, AnEmptyTimelineIsStillAFile) {
  PerfettoTrace trace({}, 0);
  const std::string text = trace.begin({});
  EXPECT_TRUE(Json::parse(text + trace.end())["traceEvents"].empty());
}

}  // namespace
}  // namespace nsys_explain::report
