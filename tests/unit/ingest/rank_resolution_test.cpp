#include "ingest/rank_resolution.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "ingest/file_names.hpp"

namespace nsys_explain::ingest {
namespace {

using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

// --- parse_rank_map --------------------------------------------------------------------------------------------------

TEST(RankMap, ReadsBothFormsCommentsAndQuotes) {
  const RankOverrides map = parse_rank_map(
      "\xEF\xBB\xBF# ranks\r\n"
      "\n"
      "  node0*.sqlite\t3   # the first\r\n"
      "\"my \\\"odd\\\" #1.sqlite\" 100 2 7\n"
      "b.sqlite * 1 8");
  ASSERT_THAT(map.entries, SizeIs(3));
  EXPECT_EQ(map.entries[0].pattern, "node0*.sqlite");
  EXPECT_EQ(map.entries[0].rank, 3);
  EXPECT_FALSE(map.entries[0].process_id || map.entries[0].device_id);
  EXPECT_EQ(map.entries[1].pattern, "my \"odd\" #1.sqlite");
  EXPECT_EQ(map.entries[1].process_id, 100);
  EXPECT_EQ(map.entries[1].device_id, 2);
  EXPECT_EQ(map.entries[1].rank, 7);
  EXPECT_FALSE(map.entries[2].process_id);
  EXPECT_EQ(map.entries[2].device_id, 1);
  EXPECT_THAT(parse_rank_map("").entries, IsEmpty());
}

TEST(RankMap, RefusesNonsenseWithTheLineNumber) {
  for (const std::string line : {"a", "a b", "a -1", "a 1.5", "a 2147483648", "a 1 2", "a 1 2 3 4", "\"a 1", "\"\" 1",
                                 "a x 0 1", "a 1 x 1", "a *", "a 1x"}) {
    try {
      parse_rank_map("ok 0\n" + line + "\n");
      ADD_FAILURE() << "accepted: " << line;
    } catch (const std::invalid_argument& error) {
      EXPECT_THAT(error.what(), HasSubstr("line 2 ")) << line;
      EXPECT_THAT(error.what(), Not(HasSubstr("\n"))) << line;
    }
  }
}

TEST(RankMap, RegexNeedsAGroup) {
  EXPECT_NO_THROW(check_rank_regex(""));
  EXPECT_NO_THROW(check_rank_regex("r([0-9]+)"));
  EXPECT_THROW(check_rank_regex("r[0-9]+"), std::invalid_argument);
  EXPECT_THROW(check_rank_regex("r([0-9]+"), std::invalid_argument);
}

// --- file names ------------------------------------------------------------------------------------------------------

using Ranks = std::optional<std::vector<std::int32_t>>;
Ranks ranks(std::vector<std::int32_t> values) {
  return values;
}

TEST(FileNameRanks, NumberAfterRank) {
  EXPECT_EQ(file_name_ranks({"job_77_rank_3_on_nid001.sqlite", "job_77_rank_12_on_nid002.sqlite"}), ranks({3, 12}));
  EXPECT_EQ(file_name_ranks({"report_rank0.sqlite"}), ranks({0}));
  EXPECT_EQ(file_name_ranks({"Rank-4", "RANK=5", "rank.6.sqlite"}), ranks({4, 5, 6}));
  EXPECT_EQ(file_name_ranks({"out/rank1/trace.sqlite", "out/rank0/trace.sqlite"}), ranks({1, 0}));
  EXPECT_EQ(file_name_ranks({"node1_localrank0_rank8", "node1_localrank1_rank9"}), ranks({8, 9}));
  EXPECT_EQ(file_name_ranks({"rank5_local_rank_1", "rank6_local_rank_2"}), ranks({5, 6}));
}

TEST(FileNameRanks, NumberAfterMpi) {
  EXPECT_EQ(file_name_ranks({"app.mpi3.sqlite", "app.mpi1.sqlite"}), ranks({3, 1}));
}

TEST(FileNameRanks, PlainNumberThatDiffers) {
  EXPECT_EQ(file_name_ranks({"job_12345.3.sqlite", "job_12345.4.sqlite"}), ranks({3, 4}));
  EXPECT_EQ(file_name_ranks({"trace_3_job12345.sqlite", "trace_4_job12345.sqlite"}), ranks({3, 4}));
  EXPECT_EQ(file_name_ranks({"7/trace.sqlite", "2/trace.sqlite"}), ranks({7, 2}));
  // a rank and a small process id: {1, 3, 6} has the smaller maximum
  EXPECT_EQ(file_name_ranks({"t_1_57.sqlite", "t_3_58.sqlite", "t_6_61.sqlite"}), ranks({1, 3, 6}));
  EXPECT_EQ(file_name_ranks({"report0.sqlite", "report1.sqlite"}), ranks({0, 1}));
}

TEST(FileNameRanks, WhatIsNoRank) {
  EXPECT_EQ(file_name_ranks({}), std::nullopt);
  EXPECT_EQ(file_name_ranks({"job_12345.sqlite"}), std::nullopt);                  // one file tells nothing
  EXPECT_EQ(file_name_ranks({"a_12345.sqlite", "b_12345.sqlite"}), std::nullopt);  // the same for all
  EXPECT_EQ(file_name_ranks({"t_31001.sqlite", "t_31002.sqlite"}), std::nullopt);  // process ids
  EXPECT_EQ(file_name_ranks({"report1.sqlite", "report2.sqlite"}), std::nullopt);  // nsys' own counter
  EXPECT_EQ(file_name_ranks({"node1.sqlite", "node2.sqlite"}), std::nullopt);
  EXPECT_EQ(file_name_ranks({"rank1.sqlite", "b.sqlite"}), std::nullopt);
  EXPECT_EQ(file_name_ranks({"local_rank0.sqlite", "local_rank1.sqlite"}), std::nullopt);
  EXPECT_EQ(file_name_ranks({"1/rank0.sqlite", "2/rank0.sqlite"}), std::nullopt);  // ranks per directory
  EXPECT_EQ(file_name_ranks({"rank99999999999.sqlite"}), std::nullopt);
  EXPECT_EQ(file_name_ranks({"t99999999999999999999", "t1"}), std::nullopt);
}

TEST(NaturalOrder, DigitsCompareAsNumbers) {
  std::vector<std::string> names = {"r10", "r2", "r", "r1b", "r01", "r1", "r2/a", "a", "r99999999999999999999"};
  std::sort(names.begin(), names.end(), natural_less);
  EXPECT_THAT(names, ElementsAre("a", "r", "r01", "r1", "r1b", "r2", "r2/a", "r10", "r99999999999999999999"));
}

TEST(NaturalOrder, IsAStrictTotalOrder) {
  std::mt19937 random(3);
  std::vector<std::string> names;
  for (int i = 0; i < 60; ++i) {
    std::string name;
    for (std::size_t n = random() % 5; n > 0; --n) name += "01a./"[random() % 5];
    names.push_back(name);
  }
  for (const auto& a : names) {
    EXPECT_FALSE(natural_less(a, a));
    for (const auto& b : names) {
      EXPECT_EQ(natural_less(a, b) || natural_less(b, a), a != b) << a << ' ' << b;
      for (const auto& c : names) {
        if (natural_less(a, b) && natural_less(b, c)) {
          EXPECT_TRUE(natural_less(a, c)) << a << ' ' << b << ' ' << c;
        }
      }
    }
  }
}

// --- identify_trace_ranks --------------------------------------------------------------------------------------------

DeviceTrace device(std::int32_t id, Nanoseconds gpu_time_ns = 1000) {
  DeviceTrace result;
  result.device_id = id;
  result.gpu_name = "GPU";
  result.gpu_uuid = "uuid-" + std::to_string(id);
  if (gpu_time_ns > 0) {
    result.kernels.push_back({0, gpu_time_ns, 0, 0});
  } else {
    result.memory_operations.emplace_back();
  }
  return result;
}

ProcessTrace process(std::int32_t pid, std::vector<DeviceTrace> devices, std::vector<RankClaim> claims = {}) {
  ProcessTrace result;
  result.global_pid = std::uint64_t{1} << 48 | static_cast<std::uint64_t>(pid) << 24;
  result.process_id = pid;
  result.name = "python";
  result.devices = std::move(devices);
  result.claims = std::move(claims);
  return result;
}

Trace trace(std::vector<ProcessTrace> processes, const std::string& path = "/data/t.sqlite") {
  Trace result;
  result.session.path = path;
  result.session.host = "n0";
  result.strings = {""};
  result.processes = std::move(processes);
  return result;
}

NcclCall comm_init(std::int32_t rank, std::int32_t count, std::int32_t device_id) {
  NcclCall call;
  call.function = NcclFunction::comm_init;
  call.rank = rank;
  call.rank_count = count;
  call.device = device_id;
  return call;
}

auto claim(RankSource source, std::int32_t rank) {
  return testing::AllOf(Field(&RankClaim::source, source), Field(&RankClaim::rank, rank));
}

const RankClaim slurm_5 = {RankSource::environment, 5, "SLURM_PROCID"};
const RankClaim mpi_4 = {RankSource::mpi_ranks, 4, "MPI_RANKS"};

TEST(Identify, OneProcessOneDevice) {
  const auto found = identify_trace_ranks(trace({process(11, {device(0)}, {mpi_4, slurm_5})}), {});
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].trace_rank, -1);
  EXPECT_EQ(found[0].key.path, "/data/t.sqlite");
  EXPECT_EQ(found[0].key.global_pid, std::uint64_t{0x000100000B000000});
  EXPECT_EQ(found[0].key.device_id, 0);
  EXPECT_EQ(found[0].process_id, 11);
  EXPECT_EQ(found[0].process_name, "python");
  EXPECT_EQ(found[0].host, "n0");
  EXPECT_EQ(found[0].gpu_name, "GPU");
  EXPECT_EQ(found[0].gpu_uuid, "uuid-0");
  EXPECT_THAT(found[0].claims, ElementsAre(claim(RankSource::mpi_ranks, 4), claim(RankSource::environment, 5)));
}

