#include "analysis/compare/comparison.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <tuple>
#include <vector>

#include "analysis/statistics/significance.hpp"

namespace nsys_explain::analysis {
namespace {

/// A run of `steps` steps on four ranks: normal noise per step, common to all ranks as in a synchronised job.
RunTables run_of(const std::string& name, int steps, double step_ns, double relative_noise, unsigned seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> noise(1, relative_noise);
  Table table = make_table({"steps",
                            "",
                            {{"step", ColumnKind::integer, "", ""},
                             {"trace_rank", ColumnKind::integer, "", ""},
                             {"duration_ns", ColumnKind::integer, "ns", ""}}});
  RowWriter rows(table);
  for (int step = 0; step < steps; ++step) {
    const auto duration = static_cast<std::int64_t>(std::llround(step_ns * noise(random)));
    for (std::int64_t rank = 0; rank < 4; ++rank) rows << std::int64_t{step} << rank << duration;
  }
  return {name, {table}, "nvtx"};
}

Comparison compare_two(const RunTables& base, const RunTables& current) {
  return compare_runs({base}, current, {});
}

TEST(Comparison, AChangeOfThreePercentIsFoundOverManySeeds) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const auto slower = compare_two(run_of("a", 60, 1e8, 0.02, 2 * seed), run_of("b", 60, 1.03e8, 0.02, 2 * seed + 1));
    EXPECT_EQ(slower.verdict, ComparisonVerdict::worse) << seed;
    const auto faster = compare_two(run_of("a", 60, 1.03e8, 0.02, 2 * seed), run_of("b", 60, 1e8, 0.02, 2 * seed + 1));
    EXPECT_EQ(faster.verdict, ComparisonVerdict::better) << seed;
  }
}

TEST(Comparison, RunsOfTheSameJobAreNeverCalledDifferent) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    const auto same = compare_two(run_of("a", 40, 1e8, 0.02, 1000 + seed), run_of("b", 40, 1e8, 0.02, 2000 + seed));
    EXPECT_EQ(same.verdict, ComparisonVerdict::same) << seed;
  }
}

TEST(Comparison, TheIntervalOfARatioCoversTheTruth) {
  int covered = 0;
  constexpr int seeds = 200;
  for (unsigned seed = 0; seed < seeds; ++seed) {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> noise(100, 5);
    std::vector<double> base(50), current(80);
    for (double& value : base) value = noise(random);
    for (double& value : current) value = 1.1 * noise(random);
    const auto estimate = bootstrap_ratio(base, current);
    ASSERT_TRUE(estimate);
    covered += estimate->low <= 1.1 && 1.1 <= estimate->high ? 1 : 0;
  }
  EXPECT_GE(covered, 190);  // nominally 198; resampled blocks are a little narrow for short series
  EXPECT_LE(covered, 200);
}

TEST(Comparison, SlowSpellsWidenTheIntervalOfDependentSteps) {
  // The same values once shuffled and once as two long spells: dependent samples tell less.
  std::vector<double> spells(64), mixed(64), flat(64, 1.0);
  for (std::size_t i = 0; i < spells.size(); ++i) {
    spells[i] = i < 32 ? 0.9 : 1.1;
    mixed[i] = i % 2 == 0 ? 0.9 : 1.1;
  }
  const auto wide = bootstrap_ratio(flat, spells), narrow = bootstrap_ratio(flat, mixed);
  ASSERT_TRUE(wide && narrow);
  EXPECT_GT(wide->high - wide->low, 1.5 * (narrow->high - narrow->low));
}

TEST(Comparison, EarlierBasesThatDifferWidenTheNoise) {
  const RunTables current = run_of("now", 60, 1.02e8, 0.001, 9);
  EXPECT_EQ(compare_two(run_of("b", 60, 1e8, 0.001, 3), current).verdict, ComparisonVerdict::worse);
  const std::vector<RunTables> bases{run_of("x", 60, 0.97e8, 0.001, 1), run_of("y", 60, 1.03e8, 0.001, 2),
                                     run_of("b", 60, 1e8, 0.001, 3)};
  const Comparison comparison = compare_runs(bases, current, {});
  EXPECT_EQ(comparison.verdict, ComparisonVerdict::same);
  EXPECT_EQ(comparison.runs.size(), 4U);
}

