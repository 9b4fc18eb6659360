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

TEST(SessionChecks, TracesFarApartInTimeAreSuspicious) {
  const auto checks = check_sessions({session("a", "1", day_0 - 2 * hour), session("b", "2"), session("c", "3")});
  ASSERT_THAT(checks.warnings, SizeIs(1));
  EXPECT_EQ(checks.warnings[0].severity, Severity::data_loss);
  EXPECT_EQ(checks.warnings[0].count, 1);
  EXPECT_THAT(checks.warnings[0].message, HasSubstr("1 of 3 traces (first: a)"));
}

TEST(SessionChecks, AnHourCountsFromTheEndOfTheEarlierSession) {
  const std::vector<Session> sessions = {session("a", "1"), session("b", "2", day_0 + 3 * hour)};
  EXPECT_THAT(check_sessions(sessions).warnings, SizeIs(1));
  EXPECT_THAT(check_sessions(sessions, {{{0, 2 * hour}, 0, 0, {}}, {{0, second}, 0, 0, {}}}).warnings, IsEmpty());
  EXPECT_THAT(check_sessions(sessions, {{{0, 2 * hour - 1}, 0, 0, {}}, {{0, second}, 0, 0, {}}}).warnings, SizeIs(1));
  // chains of overlapping sessions are one group
  EXPECT_THAT(check_sessions({session("a", "1"), session("b", "2", day_0 + hour), session("c", "3", day_0 + 2 * hour)})
                  .warnings,
              IsEmpty());
}

TEST(SessionChecks, UnknownStartSaysNothing) {
  EXPECT_THAT(check_sessions({session("a", "1", no_time), session("b", "2")}).warnings, IsEmpty());
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

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr Nanoseconds minute_ns = 60'000'000'000;

struct Inputs {
  std::vector<Session> sessions;
  std::vector<SessionExtent> extents;
  std::vector<TraceRankIdentity> identities;

  /// An export that was recorded for 50 s.
  TraceRankIdentity& add(const std::string& path, std::int32_t rank, std::int64_t minute, std::int32_t world_size = 0,
                         RankSource source = RankSource::mpi_ranks) {
    sessions.emplace_back().path = path;
    sessions.back().utc_start_ns = minute * minute_ns;
    extents.emplace_back().recorded = {0, minute_ns - 10'000'000'000};
    extents.back().world_size = world_size;
    TraceRankIdentity& identity = identities.emplace_back();
    identity.key.path = path;
    identity.claims = {{source, rank, ""}};
    return identity;
  }
  std::string problem() const { return several_jobs_problem(sessions, extents, identities); }
};

TEST(SeveralJobs, AreThoseRecordedAfterEachOtherWithEqualRanks) {
  Inputs inputs;
  inputs.add("a0", 0, 5);
  inputs.add("a1", 1, 5);
  inputs.add("b 0", 0, 3);
  EXPECT_THAT(inputs.problem(), HasSubstr("of 2 jobs: they were recorded one after the other, and rank 0 is in"));
  EXPECT_THAT(inputs.problem(),
              HasSubstr(": nsys-explain-mpi a0 a1 --out report-1; nsys-explain-mpi 'b 0' --out report-2"));
}

TEST(SeveralJobs, AreThoseOfSeveralSizes) {
  Inputs inputs;
  inputs.add("a0", 0, 5, 2, RankSource::environment);
  inputs.add("a1", 1, 5, 2, RankSource::environment);
  inputs.add("b0", 0, 5, 1, RankSource::environment);
  EXPECT_THAT(inputs.problem(), HasSubstr("tell different world sizes"));
  inputs.extents.back().world_size = 0;
  EXPECT_THAT(inputs.problem(), IsEmpty());
}

TEST(SeveralJobs, AreNoneWithoutProof) {
  Inputs apart;  // ranks of one job that were captured at several times
  apart.add("a0", 0, 5);
  apart.add("a1", 1, 8);
  EXPECT_THAT(apart.problem(), IsEmpty());
  Inputs together;
  together.add("a0", 0, 5);
  together.add("b0", 0, 5);
  EXPECT_THAT(together.problem(), IsEmpty());
  Inputs groups;  // NCCL may have counted them in groups
  groups.add("a0", 0, 5, 0, RankSource::nccl_payload);
  groups.add("a1", 0, 8, 0, RankSource::nccl_payload);
  EXPECT_THAT(groups.problem(), IsEmpty());
  Inputs twice;  // ranks of each are in doubt themselves
  for (const char* path : {"a0", "a1"}) twice.add(path, 0, 5);
  twice.add("b0", 0, 8);
  EXPECT_THAT(twice.problem(), IsEmpty());
}

TEST(SeveralJobs, AreNoneWhereTheUserNumbersThem) {
  Inputs inputs;
  inputs.add("a0", 0, 5);
  inputs.add("b0", 0, 8).claims.push_back({RankSource::user, 1, ""});
  EXPECT_THAT(inputs.problem(), IsEmpty());
}

TEST(SeveralJobs, AreNotToldWithoutTimes) {
  Inputs inputs;
  inputs.add("a0", 0, 5);
  inputs.add("b0", 0, 8);
  inputs.sessions.front().utc_start_ns = no_time;
  EXPECT_THAT(inputs.problem(), IsEmpty());
}

}  // namespace

}  // namespace nsys_explain::ingest