TEST(Identify, ProcessesWithoutGpuAreNoTraceRanks) {
  EXPECT_THAT(identify_trace_ranks(trace({process(1, {}, {mpi_4})}), {}), IsEmpty());
  EXPECT_THAT(identify_trace_ranks(trace({}), {}), IsEmpty());
}

std::vector<std::int32_t> ids_of_hosts(const Trace& of) {
  std::vector<std::int32_t> ids;
  for (const TraceRankIdentity& host : identify_host_processes(of, {})) {
    EXPECT_EQ(host.key.device_id, -1);
    ids.push_back(host.process_id);
  }
  return ids;
}

/// All of an export without GPU work; beside GPU work those only that called NCCL for an operation.
TEST(Identify, HostProcesses) {
  ProcessTrace member = process(3, {}), maker = process(4, {}, {mpi_4});
  member.nccl_calls.emplace_back().function = NcclFunction::all_reduce;
  maker.nccl_calls.push_back(comm_init(0, 2, 0));
  ProcessTrace caller = process(2, {});
  caller.os_calls.emplace_back();
  maker.nvtx_ranges.push_back({});
  member.api_calls.push_back({});
  EXPECT_THAT(ids_of_hosts(trace({process(1, {device(0)}), caller, member, maker})), ElementsAre(3));
  EXPECT_THAT(ids_of_hosts(trace({caller, member, maker, process(5, {})})), ElementsAre(2, 3, 4));
  EXPECT_THAT(ids_of_hosts(trace({process(1, {device(0, 0)}), caller})), IsEmpty());  // copies are GPU work
  const auto found = identify_host_processes(trace({caller, maker}), parse_rank_map("t.sqlite 2 * 9"));
  EXPECT_THAT(found[0].claims, ElementsAre(claim(RankSource::user, 9)));
  EXPECT_THAT(found[1].claims, ElementsAre(claim(RankSource::mpi_ranks, 4)));
}

