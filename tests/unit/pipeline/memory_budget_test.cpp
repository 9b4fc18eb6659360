#include "pipeline/tool_rank/memory_budget.hpp"

#include <gmock/gmock.h>

#include <array>
#include <stdexcept>
#include <vector>

namespace nsys_explain::pipeline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr std::int64_t million = 1'000'000;

ReadingCost small(std::int64_t events) {
  return {{events, 0}, true};
}
ReadingCost large(std::int64_t events) {
  return {{events, 0}, false};
}

TEST(ReadingCost, GrowsWithRowsAndThreadsAndShrinksInFiles) {
  EXPECT_GT(small(2 * million).memory_bytes(1, false), small(million).memory_bytes(1, false));
  EXPECT_GT(small(million).memory_bytes(2, false), small(million).memory_bytes(1, false));
  // The packed events themselves, 16 bytes each, lie in files then.
  EXPECT_LE(small(million).memory_bytes(1, true), small(million).memory_bytes(1, false) - 16 * million);
  EXPECT_GE(small(million).file_bytes(), 16 * million);
  const ReadingCost others{{0, million}, true};
  EXPECT_EQ(others.memory_bytes(1, true), others.memory_bytes(1, false)) << "only packed events lie in files";
}

TEST(NextRound, WithoutLimitReadsAllSmallTracesTogetherAndThenEachLargeOneByItself) {
  const std::vector<ReadingCost> waiting = {small(1), small(1), small(1), large(1), large(1)};
  const ReadingRound together = next_round(waiting, 8, {});
  EXPECT_EQ(together.traces, 3u);
  EXPECT_EQ(together.threads_each, 2) << "8 threads for 3 traces";
  EXPECT_FALSE(together.in_files);
  const ReadingRound alone = next_round(std::span(waiting).subspan(3), 8, {});
  EXPECT_EQ(alone.traces, 1u);
  EXPECT_EQ(alone.threads_each, 8);
}

TEST(NextRound, TakesAsManySmallTracesAsFitTogether) {
  const std::vector<ReadingCost> waiting(100, small(million));
  const std::int64_t each = small(million).memory_bytes(1, false);
  EXPECT_EQ(next_round(waiting, 2, {5 * each, 0}).traces, 5u);
  EXPECT_EQ(next_round(waiting, 2, {5 * each - 1, 0}).traces, 4u);
  EXPECT_EQ(next_round(waiting, 2, {1000 * each, 0}).traces, 100u);
  EXPECT_EQ(next_round(waiting, 2, {5 * each, 0}).threads_each, 1);
}

TEST(NextRound, GivesUpThreadsBeforeMemoryAndReadsWhatIsLeftWithFiles) {
  const std::array waiting = {large(20 * million)};
  const std::int64_t on_disk = waiting[0].file_bytes();
  const auto needs = [&](int threads, bool in_files) { return waiting[0].memory_bytes(threads, in_files); };
  const auto round = [&](std::int64_t memory_bytes, std::int64_t file_bytes) {
    return next_round(waiting, 4, {memory_bytes, file_bytes});
  };
  EXPECT_EQ(round(needs(4, false), 0).threads_each, 4);
  EXPECT_EQ(round(needs(4, false) - 1, on_disk).threads_each, 1);
  EXPECT_FALSE(round(needs(4, false) - 1, on_disk).in_files);
  EXPECT_TRUE(round(needs(1, false) - 1, on_disk).in_files);
  EXPECT_EQ(round(needs(1, false) - 1, on_disk).threads_each, 4);
  EXPECT_EQ(round(needs(4, true) - 1, on_disk).threads_each, 1);
  EXPECT_EQ(round(needs(1, true) - 1, on_disk).traces, 0u);
  EXPECT_EQ(round(needs(1, false) - 1, on_disk - 1).traces, 0u) << "no room on the disk";
  EXPECT_EQ(next_round({}, 4, {}).traces, 0u);
}

