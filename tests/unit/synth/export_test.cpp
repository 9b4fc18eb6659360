#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test_support.hpp"

namespace nsys_explain::synth {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;
using namespace test;

class Exports : public ExportTest {};

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST_F(Exports, EqualPlansGiveEqualFilesAndNothingElseIsLeft) {
  const std::vector<std::string> paths = write(small_plan());
  std::vector<std::string> first;
  first.reserve(paths.size());
  for (const std::string& path : paths) first.push_back(bytes_of(path));
  EXPECT_EQ(write(small_plan()), paths);
  for (std::size_t i = 0; i < paths.size(); ++i) EXPECT_EQ(bytes_of(paths[i]), first[i]);
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory_)) names.insert(entry.path().filename());
  EXPECT_THAT(names, ElementsAre("rank_00000.sqlite", "rank_00001.sqlite", "rank_00002.sqlite", "rank_00003.sqlite"));
  EXPECT_EQ(query(paths[0], "PRAGMA integrity_check"), (Rows{{"ok"}}));
  EXPECT_EQ(query(paths[0], "SELECT count(*) FROM sqlite_master WHERE type = 'index'"), (Rows{{"0"}}));
}

TEST_F(Exports, RowsAreTheSimulatedEventsOnTheSessionsClock) {
  JobPlan plan = small_plan();
  plan.clocks.gpu_tick_ns = 1;
  const std::vector<std::string> paths = write(plan);
  const RankEvents& rank = job_.ranks[2];
  const TrueSession& session = job_.sessions[2];
  const Rows kernels =
      query(paths[2], "SELECT start, end, streamId, correlationId, gridX FROM CUPTI_ACTIVITY_KIND_KERNEL");
  std::size_t row = 0;
  for (const DeviceActivity& activity : rank.activities) {
    if (activity.kind != ActivityKind::kernel) continue;
    // t = (T - T0) (1 + drift)
    const Nanoseconds elapsed = activity.start_ns - session.start_ns;
    const auto expected = elapsed + static_cast<Nanoseconds>(static_cast<double>(elapsed) *
                                                             static_cast<double>(session.drift_ppb) * 1e-9);
    ASSERT_LT(row, kernels.size());
    ASSERT_NEAR(static_cast<double>(std::stoll(kernels[row][0])), static_cast<double>(expected), 1);
    ASSERT_EQ(kernels[row][4], std::to_string(activity.grid_x));
    ++row;
  }
  EXPECT_EQ(row, kernels.size());
  EXPECT_EQ(number(paths[2], "SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME"),
            true_epoch_utc_ns + session.start_ns + session.utc_offset_ns);
}

TEST_F(Exports, GpuTimesAreMultiplesOfTheTickAndFollowTheirLaunch) {
  for (const std::string& path : write(small_plan())) {
    EXPECT_EQ(number(path, "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE start % 32 <> 0 OR end % 32 <> 0"),
              0);
    EXPECT_EQ(number(path,
                     "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON "
                     "r.correlationId = k.correlationId AND r.globalTid / 16777216 = k.globalPid / 16777216 "
                     "WHERE k.start <= r.start"),
              0);
    EXPECT_EQ(number(path,
                     "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE correlationId NOT IN (SELECT "
                     "correlationId FROM CUPTI_ACTIVITY_KIND_RUNTIME)"),
              0);
    EXPECT_EQ(number(path, "SELECT count(*) - count(DISTINCT correlationId) FROM CUPTI_ACTIVITY_KIND_RUNTIME"), 0);
  }
}