TEST(Identify, EnvironmentOfTheLauncherDoesNotTellSeveralRanksApart) {
  const Trace two = trace({process(11, {device(0)}, {slurm_5}), process(12, {device(1)}, {mpi_4, slurm_5})});
  const auto found = tell_helpers(two, identify_trace_ranks(two, {}), {false, false}).ranks;
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_THAT(found[0].claims, IsEmpty());
  EXPECT_THAT(found[1].claims, ElementsAre(claim(RankSource::mpi_ranks, 4)));
}

TEST(Identify, OneProcessWithSeveralDevicesAsksNccl) {
  auto both = process(11, {device(0), device(1)}, {mpi_4});
  both.nccl_calls = {comm_init(7, 8, 1), comm_init(6, 8, 0), comm_init(0, 2, 0), comm_init(3, 8, -1)};
  const auto found = identify_trace_ranks(trace({both}), {});
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_THAT(found[0].claims, ElementsAre(claim(RankSource::nccl_payload, 6)));
  EXPECT_THAT(found[1].claims, ElementsAre(claim(RankSource::nccl_payload, 7)));
}

TEST(Identify, LargestCommunicatorCountsUnlessItContradictsItself) {
  auto one = process(11, {device(0)}, {{RankSource::nccl_payload, 1, "of the process"}});
  one.nccl_calls = {comm_init(1, 2, 0), comm_init(5, 64, -1), comm_init(5, 64, 0), comm_init(3, 8, 0)};
  EXPECT_THAT(identify_trace_ranks(trace({one}), {})[0].claims, ElementsAre(claim(RankSource::nccl_payload, 5)));
  one.nccl_calls.push_back(comm_init(6, 64, 0));
  EXPECT_THAT(identify_trace_ranks(trace({one}), {})[0].claims, IsEmpty());
  one.nccl_calls.push_back(comm_init(9, 128, 0));  // a larger one settles it
  EXPECT_THAT(identify_trace_ranks(trace({one}), {})[0].claims, ElementsAre(claim(RankSource::nccl_payload, 9)));
  one.nccl_calls = {comm_init(8, 8, 0), comm_init(-1, 8, 0), comm_init(2, -1, 0)};  // impossible or unknown
  EXPECT_THAT(identify_trace_ranks(trace({one}), {})[0].claims, IsEmpty());
}

