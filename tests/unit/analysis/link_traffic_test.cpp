#include "analysis/links/links.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "model/schema/gpu.hpp"

namespace nsys_explain::analysis {
namespace {

constexpr Nanoseconds us = 1000;

/// A trace rank with a collective of 2 ms every 10 ms, 30 times, under a kernel that spans them all.
struct Rank {
  Rank() {
    trace.strings = {""};
    trace.processes.resize(1);
    trace.processes[0].devices.resize(1);
    device().kernels.push_back({0, 300'000 * us, 0, 0});
    for (int step = 0; step < 30; ++step) {
      TraceArrival arrival;
      arrival.enter = TraceTime(step * 10'000 * us + 4'000 * us);
      arrival.exit = arrival.enter + 2'000 * us;
      arrival.operation = step % 2 == 0 ? Operation::all_reduce : Operation::all_gather;
      arrivals.push_back(arrival);
    }
  }
  DeviceTrace& device() { return trace.processes[0].devices[0]; }
  bool in_collective(Nanoseconds end_ns) const {
    const Nanoseconds in_step = (end_ns - 50 * us) % (10'000 * us);
    return in_step >= 4'000 * us && in_step < 6'000 * us;
  }
  /// A sample every 100 us.
  template <class Value>
  void sample(GpuCounter counter, const Value& value) {
    auto& samples = device().samples;
    const bool first = samples.time_ns.empty();
    for (Nanoseconds at = 0; at <= 300'000 * us; at += 100 * us) {
      if (first) samples.time_ns.push_back(at);
      samples.values[static_cast<std::size_t>(counter)].push_back(value(at));
    }
  }
  Table table() {
    const LaunchIndex launches(trace.processes[0].api_calls);
    return nvlink_table({trace, trace.processes[0], device(), launches, {true}, arrivals});
  }

  Trace trace;
  std::vector<TraceArrival> arrivals;
};

TEST(LinkTraffic, RequestsAndResponsesAreSummed) {
  Rank rank;
  rank.sample(GpuCounter::nvlink_receive_requests, [&](Nanoseconds at) { return rank.in_collective(at) ? 30u : 1u; });
  rank.sample(GpuCounter::nvlink_receive_responses, [&](Nanoseconds at) { return rank.in_collective(at) ? 10u : 0u; });
  const Table table = rank.table();
  ASSERT_EQ(table.row_count(), 3u);  // transmit was not captured; all, all-reduce, all-gather
  EXPECT_EQ(column<std::string>(table, "operation"), (TextColumn{"all", "all_reduce", "all_gather"}));
  EXPECT_DOUBLE_EQ(column<double>(table, "mean_during_percent")[0], 40);
  EXPECT_DOUBLE_EQ(column<double>(table, "mean_outside_percent")[0], 1);
  EXPECT_NEAR(column<double>(table, "correlation")[0], 1, 1e-9);
  EXPECT_EQ(column<std::int64_t>(table, "lag_ns")[0], 0);
  EXPECT_LE(column<double>(table, "p_value")[0], 0.01);
  EXPECT_EQ(column<std::int64_t>(table, "during_ns"),
            (std::vector<std::int64_t>{60'000 * us, 30'000 * us, 30'000 * us}));
  EXPECT_EQ(column<std::int64_t>(table, "samples")[0], 3000);
}

TEST(LinkTraffic, ResponsesAloneAreUserData) {
  Rank rank;
  rank.sample(GpuCounter::nvlink_receive_responses, [&](Nanoseconds at) { return rank.in_collective(at) ? 10u : 0u; });
  const Table table = rank.table();
  ASSERT_EQ(table.row_count(), 3u);
  EXPECT_EQ(column<std::string>(table, "metric")[0], "NVLink receive, user data");
  EXPECT_DOUBLE_EQ(column<double>(table, "mean_during_percent")[0], 10);
  EXPECT_DOUBLE_EQ(column<double>(table, "mean_outside_percent")[0], 0);
}

TEST(LinkTraffic, IdleLinksThatReadFullAreLeftOut) {
  Rank rank;
  for (const GpuCounter counter : {GpuCounter::nvlink_receive_bytes, GpuCounter::nvlink_transmit_bytes}) {
    rank.sample(counter, [&](Nanoseconds at) { return rank.in_collective(at) ? 35u : 100u; });
  }
  const Table table = rank.table();
  EXPECT_DOUBLE_EQ(column<double>(table, "mean_during_percent")[0], 35);
  EXPECT_TRUE(std::isnan(column<double>(table, "mean_outside_percent")[0]));
  // 80 of 100 samples of a step are outside; those next to a collective may be late traffic and stay.
  EXPECT_GT(column<std::int64_t>(table, "artefacts")[0], 30 * 70);
}

TEST(LinkTraffic, SamplesBeforeAndAfterTheRanksWorkDoNotCount) {
  Rank rank;
  rank.device().kernels = {{100'000 * us, 200'000 * us, 0, 0}};
  rank.sample(GpuCounter::nvlink_receive_bytes, [&](Nanoseconds at) {
    return at <= 100'000 * us || at > 200'000 * us ? 50u : rank.in_collective(at) ? 20u : 0u;
  });
  const Table table = rank.table();
  EXPECT_EQ(column<std::int64_t>(table, "samples")[0], 1000);
  EXPECT_DOUBLE_EQ(column<double>(table, "mean_outside_percent")[0], 0);
}

TEST(LinkTraffic, AGapInTheSamplesIsNotFilledByTheSampleBehindIt) {
  Rank rank;
  rank.sample(GpuCounter::nvlink_receive_bytes, [&](Nanoseconds at) { return rank.in_collective(at) ? 20u : 0u; });
  GpuSamples& samples = rank.device().samples;
  auto& values = samples.values[static_cast<std::size_t>(GpuCounter::nvlink_receive_bytes)];
  // Lost: from 10.1 ms to 20 ms, a collective among them.
  samples.time_ns.erase(samples.time_ns.begin() + 101, samples.time_ns.begin() + 200);
  values.erase(values.begin() + 101, values.begin() + 200);
  const Table table = rank.table();
  EXPECT_EQ(column<std::int64_t>(table, "during_ns")[0], 58'000 * us);
  EXPECT_DOUBLE_EQ(column<double>(table, "mean_during_percent")[0], 20);
}

TEST(LinkTraffic, WithoutCountersThereAreNoRows) {
  Rank rank;
  EXPECT_EQ(rank.table().row_count(), 0u);
  const NvlinkReport report = describe_nvlink({});
  EXPECT_FALSE(report.available);
  EXPECT_NE(report.message.find("NVLink counters not found"), std::string::npos);
}

TEST(NvlinkReport, OfGpuMetricsWithoutNvlinkDoesNotAskForGpuMetrics) {
  Table counters = make_table(schema::gpu_counters);
  RowWriter(counters) << "window"
                      << "sms_active" << std::int64_t{10} << 50.0 << 60.0 << 50.0;
  const NvlinkReport report = describe_nvlink({counters});
  EXPECT_FALSE(report.available);
  EXPECT_EQ(report.message.find("GPU metrics were recorded, and there are no NVLink counters among them"), 0U);
  EXPECT_EQ(report.message.find("--gpu-metrics-devices"), std::string::npos);
}

TEST(LinkPeaks, OwnLinesComeFirst) {
  EXPECT_EQ(nvlink_peak_gbs({}, "NVIDIA H100 80GB HBM3"), 450);
  EXPECT_EQ(nvlink_peak_gbs({}, "NVIDIA H100 PCIe"), 300);
  EXPECT_EQ(nvlink_peak_gbs({}, "NVIDIA A100-SXM4-80GB"), 300);
  EXPECT_FALSE(nvlink_peak_gbs({}, "Some other GPU"));
  const auto own = parse_link_peaks("# peaks\n\n 225.5  NVIDIA H100 80GB HBM3  # half the links\n");
  ASSERT_EQ(own.size(), 1u);
  EXPECT_EQ(nvlink_peak_gbs(own, "NVIDIA H100 80GB HBM3"), 225.5);
  EXPECT_EQ(nvlink_peak_gbs(own, "NVIDIA H100 PCIe"), 300);
  for (const char* bad : {"H100 450", "450", "-1 H100", "nan H100", "1e9 H100"}) {
    EXPECT_THROW(parse_link_peaks(bad), std::runtime_error) << bad;
  }
}

/// The joined table of three members that exchange all with all; `bytes[s][d]`.
Table messages_of(const std::vector<std::vector<std::int64_t>>& bytes) {
  ProcessTrace process;
  process.devices.resize(1);
  const Trace trace;
  const LaunchIndex launches(process.api_calls);
  TableSchema schema = messages_table({trace, process, process.devices[0], launches, {}, {}}).schema;
  schema.columns.push_front({"trace_rank", ColumnKind::integer, "", ""});
  Table table = make_table(schema);
  RowWriter rows(table);
  for (std::size_t s = 0; s < bytes.size(); ++s) {
    for (std::size_t d = 0; d < bytes.size(); ++d) {
      // NCCL numbers the members from 0, trace ranks from 10.
      rows << static_cast<std::int64_t>(10 + s) << std::string_view("c") << std::string_view("send")
           << static_cast<std::int64_t>(s) << static_cast<std::int64_t>(d) << std::int64_t{1} << bytes[s][d];
    }
  }
  return table;
}

TEST(Messages, MatrixAndImbalance) {
  const std::vector<Table> tables{messages_of({{1, 2, 3}, {4, 5, 6}, {100, 100, 100}})};
  const Table matrix = byte_matrix_table(tables);
  ASSERT_EQ(matrix.row_count(), 9u);
  EXPECT_EQ(column<std::int64_t>(matrix, "source")[5], 11);
  EXPECT_EQ(column<std::int64_t>(matrix, "destination")[5], 12);
  EXPECT_EQ(column<std::int64_t>(matrix, "sent_bytes")[5], 6);
  EXPECT_EQ(column<std::int64_t>(matrix, "received_messages")[5], 0);
  const auto balances = exchange_balances(tables);
  ASSERT_EQ(balances.size(), 1u);
  EXPECT_EQ(balances[0].busiest_trace_rank, 12);
  EXPECT_EQ(balances[0].most_bytes, 300);
  EXPECT_EQ(balances[0].mean_bytes, 107);  // 321 / 3
}

TEST(Messages, BalanceOfBytesAndTime) {
  const std::vector<ExchangeBalance> balances =
      exchange_balances({messages_of({{0, 10, 20}, {30, 0, 30}, {60, 60, 0}})});
  const std::vector<MemberTransfer> transfers{{100, 0, 10}, {300, 0, 11}, {200, 0, 12}, {900, 1, 12}};
  const Table table = exchange_balances_table(balances, transfers, std::vector<std::string>{"c", "another"});
  ASSERT_EQ(table.row_count(), 1u);
  EXPECT_DOUBLE_EQ(column<double>(table, "sent_imbalance")[0], 120.0 / 70);
  EXPECT_EQ(column<std::int64_t>(table, "busiest_sender")[0], 12);
  EXPECT_EQ(column<std::int64_t>(table, "mean_transfer_ns")[0], 200);
  EXPECT_EQ(column<std::int64_t>(table, "slowest")[0], 11);
  EXPECT_DOUBLE_EQ(column<double>(table, "time_imbalance")[0], 1.5);
  EXPECT_EQ(column<std::int64_t>(table, "busiest_receiver")[0], -1);  // only sends are recorded here
}

TEST(Messages, SendsAreSummedByPeer) {
  Trace trace;
  ProcessTrace process;
  process.devices.resize(1);
  const auto call = [&](NcclFunction function, std::int64_t bytes, std::int32_t peer) {
    NcclCall made;
    made.communicator = 0xABC;
    made.function = function;
    made.bytes = bytes;
    made.peer_or_root = peer;
    process.nccl_calls.push_back(made);
  };
  call(NcclFunction::comm_init, -1, -1);
  process.nccl_calls[0].rank = 2;
  process.nccl_calls[0].device = 0;
  call(NcclFunction::send, 100, 3);
  call(NcclFunction::send, 50, 3);
  call(NcclFunction::recv, 7, 1);
  call(NcclFunction::recv, -1, 1);
  const LaunchIndex launches(process.api_calls);
  const Table table = messages_table({trace, process, process.devices[0], launches, {}, {}});
  ASSERT_EQ(table.row_count(), 2u);
  EXPECT_EQ(column<std::int64_t>(table, "own_rank"), (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(column<std::string>(table, "direction"), (TextColumn{"send", "recv"}));
  EXPECT_EQ(column<std::int64_t>(table, "calls"), (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(column<std::int64_t>(table, "bytes"), (std::vector<std::int64_t>{150, 7}));
  // Of several GPUs in one process nobody knows which one a call was for.
  process.devices.resize(2);
  EXPECT_EQ(messages_table({trace, process, process.devices[0], launches, {}, {}}).row_count(), 0u);
}

}  // namespace
}  // namespace nsys_explain::analysis
