#include "collectives/extraction.hpp"

#include <gtest/gtest.h>

#include "unit/add_kernel.hpp"

#include <algorithm>
#include <string>

namespace nsys_explain::collectives {
namespace {

/// Writes one process by hand: calls on a host thread, kernels on devices, each launched at a given host time.
class Builder {
 public:
  Builder() {
    trace.strings = {""};
    trace.processes.resize(1);
  }
  ProcessTrace& process() { return trace.processes[0]; }

  void nccl(NcclFunction function, Nanoseconds start, Nanoseconds end, std::uint64_t communicator = 0,
            std::int64_t bytes = -1, std::int32_t peer = -1, std::uint32_t thread = 1) {
    NcclCall call;
    call.function = function;
    call.start_ns = start;
    call.end_ns = end;
    call.communicator = communicator;
    call.bytes = bytes;
    call.peer_or_root = peer;
    call.thread_id = thread;
    process().nccl_calls.push_back(call);
  }

  /// As `nccl`, of a communicator that the trace tells by a category.
  void traced(NcclFunction function, Nanoseconds start, Nanoseconds end, std::uint32_t category,
              const std::string& name = "") {
    nccl(function, start, end);
    process().nccl_calls.back().category = category;
    process().nccl_calls.back().category_name = intern(name);
  }

  std::uint32_t launch(Nanoseconds host_time, std::uint32_t thread = 1) {
    ApiCall call;
    call.start_ns = host_time;
    call.end_ns = host_time + 4;
    call.thread_id = thread;
    call.correlation_id = ++correlation_;
    process().api_calls.push_back(call);
    return correlation_;
  }

  DeviceTrace& device(std::size_t index) {
    while (process().devices.size() <= index) {
      process().devices.emplace_back();
      process().devices.back().device_id = static_cast<std::int32_t>(process().devices.size()) - 1;
    }
    return process().devices[index];
  }

  void kernel(const std::string& name, Nanoseconds start, Nanoseconds end, std::uint32_t correlation,
              std::uint32_t stream = 7, std::size_t on_device = 0) {
    KernelKind& kind = nsys_explain::testing::add_kernel(device(on_device), start, end, correlation);
    kind.stream_id = stream;
    kind.short_name = kind.demangled_name = intern(name);
  }

  /// A node captured by a call, and the copy of it that runs; returns the copy.
  std::uint64_t captured(std::uint64_t node, Nanoseconds host_time, std::uint32_t thread = 1) {
    const std::uint64_t copy = node + (std::uint64_t{1} << 32);
    process().graph_nodes.push_back({host_time, node, 0, thread});
    process().graph_nodes.push_back({host_time + 1000, copy, node, thread});
    std::sort(process().graph_nodes.begin(), process().graph_nodes.end(),
              [](const GraphNode& a, const GraphNode& b) { return a.node_id < b.node_id; });
    return copy;
  }

  /// All kernels of one launch share the call that launched the graph.
  void replayed(const std::string& name, Nanoseconds start, Nanoseconds end, std::uint32_t graph_launch,
                std::uint64_t node, std::uint32_t stream = 7) {
    kernel(name, start, end, graph_launch, stream);
    device(0).kernel_kinds.back().graph_node_id = node;
  }

  void range(const std::string& text, Nanoseconds start, Nanoseconds end, std::uint32_t thread = 1) {
    NvtxRange r;
    r.start_ns = start;
    r.end_ns = end;
    r.thread_id = thread;
    r.text = intern(text);
    process().nvtx_ranges.push_back(r);
  }

  std::vector<DeviceArrivals> extract() {
    return extract_arrivals(trace, process(), KernelClasses(trace), LaunchIndex(process().api_calls));
  }

  Trace trace;

