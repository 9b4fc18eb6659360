#include "analysis/tables/tables.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "analysis/trace/launches.hpp"
#include "analysis/trace/nvtx_ranges.hpp"
#include "made_trace.hpp"

namespace nsys_explain::analysis {
namespace {

using ::testing::ElementsAre;
using testing::integer_at;
using testing::MadeTrace;
using testing::row_with;

std::vector<Table> tables_of(MadeTrace& made) {
  const RankEvents events = made.events();
  return nvtx_tables(events, collect_launches(events));
}

std::vector<std::int64_t> integers(const Table& table, std::string_view name) {
  return column<std::int64_t>(table, name);
}

/// outer [0, 100) > inner [10, 40), inner [50, 60); two launches in the inner ones, one in the outer alone.
struct TwoLevels : ::testing::Test {
  TwoLevels() {
    made.range(0, 100, "outer");
    made.range(10, 40, "inner, op_id = 7");
    made.range(50, 60, "inner, op_id = 8");
    made.launch(20, 22, 200, 230, "a");
    made.launch(55, 57, 230, 240, "a");
    made.launch(70, 75, 300, 350, "b");
    made.kernel(400, 500, "orphan");
  }
  Table table(std::string_view name) {
    const std::vector<Table> tables = tables_of(made);
    return *find_table(tables, name);
  }
  MadeTrace made;
};

TEST_F(TwoLevels, SumsHostTimeByName) {
  const Table sum = table("nvtx_sum");
  ASSERT_EQ(sum.row_count(), 2U);
  const std::size_t inner = row_with(sum, "range", "inner");
  EXPECT_EQ(integer_at(sum, "count", inner), 2);
  EXPECT_EQ(integer_at(sum, "total_ns", inner), 40);
  EXPECT_EQ(integer_at(sum, "min_ns", inner), 10);
  EXPECT_EQ(integer_at(sum, "max_ns", inner), 30);
  const std::size_t outer = row_with(sum, "range", "outer");
  EXPECT_EQ(outer, 0U) << "most time first";
  EXPECT_EQ(integer_at(sum, "total_ns", outer), 100);
  EXPECT_EQ(integer_at(sum, "own_ns", outer), 60);
}

TEST_F(TwoLevels, TracesNesting) {
  const Table trace = table("nvtx_trace");
  EXPECT_THAT(integers(trace, "start_ns"), ElementsAre(0, 10, 50));
  EXPECT_THAT(integers(trace, "level"), ElementsAre(0, 1, 1));
  EXPECT_THAT(integers(trace, "parent_id"), ElementsAre(-1, 0, 0));
  EXPECT_THAT(integers(trace, "children"), ElementsAre(2, 0, 0));
  EXPECT_THAT(integers(trace, "children_ns"), ElementsAre(40, 0, 0));
}

TEST_F(TwoLevels, ProjectsOntoTheGpu) {
  const Table projection = table("nvtx_gpu_projection");
  const std::size_t outer = row_with(projection, "range", "outer"), inner = row_with(projection, "range", "inner");
  EXPECT_EQ(integer_at(projection, "total_ns", outer), 350 - 200);  // gaps included; the orphan belongs to nobody
  EXPECT_EQ(integer_at(projection, "gpu_operations", outer), 3);
  EXPECT_EQ(integer_at(projection, "count", inner), 2);
  EXPECT_EQ(integer_at(projection, "total_ns", inner), 30 + 10);
  EXPECT_THAT(integers(table("nvtx_gpu_projection_trace"), "start_ns"), ElementsAre(200, 200, 230));
}

TEST_F(TwoLevels, CountsAKernelForEveryRangeAroundIt) {
  const Table kernels = table("nvtx_kernels");
  ASSERT_EQ(kernels.row_count(), 3U);  // outer: a, b; inner: a
  const std::size_t inner = row_with(kernels, "range", "inner");
  EXPECT_EQ(column<std::string>(kernels, "kernel")[inner], "a");
  EXPECT_EQ(integer_at(kernels, "count", inner), 2);
  EXPECT_EQ(integer_at(kernels, "total_ns", inner), 40);
  EXPECT_EQ(integer_at(kernels, "ranges", inner), 2);
  const std::size_t b = row_with(kernels, "kernel", "b");
  EXPECT_EQ(column<std::string>(kernels, "range")[b], "outer");
  EXPECT_EQ(integer_at(kernels, "total_ns", b), 50);
}

TEST_F(TwoLevels, StatesItsCoverage) {
  const Table coverage = table("nvtx_coverage");
  ASSERT_EQ(coverage.row_count(), 1U);
  EXPECT_EQ(integer_at(coverage, "kernels", 0), 4);
  EXPECT_EQ(integer_at(coverage, "kernel_ns", 0), 30 + 10 + 50 + 100);
  EXPECT_EQ(integer_at(coverage, "launched_ns", 0), 90);
  EXPECT_EQ(integer_at(coverage, "covered_ns", 0), 90);
}

TEST(Nvtx, OpenRangesEndAtTheLastEventOfTheTrace) {
  MadeTrace made;
  made.range(10, no_time, "open");
  made.launch(20, 25, 30, 90);
  const std::vector<Table> tables = tables_of(made);
  EXPECT_THAT(integers(*find_table(tables, "nvtx_sum"), "total_ns"), ElementsAre(80));
}

TEST(Nvtx, OtherThreadsAndRangesThatEndElsewhereAreNotProjected) {
  MadeTrace made;
  made.range(0, 100, "elsewhere", 2);
  NvtxRange handed_over = made.make_range(0, 100, "handed over", 1);
  handed_over.kind = NvtxKind::start_end;
  handed_over.end_thread_id = 2;
  made.process().nvtx_ranges.push_back(handed_over);
  made.range(5, 100, "NCCL's own", 1, "NCCL");
  made.launch(10, 12, 20, 30);
  const std::vector<Table> tables = tables_of(made);
  const Table& projection = *find_table(tables, "nvtx_gpu_projection");
  EXPECT_THAT(column<std::string>(projection, "range"), ElementsAre("NCCL's own"));
  EXPECT_EQ(integer_at(*find_table(tables, "nvtx_coverage"), "covered_ns", 0), 0) << "NCCL's ranges are no phases";
}

TEST(Nvtx, ALaunchThatOutlastsTheRangeDoesNotCount) {
  MadeTrace made;
  made.range(0, 100, "range");
  made.launch(90, 110, 120, 130, "cut");
  EXPECT_EQ(find_table(tables_of(made), "nvtx_gpu_projection")->row_count(), 0U);
}

TEST(Nvtx, NamesBeyondTheLimitAreAddedUp) {
  MadeTrace made;
  const std::int64_t names = static_cast<std::int64_t>(most_names) + 5;
  for (std::int64_t i = 0; i < names; ++i) made.range(1000 * i, 1000 * i + 100 + i, "range " + std::to_string(i));
  const std::vector<Table> tables = tables_of(made);
  const Table& sum = *find_table(tables, "nvtx_sum");
  ASSERT_EQ(sum.row_count(), most_names);
  const std::size_t last = most_names - 1;
  EXPECT_EQ(column<std::string>(sum, "range")[last], other_ranges);
  EXPECT_EQ(integer_at(sum, "count", last), 6);  // the shortest six: 100 to 105
  EXPECT_EQ(integer_at(sum, "total_ns", last), 6 * 100 + 15);
}

/// Against the definition, range by range, on ranges that nest, interleave across domains and repeat.
TEST(Nvtx, ProjectionAgreesWithTheDefinitionOnRandomTraces) {
  for (std::uint32_t seed = 0; seed < 30; ++seed) {
    std::mt19937 random(seed);
    const auto number = [&](std::int64_t below) {
      return static_cast<std::int64_t>(random() % static_cast<std::uint32_t>(below));
    };
    MadeTrace made;
    std::vector<Interval> spans;
    for (int i = 0; i < 60; ++i) {
      const Nanoseconds start = number(8000);
      spans.push_back({start, start + number(i % 2 == 0 ? 300 : 6000)});  // of a few launches, and of hundreds
    }
    std::sort(spans.begin(), spans.end(), [](const Interval& a, const Interval& b) { return a.start_ns < b.start_ns; });
    for (std::size_t i = 0; i < spans.size(); ++i) {
      NvtxRange range = made.make_range(spans[i].start_ns, spans[i].end_ns, "r" + std::to_string(i));
      range.kind = NvtxKind::start_end;
      made.process().nvtx_ranges.push_back(range);
    }
    constexpr std::size_t launches = 400;
    std::vector<std::size_t> kernel_of(launches);  // streams need not run work in the order of its launches
    std::iota(kernel_of.begin(), kernel_of.end(), std::size_t{0});
    std::shuffle(kernel_of.begin(), kernel_of.end(), random);
    std::vector<std::uint32_t> call_of(launches);
    Nanoseconds call = 0, gpu = 20'000;
    for (std::size_t i = 0; i < launches; ++i) {
      call_of[kernel_of[i]] = static_cast<std::uint32_t>(i + 1);
      call += number(30);
      made.call(call, call + number(60), static_cast<std::uint32_t>(i + 1));  // calls may overlap: nested ones
    }
    for (std::size_t k = 0; k < launches; ++k) {
      made.kernel(gpu, gpu + number(20), "k", call_of[k]);
      gpu += number(25);
    }
    const std::vector<Table> tables = tables_of(made);
    const Table& projection = *find_table(tables, "nvtx_gpu_projection");
    std::size_t projected = 0;
    for (std::size_t i = 0; i < spans.size(); ++i) {
      std::int64_t operations = 0;
      Nanoseconds first = 0, last = 0;
      for (std::size_t k = 0; k < made.process().api_calls.size(); ++k) {
        const ApiCall& api = made.process().api_calls[k];
        if (api.start_ns < spans[i].start_ns || api.end_ns > spans[i].end_ns) continue;
        const Kernel& kernel = made.device().kernels[kernel_of[k]];
        first = operations == 0 ? kernel.start_ns : std::min(first, kernel.start_ns);
        last = operations == 0 ? kernel.end_ns : std::max(last, kernel.end_ns);
        ++operations;
      }
      if (operations == 0) continue;
      ++projected;
      const std::size_t row = row_with(projection, "range", "r" + std::to_string(i));
      EXPECT_EQ(integer_at(projection, "gpu_operations", row), operations) << "seed " << seed;
      EXPECT_EQ(integer_at(projection, "total_ns", row), last - first) << "seed " << seed;
    }
    EXPECT_EQ(projection.row_count(), projected);
  }
}

/// Against the definition, launch by launch: ranges of few names, so that they lie within others of their own name, on
/// two threads, with launches that a range cuts or that no range surrounds.
TEST(Nvtx, KernelsInRangesAgreeWithTheDefinitionOnRandomTraces) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    const auto number = [&](std::int64_t below) {
      return static_cast<std::int64_t>(random() % static_cast<std::uint32_t>(below));
    };
    MadeTrace made;
    std::vector<NvtxRange> ranges;
    for (int i = 0; i < 80; ++i) {
      const Nanoseconds start = number(6000);
      ranges.push_back(made.make_range(start, start + number(2000), "r" + std::to_string(number(4)),
                                       static_cast<std::uint32_t>(1 + number(2))));
      ranges.back().kind = NvtxKind::start_end;
    }
    std::sort(ranges.begin(), ranges.end(),
              [](const NvtxRange& a, const NvtxRange& b) { return a.start_ns < b.start_ns; });
    for (const NvtxRange& range : ranges) made.process().nvtx_ranges.push_back(range);
    std::map<std::pair<std::string, std::string>, std::vector<std::int64_t>> expected;  // durations
    Nanoseconds call = 0;
    for (int i = 0; i < 300; ++i) {
      call += number(40);
      const Nanoseconds call_end = call + number(60),
                        length = number(50) == 0 ? 5'000'000'000 + number(9) : number(500);
      const auto thread = static_cast<std::uint32_t>(1 + number(2));
      const std::string name = "k" + std::to_string(number(3));
      made.launch(call, call_end, 10'000'000'000 * i, 10'000'000'000 * i + length, name, thread);
      for (const NvtxRange& range : ranges) {
        if (range.thread_id != thread || range.start_ns > call || range.end_ns < call_end) continue;
        expected[{made.trace.strings[range.text], name}].push_back(length);
      }
    }
    const std::vector<Table> tables = tables_of(made);
    const Table& found = *find_table(tables, "nvtx_kernels");
    ASSERT_EQ(found.row_count(), expected.size());
    for (std::size_t row = 0; row < found.row_count(); ++row) {
      std::vector<std::int64_t>& lengths =
          expected.at({column<std::string>(found, "range")[row], column<std::string>(found, "kernel")[row]});
      std::sort(lengths.begin(), lengths.end());
      const std::size_t n = lengths.size();
      const double mean = static_cast<double>(std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0})) /
                          static_cast<double>(n);
      double squares = 0;
      for (const std::int64_t length : lengths) squares += std::pow(static_cast<double>(length) - mean, 2);
      const double deviation = n > 1 ? std::sqrt(squares / static_cast<double>(n - 1)) : 0;
      ASSERT_EQ(integer_at(found, "count", row), static_cast<std::int64_t>(n)) << seed;
      EXPECT_DOUBLE_EQ(column<double>(found, "mean_ns")[row], mean) << seed;
      EXPECT_EQ(integer_at(found, "min_ns", row), lengths.front()) << seed;
      EXPECT_EQ(integer_at(found, "max_ns", row), lengths.back()) << seed;
      EXPECT_DOUBLE_EQ(column<double>(found, "median_ns")[row],
                       static_cast<double>(lengths[(n - 1) / 2] + lengths[n / 2]) / 2)
          << seed;
      EXPECT_NEAR(column<double>(found, "stddev_ns")[row], deviation, 1e-9 * deviation) << seed;
    }
  }
}

