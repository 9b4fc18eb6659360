#include <gmock/gmock.h>

#include "ingest/rank_resolution.hpp"
#include "unit/ingest/export_fixture.hpp"

/// What an export says about host, GPUs and ranks, and what must not get out of it.
namespace nsys_explain::ingest {
namespace {

using testing::add_basics;
using testing::add_kernel;
using testing::add_kernel_table;
using testing::has_warning;
using testing::pid_100;
using testing::pid_200;
using testing::text_of;
using testing::tid_101;
using testing::tid_201;

class IdentityInExports : public testing::ScratchTest {
 protected:
  IdentityInExports() : sql_(file()) {
    add_basics(sql_);
    add_kernel_table(sql_);
    sql_("INSERT INTO StringIds VALUES (1, 'kernel')");
    sql_(
        "CREATE TABLE META_DATA_CAPTURE (name TEXT NOT NULL, value TEXT);"
        "CREATE TABLE TARGET_INFO_SYSTEM_ENV (globalVid INTEGER, devStateName TEXT, name TEXT, nameEnum INTEGER,"
        "value TEXT)");
  }
  void add_process(std::int64_t global_pid, int device = 0) {
    add_kernel(sql_, {.start = 1, .end = 2, .device = device, .name = 1, .global_pid = global_pid});
  }
  void add_variable(const std::string& pair, int process = 0) {
    sql_("INSERT INTO META_DATA_CAPTURE VALUES ('PROCESS_" + std::to_string(process) + ":ENVIRONMENT_VARIABLE', '" +
         pair + "')");
  }
  void add_gpus() {
    // As on a node whose CUDA order is the reverse of nsys' numbers; and a GPU of another vendor.
    sql_(
        "CREATE TABLE TARGET_INFO_GPU (vmId INTEGER, id INTEGER, name TEXT, busLocation TEXT, uuid TEXT, cuDevice"
        " INTEGER);"
        "INSERT INTO TARGET_INFO_GPU VALUES (1, 0, 'A100', '0000:c1:00.0', 'aaaaaaaa-0', 1),"
        "(1, 1, 'A100', '0000:03:00.0', 'GPU-bbbbbbbb-0', 0),(1, 2, 'Other', '', '00000000-0000-0000-0000-000000000000', 0)");
  }
  Trace read() { return read_trace(file()); }

