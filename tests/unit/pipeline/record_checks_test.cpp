#include "pipeline/read/record_checks.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "pipeline/tool_rank/pack.hpp"

namespace nsys_explain::pipeline {
namespace {

/// Two arrivals on one communicator, in the first of two steps, and what else goes with them.
LocalTrace sound_trace() {
  LocalTrace trace;
  LocalRank& rank = trace.ranks.emplace_back();
  rank.steps.start_ns = {0, 100};
  rank.arrivals.resize(2);
  for (std::int32_t i = 0; i < 2; ++i) {
    TraceArrival& one = rank.arrivals[static_cast<std::size_t>(i)];
    one.enter = TraceTime(10 * i);
    one.exit = TraceTime(10 * i + 5);
    one.index = one.position = i;
    one.step = 0;
  }
  rank.profiles = PackedRows(std::vector<WorkProfile>(2));
  std::vector<analysis::TracePiece> pieces(2);
  pieces[0].kind = analysis::PieceKind::collective;
  pieces[0].arrival = 1;
  pieces[1].waits[0].piece = 0;
  pieces[1].arrival = 2;  // what comes after the last one
  rank.pieces = PackedRows(pieces);
  rank.exposed = PackedRows(std::vector<analysis::ExposedStretch>(1));
  return trace;
}

template <class T>
void change(PackedRows<T>& packed, const std::function<void(std::vector<T>&)>& how) {
  std::vector<T> rows = packed.rows();
  how(rows);
  packed = PackedRows(rows);
}

TEST(RecordChecks, WhatReadingLeavesCanBeRead) {
  EXPECT_TRUE(can_be_read(LocalTrace()));
  EXPECT_TRUE(can_be_read(sound_trace()));
}

TEST(RecordChecks, NumbersNameWhatIsThere) {
  const std::vector<std::function<void(LocalRank&)>> forgeries = {
      [](LocalRank& rank) { rank.arrivals[1].index = 7; },
      [](LocalRank& rank) { rank.arrivals[1].position = 0; },
      [](LocalRank& rank) { rank.arrivals[1].step = 2; },
      [](LocalRank& rank) { rank.arrivals[1].operation = static_cast<Operation>(200); },
      [](LocalRank& rank) { rank.arrivals[1].exit = TraceTime(std::int64_t{1} << 62); },
      [](LocalRank& rank) { rank.arrivals[0].enter = TraceTime(11); },
      [](LocalRank& rank) {
        rank.steps.start_ns = {100, 0};
      },
      [](LocalRank& rank) { change<WorkProfile>(rank.profiles, [](auto& rows) { rows.pop_back(); }); },
      [](LocalRank& rank) { change<analysis::TracePiece>(rank.pieces, [](auto& rows) { rows[0].arrival = 2; }); },
      [](LocalRank& rank) {
        change<analysis::TracePiece>(rank.pieces, [](auto& rows) { rows[1].waits[2].piece = 1; });
      },
      [](LocalRank& rank) { change<analysis::ExposedStretch>(rank.exposed, [](auto& rows) { rows[0].arrival = -2; }); },
      [](LocalRank& rank) {
        change<analysis::ExposedStretch>(rank.exposed,
                                         [](auto& rows) { rows[0].reason = static_cast<StandstillReason>(3); });
      }};
  for (std::size_t i = 0; i < forgeries.size(); ++i) {
    LocalTrace trace = sound_trace();
    forgeries[i](trace.ranks[0]);
    EXPECT_FALSE(can_be_read(trace)) << "forgery " << i;
  }
}

TEST(Pack, NoSizeIsBelievedThatTheBytesCouldNotHold) {
  std::string bytes = pack(std::vector<std::string>{"one", "two"});
  EXPECT_EQ(unpack<std::vector<std::string>>(bytes), (std::vector<std::string>{"one", "two"}));
  bytes[5] = '\x01';  // 2^40 texts
  EXPECT_THROW(unpack<std::vector<std::string>>(bytes), std::length_error);
  EXPECT_THROW(unpack<std::vector<double>>(pack(std::uint64_t{100})), std::length_error);
}

TEST(Pack, WhatIsNeitherTrueNorFalseIsNotBelieved) {
  std::string bytes = pack(std::optional<std::int64_t>(7));
  EXPECT_EQ(unpack<std::optional<std::int64_t>>(bytes), 7);
  EXPECT_TRUE(unpack<bool>(pack(true)));
  bytes[0] = '\x2D';  // whether there is a number
  EXPECT_THROW(unpack<std::optional<std::int64_t>>(bytes), std::length_error);
  EXPECT_THROW(unpack<bool>("\x02"), std::length_error);
}

}  // namespace
}  // namespace nsys_explain::pipeline
