#include "collectives/host_messages.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "collectives/matching.hpp"
#include "nsys_explain/model/trace.hpp"

namespace nsys_explain::collectives {
namespace {

/// Calls of one thread on MPI_COMM_WORLD of MPICH.
class HostMessages : public ::testing::Test {
 protected:
  MpiCall& call(const std::string& name, Nanoseconds start_ns, Nanoseconds end_ns, std::int32_t peer = -1,
                std::int32_t tag = -1, std::uint64_t request = 0) {
    MpiCall& made = calls.emplace_back();
    made.start_ns = start_ns;
    made.end_ns = end_ns;
    made.root = peer;
    made.tag = tag;
    made.request = request;
    made.handle = peer >= 0 ? 0x44000000 : 0;
    made.name =
        static_cast<StringIndex>(std::find(trace.strings.begin(), trace.strings.end(), name) - trace.strings.begin());
    if (made.name == trace.strings.size()) trace.strings.push_back(name);
    return made;
  }

  using Row = std::tuple<std::string, Nanoseconds, Nanoseconds, std::int32_t, std::int32_t>;  // with peer and tag
  std::vector<Row> rows() const {
    std::vector<Row> result;
    for (const MpiCall& made : messages_in_a_row(trace, calls))
      result.emplace_back(trace.strings[made.name], made.start_ns, made.end_ns, made.root, made.tag);
    return result;
  }

  Trace trace;
  std::vector<MpiCall> calls;
};

TEST_F(HostMessages, CompletionsNameThePeersOfTheirReceives) {
  call("MPI_Irecv", 0, 5, 1, 7, 11);
  call("MPI_Isend", 10, 15, 3, 8, 12);
  call("MPI_Wait", 20, 90, -1, -1, 11);
  call("MPI_Wait", 100, 110, -1, -1, 12);
  EXPECT_EQ(rows(), (std::vector<Row>{
                        {"MPI_Isend", 10, 15, 3, 8}, {"MPI_Wait", 20, 90, 1, 7}, {"MPI_Wait", 100, 110, -1, -1}}));
}

TEST_F(HostMessages, ACallThatWaitsForSeveralHasAPartForEach) {
  call("MPI_Irecv", 0, 5, 1, 7, 11);
  call("MPI_Irecv", 10, 15, 3, 7, 12);
  call("MPI_Irecv", 20, 25, 2, 9, 13);
  for (const std::uint64_t request : {12, 13, 11}) call("MPI_Waitall", 30, 130, -1, -1, request);
  EXPECT_EQ(rows(),
            (std::vector<Row>{
                {"MPI_Waitall", 30, 122, 1, 7}, {"MPI_Waitall", 122, 126, 3, 7}, {"MPI_Waitall", 126, 130, 2, 9}}));
}

TEST_F(HostMessages, ABlockingCallNamesItsOwnPeer) {
  call("MPI_Send", 0, 5, 1, 7);
  call("MPI_Recv", 10, 15, 2, 7);
  call("MPI_Recv", 20, 25, -1, 7).handle = 0x44000000;  // MPI_ANY_SOURCE
  call("MPI_Allreduce", 30, 35).handle = 0x44000000;
  EXPECT_EQ(rows(), (std::vector<Row>{{"MPI_Send", 0, 5, 1, 7},
                                      {"MPI_Recv", 10, 15, 2, 7},
                                      {"MPI_Recv", 20, 25, -1, -1},
                                      {"MPI_Allreduce", 30, 35, -1, -1}}));
}

TEST_F(HostMessages, BothWaysWithOnePeerAreTold) {
  for (int i = 0; i < 2; ++i) call("MPI_Sendrecv", 0, 5, 1, 7);  // nsys has a row for each way
  call("MPI_Sendrecv", 10, 15, 1, 7);
  call("MPI_Sendrecv", 10, 15, 3, 7);
  EXPECT_EQ(rows(), (std::vector<Row>{{"MPI_Sendrecv", 0, 5, 1, 7}, {"MPI_Sendrecv", 10, 15, -1, -1}}));
}

TEST_F(HostMessages, TellNoPeerWhereRequestsCannotBeFollowed) {
  call("MPI_Irecv", 0, 5, 1, 7, 11);
  call("MPI_Irecv", 10, 15, 2, 7, 11);  // what ended the one before was not seen
  call("MPI_Isend", 16, 18, 2, 7, 12);
  call("MPI_Waitall", 20, 90, -1, -1, 11);
  call("MPI_Waitall", 20, 90, -1, -1, 12);
  EXPECT_EQ(rows(), (std::vector<Row>{{"MPI_Waitall", 20, 90, -1, -1}}));
}

TEST_F(HostMessages, PersistentRequestsAreFollowedFromStartToStart) {
  call("MPI_Recv_init", 0, 1, 1, 7, 11);
  call("MPI_Send_init", 2, 3, 3, 8, 12);
  call("MPI_Ssend_init", 4, 5, 2, 9, 13);
  for (const Nanoseconds step : {100, 200}) {
    for (const std::uint64_t request : {11, 12, 13}) call("MPI_Startall", step, step + 20, -1, -1, request);
    for (const std::uint64_t request : {11, 12, 13}) call("MPI_Waitall", step + 30, step + 90, -1, -1, request);
  }
  std::vector<Row> expected;
  for (const Nanoseconds step : {100, 200}) {
    expected.emplace_back("MPI_Send_init", step, step + 16, 3, 8);
    expected.emplace_back("MPI_Ssend_init", step + 16, step + 20, 2, 9);
    expected.emplace_back("MPI_Waitall", step + 30, step + 90, 1, 7);
  }
  EXPECT_EQ(rows(), expected);
  EXPECT_EQ(direction_of_call("MPI_Send_init"), Directions::sends);
  EXPECT_EQ(direction_of_call("MPI_Recv_init"), Directions::unknown) << "it is completed by another call";
  call("MPI_Start", 300, 310, -1, -1, 14);  // made before the recording
  for (const Row& row : rows()) EXPECT_EQ(std::get<3>(row), -1);
}

TEST_F(HostMessages, TellNoPeerWithoutHandles) {
  call("MPI_Irecv", 0, 5, 1, 7);
  call("MPI_Isend", 10, 15, 2, 7);
  call("MPI_Waitall", 20, 90);
  EXPECT_EQ(rows(), (std::vector<Row>{{"MPI_Waitall", 20, 90, -1, -1}}));
}

TEST_F(HostMessages, TellNoPeerWhereReceivesEndInAnotherOrder) {
  call("MPI_Irecv", 0, 5, 1, 7, 11);
  call("MPI_Irecv", 10, 15, 1, 7, 12);
  call("MPI_Wait", 20, 30, -1, -1, 12);
  call("MPI_Wait", 40, 50, -1, -1, 11);
  EXPECT_EQ(rows(), (std::vector<Row>{{"MPI_Wait", 20, 30, -1, -1}, {"MPI_Wait", 40, 50, -1, -1}}));
}

TEST_F(HostMessages, TellNoPeerInOneOfSeveralCommunicators) {
  call("MPI_Recv", 0, 5, 1, 7).handle = 0x7F01;
  call("MPI_Recv", 10, 15, 1, 7).handle = 0x7F02;
  EXPECT_EQ(rows(), (std::vector<Row>{{"MPI_Recv", 0, 5, -1, -1}, {"MPI_Recv", 10, 15, -1, -1}}));
  calls.back().handle = 0x7F01;
  EXPECT_EQ(std::get<3>(rows().front()), 1) << "the only communicator is that of all ranks";
}

/// Messages of hosts as they are matched, on one clock.
class MatchedMessages : public ::testing::Test {
 protected:
  JobArrival& add(std::int32_t rank, Directions directions, std::int32_t peer, Nanoseconds enter_ns,
                  Nanoseconds exit_ns, std::uint32_t tag = 7) {
    JobArrival& a = arrivals.emplace_back();
    a.trace_rank = rank;
    a.position = a.index = next_position[rank]++;
    a.enter = JobTime(enter_ns);
    a.exit = JobTime(exit_ns);
    a.communicator = first_nccl_key;
    a.operation = Operation::send_recv;
    a.directions = directions;
    a.peer_or_root = peer;
    a.kernel_name_hash = tag;
    a.timing_source = TimingSource::host_call;
    a.evidence = Evidence::mpi_call;
    return a;
  }

