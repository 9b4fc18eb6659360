#include "collectives/host_calls.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "collectives/classification.hpp"
#include "unit/add_kernel.hpp"

namespace nsys_explain::collectives {
namespace {

constexpr std::uint64_t mpich_world = 0x44000000;

/// A process with one kernel of 10 ns on each of two devices, two on the second.
class HostCalls : public ::testing::Test {
 protected:
  HostCalls() {
    trace.strings = {"", "compute"};
    trace.processes.emplace_back().devices.resize(2);
    kernel(0, 0, 1);
    kernel(1, 0, 2);
    kernel(1, 100, 3);
    process().api_calls.push_back({0, 5, 1, 7, 1, 0, 0});
  }

  ProcessTrace& process() { return trace.processes.front(); }

  void kernel(std::size_t device, Nanoseconds start_ns, std::uint32_t id, const std::string& name = "compute") {
    KernelKind& kind = nsys_explain::testing::add_kernel(process().devices[device], start_ns, start_ns + 10, id);
    kind.short_name = kind.demangled_name = index_of(name);
  }

  MpiCall& call(const std::string& name, Nanoseconds start_ns, Nanoseconds end_ns, std::uint64_t handle = mpich_world) {
    MpiCall& made = process().mpi_calls.emplace_back();
    made.start_ns = start_ns;
    made.end_ns = end_ns;
    made.handle = handle;
    made.thread_id = 1;
    made.name = index_of(name);
    return made;
  }

  StringIndex index_of(const std::string& name) {
    const auto found = std::find(trace.strings.begin(), trace.strings.end(), name);
    if (found != trace.strings.end()) return static_cast<StringIndex>(found - trace.strings.begin());
    trace.strings.push_back(name);
    return static_cast<StringIndex>(trace.strings.size() - 1);
  }

  std::optional<ProcessTrace> with_kernels() { return with_kernels_of_calls(trace, process(), KernelClasses(trace)); }

  std::vector<TraceArrival> arrivals() { return arrivals_of_calls(trace, with_kernels().value())[1].arrivals; }

  Trace trace;
};

TEST(MpiFunctions, AreOperations) {
  EXPECT_EQ(operation_of_mpi("MPI_Allreduce"), Operation::all_reduce);
  EXPECT_EQ(operation_of_mpi("MPI_Reduce_scatter_block"), Operation::reduce_scatter);
  EXPECT_EQ(operation_of_mpi("MPI_Reduce"), Operation::reduce);
  EXPECT_EQ(operation_of_mpi("MPI_Alltoallw"), Operation::all_to_all);
  EXPECT_EQ(operation_of_mpi("MPI_Allgatherv"), Operation::all_gather);
  EXPECT_EQ(operation_of_mpi("MPI_Gatherv"), Operation::gather);
  EXPECT_EQ(operation_of_mpi("MPI_Scatterv"), Operation::scatter);
  EXPECT_EQ(operation_of_mpi("MPI_Bcast"), Operation::broadcast);
  EXPECT_EQ(operation_of_mpi("MPI_Barrier"), Operation::barrier);
  for (const char* name : {"MPI_Send", "MPI_Ssend", "MPI_Bsend", "MPI_Rsend", "MPI_Sendrecv", "MPI_Recv", "MPI_Mrecv",
                           "MPI_Probe", "MPI_Wait", "MPI_Waitall"})
    EXPECT_EQ(operation_of_mpi(name), Operation::send_recv) << name;
  for (const char* name : {"MPI_Scan", "MPI_Exscan", "MPI_Neighbor_alltoall"})
    EXPECT_EQ(operation_of_mpi(name), Operation::unknown) << name;
}

TEST_F(HostCalls, AreKernelsOfTheDeviceWithMostKernels) {
  call("MPI_Allreduce", 20, 60);
  call("MPI_Barrier", 130, 150);
  const std::optional<ProcessTrace> with = with_kernels();
  ASSERT_TRUE(with);
  EXPECT_EQ(with->devices[0].kernels.size(), 1U);
  const DeviceTrace& device = with->devices[1];
  ASSERT_EQ(device.kernels.size(), 4U);
  EXPECT_EQ(device.kernels[1].start_ns, 20);
  EXPECT_EQ(device.kernels[1].end_ns, 60);
  EXPECT_EQ(device.kernels[3].start_ns, 130);
  EXPECT_EQ(device.kind_of(device.kernels[1]).stream_id, device.kind_of(device.kernels[3]).stream_id);
  EXPECT_NE(device.kind_of(device.kernels[1]).stream_id, device.kind_of(device.kernels[0]).stream_id);
  // By a call of the same times, with a number that no other call has.
  ASSERT_EQ(with->api_calls.size(), 3U);
  EXPECT_EQ(with->api_calls[1].correlation_id, device.kernels[1].correlation_id);
  EXPECT_EQ(with->api_calls[1].correlation_id, 8U);
  EXPECT_EQ(with->api_calls[1].end_ns, 60);
  EXPECT_EQ(KernelClasses(trace).communication_kinds(device), (std::vector<bool>{false, false, true, true}));
}

TEST_F(HostCalls, AreNoneWhereKernelsCommunicate) {
  call("MPI_Allreduce", 20, 60);
  kernel(0, 200, 4, "ncclDevKernel_AllReduce_Sum_f32_RING_LL");
  EXPECT_FALSE(with_kernels());
}

TEST_F(HostCalls, AreNoneWithoutCalls) {
  EXPECT_FALSE(with_kernels());
}

TEST_F(HostCalls, AreThoseOfOneThreadOneAtATime) {
  call("MPI_Allreduce", 20, 60);
  call("MPI_Barrier", 30, 40);  // within the first
  call("MPI_Bcast", 50, 90).thread_id = 2;
  EXPECT_EQ(with_kernels()->mpi_calls.size(), 1U);
}

TEST_F(HostCalls, AreArrivals) {
  call("MPI_Allreduce", 20, 60).bytes = 8;
  call("MPI_Bcast", 130, 150).root = 3;
  const std::vector<TraceArrival> found = arrivals();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].operation, Operation::all_reduce);
  EXPECT_EQ(found[0].call_bytes, 8);
  EXPECT_EQ(found[0].work_ns, no_time);
  EXPECT_EQ(found[1].operation, Operation::broadcast);
  EXPECT_EQ(found[1].enter.ns, 130);
  EXPECT_EQ(found[1].exit.ns, 150);
  EXPECT_EQ(found[1].work_ns, 70);
  EXPECT_EQ(found[1].peer_or_root, 3);
  EXPECT_EQ(found[1].index, 1);
  EXPECT_EQ(found[1].position, 1);
  EXPECT_EQ(found[1].evidence, Evidence::mpi_call);
  EXPECT_EQ(found[1].timing_source, TimingSource::host_call);
}

