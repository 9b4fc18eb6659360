#include "analysis/tables/side_files.hpp"

#include <cmath>
#include <stdexcept>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nsys_explain::analysis {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Nanoseconds ms = 1'000'000;

/// Three requests, one of which failed. Worked out by hand: times to first token 200, 400 ms; latencies 1,200, 2,400
/// ms; per token after the first 1,000 / 10 and 2,000 / 20 ms; queueing 50, 150 ms.
constexpr const char* plain =
    "request_id,arrival,start,first_token,end,prompt_tokens,output_tokens,success\n"
    "a,1767225600.0,1767225600.05,1767225600.2,1767225601.2,100,11,true\n"
    "b,1767225600.6,1767225600.75,1767225601.0,1767225603.0,300,21,true\n"
    "c,1767225600.7,,,,50,0,false\n";

TEST(Requests, TimesFollowFromPointsInTime) {
  const RequestLog log = parse_requests(plain);
  ASSERT_EQ(log.requests.size(), 2U);
  EXPECT_EQ(log.failed, 1);
  EXPECT_EQ(log.unusable, 0);
  // Seconds since 1970 as a double are exact to a quarter of a microsecond.
  EXPECT_NEAR(static_cast<double>(log.requests[0].first_token_ns), 200 * ms, 1'000);
  EXPECT_NEAR(static_cast<double>(log.requests[1].latency_ns), 2'400 * ms, 1'000);
  EXPECT_NEAR(static_cast<double>(log.requests[1].queue_ns), 150 * ms, 1'000);
  EXPECT_EQ(log.requests[1].prompt_tokens, 300);
  const std::vector<Table> tables = request_tables(log);
  const Table& totals = tables[0];
  EXPECT_EQ(column<std::int64_t>(totals, "output_tokens").at(0), 32);
  EXPECT_EQ(column<std::int64_t>(totals, "prompt_tokens").at(0), 400);
  EXPECT_NEAR(column<double>(totals, "output_tokens_per_second").at(0), 32 / 3.0, 1e-5);
  EXPECT_NEAR(column<double>(totals, "tokens_per_second").at(0), 432 / 3.0, 1e-4);
  EXPECT_NEAR(column<double>(totals, "requests_per_second").at(0), 2 / 3.0, 1e-6);
  const Table& latencies = tables[1];
  ASSERT_EQ(latencies.row_count(), 4U);
  EXPECT_EQ(column<std::string>(latencies, "latency")[1], "time_per_output_token");
  EXPECT_NEAR(column<double>(latencies, "median_ns")[0], 300 * ms, 1'000);
  EXPECT_NEAR(column<double>(latencies, "median_ns")[1], 100 * ms, 1'000);
  EXPECT_NEAR(column<double>(latencies, "p90_ns")[2], 2'280 * ms, 1'000) << "1,200 + 0.9 x 1,200";
  EXPECT_NEAR(column<double>(latencies, "p99_ns")[3], 149 * ms, 1'000);
}

TEST(Requests, ColumnsMayNameTheirUnit) {
  const RequestLog log = parse_requests(
      "TTFT (ms),Request Latency [s],output_len\n"
      "250,1.25,5\n"
      "1.5,0.5,1\n");
  ASSERT_EQ(log.requests.size(), 2U);
  EXPECT_EQ(log.requests[0].first_token_ns, 250 * ms);
  EXPECT_EQ(log.requests[0].latency_ns, 1'250 * ms);
  EXPECT_EQ(log.requests[1].first_token_ns, 1'500'000);
  const std::vector<Table> tables = request_tables(log);
  EXPECT_EQ(column<std::int64_t>(tables[0], "elapsed_ns").at(0), -1) << "no points in time";
  EXPECT_TRUE(std::isnan(column<double>(tables[0], "tokens_per_second").at(0)));
  EXPECT_EQ(column<std::int64_t>(tables[0], "prompt_tokens").at(0), -1);
  EXPECT_EQ(column<std::int64_t>(tables[1], "count")[1], 1) << "a single token has no time per further token";
}

TEST(Requests, PointsInTimeAreOfTheUnitThatMakesThemOne) {
  for (const std::string arrival : {"1767225600", "1767225600000", "1767225600000000", "1767225600000000000"})
    EXPECT_EQ(parse_requests("arrival,ttft\n" + arrival + ",1\n").requests.at(0).arrival_ns, 1'767'225'600'000 * ms);
  EXPECT_EQ(parse_requests("arrival_us,end_us\n5,9\n").requests.at(0).latency_ns, 4'000);
  EXPECT_EQ(parse_requests("arrival,end\n5,9\n").requests.at(0).latency_ns, 4'000 * ms) << "since the benchmark began";
}

TEST(Requests, LinesThatCannotBeTrueCountNothing) {
  const RequestLog log = parse_requests(
      "arrival,first_token,end,output_tokens\n"
      "1,2,3,4\n"
      "5,4,6,4\n"      // the first token before the arrival
      "1,3,2,4\n"      // and after the end
      ",,,\n"          // nothing
      "1,2,1e300,4\n"  // in no time that is counted
      "1,2,3,-7\n"     // no number of tokens
      "1,2\n");        // cut off: the first token is known
  EXPECT_EQ(log.requests.size(), 4U);
  EXPECT_EQ(log.unusable, 3);
  EXPECT_EQ(log.requests[2].output_tokens, -1);
}

TEST(Requests, FilesWithoutRequestsAreRefused) {
  const auto problem = [](const char* text) {
    try {
      parse_requests(text);
    } catch (const std::runtime_error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(problem(""), HasSubstr("names neither arrival and end"));
  EXPECT_THAT(problem("id,tokens\n1,2\n"), HasSubstr("--save-detailed"));
  EXPECT_THAT(problem("arrival,end\nyesterday,today\n"), HasSubstr("none of its 1 lines"));
  EXPECT_THAT(request_tables({})[0].row_count(), 0U);
}

}  // namespace
}  // namespace nsys_explain::analysis
