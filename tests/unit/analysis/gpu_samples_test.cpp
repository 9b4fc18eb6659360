#include "analysis/tables/side_files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "made_trace.hpp"

namespace nsys_explain::analysis {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::integer_at;
using testing::MadeTrace;

constexpr Nanoseconds second = 1'000'000'000;
constexpr Nanoseconds start_utc = 1'767'225'600 * second;  // 2026-01-01T00:00:00Z

TEST(GpuSamples, NvidiaSmisCsvInLocalTime) {
  const auto samples = parse_gpu_samples(
      "timestamp, uuid, index, clocks.current.sm [MHz], clocks.max.sm [MHz], clocks_event_reasons.active, utilization.gpu [%], power.draw [W], temperature.gpu\n"
      "2026/01/01 02:00:01.250, GPU-aaaa, 3, 1410 MHz, 1980 MHz, 0x0000000000000004, 98 %, 300.12 W, 65\n"
      "2026/01/01 02:00:02.000, GPU-aaaa, 3, 210 MHz, 1980 MHz, 0x0000000000000001, 0 %, [N/A], 40\n",
      2 * 3600);
  ASSERT_EQ(samples.size(), 2U);
  EXPECT_EQ(samples[0].utc_ns, start_utc + 1'250'000'000);
  EXPECT_EQ(samples[0].uuid, "aaaa");
  EXPECT_EQ(samples[0].index, 3);
  EXPECT_EQ(samples[0].sm_clock_mhz, 1410);
  EXPECT_EQ(samples[0].max_sm_clock_mhz, 1980);
  EXPECT_EQ(samples[0].power_w, 300.12);
  EXPECT_EQ(samples[0].temperature_c, 65);
  EXPECT_TRUE(samples[0].is_throttled);   // 4: software power cap
  EXPECT_FALSE(samples[1].is_throttled);  // 1: idle
  EXPECT_EQ(samples[1].power_w, -1);
}

TEST(GpuSamples, OneColumnForEachReasonAndWhatIsNotSupported) {
  const auto samples = parse_gpu_samples(
      "timestamp,index,memory.used [MiB],power.draw [W],temperature.gpu,clocks.current.sm [MHz],clocks.current.memory [MHz],clocks_event_reasons.gpu_idle,clocks_event_reasons.sw_thermal_slowdown,clocks_event_reasons.hw_thermal_slowdown,clocks_throttle_reasons.active\n"
      "2026/01/01 00:00:01.100,0,3072,250,65,1800,8000,Active,Not Active,Not Active,[Not Supported]\n"
      "2026/01/01 00:00:02.100,0,3072,[N/A],65,[Unknown Error],8000,Not Active,Active,Not Active,[Not Supported]\n",
      0);
  ASSERT_EQ(samples.size(), 2U);
  EXPECT_FALSE(samples[0].is_throttled);  // idle is no slowdown, and brackets are no reason
  EXPECT_EQ(samples[0].memory_clock_mhz, 8000);
  EXPECT_TRUE(samples[1].is_throttled);  // whatever the columns after it say
  EXPECT_EQ(samples[1].sm_clock_mhz, -1);
  EXPECT_EQ(samples[1].power_w, -1);
}

TEST(GpuSamples, FieldsOfDcgm) {
  const auto samples = parse_gpu_samples(
      "ts,Hostname,gpu,UUID,DCGM_FI_DEV_SM_CLOCK,DCGM_FI_DEV_POWER_USAGE,DCGM_FI_DEV_GPU_TEMP,DCGM_FI_DEV_CLOCK_THROTTLE_REASONS,DCGM_FI_PROF_SM_ACTIVE,DCGM_FI_PROF_PIPE_TENSOR_ACTIVE,DCGM_FI_PROF_DRAM_ACTIVE\n"
      "1767225601.5,node1,3,GPU-aaaa,1410,300.12,65,4,0.75,0.25,0.5\n"
      "1767225602.5,node1,3,GPU-aaaa,1410,300.12,65,1,N/A,1.5,\n",
      0);
  ASSERT_EQ(samples.size(), 2U);
  EXPECT_EQ(samples[0].utc_ns, start_utc + 1'500'000'000);
  EXPECT_EQ(samples[0].host, "node1");
  EXPECT_EQ(samples[0].index, 3);
  EXPECT_EQ(samples[0].sm_clock_mhz, 1410);
  EXPECT_EQ(samples[0].temperature_c, 65);
  EXPECT_EQ(samples[0].sm_active_percent, 75);
  EXPECT_EQ(samples[0].tensor_active_percent, 25);
  EXPECT_EQ(samples[0].dram_active_percent, 50);
  EXPECT_TRUE(samples[0].is_throttled);   // 4: software power cap
  EXPECT_FALSE(samples[1].is_throttled);  // 1: idle
  EXPECT_EQ(samples[1].sm_active_percent, -1);
  EXPECT_EQ(samples[1].tensor_active_percent, -1) << "no share of anything";
}

TEST(GpuSamples, DcgmiDmonWithTimesBeforeItsLines) {
  const auto samples = parse_gpu_samples(
      "1767225600.9 #Entity   SMCLK   POWER   SMACT\n"
      "1767225600.9 ID        MHz     W\n"
      "1767225601.0 GPU 0     1980    690.5   0.981\n"
      "1767225601.0 GPU 1     1410    350.0   N/A\n"
      "1767225601.9 #Entity   SMCLK   POWER   SMACT\n"
      "1767225602.0 GPU 0     1965    688.0   0.990\n",
      0);
  ASSERT_EQ(samples.size(), 3U);
  EXPECT_EQ(samples[1].index, 1);
  EXPECT_EQ(samples[1].sm_clock_mhz, 1410);
  EXPECT_EQ(samples[1].sm_active_percent, -1);
  EXPECT_EQ(samples[2].utc_ns, start_utc + 2 * second);
  EXPECT_NEAR(samples[2].sm_active_percent, 99, 1e-9);
  try {
    parse_gpu_samples("#Entity SMCLK\nID MHz\nGPU 0 1980\n", 0);
    FAIL() << "nobody knows when that was";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("ts '%.s'"));
  }
}

TEST(GpuSamples, TimesWithAZoneAreOfThatZone) {
  for (const char* text :
       {"2026-01-01T00:00:01.5Z", "2026-01-01T01:00:01.500000+01:00", "2025-12-31 18:30:01.5-0530"}) {
    const auto samples = parse_gpu_samples(std::string("timestamp,sm_clock\n") + text + ",1000\n", 7 * 3600);
    ASSERT_EQ(samples.size(), 1U) << text;
    EXPECT_EQ(samples[0].utc_ns, start_utc + 1'500'000'000) << text;
  }
}

TEST(GpuSamples, OwnFilesWithNumbersAsTimes) {
  const auto samples = parse_gpu_samples(
      "time,host,gpu,sm_clock\n1767225601.5,n1,0,1000\n1767225602,n1,0,2000\n"
      "1767225603000,n1,0,3000\n1767225604000000000,n1,0,4000\n",
      0);
  ASSERT_EQ(samples.size(), 4U);
  EXPECT_EQ(samples[0].utc_ns, start_utc + 1'500'000'000);
  EXPECT_EQ(samples[1].utc_ns, start_utc + 2 * second);
  EXPECT_EQ(samples[2].utc_ns, start_utc + 3 * second);
  EXPECT_EQ(samples[3].utc_ns, start_utc + 4 * second);
}

/// Beyond what 64 bits hold in nanoseconds, or in no unit between 2001 and 2286.
TEST(GpuSamples, TimesThatNobodyMeansAreNone) {
  for (const char* text : {"0001-01-01T00:00:00Z", "2300-01-01T00:00:00Z", "17672256200000000", "1e300", "9.5e9"}) {
    EXPECT_THROW(parse_gpu_samples(std::string("time,gpu,sm_clock\n") + text + ",0,1000\n", 0), std::runtime_error)
        << text;
  }
}

TEST(GpuSamples, WhatIsNoSamplingFileIsRefused) {
  const auto problem = [](std::string_view text) -> std::string {
    try {
      parse_gpu_samples(text, 0);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(problem(""), HasSubstr("nvidia-smi --query-gpu"));
  EXPECT_THAT(problem("timestamp,name\n1,2\n"), HasSubstr("throttle reasons"));
  EXPECT_THAT(problem("timestamp,sm_clock\nyesterday,2\nno,3\n"), HasSubstr("2 of its 2 lines"));
}

/// A rank busy from 1 s to 9 s after its session start; a sample every second.
struct Throttling : ::testing::Test {
  Throttling() {
    made.trace.session.utc_start_ns = start_utc;
    made.trace.session.host = "n1";
    made.device().gpu_uuid = "aaaa";
    made.kernel(1 * second, 5 * second, "k");
    made.kernel(7 * second, 10 * second, "k");
  }
  void sample(int at_s, double clock, const char* uuid = "aaaa") {
    GpuSample s;
    s.utc_ns = start_utc + at_s * second;
    s.uuid = uuid;
    s.sm_clock_mhz = clock;
    samples.push_back(s);
  }
  std::vector<Table> tables() { return gpu_sample_tables(made.events(), samples); }
  MadeTrace made;
  std::vector<GpuSample> samples;
};

TEST_F(Throttling, SlowClocksWhileKernelsRunAreASpan) {
  for (const int at_s : {1, 2, 8, 9}) sample(at_s, 1900);
  for (const int at_s : {3, 4}) sample(at_s, 1200);
  sample(6, 300);           // idle: no kernel runs
  sample(4, 100, "other");  // another GPU
  sample(20, 100);          // after the run
  const std::vector<Table> made_tables = tables();
  const Table& summary = *find_table(made_tables, "gpu_samples");
  EXPECT_EQ(integer_at(summary, "samples", 0), 7);
  EXPECT_EQ(integer_at(summary, "throttled_samples", 0), 2);
  const Table& spans = *find_table(made_tables, "gpu_throttling");
  EXPECT_THAT(column<std::int64_t>(spans, "start_ns"), ElementsAre(3 * second));
  EXPECT_THAT(column<std::int64_t>(spans, "end_ns"), ElementsAre(6 * second));
  EXPECT_THAT(column<double>(spans, "lowest_sm_clock_mhz"), ElementsAre(1200));
  EXPECT_THAT(column<std::int64_t>(spans, "by_driver"), ElementsAre(0));
}

/// GPU metrics every 100 us: busy from 1 s to 5 s, so samples at 1 s + i * 100 us are taken while a kernel runs.
struct ThrottlingByMetrics : Throttling {
  static constexpr std::uint32_t mhz = 1'000'000;
  void metric(Nanoseconds at_ns, std::uint32_t clock_hz) {
    made.device().samples.time_ns.push_back(at_ns);
    made.device().samples.values[static_cast<std::size_t>(GpuCounter::gpc_clock_hz)].push_back(clock_hz);
  }
  /// 10 samples a bin.
  void bin(int number, std::uint32_t clock_hz) {
    for (int i = 0; i < 10; ++i) metric(second + number * 1'000'000 + i * 100'000, clock_hz);
  }
};

TEST_F(ThrottlingByMetrics, ClocksOfGpuMetricsGiveSpansInTraceTime) {
  for (int b = 0; b < 20; ++b) bin(b, (b >= 5 && b < 9 ? 1200 : 1980) * mhz);
  metric(6 * second, 300 * mhz);  // no kernel runs
  const std::vector<Table> made_tables = tables();
  const Table& summary = *find_table(made_tables, "gpu_samples");
  ASSERT_EQ(summary.row_count(), 1U);
  EXPECT_EQ(column<std::string>(summary, "source")[0], "gpu_metrics");
  EXPECT_EQ(integer_at(summary, "samples", 0), 20);
  EXPECT_EQ(integer_at(summary, "throttled_samples", 0), 4);
  EXPECT_EQ(column<double>(summary, "median_sm_clock_mhz")[0], 1980);
  const Table& spans = *find_table(made_tables, "gpu_throttling");
  EXPECT_THAT(column<std::int64_t>(spans, "start_ns"), ElementsAre(second + 5'000'000));
  EXPECT_THAT(column<std::int64_t>(spans, "end_ns"), ElementsAre(second + 9'000'000));
  EXPECT_THAT(column<double>(spans, "lowest_sm_clock_mhz"), ElementsAre(1200));
}

TEST_F(ThrottlingByMetrics, ASingleLowSampleIsJitter) {
  for (int b = 0; b < 20; ++b) bin(b, 1980 * mhz);
  made.device().samples.values[static_cast<std::size_t>(GpuCounter::gpc_clock_hz)][55] = 1000 * mhz;
  EXPECT_EQ(find_table(tables(), "gpu_throttling")->row_count(), 0U);
}

TEST_F(ThrottlingByMetrics, WhatWasNotSampledEndsASpan) {
  for (const int b : {0, 1, 50, 51}) bin(b, 1000 * mhz);
  bin(60, 1980 * mhz);
  EXPECT_THAT(column<std::int64_t>(*find_table(tables(), "gpu_throttling"), "start_ns"),
              ElementsAre(second, second + 50'000'000));
}

TEST_F(ThrottlingByMetrics, TheLimitThatNvmlKnowsHoldsForBoth) {
  for (int b = 0; b < 3; ++b) bin(b, 1500 * mhz);  // steady: nothing to compare with
  EXPECT_EQ(find_table(tables(), "gpu_throttling")->row_count(), 0U);
  sample(2, 1500);
  samples[0].max_sm_clock_mhz = 1980;
  const std::vector<Table> made_tables = tables();
  const Table& spans = *find_table(made_tables, "gpu_throttling");
  EXPECT_THAT(column<std::string>(spans, "source"), ElementsAre("nvml", "gpu_metrics"));
  EXPECT_THAT(column<std::int64_t>(spans, "samples"), ElementsAre(1, 3));
}

TEST_F(Throttling, TheDriversWordCountsAtAnyClock) {
  for (const int at_s : {1, 2, 3}) sample(at_s, 1900);
  samples[1].is_throttled = true;
  const std::vector<Table> made_tables = tables();
  const Table& spans = *find_table(made_tables, "gpu_throttling");
  EXPECT_THAT(column<std::int64_t>(spans, "start_ns"), ElementsAre(2 * second));
  EXPECT_THAT(column<std::int64_t>(spans, "by_driver"), ElementsAre(1));
}

TEST_F(Throttling, SteadyClocksAreNoSpan) {
  for (const int at_s : {1, 2, 3, 4}) sample(at_s, 1880 + 5 * at_s);
  EXPECT_EQ(find_table(tables(), "gpu_throttling")->row_count(), 0U);
}

TEST_F(Throttling, WithoutUuidHostAndIndexDecide) {
  sample(2, 1000, "");
  samples[0].host = "n2";
  EXPECT_EQ(find_table(tables(), "gpu_samples")->row_count(), 0U);
  samples[0].host = "n1";
  samples[0].index = 1;
  EXPECT_EQ(find_table(tables(), "gpu_samples")->row_count(), 0U);
  samples[0].index = 0;
  EXPECT_EQ(find_table(tables(), "gpu_samples")->row_count(), 1U);
}

TEST_F(Throttling, TheIndexCountsByPciBusWhateverTheProcessSaw) {
  made.device().gpu_bus_rank = 3;  // and device_id 0: CUDA_VISIBLE_DEVICES=3, or the fastest GPU first
  sample(2, 1000, "");
  samples[0].index = 0;
  EXPECT_EQ(find_table(tables(), "gpu_samples")->row_count(), 0U);
  samples[0].index = 3;
  EXPECT_EQ(find_table(tables(), "gpu_samples")->row_count(), 1U);
  made.device().gpu_bus_id = "0000:d1:00.0";
  samples[0].bus_id = plain_bus_id("00000000:D1:00.0");
  samples[0].index = 0;
  EXPECT_EQ(find_table(tables(), "gpu_samples")->row_count(), 1U);
  samples[0].bus_id = plain_bus_id("00000001:D1:00.0");
  EXPECT_EQ(find_table(tables(), "gpu_samples")->row_count(), 0U);
}

TEST(GpuSamples, BusIdsAreTheSameHoweverTheyAreWritten) {
  EXPECT_EQ(plain_bus_id("00000000:D1:00.0"), "0000:d1:00.0");
  EXPECT_EQ(plain_bus_id("0000:d1:00.0"), "0000:d1:00.0");
  EXPECT_EQ(plain_bus_id("00010000:3B:00.0"), "00010000:3b:00.0");
  EXPECT_EQ(plain_bus_id("[N/A]"), "");
  EXPECT_EQ(plain_bus_id(""), "");
  EXPECT_EQ(parse_gpu_samples("timestamp,pci.bus_id,sm_clock\n1767225600,00000000:3B:00.0,1000\n", 0).at(0).bus_id,
            "0000:3b:00.0");
}

TEST(GpuSamples, TextOfTheExporterOfDcgm) {
  const auto samples = parse_gpu_samples(
      "# HELP DCGM_FI_DEV_SM_CLOCK SM clock frequency (in MHz).\n"
      "# TYPE DCGM_FI_DEV_SM_CLOCK gauge\n"
      "1764250000.250 DCGM_FI_DEV_SM_CLOCK{gpu=\"0\",UUID=\"GPU-ab\",device=\"nvidia0\",Hostname=\"n1\"} 1980\n"
      "1764250000.250 DCGM_FI_DEV_SM_CLOCK{gpu=\"1\",UUID=\"GPU-cd\",device=\"nvidia1\",Hostname=\"n1\"} 1410\n"
      "1764250000.250 DCGM_FI_DEV_GPU_TEMP{gpu=\"0\",UUID=\"GPU-ab\",device=\"nvidia0\",Hostname=\"n1\"} 63\n"
      "1764250000.250 DCGM_FI_PROF_SM_ACTIVE{gpu=\"1\",UUID=\"GPU-cd\",device=\"nvidia1\",Hostname=\"n1\"} 0.25\n"
      "DCGM_FI_DEV_SM_CLOCK{gpu=\"0\",UUID=\"GPU-ab\",device=\"nvidia0\",Hostname=\"n1\"} 1200 1764250001250\n",
      0);
  ASSERT_EQ(samples.size(), 3);
  EXPECT_EQ(samples[0].utc_ns, 1'764'250'000'250'000'000);
  EXPECT_EQ(samples[0].uuid, "ab");
  EXPECT_EQ(samples[0].host, "n1");
  EXPECT_EQ(samples[0].sm_clock_mhz, 1980);
  EXPECT_EQ(samples[0].temperature_c, 63);
  EXPECT_EQ(samples[0].sm_active_percent, -1) << "not sampled";
  EXPECT_EQ(samples[1].index, 1);
  EXPECT_EQ(samples[1].sm_clock_mhz, 1410);
  EXPECT_EQ(samples[1].sm_active_percent, 25);
  EXPECT_EQ(samples[2].utc_ns, 1'764'250'001'250'000'000);
  EXPECT_EQ(samples[2].sm_clock_mhz, 1200);
}

TEST(GpuSamples, TextOfTheExporterWithoutTimesSaysHowToWriteThem) {
  try {
    parse_gpu_samples("DCGM_FI_DEV_SM_CLOCK{gpu=\"0\",UUID=\"GPU-ab\"} 1980\n", 0);
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string_view(error.what()).find("localhost:9400/metrics"), std::string_view::npos);
  }
}

}  // namespace
}  // namespace nsys_explain::analysis