TEST(Nvtx, TracesTheThousandLongestAndOfEqualOnesTheFirst) {
  MadeTrace made;
  std::vector<std::pair<Nanoseconds, std::int64_t>> longest;  // negative duration, number
  for (std::int64_t i = 0; i < 9000; ++i) {
    const Nanoseconds duration = 1 + i * 7919 % 2000;  // each four or five times
    made.range(i * 3000, i * 3000 + duration, "r");
    longest.push_back({-duration, i});
  }
  std::sort(longest.begin(), longest.end());
  std::vector<std::int64_t> expected;
  for (std::size_t i = 0; i < 1000; ++i) expected.push_back(longest[i].second);
  std::sort(expected.begin(), expected.end());
  const std::vector<Table> tables = tables_of(made);
  EXPECT_EQ(integers(*find_table(tables, "nvtx_trace"), "range_id"), expected);
}

TEST(NvtxNames, OperatorNumbersAreNotPartOfTheName) {
  EXPECT_EQ(range_name("aten::add, op_id = 314359"), "aten::add");
  EXPECT_EQ(range_name("aten::mm, seq = 5, op_id = 3, sizes = [[2, 2]]"), "aten::mm");
  EXPECT_EQ(range_name("copy, then add, seq = 5"), "copy, then add");
  EXPECT_EQ(range_name(", op_id = 3"), ", op_id = 3") << "a name must be left";
  EXPECT_EQ(range_name("step 12"), "step 12");
}