TEST(Identify, DeviceThatIsOnlyTouchedIsNoTraceRank) {
  const Trace stray = trace({
      process(11, {device(0, 0), device(3, 1000)}, {slurm_5}),
  });
  const auto found = identify_trace_ranks(stray, {});
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].key.device_id, 3);
  EXPECT_THAT(found[0].claims, ElementsAre(claim(RankSource::environment, 5)));
  ASSERT_THAT(side_device_warnings(stray), SizeIs(1));
  EXPECT_THAT(side_device_warnings(stray)[0].message, HasSubstr("device 0 of process 11"));

  EXPECT_THAT(identify_trace_ranks(trace({process(11, {device(0, 9), device(3, 1000)})}), {}), SizeIs(1));
  EXPECT_THAT(identify_trace_ranks(trace({process(11, {device(0, 10), device(3, 1000)})}), {}), SizeIs(2));
  EXPECT_THAT(identify_trace_ranks(trace({process(11, {device(0, 0), device(3, 0)})}), {}), SizeIs(2));
  EXPECT_THAT(side_device_warnings(trace({process(11, {device(0), device(3)})})), IsEmpty());

  auto idle_member = process(11, {device(0, 0), device(1, 1000)});
  idle_member.nccl_calls = {comm_init(0, 2, 0)};
  EXPECT_THAT(identify_trace_ranks(trace({idle_member}), {}), SizeIs(2));
}

TEST(Identify, UserEntriesMatchNameOrPathAndTheFirstCounts) {
  const Trace two = trace({process(11, {device(0)}), process(12, {device(1)})}, "/data/node[1].sqlite");
  const auto ranks_of = [&](const std::string& map, const std::string& regex = "") {
    RankOverrides overrides = parse_rank_map(map);
    overrides.regex = regex;
    std::vector<std::int32_t> result;
    for (const auto& identity : identify_trace_ranks(two, overrides)) {
      result.push_back(identity.claims.empty() ? -1 : identity.claims[0].rank);
    }
    return result;
  };
  EXPECT_THAT(ranks_of("node[1].sqlite 4\n"), ElementsAre(4, 4));  // literally
  EXPECT_THAT(ranks_of("node* 11 * 6\nnode* * 1 7"), ElementsAre(6, 7));
  EXPECT_THAT(ranks_of("/data/* 12 1 9\n* 11 0 8\n* 1"), ElementsAre(8, 9));
  EXPECT_THAT(ranks_of("* 12 0 9\nother* 3"), ElementsAre(-1, -1));
  EXPECT_THAT(ranks_of("* 11 0 8", "node.([0-9]+)"), ElementsAre(8, 1));
  EXPECT_THAT(ranks_of("", "(node)"), ElementsAre(-1, -1));  // not a number
  EXPECT_THROW(ranks_of("", "node"), std::invalid_argument);
}

TEST(Identify, EntriesThatMatchNothingAreTold) {
  const auto identities = identify_trace_ranks(trace({process(11, {device(0)})}), {});
  EXPECT_THAT(unused_entry_warnings(parse_rank_map("t.sqlite 0"), identities), IsEmpty());
  const auto warnings = unused_entry_warnings(parse_rank_map("t.sqlite 0\nu.sqlite 1\nt.sqlite 12 0 2"), identities);
  ASSERT_THAT(warnings, SizeIs(1));
  EXPECT_EQ(warnings[0].count, 2);
  EXPECT_THAT(warnings[0].message, HasSubstr("u.sqlite for rank 1"));
}

// --- resolve_trace_ranks ---------------------------------------------------------------------------------------------

TraceRankIdentity identity(const std::string& path, std::vector<RankClaim> claims = {}, std::int32_t pid = 1,
                           std::int32_t device_id = 0) {
  TraceRankIdentity result;
  result.key = {path, static_cast<std::uint64_t>(pid) << 24, device_id};
  result.process_id = pid;
  result.host = "host-of-" + path;
  result.claims = std::move(claims);
  return result;
}

RankClaim slurm(std::int32_t rank) {
  return {RankSource::environment, rank, "SLURM_PROCID"};
}
RankClaim open_mpi(std::int32_t rank) {
  return {RankSource::environment, rank, "OMPI_COMM_WORLD_RANK"};
}
RankClaim mpi(std::int32_t rank) {
  return {RankSource::mpi_ranks, rank, "MPI_RANKS"};
}
RankClaim nccl(std::int32_t rank, int size = 64) {
  return {RankSource::nccl_payload, rank, "communicator of " + std::to_string(size) + " ranks"};
}
RankClaim user(std::int32_t rank) {
  return {RankSource::user, rank, "rank map"};
}

/// "path:pid:device" of each trace rank, by number.
std::vector<std::string> order(const Resolution& resolution) {
  std::vector<std::string> result;
  for (const auto& rank : resolution.trace_ranks) {
    result.push_back(rank.key.path + ":" + std::to_string(rank.process_id) + ":" + std::to_string(rank.key.device_id));
  }
  return result;
}

std::vector<std::int32_t> numbers(const Resolution& resolution) {
  std::vector<std::int32_t> result;
  for (const auto& rank : resolution.trace_ranks) result.push_back(rank.trace_rank);
  return result;
}

std::vector<RankSource> sources(const Resolution& resolution) {
  std::vector<RankSource> result;
  for (const auto& rank : resolution.trace_ranks) result.push_back(rank.rank_source);
  return result;
}

auto warning(Severity severity, const std::string& part) {
  return testing::AllOf(Field(&Warning::severity, severity), Field(&Warning::message, HasSubstr(part)));
}

