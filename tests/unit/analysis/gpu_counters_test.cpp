#include "analysis/tables/tables.hpp"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/schema/gpu.hpp"
#include "unit/analysis/rank_fixture.hpp"

namespace nsys_explain::analysis {
namespace {

using ::testing::ElementsAre;

constexpr Nanoseconds ms = 1'000'000;

/// Samples every 1 ms from 0 to 20 ms: a GEMM from 0 to 10 ms, an all-reduce from 8 to 14 ms, nothing, a short kernel
/// at the end. Tensor cores at 80% in the GEMM, SMs at 100% in both.
struct SampledRank : testing::OneRank {
  SampledRank() {
    kernel("gemm<float>", 0, 10 * ms);
    kernel("ncclDevKernel_AllReduce", 8 * ms, 14 * ms);
    kernel("tiny", 20 * ms - 1000, 20 * ms);
    for (Nanoseconds at = 0; at <= 20; ++at) {
      device().samples.time_ns.push_back(at * ms);
      of(GpuCounter::tensor_active).push_back(at > 0 && at <= 10 ? 80 : 0);
      of(GpuCounter::sms_active).push_back(at > 0 && at <= 14 ? 100 : 0);
    }
  }
  std::vector<std::uint32_t>& of(GpuCounter counter) {
    return device().samples.values[static_cast<std::size_t>(counter)];
  }
};

struct Row {
  std::string part, counter;
  std::int64_t samples;
  double mean;
  friend bool operator==(const Row&, const Row&) = default;
};

std::vector<Row> rows_of(const Table& table) {
  std::vector<Row> rows;
  for (std::size_t i = 0; i < table.row_count(); ++i)
    rows.push_back({std::string(column(table, schema::gpu_counters.part)[i]),
                    std::string(column(table, schema::gpu_counters.counter)[i]),
                    column(table, schema::gpu_counters.samples)[i],
                    column(table, schema::gpu_counters.mean_percent)[i]});
  return rows;
}

TEST(GpuCounters, AreMeansOfTheSamplesThatLieInAPartOfTheRun) {
  SampledRank rank;
  const std::vector<Table> tables = gpu_counter_tables(rank.events());
  // By hand: 20 samples cover the window, 14 of them at 100 and 10 at 80; 10 lie in the GEMM, 4 in the all-reduce
  // alone; of the five between 14 and 20 ms and the one that the short kernel ends all six are idle for 90% and more.
  EXPECT_THAT(rows_of(tables[0]),
              ElementsAre(Row{"window", "sms_active", 20, 70}, Row{"window", "tensor_active", 20, 40},
                          Row{"compute", "sms_active", 10, 100}, Row{"compute", "tensor_active", 10, 80},
                          Row{"communication", "sms_active", 4, 100}, Row{"communication", "tensor_active", 4, 0},
                          Row{"idle", "sms_active", 6, 0}, Row{"idle", "tensor_active", 6, 0}));
}

TEST(GpuCounters, OfAKernelNeedThreeSamples) {
  SampledRank rank;
  const std::vector<Table> tables = gpu_counter_tables(rank.events());
  const auto& names = column(tables[1], schema::kernel_counters.name);
  EXPECT_THAT(std::vector<std::string>(names.begin(), names.end()),
              ElementsAre("gemm", "gemm", "ncclDevKernel_AllReduce", "ncclDevKernel_AllReduce"));
  EXPECT_THAT(column(tables[1], schema::kernel_counters.samples), ElementsAre(10, 10, 6, 6));
  // From 8 to 10 ms the GEMM's tensor work runs beside the all-reduce: (2 * 80 + 4 * 0) / 6.
  EXPECT_DOUBLE_EQ(column(tables[1], schema::kernel_counters.mean_percent)[3], 160.0 / 6);
}

TEST(GpuCounters, ASampleBehindAGapCoversOnePeriod) {
  SampledRank rank;
  rank.device().samples.time_ns.push_back(60 * ms);
  rank.of(GpuCounter::tensor_active).push_back(100);
  rank.of(GpuCounter::sms_active).push_back(100);
  rank.kernel("gemm<float>", 21 * ms, 60 * ms);
  EXPECT_EQ(rows_of(gpu_counter_tables(rank.events())[0])[2], (Row{"compute", "sms_active", 11, 100}));
}

TEST(GpuCounters, WithoutMetricsThereAreNoRows) {
  testing::OneRank rank;
  rank.kernel("gemm", 0, ms);
  for (const Table& table : gpu_counter_tables(rank.events())) EXPECT_EQ(table.row_count(), 0U);
}

TEST(GpuCounters, OfAllTraceRanksTheMedianStandsBeside) {
  std::vector<Table> joined;
  joined.push_back(make_table(schema::gpu_counters));
  RowWriter row(joined[0]);
  for (const double mean : {30.0, 90.0, 50.0})
    row << "compute"
        << "dram_read" << std::int64_t{9} << mean << 100.0 << -1.0;
  row << "idle"
      << "dram_read" << std::int64_t{9} << 1.0 << 2.0 << -1.0;
  compare_gpu_counters(joined);
  EXPECT_THAT(column(joined[0], schema::gpu_counters.peers_median_percent), ElementsAre(50, 50, 50, 1));
}

}  // namespace
}  // namespace nsys_explain::analysis