TEST(Comparison, TooFewStepsAreNotJudged) {
  const Comparison comparison = compare_two(run_of("a", 5, 1e8, 0.01, 1), run_of("b", 5, 2e8, 0.01, 2));
  EXPECT_EQ(comparison.verdict, ComparisonVerdict::unknown);
  EXPECT_FALSE(comparison.notes.empty());
  EXPECT_EQ(compare_two({"a", {}, ""}, {"b", {}, ""}).verdict, ComparisonVerdict::unknown);
}

TEST(Comparison, KernelsAreComparedByTheirMeanAndNewOnesAreNamed) {
  const auto kernels = [](double mean_ns, bool with_new) {
    Table table = make_table({"kernels",
                              "",
                              {{"name", ColumnKind::text, "", ""},
                               {"count", ColumnKind::integer, "", ""},
                               {"total_ns", ColumnKind::integer, "ns", ""},
                               {"stddev_ns", ColumnKind::real, "ns", ""}}});
    RowWriter rows(table);
    rows << "gemm" << std::int64_t{100} << static_cast<std::int64_t>(100 * mean_ns) << 10.0;
    if (with_new) rows << "fresh" << std::int64_t{10} << std::int64_t{500} << 1.0;
    return table;
  };
  const Comparison comparison = compare_two({"a", {kernels(1000, false)}, ""}, {"b", {kernels(1050, true)}, ""});
  const auto find = [&](const std::string& name) {
    for (const Change& change : comparison.changes) {
      if (change.name == name) return change;
    }
    return Change{};
  };
  // Two means with standard errors of 10 / sqrt(100) = 1 each: 5% is far beyond 2.576 * sqrt(2) / 1000.
  const Change gemm = find("gemm");
  ASSERT_TRUE(gemm.ratio());
  EXPECT_DOUBLE_EQ(*gemm.ratio(), 1.05);
  EXPECT_TRUE(gemm.significant);
  EXPECT_FALSE(find("fresh").base);
  EXPECT_DOUBLE_EQ(find("fresh").current.value(), 50);
}