TEST(Resolve, NothingGivesNothing) {
  const Resolution resolution = resolve_trace_ranks({});
  EXPECT_THAT(resolution.trace_ranks, IsEmpty());
  EXPECT_THAT(resolution.warnings, IsEmpty());
}

/// "path number" of each.
std::vector<std::string> numbered(const std::vector<TraceRankIdentity>& processes) {
  std::vector<std::string> result;
  for (const auto& one : processes) result.push_back(one.key.path + " " + std::to_string(one.trace_rank));
  return result;
}

TEST(HostProcesses, KeepWhatTellsThemUnlessATraceRankHasIt) {
  const auto ranks = resolve_trace_ranks({identity("a", {slurm(0)}), identity("c", {slurm(2)})}).trace_ranks;
  EXPECT_THAT(numbered(number_host_processes({identity("b", {slurm(1)}), identity("d", {slurm(2)})}, ranks)),
              ElementsAre("b 1", "d 3"));
  EXPECT_THAT(numbered(number_host_processes({identity("b", {slurm(1)})}, {})), ElementsAre("b 1"));
  EXPECT_THAT(number_host_processes({}, ranks), IsEmpty());
}

/// A helper beside each of two ranks takes no number from them.
TEST(HostProcesses, ThoseThatNothingTellsOfComeLast) {
  const auto found = number_host_processes(
      {identity("a", {slurm(1)}, 7), identity("a", {}, 8), identity("b", {slurm(0)}, 7), identity("b", {}, 8)}, {});
  EXPECT_THAT(numbered(found), ElementsAre("b 0", "a 1", "a 2", "b 3"));
  EXPECT_EQ(found[2].rank_source, RankSource::file_order);
}

TEST(HostProcesses, WithoutAnyClaimTheyComeInFileOrderAfterTraceRanks) {
  const auto ranks = resolve_trace_ranks({identity("a", {}, 1)}).trace_ranks;
  EXPECT_THAT(numbered(number_host_processes({identity("a", {}, 3), identity("a", {}, 2)}, ranks)),
              ElementsAre("a 1", "a 2"));
  EXPECT_EQ(number_host_processes({identity("a", {}, 3), identity("a", {}, 2)}, ranks)[0].process_id, 2);
  EXPECT_THAT(numbered(number_host_processes({identity("a", {}, 3), identity("a", {}, 2)}, {})),
              ElementsAre("a 0", "a 1"));
}

TEST(HostProcesses, FileNamesTellWhereNothingElseDoes) {
  EXPECT_THAT(numbered(number_host_processes({identity("rank_4"), identity("rank_2")}, {})),
              ElementsAre("rank_2 2", "rank_4 4"));
}

TEST(HostProcesses, TheLargestNumberLeavesNoneBehindIt) {
  const auto ranks =
      resolve_trace_ranks({identity("a", {slurm(std::numeric_limits<std::int32_t>::max())})}).trace_ranks;
  EXPECT_THAT(numbered(number_host_processes({identity("b", {mpi(std::numeric_limits<std::int32_t>::max())})}, ranks)),
              ElementsAre("b 0"));
}

TEST(Resolve, AgreementIsSilent) {
  const Resolution resolution =
      resolve_trace_ranks({identity("b", {nccl(0), slurm(0)}), identity("a", {mpi(1), nccl(1), slurm(1)})});
  EXPECT_THAT(order(resolution), ElementsAre("b:1:0", "a:1:0"));
  EXPECT_THAT(numbers(resolution), ElementsAre(0, 1));
  EXPECT_THAT(sources(resolution), ElementsAre(RankSource::nccl_payload, RankSource::mpi_ranks));
  EXPECT_THAT(resolution.warnings, ElementsAre(warning(Severity::info, "several sources")));
  EXPECT_THAT(resolve_trace_ranks({identity("b", {slurm(0)}), identity("a", {slurm(1)})}).warnings, IsEmpty());
}

TEST(Resolve, ThreeOfEightKeepTheirNumbers) {
  const Resolution resolution =
      resolve_trace_ranks({identity("c", {slurm(6)}), identity("a", {slurm(1)}), identity("b", {slurm(3)})}, 8);
  EXPECT_THAT(numbers(resolution), ElementsAre(1, 3, 6));
  EXPECT_THAT(sources(resolution), Each(RankSource::environment));
  ASSERT_THAT(resolution.warnings, SizeIs(1));
  EXPECT_EQ(resolution.warnings[0].count, 5);
  EXPECT_THAT(resolution.warnings[0].message, HasSubstr("(0, 2, 4-5, 7)"));
}

TEST(Resolve, GapIsSeenWithoutWorldSize) {
  const auto warnings = resolve_trace_ranks({identity("a", {slurm(0)}), identity("b", {slurm(2)})}).warnings;
  EXPECT_THAT(warnings,
              ElementsAre(warning(Severity::data_loss, "1 of at least 3 ranks of the job were not captured")));
}