 private:
  StringIndex intern(const std::string& name) {
    for (std::size_t i = 0; i < trace.strings.size(); ++i) {
      if (trace.strings[i] == name) return static_cast<StringIndex>(i);
    }
    trace.strings.push_back(name);
    return static_cast<StringIndex>(trace.strings.size() - 1);
  }
  std::uint32_t correlation_ = 0;
};

constexpr std::uint64_t world = 0xabcdef0123456789;
constexpr std::uint64_t pair = 0x1111222233334444;
constexpr const char* all_reduce_kernel = "ncclDevKernel_AllReduce_Sum_f32_RING_LL";
constexpr const char* send_recv_kernel = "ncclDevKernel_SendRecv";

TEST(Extraction, SingleCallGivesItsPayloadToItsKernel) {
  Builder b;
  b.nccl(NcclFunction::all_reduce, 100, 120, world, 4096);
  b.kernel(all_reduce_kernel, 200, 300, b.launch(110));
  const auto devices = b.extract();
  ASSERT_EQ(devices.size(), 1U);
  ASSERT_EQ(devices[0].arrivals.size(), 1U);
  const TraceArrival& arrival = devices[0].arrivals[0];
  EXPECT_EQ(arrival.enter.ns, 200);
  EXPECT_EQ(arrival.exit.ns, 300);
  EXPECT_EQ(arrival.operation, Operation::all_reduce);
  EXPECT_EQ(arrival.communicator, world);
  EXPECT_EQ(arrival.call_bytes, 4096);
  EXPECT_EQ(arrival.evidence, Evidence::nccl_payload);
  EXPECT_EQ(arrival.index, 0);
  EXPECT_EQ(devices[0].without_call, 0);
}

TEST(Extraction, CallDecidesTheOperationWhereTheNameCannot) {
  Builder b;
  b.nccl(NcclFunction::reduce_scatter, 100, 120, world, 4096);
  b.kernel("ncclDevKernel_Generic", 200, 300, b.launch(110));
  EXPECT_EQ(b.extract()[0].arrivals[0].operation, Operation::reduce_scatter);
}

TEST(Extraction, KernelLaunchedOnAnotherThreadIsNotInTheRange) {
  Builder b;
  b.nccl(NcclFunction::all_reduce, 100, 120, world, 4096);
  b.kernel(all_reduce_kernel, 200, 300, b.launch(110, 2));
  const auto devices = b.extract();
  EXPECT_EQ(devices[0].without_call, 1);
  EXPECT_EQ(devices[0].arrivals[0].evidence, Evidence::kernel_name);
  EXPECT_EQ(devices[0].arrivals[0].communicator, 0U) << "lane 0";
}

TEST(Extraction, OrphanKernelIsKept) {
  Builder b;
  b.kernel(all_reduce_kernel, 200, 300, 77);
  ASSERT_EQ(b.extract()[0].arrivals.size(), 1U);
  EXPECT_EQ(b.extract()[0].arrivals[0].operation, Operation::all_reduce);
}

TEST(Extraction, OrphanTakesTheCommunicatorOfItsStream) {
  Builder b;
  b.kernel(all_reduce_kernel, 20, 30, 77);  // launched before the capture began
  b.nccl(NcclFunction::all_reduce, 100, 120, world, 4096);
  b.kernel(all_reduce_kernel, 200, 300, b.launch(110));
  b.kernel(all_reduce_kernel, 220, 310, 78, 9);  // nothing tells whose stream 9 is
  const auto arrivals = b.extract()[0].arrivals;
  ASSERT_EQ(arrivals.size(), 3U);
  EXPECT_EQ(arrivals[0].communicator, world);
  EXPECT_EQ(arrivals[0].evidence, Evidence::order);
  EXPECT_EQ(arrivals[0].call_bytes, -1);
  EXPECT_EQ(arrivals[1].position, 1);
  EXPECT_LT(arrivals[2].communicator, first_nccl_key);
}

TEST(Extraction, ACategoryIsALaneWhateverTheStream) {
  Builder b;
  b.traced(NcclFunction::all_reduce, 100, 120, 2, "tp");
  b.kernel(all_reduce_kernel, 200, 300, b.launch(110));
  b.traced(NcclFunction::all_reduce, 130, 150, 1);
  b.kernel(all_reduce_kernel, 310, 320, b.launch(140));
  b.kernel(all_reduce_kernel, 330, 340, 77);  // whose call was not recorded
  b.traced(NcclFunction::all_reduce, 160, 180, 2, "tp");
  b.kernel(all_reduce_kernel, 400, 500, b.launch(170), 9);
  const auto arrivals = b.extract()[0].arrivals;
  ASSERT_EQ(arrivals.size(), 4U);
  EXPECT_EQ(arrivals[0].communicator, first_category_key + 2);
  EXPECT_EQ(arrivals[0].evidence, Evidence::order);
  EXPECT_EQ(arrivals[1].communicator, first_category_key + 1);
  EXPECT_EQ(arrivals[2].communicator, first_category_key + 1) << "of its stream's";
  EXPECT_EQ(arrivals[3].communicator, first_category_key + 2);
  EXPECT_EQ(arrivals[3].position, 1);
  const std::map<std::uint64_t, std::string> names{{first_category_key + 2, "tp"}};
  EXPECT_EQ(communicator_names(b.trace, b.process()), names);
}

TEST(Extraction, ACategoryDoesNotReplaceTheHash) {
  Builder b;
  b.traced(NcclFunction::all_reduce, 100, 120, 1, "tp");
  b.process().nccl_calls.back().communicator = world;
  b.kernel(all_reduce_kernel, 200, 300, b.launch(110));
  EXPECT_EQ(b.extract()[0].arrivals[0].communicator, world);
  EXPECT_EQ(b.extract()[0].arrivals[0].evidence, Evidence::nccl_payload);
  EXPECT_EQ(communicator_names(b.trace, b.process()).at(world), "tp");
}

TEST(Extraction, CallsShownOnceMoreAsTheyAreRunCountOnce) {
  // Without payload nothing but the place of the second range tells that it is no other call.
  Builder b;
  b.nccl(NcclFunction::group_start, 100, 190);
  for (const Nanoseconds start : {110, 150}) {  // as called, and as run by what launches the group
    if (start == 150) b.nccl(NcclFunction::group_end, 140, 190);
    b.traced(NcclFunction::send, start, start + 4, 1);
    b.traced(NcclFunction::recv, start + 5, start + 9, 1);
  }
  b.kernel(send_recv_kernel, 200, 300, b.launch(157));
  const auto arrivals = b.extract()[0].arrivals;
  ASSERT_EQ(arrivals.size(), 1U);
  EXPECT_EQ(arrivals[0].communicator, first_category_key + 1);
  EXPECT_EQ(arrivals[0].directions, Directions::both) << "both calls, not the one around the launch";
}

TEST(Extraction, OrphanDoesWhatKernelsOfItsNameDoThere) {
  Builder b;
  b.kernel(send_recv_kernel, 20, 30, 77);
  b.range("nccl:all_to_all", 90, 130);
  b.nccl(NcclFunction::group_start, 100, 101);
  b.nccl(NcclFunction::send, 102, 103, world, 1000, 1);
  b.nccl(NcclFunction::recv, 104, 105, world, 1000, 1);
  b.nccl(NcclFunction::send, 106, 107, world, 1000, 2);
  b.nccl(NcclFunction::recv, 108, 109, world, 1000, 2);
  b.nccl(NcclFunction::group_end, 110, 120);
  b.kernel(send_recv_kernel, 200, 300, b.launch(112));
  const auto arrivals = b.extract()[0].arrivals;
  ASSERT_EQ(arrivals.size(), 2U);
  EXPECT_EQ(arrivals[0].operation, Operation::all_to_all);
  EXPECT_EQ(arrivals[0].communicator, world);
}

TEST(Extraction, OrphanBetweenTwoCommunicatorsStaysAlone) {
  Builder b;
  b.nccl(NcclFunction::all_reduce, 100, 120, world, 4096);
  b.kernel(all_reduce_kernel, 200, 300, b.launch(110));
  b.kernel(all_reduce_kernel, 320, 330, 77);
  b.nccl(NcclFunction::all_reduce, 400, 420, pair, 4096);
  b.kernel(all_reduce_kernel, 500, 600, b.launch(410));
  EXPECT_LT(b.extract()[0].arrivals[1].communicator, first_nccl_key);
  b.kernel(all_reduce_kernel, 620, 630, 78);
  EXPECT_EQ(b.extract()[0].arrivals[3].communicator, pair) << "made anew, and in use since";
  // Taking turns: whose the last one is cannot be told.
  b.nccl(NcclFunction::all_reduce, 700, 720, world, 4096);
  b.kernel(all_reduce_kernel, 800, 900, b.launch(710));
  EXPECT_LT(b.extract()[0].arrivals[3].communicator, first_nccl_key);
}

TEST(Extraction, GroupedSendsAndReceivesAreOneKernelPerCommunicator) {
  Builder b;
  b.nccl(NcclFunction::group_start, 100, 101);
  b.nccl(NcclFunction::send, 102, 103, world, 1000, 1);
  b.nccl(NcclFunction::recv, 104, 105, world, 1000, 1);
  b.nccl(NcclFunction::send, 106, 107, pair, 50, 0);
  b.nccl(NcclFunction::group_end, 110, 150);
  b.kernel(send_recv_kernel, 200, 300, b.launch(120), 7);
  b.kernel(send_recv_kernel, 201, 260, b.launch(130), 8);
  const auto arrivals = b.extract()[0].arrivals;
  ASSERT_EQ(arrivals.size(), 2U);
  EXPECT_EQ(arrivals[0].communicator, world);
  EXPECT_EQ(arrivals[0].call_bytes, 1000);
  EXPECT_EQ(arrivals[0].peer_or_root, 1);
  EXPECT_EQ(arrivals[0].operation, Operation::send_recv);
  EXPECT_EQ(arrivals[1].communicator, pair);
  EXPECT_EQ(arrivals[1].call_bytes, 50);
}

TEST(Extraction, NestedGroupsLaunchAtTheOutermostEnd) {
  Builder b;
  b.nccl(NcclFunction::group_start, 100, 101);
  b.nccl(NcclFunction::group_start, 102, 103);
  b.nccl(NcclFunction::send, 104, 105, world, 10, 1);
  b.nccl(NcclFunction::group_end, 106, 107);
  b.nccl(NcclFunction::send, 108, 109, world, 20, 2);
  b.nccl(NcclFunction::group_end, 110, 150);
  b.kernel(send_recv_kernel, 200, 300, b.launch(120));
  const auto arrivals = b.extract()[0].arrivals;
  ASSERT_EQ(arrivals.size(), 1U);
  EXPECT_EQ(arrivals[0].call_bytes, 30);
  EXPECT_EQ(arrivals[0].peer_or_root, several_peers) << "two peers";
}

TEST(Extraction, AllToAllOfPyTorchIsRecognisedByItsRange) {
  Builder b;
  b.range("nccl:all_to_all, op_id = 7", 90, 160);
  b.nccl(NcclFunction::group_start, 100, 101);
  for (int peer = 0; peer < 2; ++peer) {
    b.nccl(NcclFunction::send, 102 + 4 * peer, 103 + 4 * peer, world, 500, peer);
    b.nccl(NcclFunction::recv, 104 + 4 * peer, 105 + 4 * peer, world, 500, peer);
  }
  b.nccl(NcclFunction::group_end, 120, 150);
  b.kernel(send_recv_kernel, 200, 300, b.launch(130));
  const auto arrivals = b.extract()[0].arrivals;
  ASSERT_EQ(arrivals.size(), 1U);
  EXPECT_EQ(arrivals[0].operation, Operation::all_to_all);
  EXPECT_EQ(arrivals[0].call_bytes, 500) << "NCCL counts all-to-all per peer";
}

TEST(Extraction, GroupedCollectivesGoToTheirKernelsInLaunchOrder) {
  Builder b;
  b.nccl(NcclFunction::group_start, 100, 101);
  b.nccl(NcclFunction::all_reduce, 102, 103, world, 1000);
  b.nccl(NcclFunction::all_gather, 104, 105, pair, 50);
  b.nccl(NcclFunction::group_end, 110, 150);
  const auto first = b.launch(120), second = b.launch(130);
  b.kernel("ncclDevKernel_AllGather_RING_LL", 200, 260, second, 8);
  b.kernel(all_reduce_kernel, 205, 300, first, 7);
  const auto arrivals = b.extract()[0].arrivals;
  ASSERT_EQ(arrivals.size(), 2U);
  EXPECT_EQ(arrivals[0].operation, Operation::all_gather);
  EXPECT_EQ(arrivals[0].communicator, pair);
  EXPECT_EQ(arrivals[1].operation, Operation::all_reduce);
  EXPECT_EQ(arrivals[1].call_bytes, 1000);
}

TEST(Extraction, FusedCollectivesOfOneCommunicatorAddUp) {
  Builder b;
  b.nccl(NcclFunction::group_start, 100, 101);
  b.nccl(NcclFunction::all_reduce, 102, 103, world, 1000);
  b.nccl(NcclFunction::all_reduce, 104, 105, world, 24);
  b.nccl(NcclFunction::group_end, 110, 150);
  b.kernel(all_reduce_kernel, 200, 300, b.launch(120));
  const auto devices = b.extract();
  EXPECT_EQ(devices[0].fused.size(), 2U);
  EXPECT_EQ(devices[0].arrivals[0].call_bytes, 1024);
  EXPECT_EQ(devices[0].arrivals[0].operation, Operation::all_reduce);
}

TEST(Extraction, SeveralDevicesOfOneProcess) {
  Builder b;
  b.nccl(NcclFunction::group_start, 100, 101);
  b.nccl(NcclFunction::all_reduce, 102, 103, world, 1000);
  b.nccl(NcclFunction::all_reduce, 104, 105, world, 1000);
  b.nccl(NcclFunction::group_end, 110, 150);
  b.kernel(all_reduce_kernel, 200, 300, b.launch(120), 7, 0);
  b.kernel(all_reduce_kernel, 210, 301, b.launch(125), 7, 1);
  const auto devices = b.extract();
  ASSERT_EQ(devices.size(), 2U);
  for (const DeviceArrivals& device : devices) {
    ASSERT_EQ(device.arrivals.size(), 1U);
    EXPECT_EQ(device.arrivals[0].communicator, world);
    EXPECT_EQ(device.arrivals[0].call_bytes, 1000);
  }
}

TEST(Extraction, CaptureThatBeginsInsideAGroup) {
  Builder b;
  b.nccl(NcclFunction::send, 102, 103, world, 1000, 1);
  b.nccl(NcclFunction::group_end, 110, 150);
  b.kernel(send_recv_kernel, 200, 300, b.launch(120));
  const auto devices = b.extract();
  ASSERT_EQ(devices[0].arrivals.size(), 1U);
  EXPECT_EQ(devices[0].arrivals[0].evidence, Evidence::kernel_name);
}

TEST(Extraction, CopyEngineCollectiveIsProjectedFromItsCopies) {
  Builder b;
  b.nccl(NcclFunction::all_gather, 100, 150, world, 1000);
  b.device(0).memory_operations = {
      {.start_ns = 200, .end_ns = 250, .bytes = 1000, .correlation_id = b.launch(110), .stream_id = 9},
      {.start_ns = 210, .end_ns = 280, .bytes = 1000, .correlation_id = b.launch(120), .stream_id = 9},
      {.start_ns = 400, .end_ns = 500, .bytes = 1, .correlation_id = b.launch(300), .stream_id = 9}};
  const auto arrivals = b.extract()[0].arrivals;
  ASSERT_EQ(arrivals.size(), 1U);
  EXPECT_EQ(arrivals[0].timing_source, TimingSource::projection);
  EXPECT_EQ(arrivals[0].enter.ns, 200);
  EXPECT_EQ(arrivals[0].exit.ns, 280);
  EXPECT_EQ(arrivals[0].communicator, world);
}

TEST(Extraction, PositionsCountPerCommunicatorAndIndicesPerRank) {
  Builder b;
  for (int i = 0; i < 3; ++i) b.nccl(NcclFunction::all_reduce, 100 + 20 * i, 110 + 20 * i, i == 1 ? pair : world, 8);
  b.kernel(all_reduce_kernel, 1000, 1500, b.launch(105), 7);
  b.kernel(all_reduce_kernel, 1100, 1200, b.launch(125), 8);  // overlaps the first
  b.kernel(all_reduce_kernel, 1700, 1800, b.launch(145), 7);
  const auto arrivals = b.extract()[0].arrivals;
  ASSERT_EQ(arrivals.size(), 3U);
  for (std::int32_t i = 0; i < 3; ++i) EXPECT_EQ(arrivals[static_cast<std::size_t>(i)].index, i);
  EXPECT_EQ(arrivals[0].position, 0);
  EXPECT_EQ(arrivals[1].position, 0);
  EXPECT_EQ(arrivals[2].position, 1);
}

TEST(Extraction, LanesFollowStreamsInOrderOfFirstUse) {
  Builder b;
  b.kernel(all_reduce_kernel, 100, 150, 0, 42);
  b.kernel(all_reduce_kernel, 200, 250, 0, 13);
  b.kernel(all_reduce_kernel, 300, 350, 0, 42);
  const auto arrivals = b.extract()[0].arrivals;
  EXPECT_EQ(arrivals[0].communicator, 0U);
  EXPECT_EQ(arrivals[1].communicator, 1U);
  EXPECT_EQ(arrivals[2].communicator, 0U);
}

TEST(Memberships, EachOnceAndOnlyWhereTheyTellSomething) {
  Builder b;
  const auto add = [&](NcclFunction function, std::uint64_t communicator, std::int32_t rank, std::int32_t count) {
    b.nccl(function, 1, 2, communicator);
    b.process().nccl_calls.back().rank = rank;
    b.process().nccl_calls.back().rank_count = count;
  };
  add(NcclFunction::comm_init, world, 3, 8);
  add(NcclFunction::comm_destroy, world, 3, 8);
  add(NcclFunction::comm_init, 0, 1, 2);  // payload taken before the communicator existed
  add(NcclFunction::comm_split, pair, 0, 2);
  const auto memberships = communicator_memberships(b.process());
  ASSERT_EQ(memberships.size(), 2U);
  EXPECT_EQ(memberships[0].communicator, pair);
  EXPECT_EQ(memberships[1].rank, 3);
  EXPECT_EQ(memberships[1].rank_count, 8);
}

TEST(Extraction, ReplaysOfAGraphTakeThePayloadOfTheCallThatWasCaptured) {
  Builder b;
  b.nccl(NcclFunction::all_reduce, 100, 120, world, 4096);
  b.nccl(NcclFunction::all_gather, 200, 220, pair, 512);
  const std::uint64_t reduce = b.captured(5, 110), gather = b.captured(6, 210);
  for (const Nanoseconds start : {5'000, 6'000, 7'000}) {
    const std::uint32_t launch = b.launch(start - 100);
    b.replayed(all_reduce_kernel, start, start + 50, launch, reduce);
    b.replayed("ncclDevKernel_AllGather_RING_LL", start + 100, start + 150, launch, gather);
  }
  const DeviceArrivals device = b.extract()[0];
  ASSERT_EQ(device.arrivals.size(), 6U);
  for (std::size_t a = 0; a < 6; ++a) {
    const TraceArrival& arrival = device.arrivals[a];
    EXPECT_EQ(arrival.communicator, a % 2 == 0 ? world : pair);
    EXPECT_EQ(arrival.call_bytes, a % 2 == 0 ? 4096 : 512);
    EXPECT_EQ(arrival.position, static_cast<std::int32_t>(a / 2));
    EXPECT_EQ(arrival.evidence, Evidence::nccl_payload);
    EXPECT_EQ(arrival.timing_source, TimingSource::graph_node);
  }
  EXPECT_EQ(device.without_call, 0);
}

TEST(Extraction, ALostReplayDoesNotMoveTheCallsOfItsGroup) {
  Builder b;
  b.nccl(NcclFunction::group_start, 100, 101);
  b.nccl(NcclFunction::all_reduce, 102, 103, world, 1000);
  b.nccl(NcclFunction::all_gather, 104, 105, pair, 2000);
  b.nccl(NcclFunction::group_end, 106, 130);
  const std::uint64_t first = b.captured(5, 110), second = b.captured(6, 112);
  b.replayed("ncclDevKernel_Generic", 5'000, 5'050, b.launch(4'900), first);
  b.replayed("ncclDevKernel_Generic", 5'100, 5'150, 1, second);
  b.replayed("ncclDevKernel_Generic", 6'100, 6'150, b.launch(5'900), second);  // the other one of this launch is lost
  const auto arrivals = b.extract()[0].arrivals;
  ASSERT_EQ(arrivals.size(), 3U);
  EXPECT_EQ(arrivals[0].call_bytes, 1000);
  EXPECT_EQ(arrivals[1].call_bytes, 2000);
  EXPECT_EQ(arrivals[2].call_bytes, 2000);
  EXPECT_EQ(arrivals[2].communicator, pair);
}

TEST(Extraction, CopiesOfCopiesLeadToTheCapture) {
  Builder b;
  b.nccl(NcclFunction::all_reduce, 100, 120, world, 4096);
  const std::uint64_t copy = b.captured(5, 110);
  b.process().graph_nodes.push_back({2'000, copy + 1, copy, 2});
  b.replayed(all_reduce_kernel, 5'000, 5'050, b.launch(4'900), copy + 1);
  EXPECT_EQ(b.extract()[0].arrivals.at(0).communicator, world);
}

TEST(Extraction, AGraphWhoseCaptureWasNotRecordedTellsNothing) {
  Builder b;
  b.nccl(NcclFunction::all_reduce, 4'000, 4'100, world, 4096);  // around the graph's launch, by chance
  b.process().graph_nodes.push_back({10, 8, 9, 1});             // copies of each other: damaged
  b.process().graph_nodes.push_back({10, 9, 8, 1});
  const std::uint32_t launch = b.launch(4'050);
  b.replayed(all_reduce_kernel, 5'000, 5'050, launch, 77);
  b.replayed(all_reduce_kernel, 5'100, 5'150, launch, 8);
  const DeviceArrivals device = b.extract()[0];
  EXPECT_EQ(device.without_call, 2);
  EXPECT_EQ(device.replayed, 2);
  EXPECT_LT(device.arrivals.at(0).communicator, first_nccl_key);
}

}  // namespace
}  // namespace nsys_explain::collectives
