// Every function of Communicator at the number of ranks on the test's name (exchange.np1 .. np5), once with MPI's usual
// long messages and once with messages cut into pieces of 1, 7 and 64 bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "exchange/agree.hpp"
#include "exchange/communicator.hpp"
#include "exchange/transport.hpp"
#include "mpi/mpi_test.hpp"

namespace nsys_explain::exchange {
namespace {

using mpi_test::world;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::IsEmpty;

/// 24 bytes, so that pieces of 7 and 64 bytes cut through the middle of a record.
struct Parcel {
  std::int64_t sender;
  std::int64_t receiver;
  std::int64_t number;

  bool operator==(const Parcel&) const = default;
};

std::vector<Parcel> parcels(int sender, int receiver, int count) {
  std::vector<Parcel> result;
  result.reserve(static_cast<std::size_t>(count));
  for (int number = 0; number < count; ++number) result.push_back({sender, receiver, number});
  return result;
}

void append(std::vector<Parcel>& all, const std::vector<Parcel>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

template <class T>
std::span<const T> view(const std::vector<T>& values) {
  return values;
}

class ExchangeTest : public testing::TestWithParam<std::size_t> {
 protected:
  Communicator communicator{make_mpi_transport(GetParam())};
  int rank = communicator.rank();
  int size = communicator.size();
};

INSTANTIATE_TEST_SUITE_P(PieceBytes, ExchangeTest, testing::Values(1, 7, 64, kPieceBytes),
                         testing::PrintToStringParamName());

TEST_P(ExchangeTest, RanksAreThoseOfTheWorld) {
  EXPECT_EQ(rank, world().rank());
  EXPECT_EQ(size, world().size());
  EXPECT_EQ(communicator.is_root(), world().rank() == 0);
  EXPECT_EQ(world().sum(std::int64_t{1}), size);
  communicator.barrier();
}

TEST_P(ExchangeTest, AllGatherKeepsRankOrderAndUnevenLengths) {
  // Rank r contributes r parcels: rank 0 nothing.
  const auto all = communicator.all_gather(view(parcels(rank, 0, rank)));
  std::vector<Parcel> expected;
  for (int r = 0; r < size; ++r) append(expected, parcels(r, 0, r));
  EXPECT_EQ(all.values, expected);
  ASSERT_EQ(all.offsets.size(), static_cast<std::size_t>(size) + 1);
  for (int r = 0; r < size; ++r) EXPECT_THAT(all.of(r), ElementsAreArray(parcels(r, 0, r)));
}

TEST_P(ExchangeTest, AllGatherOfNothing) {
  const auto all = communicator.all_gather(std::span<const Parcel>());
  EXPECT_THAT(all.values, IsEmpty());
  EXPECT_THAT(all.offsets, ElementsAreArray(std::vector<std::size_t>(static_cast<std::size_t>(size) + 1, 0)));
}

TEST_P(ExchangeTest, GatherReachesRankZeroOnly) {
  // The last rank has by far the most, the others one each.
  const auto count = [&](int r) { return r == size - 1 ? 50 : 1; };
  const auto received = communicator.gather(view(parcels(rank, 0, count(rank))));
  if (rank != 0) {
    EXPECT_THAT(received.values, IsEmpty());
    EXPECT_THAT(received.of(0), IsEmpty());
    return;  // no collective call follows
  }
  for (int r = 0; r < size; ++r) EXPECT_THAT(received.of(r), ElementsAreArray(parcels(r, 0, count(r))));
}

TEST_P(ExchangeTest, GathersInARowDoNotMix) {
  for (int round = 0; round < 5; ++round) {
    const auto received = communicator.gather(view(parcels(rank, round, 3 - round % 3)));
    for (int r = 0; r < size && rank == 0; ++r) {
      EXPECT_THAT(received.of(r), ElementsAreArray(parcels(r, round, 3 - round % 3)));
    }
  }
}

TEST_P(ExchangeTest, GatherOfNothing) {
  EXPECT_THAT(communicator.gather(std::span<const int>()).values, IsEmpty());
}

TEST_P(ExchangeTest, AllToAllDeliversToTheRightRank) {
  // Sender s sends (3 s + r) % 4 parcels to r: uneven, and 0 for some pairs, different in both directions.
  const auto count = [](int sender, int receiver) { return (3 * sender + receiver) % 4; };
  std::vector<std::vector<Parcel>> outgoing(static_cast<std::size_t>(size));
  for (int r = 0; r < size; ++r) outgoing[r] = parcels(rank, r, count(rank, r));
  const auto incoming = communicator.all_to_all(std::move(outgoing));
  for (int s = 0; s < size; ++s) EXPECT_THAT(incoming.of(s), ElementsAreArray(parcels(s, rank, count(s, rank))));
}

TEST_P(ExchangeTest, AllToAllWhereEverythingGoesToOneRank) {
  std::vector<std::vector<Parcel>> outgoing(static_cast<std::size_t>(size));
  outgoing.back() = parcels(rank, size - 1, 100);
  const auto incoming = communicator.all_to_all(std::move(outgoing));
  std::vector<Parcel> expected;
  if (rank == size - 1) {
    for (int s = 0; s < size; ++s) append(expected, parcels(s, rank, 100));
  }
  EXPECT_EQ(incoming.values, expected);
}

TEST_P(ExchangeTest, AllToAllInRoundsOverwritesWhatWasReceivedAndKeepsWhatWasSent) {
  exchange::Gathered<Parcel> received;
  for (const int count : {5, 0, 9, 2}) {
    std::vector<std::vector<Parcel>> outgoing(static_cast<std::size_t>(size));
    for (int r = 0; r < size; ++r) outgoing[r] = parcels(rank, r, count + rank);
    const std::vector<std::vector<Parcel>> sent = outgoing;
    communicator.all_to_all(outgoing, received);
    EXPECT_EQ(outgoing, sent);
    std::size_t all = 0;
    for (int s = 0; s < size; ++s) {
      EXPECT_THAT(received.of(s), ElementsAreArray(parcels(s, rank, count + s)));
      all += static_cast<std::size_t>(count + s);
    }
    EXPECT_EQ(received.values.size(), all);
  }
}

TEST_P(ExchangeTest, AllToAllOfNothing) {
  const std::vector<std::vector<Parcel>> outgoing(static_cast<std::size_t>(size));
  EXPECT_THAT(communicator.all_to_all(std::move(outgoing)).values, IsEmpty());
}

TEST_P(ExchangeTest, BroadcastTakesRankZerosRecords) {
  // The others bring something of another length: it must not count.
  const auto received = communicator.broadcast(view(parcels(rank, 7, rank == 0 ? 20 : rank)));
  EXPECT_EQ(received, parcels(0, 7, 20));
  EXPECT_THAT(communicator.broadcast(view(parcels(rank, 7, rank))), IsEmpty());
}

TEST_P(ExchangeTest, SumIsElementWise) {
  std::vector<std::int64_t> mine(20);
  std::iota(mine.begin(), mine.end(), std::int64_t{1000} * rank);
  // Element i: sum over r of (1000 r + i) = 500 size (size - 1) + size i.
  std::vector<std::int64_t> expected(20);
  for (int i = 0; i < 20; ++i) expected[i] = std::int64_t{500} * size * (size - 1) + std::int64_t{size} * i;
  EXPECT_EQ(communicator.sum(mine), expected);
  EXPECT_EQ(communicator.sum(std::int64_t{rank}), std::int64_t{size} * (size - 1) / 2);
  EXPECT_THAT(communicator.sum(std::span<const std::int64_t>()), IsEmpty());
}

TEST_P(ExchangeTest, SumIsExactAboveTwoToTheFiftyThird) {
  const std::int64_t large = (std::int64_t{1} << 53) + 1;  // not a double
  EXPECT_EQ(communicator.sum(large), large * size);
}

TEST_P(ExchangeTest, MaximumIsElementWise) {
  const std::vector<std::int64_t> mine = {rank, -rank, -5};
  EXPECT_THAT(communicator.maximum(mine), ElementsAre(size - 1, 0, -5));
  EXPECT_EQ(communicator.maximum(std::int64_t{-100} - rank), -100);
}

TEST_P(ExchangeTest, TextOfEveryRank) {
  // Rank r says r times "ab": rank 0 nothing.
  std::string mine;
  for (int i = 0; i < rank; ++i) mine += "ab";
  std::vector<std::string> expected(static_cast<std::size_t>(size));
  for (int r = 1; r < size; ++r) expected[r] = expected[r - 1] + "ab";
  EXPECT_EQ(communicator.all_gather_text(mine), expected);
}

constexpr std::size_t kManyNumbers = 131072;

/// True where `part` is rank `sender`'s whole contribution.
bool is_from(std::span<const std::int64_t> part, int sender) {
  for (std::size_t i = 0; i < part.size(); ++i) {
    if (part[i] != (std::int64_t{sender} << 32) + static_cast<std::int64_t>(i)) return false;
  }
  return part.size() == kManyNumbers;
}

/// One MiB per rank: far beyond what MPI sends without asking the receiver first.
TEST(LargeExchangeTest, ArrivesWholeInOneAndInManyPieces) {
  for (const std::size_t piece_bytes : {std::size_t{1000}, kPieceBytes}) {
    const Communicator communicator(make_mpi_transport(piece_bytes));
    std::vector<std::int64_t> mine(kManyNumbers);
    std::iota(mine.begin(), mine.end(), std::int64_t{communicator.rank()} << 32);

    const auto all = communicator.all_gather(view(mine));
    const auto gathered = communicator.gather(view(mine));
    const auto incoming = communicator.all_to_all(
        std::vector<std::vector<std::int64_t>>(static_cast<std::size_t>(communicator.size()), mine));
    for (int r = 0; r < communicator.size(); ++r) {
      EXPECT_TRUE(is_from(all.of(r), r));
      EXPECT_EQ(is_from(gathered.of(r), r), communicator.is_root());
      EXPECT_TRUE(is_from(incoming.of(r), r));
    }
    EXPECT_TRUE(is_from(communicator.broadcast(view(mine)), 0));
  }
}

/// What run_agreed throws where the ranks in `failing` fail; empty where it does not throw.
std::string agreed_failure(const Communicator& communicator, const std::vector<int>& failing) {
  try {
    run_agreed(communicator, "read traces", [&] {
      if (std::find(failing.begin(), failing.end(), communicator.rank()) != failing.end()) {
        throw std::runtime_error("no file " + std::to_string(communicator.rank()));
      }
    });
  } catch (const AgreedFailure& failure) {
    return failure.what();
  }
  return "";
}

TEST_P(ExchangeTest, AgreementWithoutFailureRunsTheWorkOnce) {
  int runs = 0;
  run_agreed(communicator, "count", [&] { ++runs; });
  EXPECT_EQ(runs, 1);
}

TEST_P(ExchangeTest, AgreementOnAFailureOfOneRank) {
  const int last = size - 1;
  const std::string text = agreed_failure(communicator, {last});
  EXPECT_EQ(text, size == 1 ? "read traces: no file 0"
                            : "read traces: tool rank " + std::to_string(last) + ": no file " + std::to_string(last));
  EXPECT_EQ(world().sum(std::int64_t{1}), size);  // the ranks still work together
}

TEST_P(ExchangeTest, AgreementOnFailuresOfAllRanks) {
  std::vector<int> all(static_cast<std::size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  const std::string text = agreed_failure(communicator, all);
  if (size == 1) {
    EXPECT_EQ(text, "read traces: no file 0");
  } else if (size == 3) {
    EXPECT_EQ(text, "read traces: tool rank 0: no file 0; tool rank 1: no file 1; tool rank 2: no file 2");
  }
  const auto texts = communicator.all_gather_text(text);
  EXPECT_EQ(std::count(texts.begin(), texts.end(), text), size) << "the ranks were told different things";
}

TEST_P(ExchangeTest, EqualTextsDifferNowhere) {
  EXPECT_FALSE(find_difference(communicator, {}));
  EXPECT_FALSE(find_difference(communicator, {"", "equal", ""}));
}

TEST_P(ExchangeTest, ADifferenceIsTheFirstOfTheFirstRank) {
  if (size == 1) return;
  std::vector<std::string> mine{"equal", std::string(10'000, 'a'), "last"};
  if (communicator.rank() > 0) mine[2] = "other " + std::to_string(communicator.rank());
  if (communicator.rank() == size - 1) mine[1][5'000] = 'b';
  const auto found = find_difference(communicator, mine);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 1);
  EXPECT_EQ(found->differing_ranks, size - 1);
  EXPECT_EQ(found->text, size == 2 ? 1U : 2U);
  if (size > 2) {
    EXPECT_EQ(found->own, "other 1");
    EXPECT_EQ(found->of_root, "last");
  } else {
    EXPECT_EQ(found->own, "..." + std::string(40, 'a') + "b" + std::string(59, 'a') + "...");
    EXPECT_EQ(found->of_root, "..." + std::string(100, 'a') + "...");
  }
}

TEST_P(ExchangeTest, FewerTextsDifferWhereTheyEnd) {
  if (size == 1) return;
  const auto found =
      find_difference(communicator, std::vector<std::string>(communicator.rank() == size - 1 ? 1 : 2, "text"));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, size - 1);
  EXPECT_EQ(found->text, 1U);
  EXPECT_EQ(found->own, "");
  EXPECT_EQ(found->of_root, "text");
}

TEST_P(ExchangeTest, AgreementOnEmptyAndUnknownExceptions) {
  EXPECT_THROW(run_agreed(communicator, "p", [&] { throw std::runtime_error(""); }), AgreedFailure);
  try {
    run_agreed(communicator, "p", [&] {
      if (communicator.is_root()) throw 7;
    });
    ADD_FAILURE() << "nothing was thrown";
  } catch (const AgreedFailure& failure) {
    EXPECT_THAT(failure.what(), testing::HasSubstr("an unknown exception"));
  }
}

}  // namespace
}  // namespace nsys_explain::exchange
