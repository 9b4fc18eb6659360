#include <stdexcept>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ingest/side_files.hpp"
#include "model/schema/side.hpp"
#include "nsys_explain/model/regex.hpp"

namespace nsys_explain::ingest {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

template <class Read>
std::string problem_of(const Read& read) {
  try {
    read();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

TEST(EngineProfile, TellsLayersInTheirOrder) {
  const Table table = engine_layers(
      R"([{ "count" : 4 }
, { "name" : "conv1 + relu1", "timeMs" : 2.5, "averageMs" : 0.625, "medianMs" : 0.62, "percentage" : 50 }
, { "name" : "0", "timeMs" : 1.5, "averageMs" : 0.375, "percentage" : 30 }
, { "name" : "pool1", "timeMs" : 1.0, "averageMs" : 0.25, "medianMs" : 0.24, "percentage" : 20 }
])");
  EXPECT_THAT(column(table, schema::engine_layers.layer), ElementsAre("conv1 + relu1", "0", "pool1"));
  EXPECT_THAT(column(table, schema::engine_layers.iterations), ElementsAre(4, 4, 4));
  EXPECT_THAT(column(table, schema::engine_layers.total_ns), ElementsAre(2'500'000, 1'500'000, 1'000'000));
  EXPECT_THAT(column(table, schema::engine_layers.mean_ns), ElementsAre(625'000, 375'000, 250'000));
  EXPECT_THAT(column(table, schema::engine_layers.median_ns), ElementsAre(620'000, -1, 240'000));
  EXPECT_THAT(column(table, schema::engine_layers.share_percent), ElementsAre(50, 30, 20));
}

TEST(EngineProfile, RefusesOtherFiles) {
  for (const char* text : {"", "[", "{}", "[]", R"([{"name": "a"}])", R"([{"count": "4"}])"})
    EXPECT_THAT(problem_of([&] { engine_layers(text); }), HasSubstr("begins with a count")) << text;
  for (const char* text : {R"([{"count": 4}])", R"([{"count": 4}, {"name": "a", "timeMs": -1, "averageMs": 1}, 7])"})
    EXPECT_THAT(problem_of([&] { engine_layers(text); }), HasSubstr("none of its entries")) << text;
}

std::string event_of(const char* action, int address, int size, int time_us = 0, const char* frames = "") {
  return std::string(R"({"action":")") + action + R"(","addr":)" + std::to_string(address) + R"(,"size":)" +
         std::to_string(size) + (time_us > 0 ? R"(,"time_us":)" + std::to_string(time_us) : "") + R"(,"frames":[)" +
         frames + "]}";
}

constexpr const char* forward = R"({"filename":"/home/x/model.py","line":88,"name":"forward"})";
constexpr const char* both =
    R"({"filename":"??","line":0,"name":"at::empty"},{"filename":"/a/train.py","line":12,"name":"main"})";

/// Worked out by hand. At the start 100 (a, freed later) and 40 (b, kept) are in use. Then: +500 (c) = 640,
/// +60 (d) = 700, a freed = 600, free of c requested, completed = 100, +30 (e) = 130. The peak is 700 by event 2.
const std::string history = "[" + event_of("segment_alloc", 4096, 1000, 1) + "," +
                            event_of("alloc", 3, 500, 2, forward) + "," + event_of("alloc", 4, 60, 3, both) + "," +
                            event_of("free_completed", 1, 100, 4) + "," + event_of("free_requested", 3, 500, 5) + "," +
                            event_of("free_completed", 3, 500, 6) + "," + event_of("oom", 0, 9000, 7) + "," +
                            event_of("alloc", 5, 30, 8, forward) + "]";
const std::string snapshot = R"({"device_traces":[[],)" + history + R"(],"segments":[{"device":1,"total_size":2000,
"blocks":[{"address":2,"size":512,"requested_size":40,"state":"active_allocated","frames":[)" +
                             std::string(forward) + R"(]},
{"address":4,"size":512,"requested_size":60,"state":"active_allocated","frames":[]},
{"address":5,"size":512,"requested_size":30,"state":"active_awaiting_free","frames":[]},
{"address":7,"size":464,"requested_size":0,"state":"inactive","frames":[]}]}]})";

TEST(AllocatorSnapshot, CountsBackFromWhatIsInUse) {
  const std::vector<Table> tables = allocator_tables(snapshot);
  const Table &summary = tables[0], &memory = tables[1];
  EXPECT_THAT(column(summary, schema::allocator_summary.device), ElementsAre(1));
  EXPECT_THAT(column(summary, schema::allocator_summary.events), ElementsAre(8));
  EXPECT_THAT(column(summary, schema::allocator_summary.peak_bytes), ElementsAre(700));
  EXPECT_THAT(column(summary, schema::allocator_summary.peak_event), ElementsAre(2));
  EXPECT_THAT(column(summary, schema::allocator_summary.peak_utc_ns), ElementsAre(3'000));
  EXPECT_THAT(column(summary, schema::allocator_summary.final_bytes), ElementsAre(130));
  EXPECT_THAT(column(summary, schema::allocator_summary.reserved_bytes), ElementsAre(2000));
  EXPECT_THAT(column(summary, schema::allocator_summary.out_of_memory), ElementsAre(1));
  EXPECT_THAT(column(memory, schema::allocator_memory.in_use_bytes),
              ElementsAre(140, 640, 700, 600, 600, 100, 100, 130));
  EXPECT_THAT(column(memory, schema::allocator_memory.reserved_bytes),
              ElementsAre(2000, 2000, 2000, 2000, 2000, 2000, 2000, 2000));
}

TEST(AllocatorSnapshot, NamesWhoHoldsThePeak) {
  const Table holders = allocator_tables(snapshot)[2];
  EXPECT_THAT(column(holders, schema::allocator_peak.stack),
              ElementsAre("model.py:88 forward", "", "train.py:12 main"));
  EXPECT_THAT(column(holders, schema::allocator_peak.bytes), ElementsAre(540, 100, 60));
  EXPECT_THAT(column(holders, schema::allocator_peak.blocks), ElementsAre(2, 1, 1));
}

TEST(AllocatorSnapshot, WithoutHistoryThePeakIsTheSnapshot) {
  std::string json = snapshot;
  json.replace(json.find(history), history.size(), "[]");
  const std::vector<Table> tables = allocator_tables(json);
  EXPECT_THAT(column(tables[0], schema::allocator_summary.peak_bytes), ElementsAre(130));
  EXPECT_THAT(column(tables[0], schema::allocator_summary.peak_event), ElementsAre(-1));
  EXPECT_THAT(column(tables[1], schema::allocator_memory.event), IsEmpty());
}

TEST(AllocatorSnapshot, ManyEventsBecomeAThousandParts) {
  std::string json = R"({"segments":[],"device_traces":[[)";
  for (int i = 0; i < 2'500; ++i) json += (i > 0 ? "," : "") + event_of("alloc", i, 2);
  const Table memory = allocator_tables(json + "]]}")[1];
  ASSERT_EQ(memory.row_count(), 834U);  // parts of three
  EXPECT_EQ(column(memory, schema::allocator_memory.peak_bytes)[1], 12);
  EXPECT_EQ(column(memory, schema::allocator_memory.in_use_bytes).back(), 5'000);
}

TEST(AllocatorSnapshot, RefusesOtherFiles) {
  EXPECT_THAT(problem_of([] { allocator_tables("\x80\x04\x95"); }), HasSubstr("pickle.load(open(sys.argv[1]"));
  for (const char* text : {"", "[]", "{", R"({"segments": 3})", R"({"device_traces": [[]]})", R"({"segments": [[]]})"})
    EXPECT_THAT(problem_of([&] { allocator_tables(text); }), HasSubstr("segments of PyTorch's allocator")) << text;
}

TEST(PhaseFile, JsonBecomesLinesInItsOrder) {
  EXPECT_EQ(phase_map_lines(R"({"prefill": ["prefill", "re:^execute_context"], "de code": "token"})"),
            "prefill (?i)prefill\nprefill ^execute_context\nde_code (?i)token\n");
}

TEST(PhaseFile, WordsMatchAsTheyAre) {
  const std::string lines = phase_map_lines(R"({"a": "Run (x+1) #2"})");
  const Regex pattern(lines.substr(2, lines.size() - 3));
  EXPECT_TRUE(pattern.occurs_in("then run (X+1) #2 again"));
  EXPECT_FALSE(pattern.occurs_in("run xx1 2"));
  EXPECT_EQ(lines.find('#'), std::string::npos) << "which begins a comment";
}

TEST(PhaseFile, LinesStayAsTheyAre) {
  EXPECT_EQ(phase_map_lines("# engine\nprefill ^a{2}\n"), "# engine\nprefill ^a{2}\n");
}

TEST(PhaseFile, WhatIsNoMapIsRefused) {
  const auto problem = [](std::string_view text) -> std::string {
    try {
      phase_map_lines(text);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(problem("{\"a\": "), ::testing::HasSubstr("is no JSON"));
  EXPECT_THAT(problem(R"({"a": [1]})"), ::testing::HasSubstr("something else than texts for 'a'"));
  EXPECT_THAT(problem(R"({"a": ""})"), ::testing::HasSubstr("something else than texts"));
}

}  // namespace

}  // namespace nsys_explain::ingest