TEST(Resolve, FileNamesCountWhereNothingElseDoes) {
  const Resolution resolution =
      resolve_trace_ranks({identity("out/rank10.sqlite"), identity("out/rank2.sqlite"), identity("out/rank0.sqlite")});
  EXPECT_THAT(numbers(resolution), ElementsAre(0, 2, 10));
  EXPECT_THAT(sources(resolution), Each(RankSource::file_name));
}

TEST(Resolve, FileOrderIsNaturalAndLoud) {
  const Resolution resolution =
      resolve_trace_ranks({identity("node10.sqlite"), identity("node2.sqlite"), identity("node1.sqlite")}, 4);
  EXPECT_THAT(order(resolution), ElementsAre("node1.sqlite:1:0", "node2.sqlite:1:0", "node10.sqlite:1:0"));
  EXPECT_THAT(numbers(resolution), ElementsAre(0, 1, 2));
  EXPECT_THAT(sources(resolution), Each(RankSource::file_order));
  EXPECT_THAT(resolution.warnings, ElementsAre(warning(Severity::data_loss, "NOTHING RELIABLE"),
                                               warning(Severity::data_loss, "1 of 4 ranks")));
}

TEST(Resolve, SingleTraceRankIsRankZero) {
  const Resolution resolution = resolve_trace_ranks({identity("job_12345.sqlite")});
  EXPECT_THAT(numbers(resolution), ElementsAre(0));
  EXPECT_THAT(resolution.warnings, ElementsAre(warning(Severity::info, "only trace rank")));
}

TEST(Resolve, OneFilePerNodeOrdersByDeviceElseByProcess) {
  // torchrun: every process sees all GPUs and uses its own; processes start in any order
  EXPECT_THAT(order(resolve_trace_ranks({identity("n1", {}, 50, 1), identity("n1", {}, 51, 0),
                                         identity("n0", {}, 90, 0), identity("n0", {}, 80, 1)})),
              ElementsAre("n0:90:0", "n0:80:1", "n1:51:0", "n1:50:1"));
  // every process sees only its own GPU: all are device 0
  EXPECT_THAT(order(resolve_trace_ranks({identity("n0", {}, 12, 0), identity("n0", {}, 11, 0)})),
              ElementsAre("n0:11:0", "n0:12:0"));
  // two processes with two GPUs each
  EXPECT_THAT(order(resolve_trace_ranks({identity("n0", {}, 12, 1), identity("n0", {}, 12, 0),
                                         identity("n0", {}, 11, 1), identity("n0", {}, 11, 0)})),
              ElementsAre("n0:11:0", "n0:11:1", "n0:12:0", "n0:12:1"));
}

TEST(Resolve, NumberInTheNameOfAFileWithSeveralRanksIsNoRank) {
  const Resolution resolution =
      resolve_trace_ranks({identity("rank7", {}, 1, 0), identity("rank7", {}, 1, 1), identity("rank5", {}, 1, 0)});
  EXPECT_THAT(sources(resolution), Each(RankSource::file_order));
  EXPECT_THAT(numbers(resolution), ElementsAre(0, 1, 2));
}

TEST(Resolve, UselessVariableGivesWayToTheNextSource) {
  // one Slurm task runs mpirun: SLURM_PROCID is 0 everywhere, Open MPI's variable is right
  const Resolution by_variable =
      resolve_trace_ranks({identity("x", {slurm(0), open_mpi(1)}), identity("y", {open_mpi(0), slurm(0)})});
  EXPECT_THAT(order(by_variable), ElementsAre("y:1:0", "x:1:0"));
  EXPECT_THAT(by_variable.warnings, ElementsAre(testing::AllOf(warning(Severity::data_loss, "disagree"),
                                                               Field(&Warning::message, HasSubstr("SLURM_PROCID")))));

  const Resolution by_name = resolve_trace_ranks({identity("rank1", {slurm(0)}), identity("rank0", {slurm(0)})});
  EXPECT_THAT(order(by_name), ElementsAre("rank0:1:0", "rank1:1:0"));
  EXPECT_THAT(sources(by_name), Each(RankSource::file_name));
  EXPECT_THAT(by_name.warnings, Contains(warning(Severity::data_loss, "rank 0 is given to 2 trace ranks")));
  EXPECT_THAT(by_name.warnings, Contains(warning(Severity::info, "the file names number all trace ranks")));
}

TEST(Resolve, DisagreeingSourcesAreReportedAndTheBetterIsFollowed) {
  const Resolution resolution =
      resolve_trace_ranks({identity("a", {mpi(0), slurm(1)}), identity("b", {mpi(1), slurm(0)})});
  EXPECT_THAT(order(resolution), ElementsAre("a:1:0", "b:1:0"));
  ASSERT_THAT(resolution.warnings, SizeIs(1));
  EXPECT_EQ(resolution.warnings[0].severity, Severity::data_loss);
  EXPECT_EQ(resolution.warnings[0].count, 2);
  EXPECT_THAT(resolution.warnings[0].message, HasSubstr("a process 1 device 0: 0 against 1"));
}