TEST(NvtxNames, RecognisesWhatFrameworksCallTheirPhases) {
  const PhaseNames names({});
  const auto phase_of = [&](std::string_view label) {
    const auto found = names.recognise(label);
    return found ? found->name + (found->number >= 0 ? " " + std::to_string(found->number) : "") : std::string();
  };
  EXPECT_EQ(phase_of("step 12"), "step 12");
  EXPECT_EQ(phase_of("ProfilerStep#3"), "step 3");
  EXPECT_EQ(phase_of("train_step"), "step");
  EXPECT_EQ(phase_of("iteration7"), "step 7");
  EXPECT_EQ(phase_of("Optimizer.step#AdamW.step"), "optimizer");
  EXPECT_EQ(phase_of("optimizer step"), "optimizer");
  EXPECT_EQ(phase_of("Forward pass"), "forward");
  EXPECT_EQ(phase_of("backward"), "backward");
  EXPECT_EQ(phase_of("prefill"), "prefill");
  EXPECT_EQ(phase_of("decode_step 4"), "decode 4");
  for (const char* label : {"aten::_softmax_backward_data", "AddmmBackward0", "FlashAttnFunc", "stepping stone", "",
                            "autograd::engine::evaluate_function: MulBackward0", "transformer", "MPI_Send",
                            "step scheduler of the learning rate"}) {
    EXPECT_EQ(phase_of(label), "") << label;
  }
}

