#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "report/report.hpp"
#include "sample_report.hpp"

namespace nsys_explain::report {
namespace {

using Json = nlohmann::ordered_json;

/// The keys of docs/outputs.md, report.json, with the type each must have: i integer, n number, s string, b bool, a
/// array, o object.
/// '?' after the type: null is allowed.
using Keys = std::vector<std::pair<std::string, std::string>>;

bool has_type(const Json& value, const std::string& type) {
  if (type.size() == 2 && value.is_null()) return true;
  switch (type[0]) {
    case 'i':
      return value.is_number_integer();
    case 'n':
      return value.is_number();
    case 's':
      return value.is_string();
    case 'b':
      return value.is_boolean();
    case 'a':
      return value.is_array();
    default:
      return value.is_object();
  }
}

void expect_keys(const Json& object, const Keys& keys, const std::string& where) {
  for (const auto& [key, type] : keys) {
    ASSERT_TRUE(object.contains(key)) << where << "." << key;
    EXPECT_TRUE(has_type(object[key], type)) << where << "." << key << " is " << object[key];
  }
}

void expect_elements(const Json& array, const Keys& keys, const std::string& where) {
  ASSERT_FALSE(array.empty()) << where;
  for (const Json& element : array) expect_keys(element, keys, where);
}

TEST(Json, HoldsEveryKeyOfTheContract) {
  const Json document = Json::parse(to_json(small_report()));
  expect_keys(document,
              {{"schema_version", "s"},
               {"epoch_utc_ns", "i"},
               {"inputs", "a"},
               {"trace_ranks", "a"},
               {"clock", "o"},
               {"communicators", "a"},
               {"collectives", "o"},
               {"by_operation", "a"},
               {"ranks", "a"},
               {"stragglers", "a"},
               {"nvlink", "o"},
               {"network", "a"},
               {"findings", "a"},
               {"capture_advice", "a"},
               {"warnings", "a"},
               {"run", "o"}},
              "");
  EXPECT_EQ(document["schema_version"], "1.0");
  EXPECT_EQ(document.items().begin().key(), "schema_version");
  EXPECT_EQ(std::prev(document.end()).key(), "run");
  expect_elements(document["inputs"], {{"path", "s"}, {"status", "s"}, {"message", "s"}}, "inputs");
  expect_elements(document["trace_ranks"],
                  {{"trace_rank", "i"},
                   {"rank_source", "s"},
                   {"path", "s"},
                   {"process_id", "i"},
                   {"device_id", "i"},
                   {"host", "s"},
                   {"gpu_name", "s"},
                   {"gpu_uuid", "s"}},
                  "trace_ranks");
  expect_keys(document["clock"], {{"sessions", "a"}, {"pivot_ns", "i"}, {"residual", "o"}}, "clock");
  expect_elements(document["clock"]["sessions"],
                  {{"path", "s"},
                   {"host", "s"},
                   {"method", "s"},
                   {"offset_ns", "i"},
                   {"drift_ppb", "n"},
                   {"uncertainty_ns", "i?"},
                   {"component", "i"},
                   {"drift_uncertainty_ppb", "n?"},
                   {"bends", "a"}},
                  "clock.sessions");
  expect_elements(document["clock"]["sessions"][2]["bends"], {{"at_ns", "i"}, {"correction_ns", "i"}}, "bends");
  expect_keys(document["clock"], {{"violations", "i"}, {"smallest_skew_ns", "i?"}}, "clock");
  expect_elements(document["clock"]["residual"]["histogram"], {{"from_ns", "i"}, {"to_ns", "i"}, {"samples", "i"}},
                  "histogram");
  expect_elements(document["clock"]["residual"]["by_class"],
                  {{"operation", "s"},
                   {"scope", "s"},
                   {"from_bytes", "i?"},
                   {"decides", "b"},
                   {"samples", "i"},
                   {"held_out_p50_ns", "i"},
                   {"held_out_p90_ns", "i"},
                   {"held_out_max_ns", "i"}},
                  "by_class");
  expect_keys(document["collectives"], {{"unjudged", "i"}}, "collectives");
  expect_keys(document["clock"]["residual"],
              {{"held_out_p50_ns", "i?"}, {"held_out_p90_ns", "i?"}, {"held_out_max_ns", "i?"}, {"samples", "i"}},
              "clock.residual");
  expect_elements(document["communicators"],
                  {{"communicator", "s"},
                   {"trace_ranks", "a"},
                   {"instances", "i"},
                   {"complete", "i"},
                   {"partial", "i"},
                   {"evidence", "s"}},
                  "communicators");
  expect_keys(document["collectives"],
              {{"instances", "i"},
               {"complete", "i"},
               {"partial", "i"},
               {"unmatched_arrivals", "i"},
               {"withheld_arrivals", "i"}},
              "collectives");
  expect_elements(document["by_operation"],
                  {{"operation", "s"},
                   {"instances", "i"},
                   {"bytes", "i?"},
                   {"wait_ns", "i"},
                   {"transfer_ns", "i"},
                   {"algorithm_bandwidth_gbs", "n?"},
                   {"bus_bandwidth_gbs", "n?"}},
                  "by_operation");
  expect_elements(document["ranks"],
                  {{"trace_rank", "i"},
                   {"window_ns", "i"},
                   {"compute_ns", "i"},
                   {"communication_ns", "i"},
                   {"overlapped_ns", "i"},
                   {"exposed_communication_ns", "i"},
                   {"copy_ns", "i"},
                   {"idle_ns", "i"},
                   {"arrivals", "i"},
                   {"last_arrivals", "i"},
                   {"wait_ns", "i"},
                   {"caused_wait_ns", "i"},
                   {"own_lateness_ns", "i"},
                   {"inherited_lateness_ns", "i"}},
                  "ranks");
  expect_elements(document["stragglers"],
                  {{"trace_rank", "i"},
                   {"level", "s"},
                   {"place", "s"},
                   {"trace_ranks", "a"},
                   {"pattern", "s"},
                   {"cause", "s"},
                   {"own_lateness_ns", "i"},
                   {"caused_wait_ns", "i"},
                   {"last_share", "n"},
                   {"p_value", "n"},
                   {"delay_cost_ns", "i"},
                   {"cost_share", "n"},
                   {"gpu_hours_per_day", "n"},
                   {"first_ns", "i"},
                   {"last_ns", "i"},
                   {"first_step", "i?"},
                   {"last_step", "i?"},
                   {"period_steps", "i?"},
                   {"evidence", "a"}},
                  "stragglers");
  expect_keys(document["delay"],
              {{"wait_ns", "i"},
               {"attributed_ns", "i"},
               {"unattributed_ns", "i"},
               {"cost_share", "n"},
               {"gpu_hours_per_day", "n"},
               {"rotating", "b"},
               {"steps", "i"},
               {"first_step", "i"},
               {"step_source", "s"}},
              "delay");
  expect_keys(document["nvlink"], {{"available", "b"}, {"message", "s"}}, "nvlink");
  expect_elements(document["findings"],
                  {{"id", "s"}, {"severity", "s"}, {"title", "s"}, {"evidence", "a"}, {"recommendation", "s"}},
                  "findings");
  expect_elements(document["warnings"], {{"severity", "s"}, {"source", "s"}, {"count", "i"}, {"message", "s"}},
                  "warnings");
}

TEST(Json, HoldsTheValuesOfTheReport) {
  const Json document = Json::parse(to_json(small_report()));
  EXPECT_EQ(document["epoch_utc_ns"], 1'700'000'000'000'000'000);
  EXPECT_EQ(document["inputs"][4]["status"], "failed");
  EXPECT_EQ(document["trace_ranks"][3]["path"], "traces/rank_3.sqlite");
  EXPECT_EQ(document["trace_ranks"][3]["rank_source"], "environment");
  EXPECT_EQ(document["clock"]["sessions"][2]["offset_ns"], -480'000'123);
  EXPECT_EQ(document["clock"]["sessions"][2]["drift_ppb"], -12.5);
  EXPECT_TRUE(document["clock"]["sessions"][3]["uncertainty_ns"].is_null());
  EXPECT_EQ(document["communicators"][1]["communicator"], "inferred-0");
  EXPECT_EQ(document["communicators"][1]["trace_ranks"], Json({0, 2}));
  EXPECT_EQ(document["by_operation"][0]["operation"], "all_reduce");
  EXPECT_TRUE(document["by_operation"][1]["bytes"].is_null());
  EXPECT_EQ(document["ranks"][2]["idle_ns"], 100'000'000);
  EXPECT_EQ(document["stragglers"][0]["cause"], "slow_kernel");
  EXPECT_EQ(document["warnings"][1]["severity"], "data_loss");
  EXPECT_EQ(document["run"]["phases"][0]["seconds"], 1.5);
  EXPECT_EQ(to_json(small_report()).back(), '\n');
}

TEST(Json, OfAnEmptyReportHasEmptyArrays) {
  const Json document = Json::parse(to_json(JobReport{}));
  for (const char* key : {"inputs", "trace_ranks", "communicators", "by_operation", "ranks", "stragglers", "suspects",
                          "findings", "warnings"}) {
    EXPECT_EQ(document[key], Json::array()) << key;
  }
  EXPECT_TRUE(document["clock"]["residual"]["held_out_p50_ns"].is_null());
  EXPECT_EQ(document["clock"]["residual"]["histogram"], Json::array());
  EXPECT_EQ(document["clock"]["residual"]["by_class"], Json::array());
  EXPECT_TRUE(document["clock"]["smallest_skew_ns"].is_null());
}

TEST(Json, SuspectsAreStragglersWithADoubt) {
  JobReport report = small_report();
  SuspectedStraggler unproven;
  unproven.late = report.stragglers[0];
  unproven.verdict_p_value = 5e-4;
  unproven.steps_needed = 11;
  SuspectedStraggler unseen;
  unseen.late = report.stragglers[0];
  unseen.doubt = Doubt::unseen;
  unseen.unseen_cost_share = 0.2;
  unseen.late.first_ns = no_time;
  unseen.late.behind = {3};
  report.suspects = {unproven, unseen};
  const Json document = Json::parse(to_json(report));
  const Json& first = document["suspects"][0];
  EXPECT_EQ(first["trace_rank"], 2);
  EXPECT_EQ(first["cause"], "slow_kernel");
  EXPECT_EQ(first["doubt"], "too_few_steps");
  EXPECT_EQ(first["verdict_p_value"], 5e-4);
  EXPECT_EQ(first["steps_needed"], 11);
  EXPECT_TRUE(first["unseen_cost_share"].is_null());
  const Json& second = document["suspects"][1];
  EXPECT_EQ(second["doubt"], "unseen");
  EXPECT_EQ(second["unseen_cost_share"], 0.2);
  EXPECT_EQ(second["behind"], Json({3}));
  EXPECT_TRUE(second["steps_needed"].is_null());
  EXPECT_TRUE(second["first_ns"].is_null());
}

TEST(Json, NeverHoldsWhatJsonCannot) {
  JobReport report = small_report();
  report.clock.sessions[0].drift_ppb = std::nan("");
  report.stragglers[0].p_value = std::numeric_limits<double>::infinity();
  report.stragglers[0].first_ns = no_time;
  report.inputs[0].path = "bad \xff\xc3( \x01 \"quoted\"\n";
  const std::string text = to_json(report);
  const Json document = Json::parse(text);
  EXPECT_TRUE(document["clock"]["sessions"][0]["drift_ppb"].is_null());
  EXPECT_TRUE(document["stragglers"][0]["p_value"].is_null());
  EXPECT_TRUE(document["stragglers"][0]["first_ns"].is_null());
  EXPECT_EQ(document["inputs"][0]["path"], "bad \uFFFD\uFFFD( \x01 \"quoted\"\n");
  EXPECT_EQ(text, to_json(report));
}

/// A list of names with their time, and a number that tells one of them apart.
void list_of(JobReport& report, const char* list, std::vector<std::pair<const char*, std::int64_t>> rows,
             std::string_view apart = "", std::string_view kind = "") {
  Table table = make_table({list,
                            "",
                            {{"name", ColumnKind::text, "", ""},
                             {"total_ns", ColumnKind::integer, "ns", ""},
                             {"communication", ColumnKind::integer, "", ""},
                             {"kind", ColumnKind::text, "", ""}}});
  RowWriter writer(table);
  for (const auto& [name, total_ns] : rows)
    writer << name << total_ns << (name == apart) << (name == apart ? kind : "");
  report.tables.push_back(std::move(table));
  using By = FoldedColumn::By;
  report.shown.push_back({.table = list,
                          .list = list,
                          .folding = {.columns = {{"name", "name", By::key},
                                                  {"communication", "communication", By::key},
                                                  {"kind", "kind", By::key},
                                                  {"count", "name", By::rows},
                                                  {"total_ns", "total_ns"}},
                                      .order = "total_ns"}});
}

TEST(Json, SuspectsAreTheCostliestThreeOfEachKindOfAllWindows) {
  JobReport report;
  list_of(report, "kernels", {{"a", 10}, {"b", 40}, {"c", 30}, {"d", 20}, {"nccl", 90}}, "nccl");
  list_of(report, "barriers", {{"sync", 35}, {"pause", 80}}, "pause", "launcher_gap");
  list_of(report, "idle_causes", {{"other", 0}});
  EXPECT_TRUE(Json::parse(to_json(report))["activity"]["suspects"].empty()) << "a share of nothing";
  report.ranks.resize(2);
  for (RankSummary& rank : report.ranks) rank.budget.window_ns = 100;
  const Json suspects = Json::parse(to_json(report))["activity"]["suspects"];
  std::vector<std::string> names;
  for (const Json& one : suspects) names.push_back(one["name"]);
  EXPECT_EQ(names, (std::vector<std::string>{"b", "sync", "c", "d"}));
  EXPECT_EQ(suspects[0], (Json{{"kind", "kernel"}, {"name", "b"}, {"count", 1}, {"total_ns", 40}, {"share", 0.2}}));
  EXPECT_EQ(suspects[1]["kind"], "barrier");
}

}  // namespace
}  // namespace nsys_explain::report
