#include "ingest/metadata.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "export_fixture.hpp"

namespace nsys_explain::ingest {
namespace {

using testing::add_basics;
using testing::add_kernel;
using testing::add_kernel_table;
using ::testing::ElementsAre;
using testing::Writer;

using RunFacts = testing::ScratchTest;

/// The forms in exports of nsys 2022 to 2026, on Linux and Windows.
TEST(Versions, AsTheirToolsShowThem) {
  EXPECT_EQ(driver_version("580.95.05"), "580.95.05");
  EXPECT_EQ(driver_version("52510517"), "525.105.17");
  EXPECT_EQ(driver_version("5303002"), "530.30.02");
  EXPECT_EQ(driver_version("42600"), "426.00");
  EXPECT_EQ(driver_version(""), "");
  EXPECT_EQ(driver_version("123456789012"), "123456789012");
  EXPECT_EQ(cuda_version("12080"), "12.8");
  EXPECT_EQ(cuda_version("13030"), "13.3");
  EXPECT_EQ(cuda_version("10010"), "10.1");
  EXPECT_EQ(cuda_version("0"), "");
  EXPECT_EQ(cuda_version("12.8"), "");
  EXPECT_EQ(cuda_version("99999999999999999999"), "");
}

TEST_F(RunFacts, OnlyTheEntriesOfTheListAreTaken) {
  Writer sql(file());
  add_basics(sql);
  add_kernel_table(sql);
  add_kernel(sql, {100, 200});
  sql("CREATE TABLE TARGET_INFO_SYSTEM_ENV (globalVid INTEGER, devStateName TEXT, name TEXT, nameEnum INTEGER, value "
      "TEXT)");
  sql("INSERT INTO TARGET_INFO_SYSTEM_ENV (name, value) VALUES ('NvDriverVersion', '5303002'), ('CudaDriverVersion', "
      "'12010'), ('OsDescription', 'Ubuntu 22.04.5 LTS'), ('CpuDescription', 'unknown'), ('OfedDriverVersion', ''), ('DeviceEnvironment', 'API_TOKEN=s3cret;HOME=/home/me'), ('Hostname', 'n1'), ('CpuCores', '" +
      std::string(5000, '9') + "')");
  sql("CREATE TABLE META_DATA_CAPTURE (name TEXT NOT NULL, value TEXT)");
  sql("INSERT INTO META_DATA_CAPTURE VALUES ('CAPTURE_EVENT_TYPE', 'NvtxEvents'), ('CAPTURE_EVENT_TYPE', 'Cuda'), "
      "('CAPTURE_EVENT_TYPE', 'Cuda'), ('CAPTURE_EVENT_TYPE', NULL), ('PROCESS_0:COMMAND', 'train --token s3cret'), ('PROCESS_0:ENVIRONMENT_VARIABLE', 'API_TOKEN=\"s3cret\"'), ('PROCESS_0:CUDA_GRAPH_TRACE_OPTIONS:MODE', 'Node')");
  sql("CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, uuid TEXT, cuDevice INTEGER, chipName TEXT, clockRate "
      "INTEGER, smCount INTEGER, totalMemory INTEGER, memoryBandwidth INTEGER, computeMajor INTEGER, computeMinor INTEGER, busLocation TEXT, maxWarpsPerSm INTEGER, threadsPerWarp INTEGER, maxBlocksPerSm INTEGER, maxShmemPerSm INTEGER)");
  sql("INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA A100-SXM4-80GB', 'aaaa', 0, 'GA100', 1410000000, 108, "
      "84990623744, 2039040000000, 8, 0, '0000:41:00.0', 64, 32, 32, 167936)");
  sql("INSERT INTO TARGET_INFO_GPU SELECT 1, name, 'bbbb', 1, chipName, clockRate, smCount, totalMemory, "
      "memoryBandwidth, computeMajor, computeMinor, '0000:03:00.0', 64, 32, 32, 167936 FROM TARGET_INFO_GPU");
  const Trace trace = read_trace(file());
  EXPECT_THAT(trace.facts, ElementsAre(RunFact{"nsys", "2026.2.1.210"}, RunFact{"driver", "530.30.02"},
                                       RunFact{"cuda_driver", "12.1"}, RunFact{"os", "Ubuntu 22.04.5 LTS"},
                                       RunFact{"cpu_cores", std::string(longest_fact, '9')},
                                       RunFact{"traced", "Cuda, NvtxEvents"}, RunFact{"cuda_graphs", "Node"}));
  EXPECT_THAT(trace.processes.at(0).devices.at(0).gpu_facts,
              ElementsAre(RunFact{"gpu", "NVIDIA A100-SXM4-80GB"}, RunFact{"gpu_chip", "GA100"},
                          RunFact{"compute_capability", "8.0"}, RunFact{"multiprocessors", "108"},
                          RunFact{"sm_clock_limit", "1410 MHz"}, RunFact{"gpu_memory", "85 GB"},
                          RunFact{"gpu_memory_bandwidth", "2039 GB/s"}));
  const DeviceTrace& device = trace.processes.at(0).devices.at(0);
  EXPECT_EQ(device.gpu_limits.bandwidth, 2'039'040'000'000);
  EXPECT_EQ(device.gpu_limits.multiprocessors, 108);
  EXPECT_EQ(device.gpu_limits.threads_per_multiprocessor, 2048);
  EXPECT_EQ(device.gpu_limits.blocks_per_multiprocessor, 32);
  EXPECT_EQ(device.gpu_limits.shared_bytes_per_multiprocessor, 167936);
  EXPECT_EQ(device.gpu_limits.compute_capability_major, 8);
  EXPECT_EQ(device.gpu_bus_id, "0000:41:00.0");
  EXPECT_EQ(device.gpu_bus_rank, 1);  // the other GPU's bus comes first
}

TEST_F(RunFacts, WhatTheExportLacksIsLeftOut) {
  Writer sql(file());
  add_basics(sql);
  add_kernel_table(sql);
  add_kernel(sql, {100, 200});
  sql("CREATE TABLE TARGET_INFO_GPU (vmId INTEGER, id INTEGER, name TEXT)");
  sql("INSERT INTO TARGET_INFO_GPU VALUES (1, 0, 'GPU')");
  const Trace trace = read_trace(file());
  EXPECT_THAT(trace.facts, ElementsAre(RunFact{"nsys", "2026.2.1.210"}));
  EXPECT_THAT(trace.processes.at(0).devices.at(0).gpu_facts, ElementsAre(RunFact{"gpu", "GPU"}));
}

}  // namespace

}  // namespace nsys_explain::ingest
