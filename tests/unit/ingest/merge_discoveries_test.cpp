#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "nsys_explain/ingest/discovery.hpp"

namespace nsys_explain::ingest {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

FoundTrace file(const std::string& path, std::int64_t bytes, std::uint64_t hash = 1) {
  return {path, bytes, 1000, 7, 42, hash};
}

HostDiscovery rank_on(const std::string& host, std::vector<FoundTrace> traces) {
  return {host, {std::move(traces), {}, {}, {}}};
}

std::vector<int> readers(const MergedDiscovery& merged) {
  std::vector<int> result;
  for (const auto& trace : merged.traces) result.push_back(trace.tool_rank);
  return result;
}

std::vector<std::string> names(const MergedDiscovery& merged) {
  std::vector<std::string> result;
  for (const auto& trace : merged.traces) result.push_back(trace.name);
  return result;
}

TEST(MergeDiscoveries, OneRankReadsAll) {
  const auto merged = merge_discoveries({rank_on("a", {file("/x", 5), file("/y", 3)})});
  EXPECT_THAT(merged.traces,
              ElementsAre(AssignedTrace{"/x", "/x", 5, 0, 1000, 1}, AssignedTrace{"/y", "/y", 3, 0, 1000, 1}));
}

TEST(MergeDiscoveries, SharedFilesAreReadOnceLargestFirst) {
  const std::vector<FoundTrace> all = {file("/a", 7), file("/b", 6), file("/c", 5), file("/d", 4)};
  const auto merged = merge_discoveries({rank_on("n0", all), rank_on("n1", all)});
  // 7 -> 0, 6 -> 1, 5 -> 1 (6 < 7), 4 -> 0 (7 < 11)
  EXPECT_THAT(readers(merged), ElementsAre(0, 1, 1, 0));
  EXPECT_THAT(names(merged), ElementsAre("/a", "/b", "/c", "/d"));
  EXPECT_THAT(merged.warnings, IsEmpty());
}

TEST(MergeDiscoveries, InodeAndDeviceOfNetworkFileSystemsDoNotMatter) {
  FoundTrace elsewhere = file("/a", 7);
  elsewhere.device = 99;
  elsewhere.inode = 4711;
  EXPECT_THAT(merge_discoveries({rank_on("n0", {file("/a", 7)}), rank_on("n1", {elsewhere})}).traces, SizeIs(1));
}

TEST(MergeDiscoveries, EqualFilesSpreadOverHostsBeforeRanksOfOneHost) {
  const std::vector<FoundTrace> all = {file("/a", 1), file("/b", 1), file("/c", 1), file("/d", 1)};
  const auto merged =
      merge_discoveries({rank_on("n0", all), rank_on("n0", all), rank_on("n1", all), rank_on("n1", all)});
  EXPECT_THAT(readers(merged), ElementsAre(0, 2, 1, 3));
}

TEST(MergeDiscoveries, NodeLocalFilesAreReadWhereTheyAre) {
  const auto merged = merge_discoveries({rank_on("n0", {file("/tmp/rank0", 9)}), rank_on("n1", {file("/tmp/rank1", 9)}),
                                         rank_on("n1", {file("/tmp/rank1", 9)})});
  EXPECT_THAT(names(merged), ElementsAre("/tmp/rank0", "/tmp/rank1"));
  EXPECT_THAT(readers(merged), ElementsAre(0, 1));
}

TEST(MergeDiscoveries, LocalFilesAreGivenOutBeforeSharedOnes) {
  // Rank 0 alone can read the small file; the large shared one must then go to rank 1 in spite of its size.
  const auto merged = merge_discoveries(
      {rank_on("n0", {file("/local", 1), file("/shared", 100)}), rank_on("n1", {file("/shared", 100)})});
  EXPECT_THAT(merged.traces, ElementsAre(AssignedTrace{"/local", "/local", 1, 0, 1000, 1},
                                         AssignedTrace{"/shared", "/shared", 100, 1, 1000, 1}));
}

TEST(MergeDiscoveries, DifferentFilesUnderOnePathAreKeptApart) {
  const auto merged =
      merge_discoveries({rank_on("n1", {file("/tmp/trace", 9, 1)}), rank_on("n0", {file("/tmp/trace", 9, 2)})});
  EXPECT_THAT(merged.traces, ElementsAre(AssignedTrace{"/tmp/trace", "n0:/tmp/trace", 9, 1, 1000, 2},
                                         AssignedTrace{"/tmp/trace", "n1:/tmp/trace", 9, 0, 1000, 1}));
  ASSERT_THAT(merged.warnings, SizeIs(1));
  EXPECT_THAT(merged.warnings[0].message, HasSubstr("different files under one path"));
}

TEST(MergeDiscoveries, EachPropertyOfTheFingerprintCounts) {
  const FoundTrace base = file("/t", 9);
  for (int property = 0; property < 3; ++property) {
    FoundTrace other = base;
    if (property == 0) other.bytes = 10;
    if (property == 1) other.modified_ns = 1001;
    if (property == 2) other.sample_hash = 2;
    EXPECT_THAT(merge_discoveries({rank_on("n0", {base}), rank_on("n1", {other})}).traces, SizeIs(2)) << property;
  }
}

TEST(MergeDiscoveries, FileThatGrowsWhileRanksOfOneHostLookIsOneFile) {
  FoundTrace later = file("/t", 12);
  later.modified_ns = 2000;
  const auto merged = merge_discoveries({rank_on("n0", {file("/t", 9)}), rank_on("n0", {later})});
  EXPECT_THAT(merged.traces, ElementsAre(AssignedTrace{"/t", "/t", 12, 0, 2000, 1}));
}

HostDiscovery with_absent(HostDiscovery entry, const std::string& path) {
  entry.discovery.absent.push_back({path, InputStatus::failed, "nothing there: x; y"});
  return entry;
}

HostDiscovery with_failed(HostDiscovery entry, const std::string& path, const std::string& message = "bad: x; y") {
  entry.discovery.failed.push_back({path, InputStatus::failed, message});
  return entry;
}

TEST(MergeDiscoveries, AbsentIsAFailureOnlyIfAbsentEverywhere) {
  const auto here = rank_on("n0", {file("/tmp/a", 1)});
  const auto there = with_absent(rank_on("n1", {}), "/tmp/*");
  EXPECT_THAT(merge_discoveries({here, there}).failed, IsEmpty());
  const auto nowhere = merge_discoveries({with_absent(rank_on("n0", {}), "/tmp/*"), there});
  ASSERT_THAT(nowhere.failed, SizeIs(1));
  EXPECT_EQ(nowhere.failed[0].path, "/tmp/*");
}

TEST(MergeDiscoveries, FailuresAreReportedOnceWhoeverMetThem) {
  const auto a = with_failed(rank_on("n0", {}), "/p", "message b");
  const auto b = with_failed(rank_on("n1", {}), "/p", "message a");
  for (const auto& merged : {merge_discoveries({a, b}), merge_discoveries({b, a}), merge_discoveries({a, b, b})}) {
    ASSERT_THAT(merged.failed, SizeIs(1));
    EXPECT_EQ(merged.failed[0].message, "message a");
  }
}

TEST(MergeDiscoveries, UnreadableOnOneHostIsAWarningWhereAnotherReadsIt) {
  const auto merged = merge_discoveries({with_failed(rank_on("n0", {}), "/p"), rank_on("n1", {file("/p", 3)})});
  EXPECT_THAT(merged.traces, SizeIs(1));
  EXPECT_THAT(merged.failed, IsEmpty());
  ASSERT_THAT(merged.warnings, SizeIs(1));
  EXPECT_EQ(merged.warnings[0].severity, Severity::data_loss);
  EXPECT_THAT(merged.warnings[0].message, HasSubstr("host n0 cannot read /p"));
}

TEST(MergeDiscoveries, WarningsOfAllRanksAreSaidOnce) {
  auto entry = rank_on("n0", {file("/p", 3)});
  entry.discovery.warnings.push_back({Severity::info, WarningSource::analysis, 2, "twice"});
  const auto merged = merge_discoveries({entry, entry, entry});
  ASSERT_THAT(merged.warnings, SizeIs(1));
  EXPECT_EQ(merged.warnings[0].count, 2);
}

/// Random files on random hosts: everything but the reader is independent of how many tool ranks run on the hosts,
/// every file is read once, by somebody who has it.
TEST(MergeDiscoveries, OnlyTheReaderDependsOnTheToolRanks) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::map<std::string, HostDiscovery> hosts;
    for (const std::string host : {"a", "b", "c"}) hosts[host].host = host;
    for (int f = 0; f < 12; ++f) {
      const std::string path = "/f" + std::to_string(f);
      for (auto& [name, host] : hosts) {
        if (random() % 2 == 0) host.discovery.traces.push_back(file(path, static_cast<std::int64_t>(random() % 3)));
      }
    }
    std::vector<HostDiscovery> few, many;
    for (const auto& [name, host] : hosts) few.push_back(host);
    for (const auto& [name, host] : hosts) many.insert(many.end(), 1 + random() % 3, host);
    std::shuffle(many.begin(), many.end(), random);
    const auto one = merge_discoveries(few), other = merge_discoveries(many);
    ASSERT_EQ(names(one), names(other));
    for (const auto& trace : other.traces) {
      const auto& own = many[trace.tool_rank].discovery.traces;
      EXPECT_TRUE(std::any_of(own.begin(), own.end(),
                              [&](const FoundTrace& t) { return t.path == trace.path && t.bytes == trace.bytes; }));
    }
  }
}

}  // namespace
}  // namespace nsys_explain::ingest
