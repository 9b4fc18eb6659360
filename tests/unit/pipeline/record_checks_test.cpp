#include "pipeline/read/record_checks.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "model/schema/host.hpp"
#include "pipeline/run/pack.hpp"

namespace nsys_explain::pipeline {
namespace {

/// Two arrivals on one communicator, in the first of two steps, and what else goes with them.
LocalTrace sound_trace() {
  LocalTrace trace;
  LocalRank& rank = trace.ranks.emplace_back();
  rank.steps.start_ns = {0, 100};
  rank.arrivals.resize(2);
  for (std::int32_t i = 0; i < 2; ++i) {
    Arrival& one = rank.arrivals[static_cast<std::size_t>(i)];
    one.enter_ns = 10 * i;
    one.exit_ns = 10 * i + 5;
    one.index = one.position = i;
    one.step = 0;
  }
  rank.profiles.resize(2);
  rank.pieces.resize(2);
  rank.pieces[0].kind = analysis::PieceKind::collective;
  rank.pieces[0].arrival = 1;
  rank.pieces[1].waits_for = 0;
  rank.pieces[1].arrival = 2;  // what comes after the last one
  rank.exposed.resize(1);
  rank.tables.push_back(make_table(schema::cpu_functions));
  RowWriter(rank.tables[0]) << std::int64_t{7} << std::int64_t{1} << "read" << std::int64_t{3} << std::int64_t{300}
                            << 50.0 << std::int64_t{1};
  return trace;
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
      [](LocalRank& rank) { rank.arrivals[1].exit_ns = std::int64_t{1} << 62; },
      [](LocalRank& rank) { rank.arrivals[0].enter_ns = 11; },
      [](LocalRank& rank) {
        rank.steps.start_ns = {100, 0};
      },
      [](LocalRank& rank) { rank.profiles.pop_back(); },
      [](LocalRank& rank) { rank.pieces[0].arrival = 2; },
      [](LocalRank& rank) { rank.pieces[1].waits_for = 1; },
      [](LocalRank& rank) { rank.exposed[0].arrival = -2; },
      [](LocalRank& rank) { rank.exposed[0].reason = static_cast<StandstillReason>(3); },
      [](LocalRank& rank) { rank.tables[0].schema.name = "../../elsewhere"; },
      [](LocalRank& rank) { rank.tables[0].schema.columns[0].name = "a/b"; },
      [](LocalRank& rank) { rank.tables[0].schema.name = "a_table_of_mine"; },
      [](LocalRank& rank) { std::swap(rank.tables[0].schema.columns[0], rank.tables[0].schema.columns[1]); },
      [](LocalRank& rank) { rank.tables[0].columns.pop_back(); },
      [](LocalRank& rank) { std::get<std::vector<std::int64_t>>(rank.tables[0].columns[0]).clear(); },
      [](LocalRank& rank) { rank.tables[0].columns[1] = std::vector<double>{1}; }};
  for (std::size_t i = 0; i < forgeries.size(); ++i) {
    LocalTrace trace = sound_trace();
    forgeries[i](trace.ranks[0]);
    EXPECT_FALSE(can_be_read(trace)) << "forgery " << i;
  }
}

TEST(RecordChecks, TextsOfATableAreThere) {
  LocalTrace trace = sound_trace();
  const auto column_of = [](std::uint32_t code) {
    return unpack<TextColumn>(pack(std::vector<std::string>{"text"}) + pack(std::vector<std::uint32_t>{code}));
  };
  trace.ranks[0].tables[0].columns[2] = column_of(0);
  EXPECT_TRUE(can_be_read(trace));
  trace.ranks[0].tables[0].columns[2] = column_of(1);
  EXPECT_FALSE(can_be_read(trace));
}

TEST(Pack, NoSizeIsBelievedThatTheBytesCouldNotHold) {
  std::string bytes = pack(std::vector<std::string>{"one", "two"});
  EXPECT_EQ(unpack<std::vector<std::string>>(bytes), (std::vector<std::string>{"one", "two"}));
  bytes[5] = '\x01';  // 2^40 texts
  EXPECT_THROW(unpack<std::vector<std::string>>(bytes), std::length_error);
  EXPECT_THROW(unpack<std::vector<double>>(pack(std::uint64_t{100})), std::length_error);
}

}  // namespace
}  // namespace nsys_explain::pipeline
