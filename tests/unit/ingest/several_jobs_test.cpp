#include "ingest/session_checks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace nsys_explain::ingest {
namespace {

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