TEST(MemoryBudget, HasRoomForAllWithoutALimitAndForWhatIsLeftWithOne) {
  EXPECT_EQ(MemoryBudget(std::nullopt).room().memory_bytes, std::numeric_limits<std::int64_t>::max());
  const std::int64_t limit = std::int64_t{1} << 40;
  const std::int64_t room = MemoryBudget(limit).room().memory_bytes;
  EXPECT_LT(room, limit);
  EXPECT_GT(room, limit - (std::int64_t{1} << 30)) << "what this test holds";
}

TEST(MemoryBudget, RefusesWithWhatIsMissingAndWhatToDo) {
  const MemoryBudget budget(64 << 20);
  ingest::AssignedTrace trace;
  trace.name = "big.sqlite";
  EXPECT_THAT([&] { budget.refuse(trace, large(50 * million), (100 << 20) + 1); },
              ThrowsMessage<std::runtime_error>(AllOf(HasSubstr("big.sqlite holds some 50.0 million events"),
                                                      HasSubstr("--memory-limit 67.11 MB"),
                                                      HasSubstr("give a limit of 101M for each tool rank"))));
  EXPECT_NO_THROW(MemoryBudget(std::nullopt).require_for({1'000 * million, 0, true}, 0));
  EXPECT_THAT(
      [&] {
        budget.require_for({million / 10, million, true}, 700 << 20);
      },
      ThrowsMessage<std::runtime_error>(
          AllOf(HasSubstr("100000 arrivals"), HasSubstr("give a limit of 700M"), HasSubstr("more tool ranks"))));
}

TEST(MemoryBudget, NamesLimitsThatLeaveRoom) {
  const std::vector<ReadingCost> two(2, large(50 * million));
  const MemoryBudget asks(1 << 20);
  const MemoryBudget given(asks.limit_for(two, 1));
  EXPECT_GT(next_round(two, 4, given.room()).traces, 0u);
  EXPECT_TRUE(given.can_write());
  EXPECT_GT(asks.limit_for(two, 1), asks.limit_for(std::span(two).first(1), 1)) << "what the first one leaves";
  const MemoryBudget::Arrivals arrivals{million / 10, million, true};
  EXPECT_NO_THROW(MemoryBudget(asks.limit_for(arrivals)).require_for(arrivals, 0));
  ReadingCost dense = small(1);
  dense.arrivals = million / 10;
  // One tool rank replays what both have.
  EXPECT_GT(asks.limit_for({&dense, 1}, 2), asks.limit_for({&dense, 1}, 1) + million / 10 * 500);
}

TEST(MemoryBudget, PutsArraysOfEventsIntoFilesOnlyWhileAsked) {
  MemoryBudget budget(std::nullopt);
  constexpr std::size_t count = 1 << 20;
  {
    const MemoryBudget::EventPlace place(budget, false, "a.sqlite");
    const std::pmr::vector<std::int64_t> values(count);
  }
  EXPECT_EQ(budget.most_file_bytes(), 0);
  std::pmr::vector<std::int64_t> outlives;
  {
    const MemoryBudget::EventPlace place(budget, true, "a.sqlite");
    std::pmr::vector<std::int64_t> values(count, 7);
    EXPECT_EQ(budget.most_file_bytes(), static_cast<std::int64_t>(count * sizeof(std::int64_t)));
    outlives = values;  // of another place: a copy
  }
  const std::pmr::vector<std::int64_t> after(2 * count);
  EXPECT_EQ(budget.most_file_bytes(), static_cast<std::int64_t>(count * sizeof(std::int64_t)));
  EXPECT_EQ(outlives.back(), 7);
  { const MemoryBudget::EventPlace again(budget, true, "a.sqlite"); }
  EXPECT_EQ(budget.traces_in_files(), 1);
  { const MemoryBudget::EventPlace another(budget, true, "b.sqlite"); }
  EXPECT_EQ(budget.traces_in_files(), 2);
}

}  // namespace
}  // namespace nsys_explain::pipeline
