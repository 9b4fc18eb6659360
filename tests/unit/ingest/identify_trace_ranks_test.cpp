#include "ingest/rank_resolution.hpp"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nsys_explain::ingest {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TraceRankIdentity process(std::int32_t process_id, std::int64_t kernels, const std::string& path = "node0.sqlite") {
  TraceRankIdentity identity;
  identity.key = {path, static_cast<std::uint64_t>(process_id) << 24U, 0};
  identity.process_id = process_id;
  identity.kernels = kernels;
  return identity;
}

std::vector<std::int32_t> processes_left(std::vector<TraceRankIdentity> identities,
                                         const std::vector<std::int64_t>& collectives) {
  std::vector<std::int32_t> left;
  for (const TraceRankIdentity& rank : leave_out_helpers(std::move(identities), collectives).ranks)
    left.push_back(rank.process_id);
  return left;
}

TEST(HelperProcesses, WhoTakesPartInNothingAndHardlyWorksIsNone) {
  const std::vector<TraceRankIdentity> all = {process(7, 12), process(21, 2'000), process(22, 2'100),
                                              process(23, 2'050)};
  EXPECT_THAT(processes_left(all, {0, 300, 300, 300}), ElementsAre(21, 22, 23));
  const std::vector<Warning> warnings = leave_out_helpers(all, std::vector<std::int64_t>{0, 300, 300, 300}).warnings;
  ASSERT_THAT(warnings, SizeIs(1));
  EXPECT_EQ(warnings[0].severity, Severity::info);
  EXPECT_THAT(warnings[0].message, HasSubstr("process 7 on device 0 in node0.sqlite takes part in no collective"));
}

TEST(HelperProcesses, WhoWorksOrCommunicatesIsARank) {
  // 1% of 2,000, the lower median, are 20 kernels.
  EXPECT_THAT(processes_left({process(7, 20), process(21, 2'000), process(22, 2'100)}, {0, 300, 300}),
              ElementsAre(7, 21, 22));
  EXPECT_THAT(processes_left({process(7, 19), process(21, 2'000), process(22, 2'100)}, {0, 300, 300}),
              ElementsAre(21, 22));
  EXPECT_THAT(processes_left({process(7, 12), process(21, 2'000)}, {1, 300}), ElementsAre(7, 21));
  EXPECT_THAT(processes_left({process(7, 12), process(21, 2'000)}, {0, 0}), ElementsAre(7, 21)) << "nobody does";
  TraceRankIdentity with_graphs = process(7, 0);
  with_graphs.graph_launches = 40;
  EXPECT_THAT(processes_left({with_graphs, process(21, 2'000)}, {0, 300}), ElementsAre(7, 21)) << "who knows what in";
}

TEST(HelperProcesses, WhoIsNumberedOrHasAnExportOfItsOwnIsARank) {
  TraceRankIdentity numbered = process(7, 12);
  numbered.claims = {{RankSource::mpi_ranks, 3, "MPI_RANKS"}};
  EXPECT_THAT(processes_left({numbered, process(21, 2'000)}, {0, 300}), ElementsAre(7, 21));
  EXPECT_THAT(processes_left({process(7, 12, "rank_3.sqlite"), process(21, 2'000)}, {0, 300}), ElementsAre(7, 21))
      << "a capture that ended early";
}

TEST(HelperProcesses, WithoutOneNothingIsSaid) {
  EXPECT_THAT(leave_out_helpers({process(21, 2'000), process(22, 2'000)}, std::vector<std::int64_t>{300, 300}).warnings,
              IsEmpty());
}

}  // namespace

}  // namespace nsys_explain::ingest
