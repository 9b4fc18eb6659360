#include "ingest/rank_resolution.hpp"

#include <map>
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

/// Kernels of these names, each so often, 10 ns of every 100.
struct Work {
  std::vector<std::pair<StringIndex, int>> kernels;
};
const Work a_rank = {{{1, 400}, {2, 200}, {3, 100}}};  // gemm, norm, nccl

class HelperProcesses : public testing::Test {
 protected:
  ProcessTrace& add(std::int32_t process_id, const Work& work, bool takes_part, std::int32_t device_id = 0) {
    ProcessTrace& process = trace_.processes.emplace_back();
    process.process_id = process_id;
    process.global_pid = static_cast<std::uint64_t>(process_id) << 24U;
    process.name = "worker";
    DeviceTrace& device = process.devices.emplace_back();
    device.device_id = device_id;
    Nanoseconds start_ns = 0;
    for (const auto& [name, count] : work.kernels) {
      device.kernel_kinds.emplace_back().short_name = name;
      for (int k = 0; k < count; ++k, start_ns += 100)
        device.kernels.push_back(
            {start_ns, start_ns + 10, 0, static_cast<std::uint32_t>(device.kernel_kinds.size() - 1)});
    }
    takes_part_.push_back(takes_part);
    return process;
  }
  RanksAndHelpers tell(const RankOverrides& overrides = {}) {
    trace_.session.path = "node0.sqlite";
    return tell_helpers(trace_, identify_trace_ranks(trace_, overrides), takes_part_);
  }
  std::vector<std::int32_t> ranks(const RankOverrides& overrides = {}) {
    std::vector<std::int32_t> ids;
    for (const TraceRankIdentity& rank : tell(overrides).ranks) ids.push_back(rank.process_id);
    return ids;
  }

  Trace trace_;
  std::vector<bool> takes_part_;
};

TEST_F(HelperProcesses, WhoTakesPartInNothingIsOneHoweverMuchItRuns) {
  add(21, a_rank, true);
  add(22, a_rank, true, 1);
  add(7, {{{9, 5'000}}}, false);
  const RanksAndHelpers told = tell();
  ASSERT_THAT(told.helpers, SizeIs(1));
  EXPECT_THAT(told.ranks, SizeIs(2));
  EXPECT_THAT(told.warnings, IsEmpty());
  const HelperProcess& helper = told.helpers[0];
  EXPECT_EQ(std::tuple(helper.process_id, helper.kernels, helper.busy_ns), std::tuple(7, 5'000, 50'000));
  EXPECT_EQ(helper.recorded_ns, 499'910);  // of device 0: the last of its kernels begins at 4,999 times 100 ns
  EXPECT_THAT(helper.beside, ElementsAre(told.ranks[0].key));
  const std::vector<Warning> warnings = helper_warnings(told.helpers);
  ASSERT_THAT(warnings, SizeIs(1));
  EXPECT_EQ(warnings[0].severity, Severity::info);
  EXPECT_THAT(warnings[0].message, HasSubstr("process 7 (worker) in node0.sqlite takes part in no collective"));
  EXPECT_THAT(warnings[0].message, HasSubstr("its 5000 kernels keep device 0 busy for 10.0% of the time"));
}

TEST_F(HelperProcesses, WhoDoesTheWorkOfARankIsOneThatIsUnsure) {
  add(21, a_rank, true);
  add(7, {{{1, 40}, {2, 20}}}, false, 1);
  const RanksAndHelpers told = tell();
  EXPECT_THAT(told.ranks, SizeIs(2));
  EXPECT_THAT(told.helpers, IsEmpty());
  ASSERT_THAT(told.warnings, SizeIs(1));
  EXPECT_EQ(told.warnings[0].severity, Severity::data_loss);
  EXPECT_THAT(told.warnings[0].message, HasSubstr("whether process 7 on device 1 in node0.sqlite is a rank is unsure"));
}

TEST_F(HelperProcesses, AFewKernelsThatARankRunsTooAreNotItsWork) {
  add(21, a_rank, true);
  add(7, {{{2, 50}}}, false);  // 200 of the rank's 700
  EXPECT_THAT(ranks(), ElementsAre(21));
}

TEST_F(HelperProcesses, MostOfItsOwnWorkMustBeARanks) {
  add(21, a_rank, true);
  add(7, {{{1, 400}, {2, 200}, {9, 601}}}, false);
  EXPECT_THAT(ranks(), ElementsAre(21));
}

TEST_F(HelperProcesses, GraphsHideCollectives) {
  add(21, a_rank, true);
  add(7, {}, false).devices[0].graph_launches.emplace_back();
  EXPECT_THAT(ranks(), ElementsAre(21, 7));
  EXPECT_THAT(tell().warnings, SizeIs(1));
}

TEST_F(HelperProcesses, WhereNobodyCommunicatesAllAreRanks) {
  add(21, {{{1, 400}}}, false);
  add(7, {{{9, 5}}}, false);
  EXPECT_THAT(ranks(), ElementsAre(21, 7));
}

TEST_F(HelperProcesses, WhoIsNumberedIsARank) {
  add(21, a_rank, true);
  ProcessTrace& numbered = add(7, {{{9, 5}}}, false);
  numbered.claims = {{RankSource::mpi_ranks, 3, "MPI_RANKS"}};
  EXPECT_THAT(ranks(), ElementsAre(21, 7));
  trace_.processes.back().claims = {{RankSource::environment, 3, "RANK"}};  // as every process of the export
  EXPECT_THAT(ranks(), ElementsAre(21));
  EXPECT_THAT(ranks(parse_rank_map("node0.sqlite 3")), ElementsAre(21)) << "of the file, not of the process";
  EXPECT_THAT(ranks(parse_rank_map("node0.sqlite 7 * 3")), ElementsAre(21, 7));
}

TEST_F(HelperProcesses, TheEnvironmentTellsTheOneRankThatIsLeft) {
  const std::vector<RankClaim> environment = {{RankSource::environment, 3, "RANK"}};
  add(21, a_rank, true).claims = environment;
  add(7, {{{9, 5}}}, false).claims = environment;
  ASSERT_THAT(tell().ranks, SizeIs(1));
  EXPECT_THAT(tell().ranks[0].claims, SizeIs(1));
  add(22, a_rank, true, 1).claims = environment;
  EXPECT_THAT(tell().ranks[0].claims, IsEmpty());
}

TEST_F(HelperProcesses, SeveralAreToldByTheOneThatTakesMost) {
  add(21, a_rank, true);
  add(7, {{{9, 10}}}, false);
  add(8, {{{9, 70}}}, false);
  const std::vector<Warning> warnings = helper_warnings(tell().helpers);
  ASSERT_THAT(warnings, SizeIs(1));
  EXPECT_EQ(warnings[0].count, 2);
  EXPECT_THAT(warnings[0].message, HasSubstr("process 8 (worker)"));
  EXPECT_THAT(warnings[0].message, HasSubstr("(and 1 more like this)"));
  EXPECT_THAT(helper_warnings({}), IsEmpty());
}

}  // namespace
}  // namespace nsys_explain::ingest
