// The communicator of one rank: the same contract as under MPI (tests/mpi/exchange_test.cpp), without MPI.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "exchange/agree.hpp"
#include "exchange/communicator.hpp"

namespace nsys_explain::exchange {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct Parcel {
  std::int64_t number;
  char letter;

  bool operator==(const Parcel&) const = default;
};

const std::vector<Parcel> kParcels = {{1, 'a'}, {2, 'b'}, {3, 'c'}};

TEST(SerialCommunicator, IsRankZeroOfOne) {
  const Communicator communicator = Communicator::serial();
  EXPECT_EQ(communicator.rank(), 0);
  EXPECT_EQ(communicator.size(), 1);
  EXPECT_TRUE(communicator.is_root());
  communicator.barrier();
}

TEST(SerialCommunicator, EveryTransferReturnsTheRecords) {
  const Communicator communicator = Communicator::serial();
  const std::span<const Parcel> mine = kParcels;
  for (const Gathered<Parcel>& received :
       {communicator.all_gather(mine), communicator.gather(mine), communicator.all_to_all<Parcel>({kParcels})}) {
    EXPECT_EQ(received.values, kParcels);
    EXPECT_THAT(received.offsets, ElementsAre(0, 3));
    EXPECT_EQ(received.of(0).size(), 3);
  }
  EXPECT_EQ(communicator.broadcast(mine), kParcels);
}

TEST(SerialCommunicator, TransfersOfNothing) {
  const Communicator communicator = Communicator::serial();
  EXPECT_THAT(communicator.all_gather(std::span<const Parcel>()).of(0), IsEmpty());
  EXPECT_THAT(communicator.gather(std::span<const Parcel>()).of(0), IsEmpty());
  EXPECT_THAT(communicator.all_to_all<Parcel>({{}}).of(0), IsEmpty());
  EXPECT_THAT(communicator.broadcast(std::span<const Parcel>()), IsEmpty());
}

TEST(SerialCommunicator, ReductionsReturnTheValues) {
  const Communicator communicator = Communicator::serial();
  const std::vector<std::int64_t> mine = {3, -1, INT64_MAX};
  EXPECT_EQ(communicator.sum(mine), mine);
  EXPECT_EQ(communicator.maximum(mine), mine);
  EXPECT_EQ(communicator.sum(std::int64_t{5}), 5);
  EXPECT_EQ(communicator.maximum(std::int64_t{-5}), -5);
}

TEST(SerialCommunicator, Text) {
  const Communicator communicator = Communicator::serial();
  EXPECT_THAT(communicator.all_gather_text("host a"), ElementsAre("host a"));
  EXPECT_THAT(communicator.all_gather_text(""), ElementsAre(""));
}

TEST(SerialCommunicatorDeathTest, AbortGivesItsExitCode) {
  EXPECT_EXIT(Communicator::serial().abort(5), testing::ExitedWithCode(5), "");
}

TEST(SerialCommunicatorDeathTest, AllToAllNeedsOnePartPerRank) {
  EXPECT_EXIT((void)Communicator::serial().all_to_all<Parcel>({}), testing::ExitedWithCode(1),
              "all_to_all was given 0 parts for 1 ranks");
}

TEST(Gathered, OfARankThatReceivedNothingIsEmpty) {
  EXPECT_THAT(Gathered<Parcel>().of(3), IsEmpty());
}

TEST(RunAgreed, PassesSuccess) {
  int runs = 0;
  run_agreed(Communicator::serial(), "count", [&] { ++runs; });
  EXPECT_EQ(runs, 1);
}

TEST(RunAgreed, NamesPhaseAndMessage) {
  try {
    run_agreed(Communicator::serial(), "write results", [] { throw std::runtime_error("disk full"); });
    FAIL() << "nothing was thrown";
  } catch (const AgreedFailure& failure) {
    EXPECT_STREQ(failure.what(), "write results: disk full");
  }
}

}  // namespace
}  // namespace nsys_explain::exchange