TEST_F(HostCalls, KnowTheCommunicatorByItsRecordedId) {
  call("MPI_Allreduce", 20, 30, 0xAAAA).communicator = 0x123456789ABC;
  call("MPI_Allreduce", 40, 50, 0xBBBB).communicator = 5;
  call("MPI_Allreduce", 60, 70, 0xCCCC).communicator = 5;
  const std::vector<TraceArrival> found = arrivals();
  EXPECT_EQ(found[0].communicator, 0x123456789ABCU);
  EXPECT_TRUE(names_communicator(found[1].communicator));
  EXPECT_EQ(found[1].communicator, found[2].communicator);
}

TEST_F(HostCalls, KnowTheCommunicatorOfAllRanksByItsHandle) {
  call("MPI_Allreduce", 20, 30, mpich_world);
  call("MPI_Allreduce", 40, 50, 0xBBBB);
  call("MPI_Allreduce", 60, 70, 0xCCCC);
  const std::vector<TraceArrival> found = arrivals();
  EXPECT_TRUE(names_communicator(found[0].communicator));
  // What the others are is told by times, as of streams.
  EXPECT_LT(found[1].communicator, withheld_key);
  EXPECT_LT(found[2].communicator, withheld_key);
  EXPECT_NE(found[1].communicator, found[2].communicator);
}

TEST_F(HostCalls, TakeTheOnlyCommunicatorForThatOfAllRanks) {
  call("MPI_Allreduce", 20, 30, 0x7F00DEADBEEF);  // an address, as in Open MPI
  const std::uint64_t of_address = arrivals().front().communicator;
  process().mpi_calls.clear();
  call("MPI_Allreduce", 20, 30, mpich_world);
  EXPECT_EQ(of_address, arrivals().front().communicator);
}

TEST_F(HostCalls, KeepMessagesApartFromCollectives) {
  call("MPI_Allreduce", 20, 30);
  call("MPI_Waitall", 40, 50, 0);
  call("MPI_Allreduce", 60, 70);
  const std::vector<TraceArrival> found = arrivals();
  EXPECT_EQ(found[1].operation, Operation::send_recv);
  EXPECT_NE(found[1].communicator, found[0].communicator);
  EXPECT_EQ(found[2].position, 1);
  EXPECT_EQ(found[2].work_ns, 10);
}

}  // namespace
}  // namespace nsys_explain::collectives