  /// Each pair as rank and index of one, then of the other.
  std::vector<std::vector<int>> pairs() const {
    PlannedCommunicator planned;
    planned.trace_ranks = planned.ranks = {0, 1, 2};
    planned.size = 3;
    planned.equal_sequences = false;
    const MatchedBlock block = match_unit({0, 0, 99, 0}, planned, arrivals, {.time_scale_ns = 10});
    std::vector<std::vector<int>> found;
    for (const Instance& instance : block.instances) {
      std::vector<int>& pair = found.emplace_back();
      for (const InstanceArrival& member : members_of(block, instance)) {
        pair.push_back(member.trace_rank);
        pair.push_back(member.index);
      }
    }
    std::sort(found.begin(), found.end());
    return found;
  }

  std::vector<JobArrival> arrivals;
  std::map<std::int32_t, std::int32_t> next_position;
};

TEST_F(MatchedMessages, OfATagDoNotOvertakeEachOther) {
  // The first two that rank 0 sends go by other tags than its third; rank 1 receives that one first.
  add(0, Directions::sends, 1, 100, 110, 7);
  add(0, Directions::sends, 1, 200, 210, 7);
  add(0, Directions::sends, 1, 300, 310, 8);
  add(1, Directions::receives, 0, 50, 350, 8);
  add(1, Directions::receives, 0, 400, 410, 7);
  add(1, Directions::receives, 0, 500, 510, 7);
  EXPECT_EQ(pairs(), (std::vector<std::vector<int>>{{0, 0, 1, 1}, {0, 1, 1, 2}, {0, 2, 1, 0}}));
}

TEST_F(MatchedMessages, ACompletionWaitsForTheLastThatWasSent) {
  add(0, Directions::sends, 1, 100, 110);
  add(1, Directions::receives, 0, 50, 940);
  add(1, Directions::receives, 2, 940, 950).continues = true;
  add(2, Directions::sends, 1, 900, 910);
  EXPECT_EQ(pairs(), (std::vector<std::vector<int>>{{0, 0, 1, 1}, {1, 0, 2, 0}}));
}

TEST_F(MatchedMessages, OfACompletionAreNotToldWhereOneOfThemIsUnknown) {
  add(0, Directions::sends, 1, 100, 110);
  add(1, Directions::receives, 0, 50, 940);
  add(1, Directions::receives, 2, 940, 950).continues = true;
  EXPECT_TRUE(pairs().empty());
}

TEST_F(MatchedMessages, OfADirectionAreNotToldWhereSomeAreLost) {
  add(0, Directions::sends, 1, 100, 110);
  add(0, Directions::sends, 1, 200, 210);
  add(1, Directions::receives, 0, 50, 340);
  EXPECT_TRUE(pairs().empty());
}

TEST_F(MatchedMessages, AreNotReceivedBeforeTheyAreSent) {
  add(0, Directions::sends, 1, 500, 510);
  add(1, Directions::receives, 0, 50, 340);
  EXPECT_TRUE(pairs().empty());
}

}  // namespace
}  // namespace nsys_explain::collectives
