#include "analysis/tables/tables.hpp"

#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/window/steps.hpp"
#include "made_trace.hpp"
#include "unit/analysis/rank_fixture.hpp"

namespace nsys_explain::analysis {
namespace {

using ::testing::ElementsAre;
using testing::integer_at;
using testing::MadeTrace;
using testing::row_with;

std::vector<Table> tables_of(MadeTrace& made) {
  const RankEvents events = made.events();
  return phase_tables(events, collect_launches(events), {});
}

/// Two steps of forward and backward; backward's kernels are launched by another thread, as PyTorch does; one kernel
/// after the steps.
struct Training : ::testing::Test {
  Training() {
    for (const Nanoseconds t : {0, 1000}) {
      made.range(t, t + 900, "ProfilerStep#" + std::to_string(5 + t / 1000));
      made.range(t + 10, t + 300, "forward");
      made.range(t + 20, t + 100, "forward");  // a module's own, inside
      made.launch(t + 50, t + 55, t + 100, t + 180, "f");
      made.range(t + 400, t + 800, "backward");
      made.launch(t + 500, t + 505, t + 600, t + 760, "b", 2);
      made.launch(t + 850, t + 855, t + 860, t + 870, "clip");
    }
    made.launch(2500, 2505, 2600, 2640, "save");
    tables = tables_of(made);
  }
  std::int64_t phase(std::string_view name, std::string_view column) const {
    const Table& phases = *find_table(tables, "phases");
    return integer_at(phases, column, row_with(phases, "phase", name));
  }
  MadeTrace made;
  std::vector<Table> tables;
};

TEST_F(Training, KernelsBelongToTheInnermostPhase) {
  EXPECT_EQ(phase("forward", "ranges"), 2);
  EXPECT_EQ(phase("forward", "host_ns"), 2 * 290);
  EXPECT_EQ(phase("forward", "kernel_ns"), 2 * 80);
  EXPECT_EQ(phase("forward", "other_thread_kernel_ns"), 0);
  EXPECT_EQ(phase("backward", "kernel_ns"), 2 * 160);
  EXPECT_EQ(phase("backward", "other_thread_kernel_ns"), 2 * 160);
  EXPECT_EQ(phase("step", "kernel_ns"), 2 * (80 + 160 + 10));
  EXPECT_EQ(phase("step", "projected_ns"), 2 * (870 - 100));
  EXPECT_EQ(phase("(outside)", "kernel_ns"), 40);
}

TEST_F(Training, StepsHaveTheirNumbersAndGpuTimes) {
  const Table& steps = *find_table(tables, "nvtx_steps");
  EXPECT_THAT(column<std::int64_t>(steps, "step"), ElementsAre(5, 6));
  EXPECT_THAT(column<std::int64_t>(steps, "start_ns"), ElementsAre(0, 1000));
  EXPECT_THAT(column<std::int64_t>(steps, "gpu_start_ns"), ElementsAre(100, 1100));
  EXPECT_THAT(column<std::int64_t>(steps, "gpu_end_ns"), ElementsAre(870, 1870));
  EXPECT_THAT(column<std::int64_t>(steps, "gpu_operations"), ElementsAre(3, 3));
}

TEST(Serving, TokenLatenciesComeFromPrefillAndDecode) {
  MadeTrace made;
  made.range(0, 50, "prefill");
  made.launch(10, 12, 20, 400, "p");
  made.range(60, 70, "decode");
  made.launch(62, 64, 400, 430, "d");
  made.range(80, 90, "decode");
  made.launch(82, 84, 440, 480, "d");
  made.range(1000, 1010, "prefill");  // after an idle time that nobody waited for
  made.launch(1002, 1004, 1005, 1205, "p");
  made.range(1100, 1110, "decode");
  made.launch(1102, 1104, 1205, 1245, "d");
  const std::vector<Table> tables = tables_of(made);
  const Table& serving = *find_table(tables, "serving");
  const std::size_t first = row_with(serving, "latency", "time_to_first_token");
  EXPECT_EQ(integer_at(serving, "count", first), 2);
  EXPECT_EQ(integer_at(serving, "min_ns", first), 205);
  EXPECT_EQ(integer_at(serving, "max_ns", first), 400);
  const std::size_t next = row_with(serving, "latency", "time_per_output_token");
  EXPECT_EQ(integer_at(serving, "count", next), 3);  // 430 - 400, 480 - 430, 1245 - 1205
  EXPECT_EQ(integer_at(serving, "total_ns", next), 30 + 50 + 40);
}

TEST(Phases, ATraceWithoutPhasesHasNone) {
  MadeTrace made;
  made.range(0, 100, "loading");
  made.launch(10, 12, 20, 30);
  for (const Table& table : tables_of(made)) EXPECT_EQ(table.row_count(), 0U) << table.schema.name;
}

using ::testing::ElementsAre;
using testing::integers;
using testing::Integers;
using ::testing::IsEmpty;
using testing::OneRank;

std::vector<TandemRepeat> repeats_in(std::string_view text) {
  const std::vector<std::uint32_t> symbols(text.begin(), text.end());
  return innermost_repeats(symbols);
}

TEST(TandemRepeats, ThoseOfBothPasses) {
  EXPECT_THAT(repeats_in("eabcabcabcfdcxdcxdcxdcxg"), ElementsAre(TandemRepeat{1, 3, 3}, TandemRepeat{11, 3, 4}));
}

TEST(TandemRepeats, TwiceOrOneSymbolIsNone) {
  EXPECT_THAT(repeats_in("xabcdabcdy"), IsEmpty());
  EXPECT_THAT(repeats_in("xaaaaaaaaaay"), IsEmpty());
  EXPECT_THAT(repeats_in("abcdefgh"), IsEmpty());
  EXPECT_THAT(repeats_in(""), IsEmpty());
}

TEST(TandemRepeats, MicroBatchesAreNoLayers) {
  // Three times: e, four layers, f. The longest repeat is of the whole micro-batch.
  const std::string_view micro_batches =
      "eababababf"
      "eababababf"
      "eababababf";
  EXPECT_THAT(repeats_in(micro_batches),
              ElementsAre(TandemRepeat{1, 2, 4}, TandemRepeat{11, 2, 4}, TandemRepeat{21, 2, 4}));
}

TEST(TandemRepeats, ShortOnesBesideLongOnesAreLeftOut) {
  // An optimizer's abab is a tenth as long as the layers.
  EXPECT_THAT(repeats_in("cdefghijklcdefghijklcdefghijklcdefghijklpqpqpq"), ElementsAre(TandemRepeat{0, 10, 4}));
}

/// Steps of 1,000 ns: embedding, three layers of two kernels and an all-reduce, head. Of 300 ns a layer: a 100, b 50,
/// all-reduce 100 from 20 before the end of b, 70 idle.
void add_step(OneRank& rank, Nanoseconds at_ns) {
  rank.kernel("embed", at_ns, at_ns + 20);
  for (Nanoseconds layer_ns = at_ns + 30; layer_ns < at_ns + 930; layer_ns += 300) {
    rank.kernel("a", layer_ns, layer_ns + 100);
    rank.kernel("b", layer_ns + 100, layer_ns + 150);
    rank.kernel("nccl", layer_ns + 130, layer_ns + 230, 0, 9);
  }
  rank.kernel("head", at_ns + 930, at_ns + 950);
}

TEST(Layers, TimesAddUpOverSteps) {
  OneRank rank;
  for (Nanoseconds step = 0; step < 3; ++step) add_step(rank, 1000 * step);
  rank.kernel("odd", 3000, 3010);  // a step that runs something else
  const RankEvents made = rank.events();
  std::vector<TraceArrival> arrivals;
  for (Nanoseconds step = 0; step < 3; ++step)
    for (Nanoseconds layer = 0; layer < 3; ++layer) {
      TraceArrival& arrival = arrivals.emplace_back();
      arrival.enter = TraceTime(1000 * step + 30 + 300 * layer + 130);
      arrival.exit = arrival.enter + 100;
    }
  const RankEvents events{made.trace, made.process, made.device, made.launches, made.communication_kinds, arrivals};
  Steps steps;
  steps.source = StepSource::nvtx;
  steps.start_ns = {0, 1000, 2000, 3000};
  steps.end_ns = 3010;
  const Table table = layers_table(events, steps);
  EXPECT_EQ(integers(table, "pass"), (Integers{0, 0, 0}));
  EXPECT_EQ(integers(table, "layer"), (Integers{0, 1, 2}));
  EXPECT_EQ(integers(table, "steps"), (Integers{3, 3, 3}));
  EXPECT_EQ(integers(table, "kernels"), (Integers{6, 6, 6}));
  // The last layer ends with its last compute kernel: 20 ns of its all-reduce lie beside that.
  EXPECT_EQ(integers(table, "time_ns"), (Integers{900, 900, 450}));
  EXPECT_EQ(integers(table, "compute_ns"), (Integers{450, 450, 450}));
  EXPECT_EQ(integers(table, "exposed_communication_ns"), (Integers{240, 240, 0}));
  EXPECT_EQ(integers(table, "idle_ns"), (Integers{210, 210, 0}));
  EXPECT_EQ(integers(table, "collectives"), (Integers{3, 3, 3}));
}

TEST(Layers, NothingIsSaidWithoutStepsOrRepeats) {
  OneRank rank;
  add_step(rank, 0);
  EXPECT_EQ(layers_table(rank.events(), {}).row_count(), 0);
  OneRank other;
  other.kernel("a", 0, 1);
  other.kernel("b", 2, 3);
  Steps steps;
  steps.source = StepSource::nvtx;
  steps.start_ns = {0};
  steps.end_ns = 3;
  EXPECT_EQ(layers_table(other.events(), steps).row_count(), 0);
}

}  // namespace

}  // namespace nsys_explain::analysis