TEST(Resolve, UserOverridesSilencesToAnInfo) {
  const Resolution resolution =
      resolve_trace_ranks({identity("a", {user(5), mpi(0)}), identity("b", {user(4), mpi(1)})}, 6);
  EXPECT_THAT(numbers(resolution), ElementsAre(4, 5));
  EXPECT_THAT(sources(resolution), Each(RankSource::user));
  EXPECT_THAT(resolution.warnings, Contains(warning(Severity::info, "disagree")));
}

TEST(Resolve, FileNamesThatContradictBetterSourcesAreAnInfo) {
  EXPECT_THAT(resolve_trace_ranks({identity("rank1", {mpi(0)}), identity("rank0", {mpi(1)})}).warnings,
              ElementsAre(warning(Severity::info, "disagree")));
}

TEST(Resolve, OneRankTooManyDoesNotRenumberTheOthers) {
  // "d" claims 1 like "b"; names tell nothing
  const Resolution resolution = resolve_trace_ranks(
      {identity("d", {slurm(1)}), identity("a", {slurm(0)}), identity("b", {slurm(1)}), identity("c", {slurm(2)})});
  EXPECT_THAT(order(resolution), ElementsAre("a:1:0", "b:1:0", "c:1:0", "d:1:0"));
  EXPECT_THAT(numbers(resolution), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(resolution.trace_ranks[3].rank_source, RankSource::file_order);
  EXPECT_EQ(resolution.trace_ranks[1].rank_source, RankSource::environment);
  EXPECT_THAT(resolution.warnings,
              Contains(warning(Severity::data_loss,
                               "b process 1 device 0 by the environment (SLURM_PROCID), d process 1 device 0")));
  EXPECT_THAT(resolution.warnings, Contains(warning(Severity::data_loss, "after the largest known rank (3;")));
}

TEST(Resolve, TraceRankWithoutClaimComesLast) {
  const Resolution resolution =
      resolve_trace_ranks({identity("a", {}, 9, 0), identity("a", {nccl(5)}, 8, 0), identity("b", {nccl(3)})});
  EXPECT_THAT(order(resolution), ElementsAre("b:1:0", "a:8:0", "a:9:0"));
  EXPECT_THAT(numbers(resolution), ElementsAre(3, 5, 6));
  EXPECT_THAT(resolution.warnings, Contains(warning(Severity::data_loss, "nothing tells the rank of 1 of 3")));
}

TEST(Resolve, LocalRanksOfTwoNodesFallBackToFileOrder) {
  const Resolution resolution = resolve_trace_ranks({identity("b", {mpi(1)}, 2, 1), identity("b", {mpi(0)}, 1, 0),
                                                     identity("a", {mpi(1)}, 2, 1), identity("a", {mpi(0)}, 1, 0)});
  EXPECT_THAT(order(resolution), ElementsAre("a:1:0", "a:2:1", "b:1:0", "b:2:1"));
  EXPECT_THAT(numbers(resolution), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(sources(resolution), Each(RankSource::file_order));
  EXPECT_THAT(resolution.warnings, Contains(warning(Severity::data_loss, "and so are 1 more numbers")));
}

TEST(Resolve, UserKeepsNumbersInFileOrder) {
  const Resolution resolution =
      resolve_trace_ranks({identity("a"), identity("b", {user(1)}), identity("c"), identity("d")});
  EXPECT_THAT(order(resolution), ElementsAre("a:1:0", "b:1:0", "c:1:0", "d:1:0"));
  EXPECT_THAT(sources(resolution),
              ElementsAre(RankSource::file_order, RankSource::user, RankSource::file_order, RankSource::file_order));
}

TEST(Resolve, UserWinsOverAnotherClaimOfTheSameNumber) {
  const Resolution resolution =
      resolve_trace_ranks({identity("a", {mpi(0)}), identity("b", {mpi(1)}), identity("c", {user(1)})});
  EXPECT_THAT(order(resolution), ElementsAre("a:1:0", "c:1:0", "b:1:0"));
  EXPECT_THAT(resolution.warnings, Contains(warning(Severity::data_loss, "rank 1 is given to 2")));
}

TEST(Resolve, UserWhoGivesOneNumberToAWholeNodeIsToldHowToGiveMore) {
  const auto warnings = resolve_trace_ranks({identity("a", {user(0)}, 1, 0), identity("a", {user(0)}, 2, 1)}).warnings;
  EXPECT_THAT(warnings, Contains(warning(Severity::data_loss, "PATTERN PID DEVICE RANK")));
}

TEST(Resolve, TwoCapturesOfOneProcessAreRecognised) {
  auto first = identity("capture1", {mpi(0)}, 77);
  auto second = identity("capture2", {mpi(0)}, 77);
  first.host = second.host = "n0";
  EXPECT_THAT(resolve_trace_ranks({first, second}).warnings,
              Contains(warning(Severity::data_loss, "two captures of one process")));
}

TEST(Resolve, RanksInASubCommunicatorAreNotRanksOfTheJob) {
  // ranks 4 and 5 of the job; the capture holds only their tensor-parallel pair
  const Resolution resolution =
      resolve_trace_ranks({identity("a", {nccl(0, 2), slurm(4)}), identity("b", {nccl(1, 2), slurm(5)})}, 8);
  EXPECT_THAT(numbers(resolution), ElementsAre(4, 5));
  EXPECT_THAT(sources(resolution), Each(RankSource::environment));
  EXPECT_THAT(resolution.warnings, Contains(warning(Severity::info, "not the whole job")));
  // but a variable that says the same everywhere proves nothing
  const Resolution constant =
      resolve_trace_ranks({identity("a", {nccl(1), slurm(9)}), identity("b", {nccl(0), slurm(9)})});
  EXPECT_THAT(order(constant), ElementsAre("b:1:0", "a:1:0"));
  EXPECT_THAT(sources(constant), Each(RankSource::nccl_payload));
  // and a member of a sub-communicator cannot have a higher rank in it than in the job
  const Resolution crossed =
      resolve_trace_ranks({identity("a", {nccl(1), slurm(0)}), identity("b", {nccl(0), slurm(1)})});
  EXPECT_THAT(order(crossed), ElementsAre("b:1:0", "a:1:0"));
  EXPECT_THAT(sources(crossed), Each(RankSource::nccl_payload));
}

TEST(Resolve, RanksInCommunicatorsOfDifferentSizesDoNotMix) {
  const Resolution resolution = resolve_trace_ranks({identity("a", {nccl(2, 64)}), identity("b", {nccl(1, 8)})});
  EXPECT_THAT(sources(resolution), Each(RankSource::file_order));
  EXPECT_THAT(resolution.warnings, Contains(warning(Severity::data_loss, "communicators of different sizes")));
}

TEST(Resolve, HugeAndNegativeNumbersDoNoHarm) {
  const std::int32_t huge = std::numeric_limits<std::int32_t>::max();
  const Resolution kept = resolve_trace_ranks({identity("a", {slurm(huge)}), identity("b", {slurm(0)})});
  EXPECT_THAT(numbers(kept), ElementsAre(0, huge));
  EXPECT_EQ(kept.warnings.at(0).count, std::int64_t{huge} - 1);
  const Resolution full =
      resolve_trace_ranks({identity("a", {slurm(huge)}), identity("b", {slurm(0)}), identity("c", {slurm(-3)})});
  EXPECT_THAT(numbers(full), ElementsAre(0, 1, 2));
}

TEST(Resolve, EqualKeysStillGetDifferentNumbers) {
  EXPECT_THAT(numbers(resolve_trace_ranks({identity("a"), identity("a")})), ElementsAre(0, 1));
}

/// Random claims, right and wrong: any order of the identities gives the same result, every number is used once, every
/// identity is there, and without conflict every best claim is followed.
TEST(Resolve, IsAFunctionOfTheSetAndNumbersAreUnique) {
  std::mt19937 random(7);
  const auto some = [&](std::size_t n) { return static_cast<std::int32_t>(random() % n); };
  for (int round = 0; round < 500; ++round) {
    std::vector<TraceRankIdentity> identities;
    const int count = 1 + some(8);
    for (std::int32_t i = 0; i < count; ++i) {
      std::vector<RankClaim> claims;
      if (some(10) == 0) claims.push_back(user(some(8)));
      if (some(3) == 0) claims.push_back(mpi(some(4) == 0 ? some(8) : i));
      if (some(3) == 0) claims.push_back(nccl(some(4) == 0 ? some(8) : i, some(5) == 0 ? 8 : 64));
      if (some(2) == 0) claims.push_back(slurm(some(4) == 0 ? some(8) : i));
      if (some(4) == 0) claims.push_back(open_mpi(i));
      identities.push_back(identity("trace" + std::to_string(some(3) == 0 ? 1 : i), claims, 100 + i, some(2)));
    }
    const Resolution first = resolve_trace_ranks(identities);
    std::shuffle(identities.begin(), identities.end(), random);
    for (auto& each : identities) std::shuffle(each.claims.begin(), each.claims.end(), random);
    const Resolution second = resolve_trace_ranks(identities);
    ASSERT_EQ(order(first), order(second));
    ASSERT_EQ(numbers(first), numbers(second));
    ASSERT_EQ(sources(first), sources(second));
    ASSERT_EQ(first.warnings, second.warnings);
    ASSERT_THAT(first.trace_ranks, SizeIs(count));
    const auto used = numbers(first);
    ASSERT_EQ(std::set<std::int32_t>(used.begin(), used.end()).size(), used.size());
    ASSERT_GE(used.front(), 0);
    for (const auto& each : first.warnings) {
      EXPECT_THAT(each.message, Not(HasSubstr("\n")));
      EXPECT_GE(each.count, 1);
    }
  }
}

}  // namespace
}  // namespace nsys_explain::ingest
