#include "ingest/session_checks.hpp"

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nsys_explain::ingest {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr Nanoseconds second = 1'000'000'000, hour = 3600 * second;
constexpr Nanoseconds day_0 = 1'700'000'000 * second;

Session session(const std::string& path, const std::string& uuid, Nanoseconds utc_start_ns = day_0) {
  Session result;
  result.path = path;
  result.uuid = uuid;
  result.utc_start_ns = utc_start_ns;
  return result;
}

TEST(SessionChecks, SessionsOfOneJobPass) {
  const auto checks = check_sessions({session("a", "1"), session("b", "2", day_0 + 5 * second), session("c", "3")});
  EXPECT_THAT(checks.duplicates, IsEmpty());
  EXPECT_THAT(checks.warnings, IsEmpty());
  EXPECT_EQ(checks.world_size, std::nullopt);
  EXPECT_THAT(check_sessions({}).warnings, IsEmpty());
}

TEST(SessionChecks, CopyOfATraceIsLeftOut) {
  const auto checks = check_sessions({session("b", "1"), session("a", "1"), session("c", "2")});
  ASSERT_THAT(checks.duplicates, SizeIs(1));
  EXPECT_EQ(checks.duplicates[0].path, "b");
  EXPECT_EQ(checks.duplicates[0].status, InputStatus::failed);
  EXPECT_THAT(checks.duplicates[0].message, HasSubstr("another copy of the profiling session in a:"));
}

TEST(SessionChecks, SessionsWithoutUuidAreNeverCopies) {
  EXPECT_THAT(check_sessions({session("a", ""), session("b", "")}).duplicates, IsEmpty());
}

TEST(SessionChecks, OfTwoPartsOfASessionTheLongerIsKept) {
  const auto checks =
      check_sessions({session("a", "1"), session("b", "1")}, {{{0, 10}, 0, 0, {}}, {{10, 30}, 0, 0, {}}});
  ASSERT_THAT(checks.duplicates, SizeIs(1));
  EXPECT_EQ(checks.duplicates[0].path, "a");
  EXPECT_THAT(checks.duplicates[0].message, HasSubstr("a different part of the profiling session in b:"));
}

SessionExtent capture(Nanoseconds start_ns, Nanoseconds end_ns, std::int32_t process_id, const std::string& gpu) {
  return {{start_ns, end_ns}, 0, 0, {{process_id, gpu}}};
}

Session on_host(const std::string& path, const std::string& uuid, Nanoseconds utc_start_ns, const std::string& host) {
  Session result = session(path, uuid, utc_start_ns);
  result.host = host;
  return result;
}

std::vector<std::string> left_out(const SessionChecks& checks) {
  std::vector<std::string> paths;
  for (const InputReport& input : checks.duplicates) paths.push_back(input.path);
  return paths;
}

TEST(SessionChecks, OfCapturesOfOneProcessAllRanksKeepTheOneAtTheSameTime) {
  // Two ranks captured twice: the first time longer on one of them, the second time on the other.
  const std::vector<Session> sessions = {
      on_host("r0.1", "1", day_0, "h"), on_host("r0.2", "2", day_0 + 60 * second, "h"),
      on_host("r1.1", "3", day_0, "h"), on_host("r1.2", "4", day_0 + 60 * second, "h")};
  const std::vector<SessionExtent> extents = {capture(0, 9 * second, 7, "g0"), capture(0, 8 * second, 7, "g0"),
                                              capture(0, 7 * second, 8, "g1"), capture(0, 8 * second, 8, "g1")};
  const auto checks = check_sessions(sessions, extents);
  EXPECT_EQ(left_out(checks), (std::vector<std::string>{"r0.2", "r1.2"}));
  EXPECT_THAT(checks.duplicates[0].message, HasSubstr("at another time of a process that r0.1 shows"));
}

TEST(SessionChecks, PartsOfSessionsAreKeptAtTheSameTime) {
  const std::vector<Session> sessions = {session("a.1", "1"), session("a.2", "1"), session("b.1", "2"),
                                         session("b.2", "2")};
  const std::vector<SessionExtent> extents = {
      {{0, 50}, 0, 0, {}}, {{50, 99}, 0, 0, {}}, {{1, 48}, 0, 0, {}}, {{50, 99}, 0, 0, {}}};
  EXPECT_EQ(left_out(check_sessions(sessions, extents)), (std::vector<std::string>{"a.2", "b.2"}));
}

TEST(SessionChecks, ProcessesThatOnlyShareANumberAreDifferent) {
  const auto two = [](const std::string& host, const std::string& gpu, Nanoseconds start_ns) {
    return check_sessions({on_host("a", "1", day_0, "h"), on_host("b", "2", day_0 + start_ns, host)},
                          {capture(0, 5 * second, 7, "g0"), capture(0, 5 * second, 7, gpu)});
  };
  EXPECT_THAT(left_out(two("h", "g0", 10 * second)), SizeIs(1));
  EXPECT_THAT(left_out(two("other", "g0", 10 * second)), IsEmpty()) << "of another host";
  EXPECT_THAT(left_out(two("h", "g1", 10 * second)), IsEmpty()) << "on another GPU";
  EXPECT_THAT(left_out(two("h", "g0", 2 * second)), IsEmpty()) << "at the same time: of another container";
  EXPECT_THAT(left_out(two("", "g0", 10 * second)), IsEmpty()) << "of an unknown host";
}

/// An export with one kernel of one process.
SessionExtent extent_of(std::int32_t process_id, Nanoseconds start_ns) {
  Trace trace;
  DeviceTrace device;
  device.kernels.push_back({start_ns, start_ns + 10, 0, 0});
  ProcessTrace& process = trace.processes.emplace_back();
  process.process_id = process_id;
  process.devices.push_back(device);
  return session_extent(trace);
}

TEST(SessionChecks, CopiesAreToldByTheirEvents) {
  const auto copies = [](const Session& other, const SessionExtent& extent) {
    return left_out(check_sessions({on_host("a.json", "", day_0, "h"), other}, {extent_of(7, 50), extent}));
  };
  const Session again = on_host("a.json.gz", "", day_0, "h");
  EXPECT_EQ(copies(again, extent_of(7, 50)), std::vector<std::string>{"a.json.gz"});
  EXPECT_THAT(copies(again, extent_of(8, 50)), IsEmpty()) << "of another process";
  EXPECT_THAT(copies(again, extent_of(7, 51)), IsEmpty()) << "other events";
  EXPECT_THAT(copies(on_host("b", "", day_0, "other"), extent_of(7, 50)), IsEmpty()) << "of another host";
  EXPECT_THAT(copies(on_host("b", "", day_0 + 1, "h"), extent_of(7, 50)), IsEmpty()) << "at another time";
  EXPECT_THAT(copies(again, {}), IsEmpty()) << "nothing ran there";
}

TEST(SessionChecks, OneSessionOfAnotherHostOrWithOtherProcessesIsNoCopy) {
  const auto two = [](const std::string& host, std::int32_t process_id) {
    return left_out(check_sessions({on_host("a", "1", day_0, "h"), on_host("b", "1", day_0, host)},
                                   {capture(0, 5 * second, 7, "g0"), capture(0, 5 * second, process_id, "g0")}));
  };
  EXPECT_THAT(two("h", 7), SizeIs(1));
  EXPECT_THAT(two("other", 7), IsEmpty());
  EXPECT_THAT(two("h", 8), IsEmpty()) << "parts of a session by process";
}

TEST(SessionChecks, WorldSizeIsWhatMostSee) {
  const std::vector<Session> sessions = {session("a", "1"), session("b", "2"), session("c", "3"), session("d", "4")};
  const auto agreeing = check_sessions(sessions, {{{}, 64, 0, {}}, {{}, 64, 0, {}}, {{}, 0, 0, {}}, {{}, 64, 0, {}}});
  EXPECT_EQ(agreeing.world_size, 64);
  EXPECT_THAT(agreeing.warnings, IsEmpty());
  const auto mixed = check_sessions(sessions, {{{}, 64, 0, {}}, {{}, 8, 0, {}}, {{}, 64, 0, {}}, {{}, 0, 0, {}}});
  EXPECT_EQ(mixed.world_size, 64);
  ASSERT_THAT(mixed.warnings, SizeIs(1));
  EXPECT_THAT(mixed.warnings[0].message, HasSubstr("(first: b, 8 ranks)"));
  EXPECT_EQ(check_sessions(sessions, {{{}, 64, 0, {}}, {{}, 8, 0, {}}, {}, {}}).world_size, 64);  // a tie: the larger
}

TEST(SessionChecks, EnvironmentsTellTheWorldSizeWhereNoCommunicatorDoes) {
  const std::vector<Session> sessions = {session("a", "1"), session("b", "2")};
  EXPECT_EQ(check_sessions(sessions, {{{}, 0, 128, {}}, {{}, 0, 128, {}}}).world_size, 128);
  EXPECT_EQ(check_sessions(sessions, {{{}, 0, 128, {}}, {{}, 64, 128, {}}}).world_size, 64);
}

TEST(SessionChecks, ExtentCoversAllKindsOfEvents) {
  Trace trace;
  EXPECT_EQ(session_extent(trace).recorded, (Interval{0, 0}));
  ProcessTrace process;
  DeviceTrace device;
  device.kernels.push_back({50, 60, 0, 0});
  process.devices.push_back(device);
  ApiCall call;
  call.start_ns = -5;
  call.end_ns = 40;
  process.api_calls.push_back(call);
  NvtxRange open;
  open.start_ns = 70;
  process.nvtx_ranges.push_back(open);
  NcclCall init;
  init.rank_count = 16;
  process.nccl_calls.push_back(init);
  trace.processes.push_back(process);
  EXPECT_EQ(session_extent(trace).recorded, (Interval{-5, 70}));
  EXPECT_EQ(session_extent(trace).largest_communicator, 16);
}

TEST(SessionChecks, OrderDoesNotMatter) {
  std::mt19937 random(5);
  std::vector<Session> sessions;
  std::vector<SessionExtent> extents;
  for (int i = 0; i < 12; ++i) {
    sessions.push_back(session("t" + std::to_string(i), "u" + std::to_string(random() % 8),
                               day_0 + static_cast<Nanoseconds>(random() % 6) * hour / 2));
    extents.push_back({{0, static_cast<Nanoseconds>(random() % 3)}, static_cast<std::int32_t>(random() % 3), 0, {}});
  }
  const auto first = check_sessions(sessions, extents);
  for (int round = 0; round < 20; ++round) {
    std::vector<std::size_t> order(sessions.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::shuffle(order.begin(), order.end(), random);
    std::vector<Session> shuffled;
    std::vector<SessionExtent> shuffled_extents;
    for (const std::size_t i : order) {
      shuffled.push_back(sessions[i]);
      shuffled_extents.push_back(extents[i]);
    }
    const auto other = check_sessions(shuffled, shuffled_extents);
    EXPECT_EQ(first.warnings, other.warnings);
    EXPECT_EQ(first.world_size, other.world_size);
    ASSERT_EQ(first.duplicates.size(), other.duplicates.size());
    for (std::size_t i = 0; i < first.duplicates.size(); ++i) {
      EXPECT_EQ(first.duplicates[i].path, other.duplicates[i].path);
    }
  }
}

}  // namespace

}  // namespace nsys_explain::ingest
