#include <gmock/gmock.h>

#include <random>

#include "ingest/trace_builder.hpp"
#include "nsys_explain/model/algorithms.hpp"

namespace nsys_explain::ingest {
namespace {

struct Numbered {
  int key = 0;
  int number = 0;  ///< tells equal keys apart
  bool operator==(const Numbered&) const = default;
};

bool earlier(const Numbered& a, const Numbered& b) {
  return a.key < b.key;
}

/// Whatever the disorder: the result of std::stable_sort.
TEST(SortNearlySorted, IsAStableSort) {
  std::mt19937 random(7);
  for (int round = 0; round < 400; ++round) {
    std::vector<Numbered> events(random() % 200);
    const int keys = 1 + static_cast<int>(random() % 100);
    for (std::size_t i = 0; i < events.size(); ++i) {
      events[i] = {static_cast<int>(i) * keys / 200, static_cast<int>(i)};
    }
    // From none to many late ones: all ways to sort.
    const std::size_t swaps = round % 5 == 0   ? events.size()
                              : round % 5 == 1 ? random() % (1 + events.size() / 3)
                                               : random() % 4;
    for (std::size_t i = 0; i < swaps && !events.empty(); ++i) {
      std::swap(events[random() % events.size()], events[random() % events.size()]);
    }
    std::vector<Numbered> expected = events;
    std::stable_sort(expected.begin(), expected.end(), earlier);
    sort_nearly_sorted(events, earlier);
    ASSERT_EQ(events, expected) << "round " << round;
  }
}

TEST(AppendEvent, MakesRoomForTheWholeTableAtOnce) {
  std::vector<int> events;
  std::vector<std::size_t> rooms;
  constexpr int all = 1000000;
  for (int i = 0; i < all; ++i) {
    append_event(events, i, [&] { return static_cast<double>(i / 1000 + 1) * 1000 / all; });  // known batch by batch
    if (rooms.empty() || rooms.back() != events.capacity()) rooms.push_back(events.capacity());
  }
  ASSERT_EQ(events.size(), all);
  EXPECT_EQ(events.back(), all - 1);
  EXPECT_LT(rooms.back(), all + all / 4);
  EXPECT_LE(rooms.size(), 16);  // 13 while there are few
}

}  // namespace
}  // namespace nsys_explain::ingest