TEST(NvtxNames, PhaseMapComesFirst) {
  const PhaseNames names(parse_phase_map("# engine\nprefill ^execute_context\nstep  it=(\\d+)\n\n"));
  EXPECT_EQ(names.recognise("execute_context_1(512)")->name, "prefill");
  EXPECT_EQ(names.recognise("loop it=42 of 100")->number, 42);
  EXPECT_EQ(names.recognise("forward")->name, "forward");
}

TEST(NvtxNames, PhaseMapsTakeNamesOfAnyLength) {
  const std::string phase(300, 'p');
  const PhaseNames names(parse_phase_map(phase + " (a|b)*c (\\d+)$\n"));
  const auto found = names.recognise(std::string(1'000'000, 'a') + "c 7");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->name, phase);
  EXPECT_FALSE(names.recognise(std::string(1'000'000, 'a')));
}

TEST(NvtxNames, BadPhaseMapsSayWhy) {
  const auto problem = [](std::string_view text) -> std::string {
    try {
      parse_phase_map(text);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(problem("prefill a\nlonely\n"), ::testing::HasSubstr("line 2 of the phase map has no pattern"));
  EXPECT_THAT(problem("decode (open\n"), ::testing::HasSubstr("not a regular expression"));
  EXPECT_THAT(problem("decode step(?!per)\n"), ::testing::HasSubstr("no lookaround, no backreferences"));
}

}  // namespace
}  // namespace nsys_explain::analysis