  testing::Writer sql_;
};

using Claims = std::vector<std::pair<std::int32_t, std::string>>;

Claims claims_of(const ProcessTrace& process, RankSource source) {
  Claims claims;
  for (const RankClaim& claim : process.claims) {
    if (claim.source == source) claims.emplace_back(claim.rank, claim.detail);
  }
  return claims;
}

TEST_F(IdentityInExports, TheSessionIsWhatTheTargetReported) {
  sql_(
      "INSERT INTO META_DATA_CAPTURE VALUES ('PROFILING_SESSION_UUID', 'abc-1'), ('DEVICE_DISPLAY_NAME', 'display');"
      "INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_HOST', 'laptop'), ('EXPORT_USER', 'me');"
      "INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES (1, 'x', 'Hostname', 619, 'node17')");
  const Trace trace = read();
  EXPECT_EQ(trace.session.path, file());
  EXPECT_EQ(trace.session.uuid, "abc-1");
  EXPECT_EQ(trace.session.host, "node17");
  EXPECT_EQ(trace.session.boot_key, "node17");
  EXPECT_EQ(trace.session.nsys_version, "2026.2.1.210");
  EXPECT_EQ(trace.session.utc_start_ns, 1700000000000000000);
  EXPECT_EQ(trace.session.system_clock_ns, 5000000000);
  sql_("DELETE FROM TARGET_INFO_SYSTEM_ENV");
  EXPECT_EQ(read().session.host, "display");
}

TEST_F(IdentityInExports, ProcessesAreNamedAndOthersOfTheMachineLeftOut) {
  add_process(pid_100);
  sql_(
      "CREATE TABLE PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT);"
      "INSERT INTO PROCESSES VALUES (" +
      text_of(pid_200) + ", 200, 'systemd'), (" + text_of(pid_100) + ", 100, 'python3')");
  const Trace trace = read();
  ASSERT_EQ(trace.processes.size(), 1);
  EXPECT_EQ(trace.processes[0].name, "python3");
}

TEST_F(IdentityInExports, GpusAreFoundThroughTheDeviceTable) {
  add_gpus();
  // Each process sees one GPU and calls it 0.
  sql_(
      "CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INTEGER, cudaId INTEGER, pid INTEGER);"
      "INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (0, 0, 200), (1, 0, 100)");
  add_process(pid_100);
  add_process(pid_200);
  const Trace trace = read();
  EXPECT_EQ(trace.processes.at(0).devices.at(0).gpu_uuid, "bbbbbbbb-0");
  EXPECT_EQ(trace.processes.at(1).devices.at(0).gpu_uuid, "aaaaaaaa-0");
  EXPECT_EQ(trace.processes.at(1).devices.at(0).gpu_name, "A100");
  EXPECT_FALSE(has_warning(trace, "assume"));
}

TEST_F(IdentityInExports, TheDeviceTablesOwnUuidIsEnough) {
  sql_(
      "CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INTEGER, cudaId INTEGER, pid INTEGER, uuid TEXT);"
      "INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (0, 0, 100, 'GPU-cccccccc-0')");
  add_process(pid_100);
  EXPECT_EQ(read().processes.at(0).devices.at(0).gpu_uuid, "cccccccc-0");
}

TEST_F(IdentityInExports, WithoutTheDeviceTableTheOrdinalOfTheProfilerIsAssumed) {
  add_gpus();
  add_process(pid_100, 0);
  add_process(pid_100, 1);
  add_process(pid_100, 2);
  const Trace trace = read();
  EXPECT_EQ(trace.processes.at(0).devices.at(0).gpu_uuid, "bbbbbbbb-0") << "cuDevice 0, not id 0";
  EXPECT_EQ(trace.processes.at(0).devices.at(1).gpu_uuid, "aaaaaaaa-0");
  EXPECT_EQ(trace.processes.at(0).devices.at(2).gpu_uuid, "");
  EXPECT_TRUE(has_warning(trace, "assume", 2));
  EXPECT_TRUE(has_warning(trace, "which GPU a device is", 1));
}

TEST_F(IdentityInExports, VisibleDevicesRenumberTheOrdinals) {
  add_gpus();
  add_process(pid_100, 0);
  add_variable("CUDA_VISIBLE_DEVICES=\"1,0\"");
  EXPECT_EQ(read().processes.at(0).devices.at(0).gpu_uuid, "aaaaaaaa-0");
  sql_("DELETE FROM META_DATA_CAPTURE");
  add_variable("CUDA_VISIBLE_DEVICES=\"GPU-aaaa\"");
  EXPECT_EQ(read().processes.at(0).devices.at(0).gpu_uuid, "aaaaaaaa-0") << "a prefix of the UUID";
  sql_("DELETE FROM META_DATA_CAPTURE");
  add_variable("CUDA_VISIBLE_DEVICES=\"MIG-cccc\"");
  EXPECT_EQ(read().processes.at(0).devices.at(0).gpu_uuid, "") << "rather unknown than wrong";
}

TEST_F(IdentityInExports, MpiRanksBelongToProcesses) {
  add_process(pid_100);
  add_process(pid_200);
  sql_(
      "CREATE TABLE MPI_RANKS (globalTid INTEGER, rank INTEGER);"
      "INSERT INTO MPI_RANKS VALUES (" +
      text_of(tid_201) + ", 5), (" + text_of(tid_101) + ", 4), (" + text_of(tid_101 + 1) + ", 4)");
  const Trace trace = read();
  EXPECT_EQ(claims_of(trace.processes.at(0), RankSource::mpi_ranks), (Claims{{4, "MPI_RANKS"}}));
  EXPECT_EQ(claims_of(trace.processes.at(1), RankSource::mpi_ranks), (Claims{{5, "MPI_RANKS"}}));
}

TEST_F(IdentityInExports, AProcessWithTwoMpiRanksClaimsNone) {
  add_process(pid_100);
  sql_(
      "CREATE TABLE MPI_RANKS (globalTid INTEGER, rank INTEGER);"
      "INSERT INTO MPI_RANKS VALUES (" +
      text_of(tid_101) + ", 4), (" + text_of(tid_101) + ", 5)");
  const Trace trace = read();
  EXPECT_TRUE(trace.processes.at(0).claims.empty());
  EXPECT_TRUE(has_warning(trace, "several MPI ranks", 1));
}

TEST_F(IdentityInExports, OldExportsNameTheMpiThread) {
  testing::add_nvtx_table(sql_);
  add_process(pid_100);
  sql_("INSERT INTO NVTX_EVENTS (start, eventType, text, globalTid) VALUES (1, 39, 'MPI Rank 12', " + text_of(tid_101) +
       "), (1, 39, 'MPI Rank of sorts', " + text_of(tid_101) + ")");
  EXPECT_EQ(claims_of(read().processes.at(0), RankSource::mpi_ranks), (Claims{{12, "name of the MPI thread"}}));
}

class NcclClaimTest : public IdentityInExports {
 protected:
  NcclClaimTest() { testing::add_nvtx_table(sql_); }
  void comm_init(std::int64_t start, std::uint64_t communicator, int rank, int ranks, int device = 0) {
    sql_("INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid, domainId, jsonText) VALUES (" +
         text_of(start) + "," + text_of(start + 5) + ", 59, 'ncclCommInitRank', " + text_of(tid_101) +
         R"(, 1, '{"NCCL communicator ID": )" + std::to_string(communicator) + R"(, "Rank": )" + std::to_string(rank) +
         R"(, "No. of ranks": )" + std::to_string(ranks) + R"(, "CUDA device": )" + std::to_string(device) + "}')");
  }
};

TEST_F(NcclClaimTest, TheLargestCommunicatorIsTheWorldAndOfEqualOnesTheFirst) {
  add_process(pid_100);
  comm_init(10, 1, 1, 2);
  comm_init(30, 3, 6, 8);
  comm_init(20, 2, 5, 8);
  comm_init(90, 2, 5, 8);  // its end
  EXPECT_EQ(claims_of(read().processes.at(0), RankSource::nccl_payload),
            (Claims{{5, "rank in the largest communicator, of 8 ranks"}}));
}

TEST_F(NcclClaimTest, AProcessThatHoldsSeveralRanksOfTheWorldClaimsNone) {
  add_process(pid_100);
  comm_init(10, 2, 0, 8, 0);
  comm_init(20, 2, 1, 8, 1);
  EXPECT_TRUE(read().processes.at(0).claims.empty());
}

TEST_F(NcclClaimTest, WithoutCommunicatorsThoseOfOneSizeMustAgree) {
  add_process(pid_100);
  comm_init(10, 0, 5, 8);
  comm_init(20, 0, 1, 4);
  comm_init(30, 0, 5, 8);
  EXPECT_EQ(claims_of(read().processes.at(0), RankSource::nccl_payload).size(), 1);
  comm_init(40, 0, 6, 8);
  EXPECT_TRUE(read().processes.at(0).claims.empty());
}

TEST_F(IdentityInExports, TheEnvironmentSpeaksForTheOnlyProfiledProcess) {
  add_process(pid_100);
  add_variable("SLURM_PROCID=\"7\"");
  add_variable("RANK=\"3\"");
  add_variable("PMI_RANK=\"not a number\"");
  add_variable("LOCAL_RANK=\"1\"");
  add_variable("WORLD_SIZE=\"128\"");
  const Trace trace = read();
  EXPECT_EQ(trace.world_size, 128);
  EXPECT_EQ(claims_of(trace.processes.at(0), RankSource::environment), (Claims{{3, "RANK"}, {7, "SLURM_PROCID"}}));
}

TEST_F(IdentityInExports, TheEnvironmentOfALauncherSaysNothingAboutItsChildren) {
  add_process(pid_100);
  add_process(pid_200);
  add_variable("RANK=\"3\"");
  const Trace trace = read();
  const auto claims_of_ranks = [&](const std::vector<bool>& takes_part) {
    std::vector<std::size_t> claims;
    for (const TraceRankIdentity& rank : tell_helpers(trace, identify_trace_ranks(trace, {}), takes_part).ranks)
      claims.push_back(rank.claims.size());
    return claims;
  };
  EXPECT_EQ(claims_of_ranks({true, true}), (std::vector<std::size_t>{0, 0}));
}

TEST_F(IdentityInExports, ContradictingEnvironmentsSayNothing) {
  add_process(pid_100);
  add_variable("RANK=\"3\"", 0);
  add_variable("RANK=\"4\"", 1);
  EXPECT_TRUE(read().processes.at(0).claims.empty());
}

TEST_F(IdentityInExports, TheProfilersOwnEnvironmentIsTheFallback) {
  add_process(pid_100);
  add_variable("RANK=\"3\"");
  sql_(
      "INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES (1, 'x', 'DeviceEnvironment', 610, "
      "'PATH=/bin;SLURM_PROCID=9;RANK=8;EMPTY=;TRAILING=')");
  EXPECT_EQ(claims_of(read().processes.at(0), RankSource::environment), (Claims{{3, "RANK"}, {9, "SLURM_PROCID"}}));
}

/// Every string in a trace, one after another.
std::string all_text(const Trace& trace) {
  std::string text = trace.session.path + trace.session.uuid + trace.session.host + trace.session.nsys_version +
                     trace.session.boot_key;
  for (const std::string& s : trace.strings) text += s + "\n";
  for (const Warning& warning : trace.warnings) text += warning.message + "\n";
  for (const ProcessTrace& process : trace.processes) {
    text += process.name + "\n";
    for (const RankClaim& claim : process.claims) text += claim.detail + "\n";
    for (const DeviceTrace& device : process.devices) text += device.gpu_name + device.gpu_uuid + "\n";
  }
  return text;
}

TEST_F(IdentityInExports, SecretsNeverReachTheTrace) {
  add_process(pid_100);
  add_variable("API_TOKEN=\"hunter2\"");
  add_variable("RANK=\"hunter2\"");
  add_variable("CUDA_VISIBLE_DEVICES=\"hunter2\"");
  sql_(
      "INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES (1, 'x', 'DeviceEnvironment', 610, 'PASSWORD=hunter2;RANK=hunter2;"
      "SLURM_PROCID=1hunter2');"
      "INSERT INTO META_DATA_CAPTURE VALUES ('PROCESS_0:COMMAND', 'hunter2'), ('PROCESS_0:ARGUMENT_0', 'hunter2'),"
      "('PROCESS_0:WORKING_DIR', '/home/hunter2'), ('PROCESS_0:USER_NAME', 'hunter2');"
      "INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_USER', 'hunter2'), ('EXPORT_HOST', 'hunter2'),"
      "('EXPORT_PARAM_INPUT_FILE', '/home/hunter2/report.nsys-rep');"
      "INSERT INTO StringIds VALUES (80, 'export TOKEN=hunter2');"
      "CREATE TABLE ProcessStreams (globalPid INTEGER, filenameId INTEGER, contentId INTEGER);"
      "INSERT INTO ProcessStreams VALUES (1, 80, 80)");
  add_gpus();
  const std::string text = all_text(read());
  EXPECT_THAT(text, ::testing::HasSubstr("kernel")) << "the search must be able to find something";
  EXPECT_THAT(text, ::testing::Not(::testing::HasSubstr("hunter2")));
}

}  // namespace
}  // namespace nsys_explain::ingest