TEST(Comparison, TellsSlowerKernelsFromMoreOfThem) {
  const auto run = [](const std::string& name, std::initializer_list<std::tuple<const char*, int, int, int>> kernels) {
    Table table = make_table({"kernels",
                              "",
                              {{"name", ColumnKind::text, "", ""},
                               {"communication", ColumnKind::integer, "", ""},
                               {"count", ColumnKind::integer, "", ""},
                               {"total_ns", ColumnKind::integer, "ns", ""}}});
    RowWriter rows(table);
    for (const auto& [kernel, communication, count, total] : kernels)
      rows << kernel << std::int64_t{communication} << std::int64_t{count} << std::int64_t{total};
    return RunTables{name, {table}, ""};
  };
  const RunTables base = run("a", {{"gemm", 0, 100, 10'000}, {"norm", 0, 10, 500}, {"nccl", 1, 10, 100}});
  // 80 times 100 and 20 times 50 were 9,000; it took 9,900. Waiting in collectives is nobody's speed; what is new has
  // nothing to be held against.
  const RunTables current =
      run("b", {{"gemm", 0, 80, 8'800}, {"norm", 0, 20, 1'100}, {"nccl", 1, 10, 90'000}, {"new", 0, 5, 70}});
  EXPECT_DOUBLE_EQ(compare_two(base, current).kernel_time_ratio.value(), 1.1);
  EXPECT_FALSE(compare_two(base, run("c", {{"new", 0, 5, 70}})).kernel_time_ratio);
}

/// Four ranks on two nodes, ten steps: per step and rank these times of compute, of which is one kernel, and of idle.
RunTables run_with_own_times(const std::string& name, double step_ns, const std::vector<int>& compute_ns,
                             const std::vector<int>& idle_ns) {
  RunTables run = run_of(name, 10, step_ns, 0.001, 1);
  Table ranks = make_table({"ranks",
                            "",
                            {{"trace_rank", ColumnKind::integer, "", ""},
                             {"window_ns", ColumnKind::integer, "ns", ""},
                             {"compute_ns", ColumnKind::integer, "ns", ""},
                             {"exposed_communication_ns", ColumnKind::integer, "ns", ""},
                             {"copy_ns", ColumnKind::integer, "ns", ""},
                             {"opaque_graph_ns", ColumnKind::integer, "ns", ""},
                             {"idle_ns", ColumnKind::integer, "ns", ""}}});
  Table kernels = make_table({"kernels",
                              "",
                              {{"trace_rank", ColumnKind::integer, "", ""},
                               {"name", ColumnKind::text, "", ""},
                               {"communication", ColumnKind::integer, "", ""},
                               {"count", ColumnKind::integer, "", ""},
                               {"total_ns", ColumnKind::integer, "ns", ""}}});
  Table places = make_table({"rank_places",
                             "",
                             {{"trace_rank", ColumnKind::integer, "", ""},
                              {"level", ColumnKind::text, "", ""},
                              {"place", ColumnKind::text, "", ""}}});
  RowWriter rank_rows(ranks), kernel_rows(kernels), place_rows(places);
  for (std::size_t r = 0; r < compute_ns.size(); ++r) {
    const auto rank = static_cast<std::int64_t>(r);
    const std::int64_t compute = 10 * compute_ns[r], idle = 10 * idle_ns[r], window = std::llround(10 * step_ns);
    rank_rows << rank << window << compute << window - compute - idle << std::int64_t{0} << std::int64_t{0} << idle;
    kernel_rows << rank << "gemm" << std::int64_t{0} << std::int64_t{100} << compute;
    place_rows << rank << "node" << (r < 2 ? "n0" : "n1");
  }
  for (Table* table : {&ranks, &kernels, &places}) run.tables.push_back(std::move(*table));
  return run;
}

std::vector<std::string> places_of(const Comparison& comparison) {
  std::vector<std::string> places;
  for (const ChangedPlace& place : comparison.changed_places)
    places.push_back(place.place + ": " + std::string(part_name(place.part)));
  return places;
}

TEST(Comparison, TellsWhoseOwnTimeExplainsAChange) {
  using Places = std::vector<std::string>;
  const RunTables base = run_with_own_times("base", 1000, {700, 700, 700, 700}, {100, 100, 100, 100});
  const auto against_base = [&](double step_ns, const std::vector<int>& compute_ns, const std::vector<int>& idle_ns) {
    return compare_two(base, run_with_own_times("now", step_ns, compute_ns, idle_ns));
  };
  const Comparison slow = against_base(1200, {700, 700, 890, 700}, {100, 100, 100, 100});
  EXPECT_EQ(places_of(slow), Places{"rank 2 (n1): kernel_speed"});
  EXPECT_DOUBLE_EQ(slow.changed_places[0].part_base_ns, 700);
  EXPECT_DOUBLE_EQ(slow.changed_places[0].part_current_ns, 890);
  EXPECT_EQ(places_of(against_base(1200, {700, 700, 890, 880}, {100, 100, 100, 100})), Places{"node n1: kernel_speed"});
  EXPECT_EQ(places_of(against_base(1200, {700, 700, 700, 700}, {100, 300, 100, 100})), Places{"rank 1 (n0): idle"});
  EXPECT_EQ(places_of(against_base(1200, {890, 890, 890, 890}, {100, 100, 100, 100})),
            Places{"all ranks: kernel_speed"});
  // The step takes longer, but nobody by itself: transfers do.
  EXPECT_EQ(places_of(against_base(1200, {710, 700, 700, 700}, {100, 100, 100, 100})), Places{});
  // Who waits for a slower one takes no less time by itself.
  for (const Change& change : slow.changes) {
    if (change.topic != "rank" || change.name == "rank 2") continue;
    EXPECT_EQ(change.base, change.current) << change.name;
  }
}

/// Rank 0 has three times the samples of rank 1: (3 x 20 + 60) / 4 is 30.
TEST(Comparison, UseOfKernelsIsTheMeanOverSamples) {
  RunTables run = run_of("a", 5, 1e8, 0.01, 1);
  Table ranks = make_table(
      {"ranks", "", {{"trace_rank", ColumnKind::integer, "", ""}, {"window_ns", ColumnKind::integer, "ns", ""}}});
  RowWriter(ranks) << std::int64_t{0} << std::int64_t{1};
  Table counters = make_table({"kernel_counters",
                               "",
                               {{"trace_rank", ColumnKind::integer, "", ""},
                                {"name", ColumnKind::text, "", ""},
                                {"counter", ColumnKind::text, "", ""},
                                {"samples", ColumnKind::integer, "", ""},
                                {"mean_percent", ColumnKind::real, "%", ""}}});
  RowWriter rows(counters);
  const auto add = [&](std::int64_t rank, const char* name, const char* counter, std::int64_t samples, double percent) {
    rows << rank << name << counter << samples << percent;
  };
  add(0, "gemm", "tensor_active", 300, 20);
  add(1, "gemm", "tensor_active", 100, 60);
  add(0, "gemm", "sm_issue", 300, 12);
  add(0, "gemm", "dram_read", 300, 50);
  add(0, "gemm", "dram_write", 300, 10);
  add(0, "unsampled", "sm_issue", 300, 12);
  run.tables.push_back(ranks);
  run.tables.push_back(counters);
  const std::vector<KernelUse> uses = profile_run(run).kernel_uses;
  ASSERT_EQ(uses.size(), 1U);
  EXPECT_EQ(uses[0].name, "gemm");
  EXPECT_DOUBLE_EQ(uses[0].compute_percent, 30);
  EXPECT_DOUBLE_EQ(uses[0].memory_percent, 60);
  EXPECT_DOUBLE_EQ(uses[0].ratio(), 0.5);
  EXPECT_EQ(uses[0].compute_unit, "tensor cores");
}

TEST(Comparison, AReportAgainstItselfIsOneRun) {
  const RunTables run = run_with_own_times("a", 1000, {700, 700, 700, 700}, {100, 100, 100, 100});
  EXPECT_TRUE(compare_two(run, run).is_one_run);
  EXPECT_EQ(compare_two(run, run).verdict, ComparisonVerdict::same);
  RunTables without_steps = run;
  std::erase_if(without_steps.tables, [](const Table& table) { return table.schema.name == "steps"; });
  EXPECT_EQ(compare_two(without_steps, without_steps).verdict, ComparisonVerdict::same);
  EXPECT_FALSE(compare_two(run, run_with_own_times("b", 1000, {700, 700, 700, 701}, {100, 100, 100, 100})).is_one_run);
}

TEST(Comparison, RunsThatServeAreComparedByTimePerToken) {
  const auto serving = [](const std::string& name, std::int64_t token_ns) {
    Table table = make_table({"serving",
                              "",
                              {{"trace_rank", ColumnKind::integer, "", ""},
                               {"latency", ColumnKind::text, "", ""},
                               {"count", ColumnKind::integer, "", ""},
                               {"total_ns", ColumnKind::integer, "ns", ""},
                               {"stddev_ns", ColumnKind::real, "ns", ""}}});
    RowWriter rows(table);
    rows << std::int64_t{0} << "time_to_first_token" << std::int64_t{10} << std::int64_t{900'000} << 10.0;
    rows << std::int64_t{0} << "time_per_output_token" << std::int64_t{400} << 400 * token_ns << 100.0;
    return RunTables{name, {table}, ""};
  };
  const Comparison comparison = compare_two(serving("a", 10'000), serving("b", 10'500));
  EXPECT_EQ(comparison.headline.topic, "output token");
  EXPECT_DOUBLE_EQ(comparison.headline.ratio().value(), 1.05);
  EXPECT_EQ(comparison.verdict, ComparisonVerdict::worse);
  EXPECT_EQ(compare_two(serving("a", 10'000), serving("b", 10'005)).verdict, ComparisonVerdict::same);
}

TEST(Comparison, StepsFoundInOtherWaysAreNotCompared) {
  RunTables guessed = run_of("b", 30, 3e8, 0.01, 2);
  guessed.step_source = "periodicity";
  const Comparison comparison = compare_two(run_of("a", 60, 1e8, 0.01, 1), guessed);
  EXPECT_EQ(comparison.verdict, ComparisonVerdict::unknown);
  EXPECT_EQ(comparison.basis, ComparisonBasis::window);
  ASSERT_FALSE(comparison.notes.empty());
  EXPECT_NE(comparison.notes.front().find("by nvtx in a and by periodicity in b"), std::string::npos);
}

TEST(RatioNoise, StudentQuantilesAreThoseOfTheTables) {
  // Two-sided 99% and 95%, from printed tables.
  EXPECT_NEAR(student_quantile(0.005, 1), 63.657, 1e-3);
  EXPECT_NEAR(student_quantile(0.005, 2), 9.9248, 1e-4);
  EXPECT_NEAR(student_quantile(0.005, 3), 5.8409, 1e-4);
  EXPECT_NEAR(student_quantile(0.025, 10), 2.2281, 1e-4);
  EXPECT_NEAR(student_quantile(0.025, 29), 2.0452, 1e-4);
  EXPECT_NEAR(student_quantile(0.005, 1000), 2.5808, 1e-4);
}

TEST(RatioNoise, ManyRatiosJudgedTogetherAreAllCoveredNineteenTimesInTwenty) {
  // 50 skewed series per run, no true change: with single intervals 40% of the runs would show one.
  int runs_with_alarm = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    std::mt19937_64 random(seed);
    std::exponential_distribution<double> skewed(0.01);
    bool alarm = false;
    for (int series = 0; series < 50; ++series) {
      std::vector<double> base(40), current(40);
      for (double& value : base) value = skewed(random);
      for (double& value : current) value = skewed(random);
      const auto estimate = block_ratio(base, current, 50);
      ASSERT_TRUE(estimate);
      alarm = alarm || estimate->low > 1 || estimate->high < 1;
    }
    runs_with_alarm += alarm ? 1 : 0;
  }
  EXPECT_LE(runs_with_alarm, 5);
}

TEST(RatioNoise, RanksThatDifferAmongThemselvesWidenTheRatioOfMeans) {
  // Four ranks, 1,000 executions of 100 ns +- 1 ns each; in the second run two ranks are 10% slower.
  const auto rank = [](double mean) { return RankDurations{1000, 1000 * mean, 999}; };
  const DurationsByRank base{{0, rank(100)}, {1, rank(100)}, {2, rank(100)}, {3, rank(100)}};
  const DurationsByRank all{{0, rank(110)}, {1, rank(110)}, {2, rank(110)}, {3, rank(110)}};
  const DurationsByRank some{{0, rank(110)}, {1, rank(110)}, {2, rank(100)}, {3, rank(100)}};
  const auto whole = ratio_of_means(base, all, 1), half = ratio_of_means(base, some, 1);
  ASSERT_TRUE(whole && half);
  // Within ranks: standard errors of 1 / sqrt(4000) / 100 on both sides.
  EXPECT_NEAR(whole->low, 1.1 * std::exp(-2.5758 * std::sqrt(1.0 / 4000) / 100 * std::sqrt(1 + 1 / 1.21)), 1e-5);
  // Logs 0.0953, 0.0953, 0, 0: standard deviation 0.05503, error 0.02751, times t(3) = 5.8409.
  EXPECT_NEAR(std::log(half->high / half->ratio), 5.8409 * 0.0275137, 1e-4);
}

}  // namespace
}  // namespace nsys_explain::analysis
