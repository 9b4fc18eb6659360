#include "nsys_explain/model/packed_events.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "nsys_explain/model/trace.hpp"

namespace nsys_explain {
namespace {

auto fields(const NvtxRange& r) {
  return std::tuple(r.start_ns, r.end_ns, r.thread_id, r.end_thread_id, r.text, r.domain, r.kind, r.is_nccl_call);
}

NvtxRange range(Nanoseconds start_ns, Nanoseconds end_ns, std::uint32_t thread = 1, StringIndex text = 0) {
  NvtxRange range;
  range.start_ns = start_ns;
  range.end_ns = end_ns;
  range.thread_id = range.end_thread_id = thread;
  range.text = text;
  return range;
}

TEST(PackedEvents, GiveBackWhatDoesNotFitSixteenBytes) {
  constexpr Nanoseconds hour = 3'600'000'000'000, longest_packed = 0xFFFFFFFF;
  constexpr Nanoseconds least = std::numeric_limits<Nanoseconds>::min() + 1,
                        most = std::numeric_limits<Nanoseconds>::max();
  const std::vector<NvtxRange> ranges{range(5 * hour, 5 * hour + 7),  // the first: starts near it are short
                                      range(5 * hour - 1, 5 * hour + longest_packed - 1),
                                      range(5 * hour, 5 * hour + longest_packed + 1),  // too long
                                      range(5 * hour, 5 * hour - 1),                   // ends before it starts
                                      range(6 * hour, no_time),                        // open
                                      range(4 * hour, no_time, 2),
                                      range(-hour, -hour + 5),      // too early
                                      range(10 * hour, 11 * hour),  // too late
                                      range(least, most),           // lengths that overflow
                                      range(most, least),
                                      range(0, 0)};
  NvtxRanges packed;
  for (const NvtxRange& r : ranges) packed.push_back(r);
  ASSERT_EQ(packed.size(), ranges.size());
  for (std::size_t i = 0; i < ranges.size(); ++i) EXPECT_EQ(fields(packed[i]), fields(ranges[i])) << i;
}

/// More kinds than 20 bits can tell apart: those met too late are kept whole.
TEST(PackedEvents, KindsMayBeManyMoreThanExpected) {
  constexpr std::uint32_t kinds = 1'100'000;
  Kernels kernels;
  for (std::uint32_t k = 0; k < kinds; ++k)
    kernels.push_back({10 * std::int64_t{k}, 10 * std::int64_t{k} + 3, k + 1, k});
  for (std::uint32_t k = 0; k < kinds; ++k) {
    const Kernel kernel = kernels[k];
    ASSERT_EQ(std::tuple(kernel.start_ns, kernel.end_ns, kernel.correlation_id, kernel.kind),
              std::tuple(10 * std::int64_t{k}, 10 * std::int64_t{k} + 3, k + 1, k));
  }
}

/// Against a vector: random events, some of which do not fit, sorted, thinned out, and with their kinds changed.
TEST(PackedEvents, BehaveAsAVectorDoes) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937_64 random(seed);
    const auto draw = [&](std::uint64_t below) { return static_cast<std::int64_t>(random() % below); };
    std::vector<NvtxRange> plain;
    NvtxRanges packed;
    for (int i = 0; i < 500; ++i) {
      const Nanoseconds start = draw(3) == 0 ? draw(40) : i;
      const Nanoseconds length = draw(20) == 0 ? draw(20'000'000'000) : draw(5);
      NvtxRange r = range(start, draw(10) == 0 ? no_time : start + length, static_cast<std::uint32_t>(draw(4)),
                          static_cast<StringIndex>(draw(100)));
      r.domain = static_cast<StringIndex>(draw(3));
      r.is_nccl_call = draw(2) == 0;
      plain.push_back(r);
      packed.push_back(r);
    }
    const auto by_start = [](const NvtxRange& a, const NvtxRange& b) { return a.start_ns < b.start_ns; };
    std::stable_sort(plain.begin(), plain.end(), by_start);
    packed.sort(by_start);
    const auto keep = [](const NvtxRange& r) { return r.text % 3 != 0; };
    std::erase_if(plain, [&](const NvtxRange& r) { return !keep(r); });
    packed.keep_if(keep);
    const auto change = [](NvtxRange& r) {
      r.is_nccl_call = r.is_nccl_call && r.domain == 2;
      r.domain = r.domain == 0 ? 0 : 7;  // two kinds become one
    };
    std::for_each(plain.begin(), plain.end(), change);
    packed.change_kinds(change);
    packed.push_back(plain.emplace_back(range(900, 901, 1)));
    ASSERT_EQ(packed.size(), plain.size());
    std::size_t i = 0;
    for (const NvtxRange& r : packed) ASSERT_EQ(fields(r), fields(plain[i++])) << seed;
    const auto found = std::lower_bound(packed.begin(), packed.end(), range(300, 0), by_start) - packed.begin();
    EXPECT_EQ(found, std::lower_bound(plain.begin(), plain.end(), range(300, 0), by_start) - plain.begin());
  }
}

TEST(PackedEvents, ThrowWhereThereIsNoSuchEvent) {
  const Kernels kernels{{1, 2, 3, 4}};
  EXPECT_EQ(kernels.at(0).correlation_id, 3U);
  EXPECT_THROW(kernels.at(1), std::out_of_range);
}

}  // namespace
}  // namespace nsys_explain
