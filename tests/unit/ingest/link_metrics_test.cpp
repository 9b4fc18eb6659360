#include "ingest/event_readers.hpp"

#include "export_fixture.hpp"

namespace nsys_explain::ingest {
namespace {

using testing::add_basics;
using testing::add_kernel;
using testing::add_kernel_table;
using testing::has_warning;
using testing::Writer;

class LinkMetrics : public testing::ScratchTest {
 protected:
  /// GPU 3 and 5 of the node; the process (pid 100) sees GPU 5 as its device 0.
  Writer& basics(Writer& sql, bool mapped = true) {
    add_basics(sql);
    sql("INSERT INTO StringIds VALUES (0, ''), (1, 'kernel')");
    add_kernel_table(sql);
    add_kernel(sql, {.start = 1000, .end = 9000, .device = 0, .name = 1});
    sql("CREATE TABLE GPU_METRICS (rawTimestamp INTEGER, timestamp INTEGER NOT NULL, typeId INTEGER NOT NULL, metricId "
        "INTEGER NOT NULL, value INTEGER NOT NULL)");
    sql("CREATE TABLE TARGET_INFO_GPU_METRICS (typeId INTEGER, sourceId INTEGER, typeName TEXT, metricId INTEGER, "
        "metricName TEXT)");
    if (mapped) {
      sql("CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, uuid TEXT, cuDevice INTEGER)");
      sql("INSERT INTO TARGET_INFO_GPU VALUES (3, 'H100', 'aaaa-3', 0), (5, 'H100', 'aaaa-5', 1)");
      sql("CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INTEGER, cudaId INTEGER, pid INTEGER, uuid TEXT)");
      sql("INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (5, 0, 100, 'aaaa-5')");
    }
    return sql;
  }
  static std::string type_of(int gpu) {
    return std::to_string((std::int64_t{1} << 48) | (std::int64_t{1} << 32) | gpu);
  }
};

TEST_F(LinkMetrics, SamplesGoToTheDeviceWhoseGpuTheTypeIdNames) {
  {
    Writer sql(file());
    basics(sql);
    // One metric id means another counter with another type id; rows are in no order.
    sql("INSERT INTO TARGET_INFO_GPU_METRICS VALUES (" + type_of(3) +
        ", 1, 'GPU', 20, 'NVLink RX Requests User Data [Throughput %]'), (" + type_of(5) +
        ", 1, 'GPU', 20, 'NVLink TX Requests User Data'), (" + type_of(5) +
        ", 1, 'GPU', 21, 'NVLink RX Requests User Data [Throughput %]'), (" + type_of(5) +
        ", 1, 'GPU', 9, 'GPC Clock Frequency [MHz]'), (" + type_of(5) + ", 1, 'GPU', 7, 'PCIe RX Throughput')");
    sql("INSERT INTO GPU_METRICS VALUES (0, 300, " + type_of(5) + ", 21, 30), (0, 100, " + type_of(5) +
        ", 21, 10), (0, 100, " + type_of(5) + ", 20, 11), (0, 200, " + type_of(5) + ", 21, 20), (0, 200, " +
        type_of(5) + ", 9, 1980000000), (0, 100, " + type_of(3) + ", 20, 99), (0, 100, " + type_of(5) + ", 7, 55)");
  }
  const Trace trace = read_trace(file());
  const DeviceTrace& device = trace.processes.at(0).devices.at(0);
  EXPECT_EQ(device.gpu_id, 5);
  const GpuSamples& samples = device.samples;
  constexpr std::uint32_t missing = GpuSamples::missing;
  EXPECT_EQ(samples.time_ns, (std::vector<Nanoseconds>{100, 200, 300}));
  EXPECT_EQ(samples.of(GpuCounter::nvlink_receive_requests), (std::vector<std::uint32_t>{10, 20, 30}));
  EXPECT_EQ(samples.of(GpuCounter::nvlink_transmit_requests), (std::vector<std::uint32_t>{11, missing, missing}));
  EXPECT_EQ(samples.of(GpuCounter::gpc_clock_hz), (std::vector<std::uint32_t>{missing, 1980000000, missing}));
  EXPECT_EQ(samples.of(GpuCounter::pcie_receive), (std::vector<std::uint32_t>{55, missing, missing}));
  EXPECT_TRUE(samples.of(GpuCounter::nvlink_receive_bytes).empty());
}

TEST_F(LinkMetrics, NegativeAndMissingValuesAreLeftOutAndCounted) {
  {
    Writer sql(file());
    basics(sql);
    sql("INSERT INTO TARGET_INFO_GPU_METRICS VALUES (" + type_of(5) + ", 1, 'GPU', 1, 'NVLink bytes received')");
    sql("INSERT INTO GPU_METRICS VALUES (0, 100, " + type_of(5) + ", 1, -4), (0, -50, " + type_of(5) +
        ", 1, 7), (0, 9000000000000000000, " + type_of(5) + ", 1, 8)");
  }
  const Trace trace = read_trace(file());
  const GpuSamples& samples = trace.processes.at(0).devices.at(0).samples;
  EXPECT_EQ(samples.time_ns, std::vector<Nanoseconds>{-50});  // before the session's start is no mistake
  EXPECT_TRUE(has_warning(trace, "GPU metric samples", 2));
}

TEST_F(LinkMetrics, WithoutAMapTheOnlySampledGpuIsTheOnlyDevices) {
  {
    Writer sql(file());
    basics(sql, false);
    sql("INSERT INTO TARGET_INFO_GPU_METRICS VALUES (" + type_of(6) + ", 1, 'GPU', 1, 'NVLink bytes received')");
    sql("INSERT INTO GPU_METRICS VALUES (0, 100, " + type_of(6) + ", 1, 4)");
  }
  const Trace trace = read_trace(file());
  EXPECT_EQ(trace.processes.at(0).devices.at(0).samples.time_ns.size(), 1u);
  EXPECT_FALSE(has_warning(trace, "does not tell which GPU a device is: its GPU metrics"));
}

TEST_F(LinkMetrics, WithoutAMapAndSeveralGpusOrdinalsAreAssumedAndSaid) {
  {
    Writer sql(file());
    basics(sql, false);
    for (const int gpu : {0, 1}) {
      sql("INSERT INTO TARGET_INFO_GPU_METRICS VALUES (" + type_of(gpu) + ", 1, 'GPU', 1, 'NVLink bytes received')");
      sql("INSERT INTO GPU_METRICS VALUES (0, 100, " + type_of(gpu) + ", 1, " + std::to_string(40 + gpu) + ")");
    }
  }
  const Trace trace = read_trace(file());
  EXPECT_EQ(trace.processes.at(0).devices.at(0).samples.of(GpuCounter::nvlink_receive_bytes),
            std::vector<std::uint32_t>{40});
  EXPECT_TRUE(has_warning(trace, "does not tell which GPU a device is: its GPU metrics", 1));
}

TEST_F(LinkMetrics, NoMetricsAreNoProblem) {
  {
    Writer sql(file());
    basics(sql);
  }
  const Trace trace = read_trace(file());
  EXPECT_TRUE(trace.processes.at(0).devices.at(0).samples.time_ns.empty());
  EXPECT_TRUE(trace.network.empty());
}

TEST_F(LinkMetrics, NetworkPortsAreNamedAndSorted) {
  {
    Writer sql(file());
    basics(sql);
    sql("CREATE TABLE TARGET_INFO_NETWORK_METRICS (metricsListId INTEGER, metricsIdx INTEGER, name TEXT, description "
        "TEXT, unit TEXT)");
    sql("INSERT INTO TARGET_INFO_NETWORK_METRICS VALUES (1, 0, 'IB: Bytes sent', '', 'bytes/ms'), (2, 0, 'Send waits', "
        "'', 'ticks/ms')");
    sql("CREATE TABLE TARGET_INFO_NIC_INFO (GUID INTEGER, stateName TEXT, nicId INTEGER, name TEXT, deviceId INTEGER, "
        "vendorId INTEGER, linkLayer INTEGER)");
    sql("INSERT INTO TARGET_INFO_NIC_INFO VALUES (77, 'ACTIVE', 4, 'mlx5_4', 1, 1, 2)");
    sql("CREATE TABLE NIC_ID_MAP (nicId INTEGER, globalId INTEGER)");
    sql("INSERT INTO NIC_ID_MAP VALUES (4, 4004)");
    for (const std::string table : {"NET_NIC_METRIC", "NET_IB_SWITCH_METRIC"}) {
      sql("CREATE TABLE " + table +
          " (start INTEGER, end INTEGER, globalId INTEGER, portId INTEGER, metricsListId INTEGER, metricsIdx INTEGER, value INTEGER)");
    }
    sql("INSERT INTO NET_NIC_METRIC VALUES (2000, 3000, 4004, 1, 1, 0, 9), (1000, 2000, 4004, 1, 1, 0, 8), (1000, "
        "2000, 4004, 1, 9, 9, 5)");
    sql("INSERT INTO NET_IB_SWITCH_METRIC VALUES (1000, 2000, 255, 7, 2, 0, 3)");
  }
  const Trace trace = read_trace(file());
  ASSERT_EQ(trace.network.size(), 2u);
  EXPECT_EQ(trace.network[0].device, "mlx5_4");
  EXPECT_EQ(trace.network[0].metric, "IB: Bytes sent");
  EXPECT_EQ(trace.network[0].unit, "bytes/ms");
  EXPECT_EQ(trace.network[0].values, (std::vector<std::int64_t>{8, 9}));
  EXPECT_EQ(trace.network[0].intervals[1], (Interval{2000, 3000}));
  EXPECT_EQ(trace.network[1].source, NetworkSource::infiniband_switch);
  EXPECT_EQ(trace.network[1].device, "0xff");
  EXPECT_EQ(trace.network[1].port, 7);
  EXPECT_TRUE(has_warning(trace, "NET_NIC_METRIC", 1));  // one row whose metric has no name
}

}  // namespace
}  // namespace nsys_explain::ingest
