#include "ingest/jobs.hpp"

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nsys_explain::ingest {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr Nanoseconds second = 1'000'000'000, hour = 3'600 * second, day_0 = 1'700'000'000 * second;

/// Processes of a run, recorded for 50 s each.
struct Processes {
  std::vector<JobUnit> units;

  JobUnit& add(const std::string& path, Nanoseconds after_ns = 0, const std::string& host = "h") {
    JobUnit& unit = units.emplace_back();
    unit.path = path;
    unit.process_id = static_cast<std::int32_t>(units.size());
    unit.global_pid = units.size();
    unit.host = host;
    unit.recorded_utc = {day_0 + after_ns, day_0 + after_ns + 50 * second};
    return unit;
  }
  JobUnit& add_rank(const std::string& path, std::int32_t rank, std::int32_t world_size = 0, Nanoseconds after_ns = 0) {
    JobUnit& unit = add(path, after_ns);
    unit.claims = {{RankSource::environment, rank, "RANK"}};
    unit.world_size = world_size;
    return unit;
  }
  std::vector<Job> jobs() const { return divide_into_jobs(units); }
  /// The paths of each job.
  std::vector<std::string> paths() const {
    std::vector<std::string> told;
    for (const Job& job : jobs()) {
      std::string& text = told.emplace_back();
      for (const std::size_t u : job.units) text += (text.empty() ? "" : " ") + units[u].path;
    }
    return told;
  }
};

TEST(Jobs, WithoutContradictionAllAreOne) {
  Processes servers;  // no communicator in common, no claims
  servers.add("a").communicators = {{1, 0}, {2, 0}};
  servers.add("b").communicators = {{3, 0}};
  servers.add("c", 20 * second, "other");
  EXPECT_THAT(servers.paths(), ElementsAre("a b c"));
  EXPECT_THAT(Processes().jobs(), IsEmpty());
}

TEST(Jobs, ARankIsInOneJob) {
  Processes two;
  for (const char* path : {"a0", "a1", "b0", "b1", "b2"}) two.add_rank(path, path[1] - '0', 4);
  EXPECT_THAT(two.paths(), ElementsAre("b0 b1 b2", "a0 a1"));
  EXPECT_THAT(two.jobs()[1].reason, HasSubstr("rank 0 is in both"));
  for (JobUnit& unit : two.units) unit.claims[0].source = RankSource::nccl_payload;  // counted in groups
  EXPECT_THAT(two.paths(), SizeIs(1));
  for (JobUnit& unit : two.units) unit.claims[0].source = RankSource::file_name;
  EXPECT_THAT(two.paths(), SizeIs(1));
  for (JobUnit& unit : two.units) unit.claims[0].source = RankSource::mpi_ranks;
  EXPECT_THAT(two.paths(), SizeIs(2));
}

TEST(Jobs, AVariableThatIsAlikeEverywhereTellsNoRanks) {
  Processes one;  // each by an srun of its own, with torch's ranks set inside
  for (const char* path : {"a", "b", "c"}) one.add(path).claims = {{RankSource::environment, 0, "SLURM_PROCID"}};
  EXPECT_THAT(one.paths(), ElementsAre("a b c"));
  one.units.back().claims[0].rank = 1;
  EXPECT_THAT(one.paths(), ElementsAre("a c", "b"));
}

TEST(Jobs, ACommunicatorIsInOneJobWhateverElseIsTold) {
  Processes one;
  one.add_rank("a", 0, 4).communicators = {{7, 0}};
  JobUnit& other = one.add_rank("b", 0, 8, 5 * hour);
  other.communicators = {{5, 0}, {7, 1}};
  other.launchers = {{"SLURM_JOB_ID", 9}};
  EXPECT_THAT(one.paths(), ElementsAre("a b"));
  // By way of another.
  one.add_rank("c", 0, 8, 9 * hour).communicators = {{5, -1}};
  EXPECT_THAT(one.paths(), ElementsAre("a b c"));
}

TEST(Jobs, ACommunicatorWithTwoOfOneRankIsTwo) {
  Processes copies;
  for (const char* path : {"a0", "a1", "b0", "b1"})
    copies.add_rank(path, path[1] - '0', 2).communicators = {{7, path[1] - '0'}};
  EXPECT_THAT(copies.paths(), ElementsAre("a0 a1", "b0 b1"));
}

TEST(Jobs, LaunchersAndWorldSizesTellThemApart) {
  Processes two;
  two.add("a").launchers = {{"SLURM_JOB_ID", 1}};
  two.add("b").launchers = {{"SLURM_JOB_ID", 2}};
  two.add("c").launchers = {{"TORCHELASTIC_RUN_ID", 1}};
  two.add("d").launchers = {{"SLURM_JOB_ID", 2}};
  EXPECT_THAT(two.paths(), ElementsAre("a c", "b d"));
  EXPECT_THAT(two.jobs()[1].reason, HasSubstr("their SLURM_JOB_ID differ"));
  for (JobUnit& unit : two.units) unit.launchers.clear();
  two.units[1].world_size = 4;
  EXPECT_THAT(two.paths(), SizeIs(1)) << "one alone tells nothing";
  two.units[2].world_size = 2;
  EXPECT_THAT(two.paths(), SizeIs(2));
  EXPECT_THAT(two.jobs()[1].reason, HasSubstr("their world sizes are"));
}

TEST(Jobs, OnOneHostAPauseTellsAttemptsApart) {
  Processes node;  // 25 s after the first attempt, in one export
  for (const Nanoseconds after_ns : {Nanoseconds{0}, Nanoseconds{0}, 75 * second, 75 * second, 75 * second})
    node.add("node", after_ns);
  ASSERT_THAT(node.jobs(), SizeIs(2));
  EXPECT_THAT(node.jobs()[0].units, ElementsAre(2, 3, 4));
  EXPECT_EQ(node.jobs()[0].trace_ranks, 3);
  EXPECT_EQ(node.jobs()[1].reason, "they ran one after the other");
  Processes exports;  // within what sessions of a host may be wrong by
  exports.add("a");
  exports.add("b", 50 * second + second);
  EXPECT_THAT(exports.paths(), SizeIs(1));
  exports.add("c", 102 * second + 1);
  EXPECT_THAT(exports.paths(), ElementsAre("a b", "c"));
  exports.units[0].recorded_utc = {0, 0};  // not known
  EXPECT_THAT(exports.paths(), ElementsAre("a b", "c"));
}

TEST(Jobs, BetweenHostsClocksMayBeWrongByLessThanAnHour) {
  Processes two;
  two.add("a");
  two.add("b", hour, "other");
  EXPECT_THAT(two.paths(), SizeIs(1));
  two.add("c", 3 * hour, "third");
  EXPECT_THAT(two.paths(), ElementsAre("a b", "c"));
  EXPECT_EQ(two.jobs()[1].reason, "they ran at different times");
  for (JobUnit& unit : two.units) unit.launchers = {{"SLURM_JOB_ID", 1}};
  EXPECT_THAT(two.paths(), SizeIs(1)) << "one launcher: it is the clock";
}

TEST(Jobs, WhatFitsSeveralGoesWhereItsTimeOrItsNameLies) {
  Processes restarted;  // the second node tells nothing but its times
  restarted.add("node0");
  restarted.add("node0", 100 * second);
  restarted.add("node1", 3 * second, "other");
  restarted.add("node1", 103 * second, "other");
  ASSERT_THAT(restarted.jobs(), SizeIs(2));
  EXPECT_THAT(restarted.jobs()[0].units, ElementsAre(0, 2));
  EXPECT_THAT(restarted.jobs()[1].units, ElementsAre(1, 3));
  Processes named;
  named.add_rank("run_a_0", 0, 4);
  named.add_rank("run_b_0", 0, 4);
  named.add_rank("run_b_1", 1, 4);
  named.add_rank("run_b_2", 2, 4);
  EXPECT_THAT(named.paths(), ElementsAre("run_b_0 run_b_1 run_b_2", "run_a_0"));
}

TEST(Jobs, TheUserSettlesTheMatter) {
  Processes two;
  two.add_rank("a", 0, 2);
  two.add_rank("b", 0, 4, 5 * hour).claims.push_back({RankSource::user, 1, "rank map"});
  EXPECT_THAT(two.paths(), ElementsAre("a b"));
}

TEST(Jobs, TheLargestComesFirst) {
  Processes jobs;
  jobs.add_rank("a", 0, 1).collectives = 5;
  jobs.add_rank("b", 0, 2).collectives = 6;
  jobs.add_rank("c", 0, 3).collectives = 6;
  EXPECT_THAT(jobs.paths(), ElementsAre("b", "c", "a")) << "of equal ones the first";
  jobs.units[2].recorded_utc.end_ns += second;
  EXPECT_THAT(jobs.paths(), ElementsAre("c", "b", "a"));
  jobs.units[0].trace_ranks = 2;
  EXPECT_THAT(jobs.paths(), ElementsAre("a", "c", "b"));
}

TEST(Jobs, CommandsAnalyseEachByItself) {
  Processes jobs;
  jobs.add_rank("a", 0, 1);
  jobs.add_rank("b 1", 0, 2);
  EXPECT_EQ(command_for(1, jobs.jobs(), jobs.units), "nsys-explain-mpi 'b 1' --out report-2");
  Processes attempts;
  attempts.add("node0");
  attempts.add("node0", 100 * second);
  attempts.add("node1", 101 * second, "other");
  EXPECT_EQ(command_for(0, attempts.jobs(), attempts.units),
            "nsys-explain-mpi node0 node1 --job-of node0:2 --out report-1");
  EXPECT_EQ(command_for(1, attempts.jobs(), attempts.units), "nsys-explain-mpi node0 --job-of node0:1 --out report-2");
}

TEST(Jobs, AreFoundByFileOrProcess) {
  Processes jobs;
  jobs.add("in/node0");
  jobs.add("in/node0", 100 * second);
  jobs.add("in/node1", 101 * second, "other");
  const auto found = [&](const std::string& name) { return job_of(name, jobs.jobs(), jobs.units); };
  EXPECT_EQ(found("in/node0"), 0);
  EXPECT_EQ(found("node1"), 0);
  EXPECT_EQ(found("in/node0:1"), 1);
  EXPECT_EQ(found("node0:2"), 0);
  EXPECT_EQ(found("node0:3"), -1);
  EXPECT_EQ(found("node"), -1);
  jobs.add("out/node0", 100 * second);
  EXPECT_EQ(found("node0"), -1) << "of which folder?";
}

TEST(Jobs, UnitsAreProcesses) {
  TraceRankIdentity first, second_device, other;
  first.key = {"a", 3, 0};
  first.process_id = 30;
  first.claims = {{RankSource::mpi_ranks, 5, ""}};
  second_device.key = {"a", 3, 1};
  other.key = {"a", 1, 0};
  Session session;
  session.utc_start_ns = 1'000;
  session.host = "h";
  SessionExtent extent;
  extent.world_size = 4;
  const std::vector<JobUnit> units =
      units_of({first, second_device, other}, session, extent, {{3, 30, {10, 20}, {{7, 1}}, 4, 12, {}}});
  ASSERT_THAT(units, SizeIs(2));
  EXPECT_EQ(units[1].trace_ranks, 2);
  EXPECT_EQ(units[1].recorded_utc, (Interval{1'010, 1'020}));
  EXPECT_THAT(units[1].communicators, ElementsAre(CommunicatorMember{7, 1}));
  EXPECT_EQ(std::tuple(units[1].collectives, units[1].world_size, units[1].claims.size()), std::tuple(12, 4, 1U));
}

TEST(Jobs, FactsOfAProcess) {
  Trace trace;
  ProcessTrace& process = trace.processes.emplace_back();
  process.global_pid = 5;
  for (const std::uint64_t communicator : {9, 4, 9, 0}) {
    NcclCall call;
    call.start_ns = 10;
    call.end_ns = 20;
    call.communicator = communicator;
    call.rank_count = 8;
    call.rank = communicator == 4 ? 2 : static_cast<std::int32_t>(process.nccl_calls.size());
    process.nccl_calls.push_back(call);
  }
  NvtxRange range;
  range.start_ns = 10;
  range.end_ns = 30;
  process.nvtx_ranges.push_back(range);
  const ProcessFacts facts = facts_of_processes(trace, std::vector<std::int64_t>{3})[0];
  EXPECT_THAT(facts.communicators, ElementsAre(CommunicatorMember{4, 2}, CommunicatorMember{9, -1}));
  EXPECT_EQ(std::tuple(facts.global_pid, facts.largest_communicator, facts.collectives), std::tuple(5U, 8, 3));
  EXPECT_EQ(facts.recorded, (Interval{10, 30}));
  trace.is_of_pytorch = true;  // its names of groups are those of any job
  EXPECT_THAT(facts_of_processes(trace, std::vector<std::int64_t>{3})[0].communicators, IsEmpty());
}

/// Operations on a communicator and a kernel of 10 ns for each, every 100 ns.
void run(ProcessTrace& process, std::uint64_t communicator, std::int32_t size, Nanoseconds start_ns, int operations) {
  for (int i = 0; i < operations; ++i, start_ns += 100) {
    NcclCall& call = process.nccl_calls.emplace_back();
    call.start_ns = start_ns;
    call.end_ns = start_ns + 5;
    call.communicator = communicator;
    call.rank_count = size;
    call.function = NcclFunction::all_reduce;
    process.devices.at(0).kernels.push_back({start_ns, start_ns + 10, 0, 0});
  }
}

ProcessTrace with_device() {
  ProcessTrace process;
  process.devices.emplace_back();
  return process;
}

TEST(ProcessRuns, APauseBetweenAllCommunicatorsAndTheirLikeTellsTwo) {
  ProcessTrace process = with_device();
  run(process, 1, 4, 0, 10);  // until 910
  run(process, 2, 4, 5'910, 20);
  const ProcessRuns runs = runs_of(process);
  EXPECT_THAT(runs.pauses, ElementsAre(3'410));
  EXPECT_EQ(runs.analysed, 1U);
}

TEST(ProcessRuns, TheFirstOfEqualOnesIsAnalysed) {
  ProcessTrace process = with_device();
  for (const std::uint64_t communicator : {1, 2, 3})
    run(process, communicator, 4, static_cast<Nanoseconds>(communicator) * 10'000, 10);
  EXPECT_THAT(runs_of(process).pauses, SizeIs(2));
  EXPECT_EQ(runs_of(process).analysed, 0U);
}

TEST(ProcessRuns, OtherGroupsLaterAreOneRun) {
  ProcessTrace other_size = with_device(), start_up = with_device(), no_pause = with_device(), spanned = with_device();
  run(other_size, 1, 4, 0, 10);
  run(other_size, 2, 2, 5'000, 10);
  EXPECT_THAT(runs_of(other_size).pauses, IsEmpty());
  run(start_up, 1, 4, 0, 1);
  run(start_up, 2, 4, 5'000, 11);
  EXPECT_THAT(runs_of(start_up).pauses, IsEmpty());
  run(no_pause, 1, 4, 0, 10);
  run(no_pause, 2, 4, 1'000, 10);
  EXPECT_THAT(runs_of(no_pause).pauses, IsEmpty()) << "no longer than between any two kernels";
  run(spanned, 1, 4, 0, 10);
  run(spanned, 2, 4, 5'000, 10);
  run(spanned, 1, 4, 9'000, 1);
  EXPECT_THAT(runs_of(spanned).pauses, IsEmpty());
}

}  // namespace
}  // namespace nsys_explain::ingest