TEST_F(Exports, CollectivesAreLaunchedInsideTheirNvtxRange) {
  JobPlan plan = small_plan();
  plan.layout = {1, 4, 1, 2, 0};
  for (const std::string& path : write(plan)) {
    const Rows rows = query(
        path,
        "SELECT ks.value, ns.value, count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds ks "
        "ON ks.id = k.shortName JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON r.correlationId = k.correlationId LEFT JOIN NVTX_EVENTS n ON n.domainId = 1 AND n.eventType = 59 AND n.globalTid = r.globalTid AND n.start <= r.start AND n.end >= r.end LEFT JOIN StringIds "
        "ns ON ns.id = n.textId WHERE ks.value LIKE 'nccl%' GROUP BY 1, 2 ORDER BY 1, 2");
    // Per step: 4 activations and 4 gradients between 2 stages, 3 of them exchanged at once: 5 kernels.
    ASSERT_EQ(rows.size(), 3U);
    EXPECT_THAT(rows[0], ElementsAre("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "ncclAllReduce", "12"));
    EXPECT_THAT(rows[1], ElementsAre("ncclDevKernel_Reduce_Sum_f32_RING_LL", "ncclReduce", "2"));
    EXPECT_THAT(rows[2], ElementsAre("ncclDevKernel_SendRecv", "ncclGroupEnd", "20"));
  }
}

TEST_F(Exports, TablesWithoutRowsDoNotExistUnlessAskedFor) {
  JobPlan plan = small_plan();
  std::vector<std::string> tables = table_list(write(plan)[0]);
  for (const char* name : {"PROFILER_OVERHEAD", "GPU_METRICS", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "MPI_RANKS",
                           "NVTX_EVENTS_PAYLOAD_SCHEMAS", "CUDA_GRAPH_EVENTS"})
    EXPECT_THAT(tables, Not(Contains(name)));
  EXPECT_THAT(tables, Contains("CUPTI_ACTIVITY_KIND_KERNEL"));
  plan.export_style.lazy = false;
  const std::string path = write(plan)[0];
  EXPECT_THAT(table_list(path), Contains("PROFILER_OVERHEAD"));
  EXPECT_EQ(number(path, "SELECT count(*) FROM PROFILER_OVERHEAD"), 0);
  plan = small_plan();
  plan.capture.nvtx = false;
  tables = table_list(write(plan)[0]);
  EXPECT_THAT(tables, Not(Contains("NVTX_EVENTS")));
  EXPECT_THAT(tables, Not(Contains("NVTX_PAYLOAD_SCHEMAS")));
}

TEST_F(Exports, ColumnsAreThoseOfTheRelease) {
  JobPlan plan = small_plan();
  const auto columns = [&](const char* release, const char* table) {
    plan.export_style.nsys_version = release;
    return column_list(write(plan)[0], table);
  };
  const char* kernel = "CUPTI_ACTIVITY_KIND_KERNEL";
  EXPECT_EQ(columns("2022.4", kernel).size(), 27U);
  EXPECT_THAT(columns("2022.4", kernel), Not(Contains("greenContextId")));
  EXPECT_EQ(columns("2024.5", kernel).size(), 28U);  // and greenContextId
  EXPECT_EQ(columns("2025.5", kernel).size(), 38U);  // and 3 qmd*, graphId, 6 cluster columns
  EXPECT_THAT(columns("2025.5", kernel), Not(Contains("sharedMemoryRequestedPercentage")));
  EXPECT_EQ(columns("2026.2", kernel).size(), 40U);
  EXPECT_EQ(columns("2026.2", kernel).back(), "tensorSizeMinusOneElements");
  EXPECT_THAT(columns("2022.4", "NVTX_EVENTS"), Not(Contains("binaryData")));
  EXPECT_EQ(columns("2026.2", "NVTX_EVENTS").back(), "binaryData");
  EXPECT_EQ(columns("2026.4", "NVTX_EVENTS").back(), "eventId");
  EXPECT_THAT(columns("2025.5", "TARGET_INFO_SESSION_START_TIME"), ElementsAre("utcEpochNs", "utcTime", "localTime"));
  EXPECT_EQ(columns("2026.2", "TARGET_INFO_SESSION_START_TIME").back(), "systemClockNs");
  EXPECT_THAT(columns("2024.5", "CUPTI_ACTIVITY_KIND_CUDA_EVENT"), Not(Contains("eventSyncId")));

  plan.export_style.nsys_version = "2022.4";
  const std::string old = write(plan)[0];
  EXPECT_THAT(table_list(old), Contains("EXPORT_META_DATA"));
  EXPECT_THAT(table_list(old), Not(Contains("META_DATA_EXPORT")));
  EXPECT_THAT(table_list(old), Not(Contains("TARGET_INFO_CUDA_DEVICE")));
  EXPECT_EQ(query(old, "SELECT value FROM EXPORT_META_DATA WHERE name = 'EXPORT_SCHEMA_VERSION'"), (Rows{{"3.0.0"}}));
}

TEST_F(Exports, ColumnsMatchRealExports) {
  const char* directory = std::getenv("NSYS_EXPLAIN_SHARED_TRACES");
  struct Real {
    const char* file;
    const char* release;
  };
  bool compared = false;
  for (const Real& real :
       {Real{"nsys-ai/mfu_2gpu_before.sqlite", "2026.2"}, Real{"flameox/nsight-2025.5.2.sqlite", "2025.5"},
        Real{"pipit/perlmutter-cloverleaf-cuda.sqlite", "2024.5"}}) {
    if (directory == nullptr || !std::filesystem::exists(std::filesystem::path(directory) / real.file)) continue;
    compared = true;
    const std::string path = (std::filesystem::path(directory) / real.file).string();
    JobPlan plan = small_plan();
    plan.export_style.nsys_version = real.release;
    plan.export_style.lazy = false;
    const std::string ours = write(plan)[0];
    const std::vector<std::string> real_tables = table_list(path);
    for (const std::string& table : table_list(ours)) {
      if (std::find(real_tables.begin(), real_tables.end(), table) == real_tables.end()) continue;
      const auto definition = [&](const std::string& file) {
        return query(file, "SELECT name, type, \"notnull\" FROM pragma_table_info('" + table + "')");
      };
      EXPECT_EQ(definition(ours), definition(path)) << real.file << " " << table;
    }
  }
  if (!compared)
    GTEST_SKIP() << "NSYS_EXPLAIN_SHARED_TRACES holds no real exports: columns were NOT compared with them";
}

TEST_F(Exports, SecretsAndUsersArePlantedWhereRealExportsHaveThem) {
  const std::string path = write(small_plan())[0];
  const std::string capture =
      query(path, "SELECT value FROM META_DATA_CAPTURE WHERE value LIKE 'AWS_SECRET%'").at(0).at(0);
  EXPECT_THAT(capture, ::testing::StartsWith("AWS_SECRET_ACCESS_KEY=\"synthetic-secret-"));
  EXPECT_THAT(query(path, "SELECT value FROM TARGET_INFO_SYSTEM_ENV WHERE name = 'DeviceEnvironment'").at(0).at(0),
              ::testing::HasSubstr("AWS_SECRET_ACCESS_KEY=synthetic-secret-"));
}

TEST_F(Exports, OneFilePerNodeHoldsOneProcessPerRank) {
  JobPlan plan = small_plan();
  plan.export_style.files = FileLayout::per_node;
  const std::vector<std::string> paths = write(plan);
  ASSERT_EQ(paths.size(), 2U);
  for (const std::string& path : paths) {
    EXPECT_EQ(number(path, "SELECT count(DISTINCT globalPid) FROM CUPTI_ACTIVITY_KIND_KERNEL"), 2);
    EXPECT_EQ(query(path, "SELECT DISTINCT deviceId FROM CUPTI_ACTIVITY_KIND_KERNEL ORDER BY 1"), (Rows{{"0"}, {"1"}}));
    // Each process has its own correlation ids, and they repeat.
    EXPECT_GT(number(path, "SELECT count(*) - count(DISTINCT correlationId) FROM CUPTI_ACTIVITY_KIND_RUNTIME"), 0);
    // Every process repeats its schemas.
    EXPECT_EQ(number(path, "SELECT count(*) FROM NVTX_PAYLOAD_SCHEMAS"),
              2 * number(path, "SELECT count(DISTINCT schemaId) FROM NVTX_PAYLOAD_SCHEMAS"));
    EXPECT_EQ(number(path, "SELECT count(*) FROM NVTX_EVENTS WHERE eventType = 75"), 2);
  }
  plan.export_style.isolated_devices = true;
  EXPECT_EQ(query(write(plan)[0], "SELECT DISTINCT deviceId FROM CUPTI_ACTIVITY_KIND_KERNEL"), (Rows{{"0"}}));
}

TEST_F(Exports, OneProcessCanDriveAllGpusOfANode) {
  JobPlan plan = small_plan();
  plan.export_style.files = FileLayout::per_node;
  plan.export_style.single_process_per_node = true;
  const std::string path = write(plan)[1];
  EXPECT_EQ(number(path, "SELECT count(DISTINCT globalPid) FROM CUPTI_ACTIVITY_KIND_KERNEL"), 1);
  EXPECT_EQ(number(path, "SELECT count(DISTINCT deviceId) FROM CUPTI_ACTIVITY_KIND_KERNEL"), 2);
  EXPECT_EQ(number(path, "SELECT count(*) - count(DISTINCT correlationId) FROM CUPTI_ACTIVITY_KIND_RUNTIME"), 0);
  EXPECT_EQ(number(path, "SELECT count(*) FROM NVTX_EVENTS WHERE eventType = 75"), 1);
}

TEST_F(Exports, RankHintsAppearWhereTheyBelong) {
  JobPlan plan = small_plan();
  plan.export_style.rank_hint = RankHint::slurm;
  std::vector<std::string> paths = write(plan);
  EXPECT_EQ(std::filesystem::path(paths[3]).filename(), "trace_aad.sqlite");
  EXPECT_EQ(query(paths[3], "SELECT value FROM META_DATA_CAPTURE WHERE value LIKE 'SLURM_PROCID%'"),
            (Rows{{"SLURM_PROCID=\"3\""}}));
  plan.export_style.rank_hint = RankHint::mpi_ranks;
  EXPECT_EQ(query(write(plan)[2], "SELECT rank FROM MPI_RANKS"), (Rows{{"2"}}));
  plan.export_style.rank_hint = RankHint::torchrun;
  plan.export_style.files = FileLayout::per_node;
  // torchrun sets RANK in its children, which nsys did not launch.
  EXPECT_TRUE(query(write(plan)[1], "SELECT value FROM META_DATA_CAPTURE WHERE value LIKE 'RANK=%'").empty());
}

TEST_F(Exports, LossesAreAsPlannedAndTheTruthKnowsThem) {
  JobPlan plan = small_plan();
  plan.workload.steps = 20;
  plan.capture.drop_share = 0.1;
  plan.capture.ragged_share = 0.2;
  plan.capture.lost_call_share = 0.3;
  plan.capture.missing_ranks = {1};
  const std::vector<std::string> paths = write(plan);
  ASSERT_EQ(paths.size(), 3U);
  const std::string& path = paths[1];  // rank 2
  std::int64_t exported = 0, all = 0;
  for (std::uint32_t i = 0; i < job_.ranks[2].activities.size(); ++i) {
    if (job_.ranks[2].activities[i].kind != ActivityKind::kernel) continue;
    ++all;
    exported += is_exported(job_, plan, 2, i) ? 1 : 0;
    EXPECT_FALSE(is_exported(job_, plan, 1, i));
  }
  EXPECT_EQ(number(path, "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL"), exported);
  EXPECT_LT(exported, all * 95 / 100);
  EXPECT_GT(exported, all * 50 / 100);
  const double without_call = static_cast<double>(
      number(path,
             "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE correlationId NOT IN (SELECT correlationId FROM "
             "CUPTI_ACTIVITY_KIND_RUNTIME)"));
  EXPECT_NEAR(without_call / static_cast<double>(exported), 0.3, 0.06);
}

TEST_F(Exports, GraphsAreOpaqueOrByNode) {
  JobPlan plan = small_plan();
  plan.workload.graph_mode = GraphMode::whole;
  std::string path = write(plan)[0];
  EXPECT_EQ(number(path, "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_GRAPH_TRACE"), 4);
  EXPECT_EQ(number(path, "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE graphNodeId IS NOT NULL"), 0);
  const std::int64_t outside = number(path, "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL");
  plan.workload.graph_mode = GraphMode::node;
  path = write(plan)[0];
  EXPECT_EQ(number(path, "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE graphNodeId IS NULL"), outside);
  EXPECT_EQ(
      number(path,
             "SELECT count(DISTINCT correlationId) FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE graphNodeId IS NOT NULL"),
      4);
  EXPECT_THAT(table_list(path), Not(Contains("CUPTI_ACTIVITY_KIND_GRAPH_TRACE")));
}

TEST_F(Exports, ShuffledRowsAreTheSameRows) {
  JobPlan plan = small_plan();
  const std::string sql = "SELECT * FROM CUPTI_ACTIVITY_KIND_KERNEL";
  Rows ordered = query(write(plan)[0], sql);
  plan.export_style.shuffled_rows = true;
  Rows shuffled = query(write(plan)[0], sql);
  EXPECT_NE(ordered, shuffled);
  std::sort(ordered.begin(), ordered.end());
  std::sort(shuffled.begin(), shuffled.end());
  EXPECT_EQ(ordered, shuffled);
}

TEST_F(Exports, NormalisedTimestampsAreUtc) {
  JobPlan plan = small_plan();
  const std::string sql = "SELECT min(start) FROM CUPTI_ACTIVITY_KIND_KERNEL";
  const std::int64_t relative = number(write(plan)[1], sql);
  plan.export_style.utc_timestamps = true;
  const std::string path = write(plan)[1];
  EXPECT_EQ(number(path, sql), relative + number(path, "SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME"));
  EXPECT_EQ(query(path, "SELECT value FROM META_DATA_EXPORT WHERE name = 'EXPORT_PARAM_TIME_NORMALIZE'"),
            (Rows{{"true"}}));
}

TEST_F(Exports, NvlinkSamplesFollowTheTransfersByTheLag) {
  JobPlan plan = small_plan();
  plan.layout = {1, 2, 1, 1, 0};
  plan.workload.gradient_bytes_per_layer = 512 << 20;  // long transfers: 2.7 ms
  plan.export_style.gpu_metrics = true;
  plan.export_style.gpu_metrics_lag_ns = 300'000;
  const std::string path = write(plan)[0];
  const TrueSession& session = job_.sessions[0];
  // Peak 450 GB/s, ring at 200 GB/s: 44 % while data move, 0 well outside.
  std::int64_t inside = 0;
  for (const TrueInstance& instance : job_.instances) {
    if (instance.call_bytes < 1'000'000) continue;
    const Nanoseconds from = trace_time_ns(session, instance.last_enter_ns) + 300'000 + 150'000;
    const Nanoseconds to = trace_time_ns(session, instance.last_enter_ns + instance.transfer_ns) + 300'000 - 50'000;
    const Rows rows = query(path, "SELECT value FROM GPU_METRICS WHERE metricId = 20 AND timestamp BETWEEN " +
                                      std::to_string(from) + " AND " + std::to_string(to));
    for (const auto& row : rows) {
      ++inside;
      EXPECT_NEAR(std::stod(row[0]), 44.4, 5);
    }
  }
  EXPECT_GT(inside, 50);
  EXPECT_GT(number(path, "SELECT count(*) FROM GPU_METRICS WHERE metricId = 20 AND value = 0"), 100);
  EXPECT_EQ(number(path, "SELECT count(DISTINCT typeId) FROM GPU_METRICS"), 1);
  EXPECT_EQ(
      number(path, "SELECT count(*) FROM TARGET_INFO_GPU_METRICS WHERE metricName LIKE 'NVLink RX Requests User%'"), 1);
}

TEST_F(Exports, RepeatsFollowEachOtherAndKeepTheirJoins) {
  const auto counts = [&](const std::string& path) {
    return std::vector<std::int64_t>{number(path, "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL"),
                                     number(path, "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME"),
                                     number(path, "SELECT count(*) FROM NVTX_EVENTS WHERE text LIKE 'step %'")};
  };
  JobPlan plan = small_plan();
  plan.layout = {1, 2, 1, 1, 0};
  std::vector<std::int64_t> once = counts(write(plan)[1]);
  plan.export_style.repeats = 3;
  const std::string path = write(plan)[1];
  for (std::int64_t& count : once) count *= 3;
  EXPECT_EQ(counts(path), once);
  EXPECT_EQ(number(path, "SELECT count(DISTINCT correlationId) FROM CUPTI_ACTIVITY_KIND_KERNEL"), once[0]);
  EXPECT_EQ(number(path,
                   "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN CUPTI_ACTIVITY_KIND_RUNTIME r USING "
                   "(correlationId) WHERE r.start <= k.start AND k.start < r.start + 1000000000"),
            once[0]);
}

TEST_F(Exports, OperatorRangesLieAroundEveryOtherLaunch) {
  JobPlan plan = small_plan();
  plan.export_style.operator_ranges = true;
  const std::string path = write(plan)[0];
  const std::int64_t ranges = number(path, "SELECT count(*) FROM NVTX_EVENTS WHERE text LIKE 'aten::%, op_id = %'");
  const std::int64_t launches = number(path, "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL");
  EXPECT_GT(ranges, launches / 4);
  EXPECT_LT(ranges, launches);
  EXPECT_EQ(number(path,
                   "SELECT count(*) FROM NVTX_EVENTS n JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON n.start = r.start "
                   "AND n.end = r.end AND n.globalTid = r.globalTid WHERE n.text LIKE 'aten::%'"),
            ranges);
  EXPECT_EQ(number(path, "SELECT count(DISTINCT text) FROM NVTX_EVENTS WHERE text LIKE 'aten::%'"), ranges);
}

TEST_F(Exports, AnUnwritableDirectoryIsAnError) {
  std::filesystem::create_directories(directory_);
  std::ofstream(directory_ / "file") << "x";
  const JobPlan plan = complete_plan(small_plan());
  EXPECT_THROW(write_exports(simulate(plan), plan, (directory_ / "file" / "below").string()), std::exception);
}

TEST_F(Exports, HoldHostThreadsUpInTheTablesOfNsys) {
  JobPlan plan = small_plan();
  plan.faults = {parse_fault("late_host:rank=0,pause=2ms,kind=file_read"),
                 parse_fault("late_host:rank=0,pause=3ms,kind=descheduled"),
                 parse_fault("late_host:rank=0,pause=1ms,kind=module_load")};
  const std::string path = write(plan)[0];
  // Four steps; a read of 2 ms is 16 calls of 131 us at most.
  EXPECT_EQ(number(path, "SELECT COUNT(*) FROM OSRT_API o JOIN StringIds s ON s.id = o.nameId WHERE s.value = 'read'"),
            64);
  EXPECT_EQ(number(path, "SELECT COUNT(*) FROM SCHED_EVENTS WHERE isSchedIn = 0"), 4);
  // Four times 3 ms, but for the drift of the clock.
  const std::int64_t lost_ns =
      number(path, "SELECT SUM(CASE isSchedIn WHEN 1 THEN start ELSE -start END) FROM SCHED_EVENTS");
  EXPECT_NEAR(static_cast<double>(lost_ns), 12e6, 1e3);
  EXPECT_EQ(number(path,
                   "SELECT COUNT(*) FROM CUPTI_ACTIVITY_KIND_OVERHEAD o JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON "
                   "r.correlationId = o.correlationId WHERE o.start > r.start AND o.end < r.end"),
            4);
  const std::string clean = write(small_plan())[0];
  EXPECT_THAT(table_list(clean), Not(Contains("OSRT_API")));
  EXPECT_THAT(table_list(clean), Not(Contains("SCHED_EVENTS")));
}

}  // namespace
}  // namespace nsys_explain::synth
