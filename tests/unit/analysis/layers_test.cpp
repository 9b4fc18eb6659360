#include "analysis/tables/tables.hpp"

#include <gmock/gmock.h>

#include <string_view>

#include "analysis/window/steps.hpp"
#include "unit/analysis/rank_fixture.hpp"

namespace nsys_explain::analysis {
namespace {

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
  std::vector<Arrival> arrivals;
  for (Nanoseconds step = 0; step < 3; ++step)
    for (Nanoseconds layer = 0; layer < 3; ++layer) {
      Arrival& arrival = arrivals.emplace_back();
      arrival.enter_ns = 1000 * step + 30 + 300 * layer + 130;
      arrival.exit_ns = arrival.enter_ns + 100;
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
