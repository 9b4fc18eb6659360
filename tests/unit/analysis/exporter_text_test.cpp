#include "analysis/tables/side_files.hpp"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/schema/side.hpp"

namespace nsys_explain::analysis {
namespace {

using ::testing::ElementsAre;

std::string scrape(int requests, int queue_us) {
  return "# HELP nv_inference_request_success Number of successful inference requests, all batch sizes\n"
         "nv_inference_request_success{model=\"bert\",version=\"1\"} " +
         std::to_string(requests) +
         "\nnv_inference_request_failure{model=\"bert\",reason=\"OTHER\",version=\"1\"} 2\n"
         "nv_inference_request_failure{model=\"bert\",reason=\"REJECTED\",version=\"1\"} 1\n"
         "nv_inference_count{model=\"bert\",version=\"1\"} 480\nnv_inference_exec_count{model=\"bert\",version=\"1\"} 60\n"
         "nv_inference_queue_duration_us{model=\"bert\",version=\"1\"} " +
         std::to_string(queue_us) + "\nnv_gpu_utilization{gpu_uuid=\"GPU-a\"} 0.7\n";
}

TEST(ServedModels, CountsSinceTheServerBegan) {
  const Table table = served_models_table(scrape(120, 4'500) + "nv_inference_count{model=\"a\",version=\"2\"} 7\n");
  EXPECT_THAT(column(table, schema::served_models.model), ElementsAre("a", "bert"));
  EXPECT_THAT(column(table, schema::served_models.version), ElementsAre("2", "1"));
  EXPECT_THAT(column(table, schema::served_models.requests), ElementsAre(0, 120));
  EXPECT_THAT(column(table, schema::served_models.failed), ElementsAre(0, 3));
  EXPECT_THAT(column(table, schema::served_models.inferences), ElementsAre(7, 480));
  EXPECT_THAT(column(table, schema::served_models.executions), ElementsAre(0, 60));
  EXPECT_THAT(column(table, schema::served_models.queue_ns), ElementsAre(0, 4'500'000));
}

TEST(ServedModels, TakesTheFirstScrapeOffTheLast) {
  const Table table = served_models_table(scrape(120, 4'500) + scrape(130, 5'000) + scrape(170, 9'000));
  EXPECT_THAT(column(table, schema::served_models.requests), ElementsAre(50));
  EXPECT_THAT(column(table, schema::served_models.inferences), ElementsAre(0));
  EXPECT_THAT(column(table, schema::served_models.queue_ns), ElementsAre(4'500'000));
  const Table restarted = served_models_table(scrape(120, 4'500) + scrape(30, 100));
  EXPECT_THAT(column(restarted, schema::served_models.requests), ElementsAre(30));
}

TEST(ServedModels, AddsGpus) {
  const Table table = served_models_table(
      "nv_inference_count{gpu_uuid=\"GPU-a\",model=\"m\",version=\"1\"} 3\n"
      "nv_inference_count{gpu_uuid=\"GPU-b\",model=\"m\",version=\"1\"} 4\n");
  EXPECT_THAT(column(table, schema::served_models.inferences), ElementsAre(7));
}

TEST(ServedModels, AreAFileOfRequests) {
  const RequestLog log = parse_requests(scrape(120, 4'500));
  EXPECT_EQ(log.served_models.row_count(), 1U);
  EXPECT_EQ(request_tables(log)[0].row_count(), 0U);
  EXPECT_EQ(request_tables(log)[2].row_count(), 1U);
  EXPECT_EQ(served_models_table("nv_inference_count{model=\"m\"} x\nnonsense\n").row_count(), 0U);
}

}  // namespace

}  // namespace nsys_explain::analysis
