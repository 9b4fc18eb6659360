#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "ingest/export_report.hpp"
#include "ingest/file_names.hpp"
#include "model/text.hpp"
#include "nsys_explain/ingest/discovery.hpp"

namespace nsys_explain::ingest {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

/// Each test has a directory of its own, empty at the start and removed at the end.
class Discover : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "discover_test_XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  void TearDown() override {
    std::error_code ignored;
    fs::permissions(root_, fs::perms::owner_all, fs::perm_options::add, ignored);
    fs::remove_all(root_, ignored);
  }

  std::string at(const std::string& name) const { return root_ + "/" + name; }

  std::string write(const std::string& name, const std::string& content = "events") const {
    const fs::path path = at(name);
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << content;
    return path.string();
  }

  static void set_modified(const std::string& path, std::int64_t seconds) {
    const std::array<timespec, 2> times = {timespec{seconds, 0}, timespec{seconds, 0}};
    ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times.data(), 0), 0);
  }

  static std::vector<std::string> paths(const std::vector<FoundTrace>& traces) {
    std::vector<std::string> result;
    result.reserve(traces.size());
    for (const auto& trace : traces) result.push_back(trace.path);
    return result;
  }

  std::string root_;
};

template <class T>
std::vector<std::string> paths_of(const std::vector<T>& reports) {
  std::vector<std::string> result;
  result.reserve(reports.size());
  for (const auto& report : reports) result.push_back(report.path);
  return result;
}

TEST_F(Discover, FileIsTakenAsNamed) {
  const std::string path = write("any name", "1234567");
  set_modified(path, 1'700'000'000);
  const Discovery found = discover({path});
  ASSERT_THAT(found.traces, SizeIs(1));
  EXPECT_EQ(found.traces[0].path, path);
  EXPECT_EQ(found.traces[0].bytes, 7);
  EXPECT_EQ(found.traces[0].modified_ns, 1'700'000'000'000'000'000);
  EXPECT_THAT(found.failed, IsEmpty());
  EXPECT_THAT(found.absent, IsEmpty());
  EXPECT_THAT(found.warnings, IsEmpty());
}

TEST_F(Discover, DirectoryGivesItsExportsOnlySortedByBytes) {
  write("rank10.sqlite");
  write("rank2.sqlite");
  write("Rank3.sqlite");
  write("notes.txt");
  write(".rank4.sqlite");        // what rsync leaves behind
  write("deeper/rank5.sqlite");  // not recursive
  write("rank6.sqlite/inside");  // a directory, in spite of its name
  write("rank2.sqlite-wal");
  EXPECT_THAT(paths(discover({root_}).traces),
              ElementsAre(at("Rank3.sqlite"), at("rank10.sqlite"), at("rank2.sqlite")));
  EXPECT_THAT(paths(discover({root_ + "/"}).traces),
              ElementsAre(at("Rank3.sqlite"), at("rank10.sqlite"), at("rank2.sqlite")));
}

TEST_F(Discover, OrderOfArgumentsDoesNotMatter) {
  write("a.sqlite");
  write("b.sqlite");
  const std::vector<std::string> arguments = {at("b.sqlite"), at("missing"), at("*.sqlite"), at("nothing*")};
  const Discovery forward = discover(arguments);
  const Discovery backward = discover({arguments.rbegin(), arguments.rend()});
  EXPECT_EQ(forward.traces, backward.traces);
  EXPECT_EQ(forward.warnings, backward.warnings);
  EXPECT_EQ(paths_of(forward.absent), paths_of(backward.absent));
  EXPECT_THAT(paths(forward.traces), ElementsAre(at("a.sqlite"), at("b.sqlite")));
}

TEST_F(Discover, PatternsWorkInEveryComponent) {
  write("node0/rank0.sqlite");
  write("node0/rank1.sqlite");
  write("node1/rank2.sqlite");
  write("node1/rank12.sqlite");
  write("other/rank9.sqlite");
  EXPECT_THAT(paths(discover({at("node?/rank[0-2].sqlite")}).traces),
              ElementsAre(at("node0/rank0.sqlite"), at("node0/rank1.sqlite"), at("node1/rank2.sqlite")));
  EXPECT_THAT(paths(discover({at("node[!0]/*")}).traces),
              ElementsAre(at("node1/rank12.sqlite"), at("node1/rank2.sqlite")));
}

TEST_F(Discover, PatternThatMatchesDirectoriesTakesTheirExports) {
  write("node0/a.sqlite");
  write("node1/b.sqlite");
  write("node2/readme");
  const Discovery found = discover({at("node*")});
  EXPECT_THAT(paths(found.traces), ElementsAre(at("node0/a.sqlite"), at("node1/b.sqlite")));
  EXPECT_THAT(found.failed, IsEmpty());
  EXPECT_THAT(found.absent, IsEmpty());
  EXPECT_THAT(paths_of(discover({at("node2*")}).absent), ElementsAre(at("node2*")));
}

TEST_F(Discover, DoubleStarMeansAnyNumberOfDirectories) {
  write("a.sqlite");
  write("x/b.sqlite");
  write("x/y/c.sqlite");
  write("x/y/c.txt");
  fs::create_directory_symlink(root_, at("x/loop"));
  EXPECT_THAT(paths(discover({at("**")}).traces), ElementsAre(at("a.sqlite"), at("x/b.sqlite"), at("x/y/c.sqlite")));
  EXPECT_THAT(paths(discover({at("**/c.*")}).traces), ElementsAre(at("x/y/c.sqlite"), at("x/y/c.txt")));
}

TEST_F(Discover, LiteralNameWinsOverPattern) {
  write("run[1].sqlite", "literal");
  write("run1.sqlite", "matched");
  EXPECT_THAT(paths(discover({at("run[1].sqlite")}).traces), ElementsAre(at("run[1].sqlite")));
  write("dir[1]/a.sqlite");
  write("dir1/b.sqlite");
  EXPECT_THAT(paths(discover({at("dir[1]/*.sqlite")}).traces), ElementsAre(at("dir[1]/a.sqlite")));
}

TEST_F(Discover, WeirdNamesSurvive) {
  const std::vector<std::string> names = {"a b.sqlite",   "c\nd.sqlite", "e\xff\xfe.sqlite",
                                          "f'\"$.sqlite", "-g.sqlite",   "h\xc3\xa9.sqlite"};
  std::set<std::string> expected;
  for (const auto& name : names) {
    int file = ::open(at(name).c_str(), O_CREAT | O_WRONLY, 0600);
    if (file < 0) continue;  // a file system that refuses such names cannot hold them either
    ::close(file);
    expected.insert(at(name));
  }
  ASSERT_FALSE(expected.empty());
  EXPECT_THAT(paths(discover({root_}).traces), testing::ElementsAreArray(expected));
  EXPECT_THAT(paths(discover({at("*.sqlite")}).traces), testing::ElementsAreArray(expected));
}

TEST_F(Discover, MissingFileIsAbsentHereNotFailed) {
  const Discovery found = discover({at("missing.sqlite"), at("no/such/dir"), at("none*.sqlite"), root_});
  EXPECT_THAT(found.failed, IsEmpty());
  EXPECT_THAT(paths_of(found.absent), ElementsAre(root_, at("missing.sqlite"), at("no/such/dir"), at("none*.sqlite")));
  for (const auto& input : found.absent) {
    EXPECT_EQ(input.status, InputStatus::failed);
    EXPECT_THAT(input.message, HasSubstr(": "));
    EXPECT_THAT(input.message, HasSubstr("; "));
  }
}

TEST_F(Discover, EmptyArgumentFails) {
  const Discovery found = discover({""});
  ASSERT_THAT(found.failed, SizeIs(1));
  EXPECT_THAT(found.failed[0].message, HasSubstr("empty"));
}

TEST_F(Discover, NoArgumentsGiveNothing) {
  const Discovery found = discover({});
  EXPECT_THAT(found.traces, IsEmpty());
  EXPECT_THAT(found.failed, IsEmpty());
  EXPECT_THAT(found.absent, IsEmpty());
}

TEST_F(Discover, DanglingLinkIsAbsentAsAnArgumentAndFailedInAListing) {
  fs::create_symlink(at("gone"), at("link.sqlite"));
  EXPECT_THAT(paths_of(discover({at("link.sqlite")}).absent), ElementsAre(at("link.sqlite")));
  for (const auto& argument : {root_, at("*.sqlite")}) {
    const Discovery found = discover({argument});
    EXPECT_THAT(paths_of(found.failed), ElementsAre(at("link.sqlite"))) << argument;
    EXPECT_THAT(found.absent, IsEmpty()) << argument;
  }
}

TEST_F(Discover, LinkLoopFails) {
  fs::create_symlink(at("b"), at("a"));
  fs::create_symlink(at("a"), at("b"));
  EXPECT_THAT(paths_of(discover({at("a")}).failed), ElementsAre(at("a")));
}

TEST_F(Discover, PipeAndDeviceFailWithoutBlocking) {
  ASSERT_EQ(::mkfifo(at("pipe.sqlite").c_str(), 0600), 0);
  const Discovery found = discover({root_, "/dev/null"});
  EXPECT_THAT(paths_of(found.failed), ElementsAre("/dev/null", at("pipe.sqlite")));
  EXPECT_THAT(found.failed[0].message, HasSubstr("a device"));
  EXPECT_THAT(found.failed[1].message, HasSubstr("named pipe"));
  EXPECT_THAT(found.traces, IsEmpty());
}

TEST_F(Discover, UnreadableFileAndDirectoryFail) {
  if (::geteuid() == 0) GTEST_SKIP() << "SKIPPED: root can read everything, run as a user to test unreadable files";
  fs::permissions(write("secret.sqlite"), fs::perms::none);
  write("closed/a.sqlite");
  fs::permissions(at("closed"), fs::perms::none);
  const Discovery found = discover({at("secret.sqlite"), at("closed"), at("closed/*.sqlite")});
  EXPECT_THAT(paths_of(found.failed), ElementsAre(at("closed"), at("secret.sqlite")));
  fs::permissions(at("closed"), fs::perms::owner_all);
}

TEST_F(Discover, SameFileUnderSeveralNamesIsReadOnce) {
  write("a.sqlite");
  fs::create_hard_link(at("a.sqlite"), at("b.sqlite"));
  fs::create_symlink("a.sqlite", at("c.sqlite"));
  const Discovery found = discover({at("c.sqlite"), at("b.sqlite"), at("a.sqlite")});
  EXPECT_THAT(paths(found.traces), ElementsAre(at("a.sqlite")));
  ASSERT_THAT(found.warnings, SizeIs(1));
  EXPECT_EQ(found.warnings[0].severity, Severity::info);
  EXPECT_EQ(found.warnings[0].count, 2);
  EXPECT_THAT(found.warnings[0].message, HasSubstr("b.sqlite is the same file as"));
}

TEST_F(Discover, SameNameTwiceIsReadOnce) {
  const std::string path = write("a.sqlite");
  const Discovery found = discover({path, root_, at("*.sqlite")});
  EXPECT_THAT(paths(found.traces), ElementsAre(path));
  ASSERT_THAT(found.warnings, SizeIs(1));
  EXPECT_EQ(found.warnings[0].count, 1);
  EXPECT_THAT(found.warnings[0].message, HasSubstr("more than once"));
  EXPECT_THAT(discover({root_ + "//a.sqlite", path}).traces, SizeIs(1));
}

TEST_F(Discover, EqualCopiesAreTwoFiles) {
  write("a.sqlite");
  write("b.sqlite");
  const Discovery found = discover({root_});
  EXPECT_THAT(found.traces, SizeIs(2));
  EXPECT_THAT(found.warnings, IsEmpty());
}

TEST_F(Discover, ReportWithoutExportFailsWithTheCommand) {
  write("run 1.nsys-rep");
  write("old.qdrep");
  write("done.nsys-rep");
  write("done.sqlite");
  const Discovery found = discover({root_});
  EXPECT_THAT(paths(found.traces), ElementsAre(at("done.sqlite")));
  EXPECT_THAT(paths_of(found.failed), ElementsAre(at("old.qdrep"), at("run 1.nsys-rep")));
  EXPECT_THAT(
      found.failed[1].message,
      HasSubstr("nsys export --type sqlite --include-blobs=true --include-json=true '" + at("run 1.nsys-rep'")));
  EXPECT_THAT(found.warnings, IsEmpty());
}

TEST_F(Discover, NamedReportStandsForItsExport) {
  write("done.nsys-rep");
  write("done.sqlite");
  const Discovery found = discover({at("done.nsys-rep")});
  EXPECT_THAT(paths(found.traces), ElementsAre(at("done.sqlite")));
  EXPECT_THAT(found.failed, IsEmpty());
}

TEST_F(Discover, ExportOlderThanItsReportIsSuspicious) {
  set_modified(write("run.sqlite"), 1'700'000'000);
  set_modified(write("run.nsys-rep"), 1'700'000'060);
  EXPECT_THAT(discover({root_}).warnings, IsEmpty());  // copied together, in any order
  set_modified(at("run.nsys-rep"), 1'700'000'061);
  const Discovery found = discover({root_});
  ASSERT_THAT(found.warnings, SizeIs(1));
  EXPECT_THAT(found.warnings[0].message, HasSubstr("newer than its export"));
  EXPECT_THAT(found.warnings[0].message, HasSubstr("--force-overwrite=true"));
  EXPECT_THAT(paths(found.traces), ElementsAre(at("run.sqlite")));
}

TEST_F(Discover, SideFilesOfSqliteAreNoInputs) {
  write("a.sqlite");
  write("a.sqlite-wal");
  write("a.sqlite-shm");
  write("a.sqlite-journal");
  const Discovery found = discover({at("a.*")});
  EXPECT_THAT(paths(found.traces), ElementsAre(at("a.sqlite")));
  EXPECT_THAT(found.failed, IsEmpty());
  ASSERT_THAT(found.warnings, SizeIs(1));
  EXPECT_EQ(found.warnings[0].count, 3);
}

TEST_F(Discover, SampleTellsFilesOfEqualSizeApart) {
  std::string content(100'000, 'x');
  const std::string original = write("a", content);
  const std::string equal = write("b", content);
  const auto hash = [](const std::string& path) { return discover({path}).traces.at(0).sample_hash; };
  EXPECT_EQ(hash(original), hash(equal));
  for (const std::size_t place : {std::size_t{0}, content.size() / 7, content.size() - 1}) {
    std::string other = content;
    other[place] = 'y';
    EXPECT_NE(hash(write("c", other)), hash(original)) << place;
  }
  EXPECT_EQ(hash(write("empty", "")), 0U);
}

TEST(Glob, MatchesWholeNames) {
  EXPECT_TRUE(matches_pattern("rank*", "rank12.sqlite"));
  EXPECT_TRUE(matches_pattern("*/node[0-3]/*", "/data/node2/x/y.sqlite"));
  EXPECT_FALSE(matches_pattern("rank?", "rank12"));
  EXPECT_FALSE(matches_pattern("ank*", "rank1"));
  EXPECT_TRUE(is_pattern("a?"));
  EXPECT_FALSE(is_pattern("/plain/name-1.sqlite"));
}

TEST(ExportAdvice, QuotesForAShell) {
  EXPECT_EQ(shell_quoted("/data/rank_0.sqlite"), "/data/rank_0.sqlite");
  EXPECT_EQ(shell_quoted(""), "''");
  EXPECT_EQ(shell_quoted("a b"), "'a b'");
  EXPECT_EQ(shell_quoted("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_quoted("caf\xc3\xa9"), "'caf\xc3\xa9'");
  EXPECT_EQ(shell_quoted("a\nb"), "$'a\\nb'");
  EXPECT_EQ(shell_quoted("\xff"
                         "7'"),
            "$'\\3777\\''");
  EXPECT_EQ(shell_quoted("\xed\xa0\x80"), "$'\\355\\240\\200'");  // a surrogate is not UTF-8
}

/// Sets PATH for one test.
class SearchPath {
 public:
  explicit SearchPath(const std::string& value) : old_(std::getenv("PATH")) { ::setenv("PATH", value.c_str(), 1); }
  ~SearchPath() { ::setenv("PATH", old_.c_str(), 1); }
  SearchPath(const SearchPath&) = delete;
  SearchPath& operator=(const SearchPath&) = delete;

 private:
  std::string old_;
};

TEST_F(Discover, AdviceSaysWhetherNsysIsHere) {
  write("nsys", "#!/bin/sh\n");
  const SearchPath path("/nonexistent:" + root_);
  EXPECT_THAT(export_advice("a.nsys-rep"), HasSubstr("not on the PATH"));  // not executable
  fs::permissions(at("nsys"), fs::perms::owner_exec, fs::perm_options::add);
  EXPECT_EQ(export_advice("a.nsys-rep"),
            "run `nsys export --type sqlite --include-blobs=true --include-json=true a.nsys-rep`, or add --export");
  EXPECT_EQ(
      export_advice("-a.sqlite"),
      "run `nsys export --type sqlite --include-blobs=true --include-json=true --force-overwrite=true ./-a.nsys-rep`");
  write("old.qdrep");
  EXPECT_THAT(export_advice(at("old.sqlite")), HasSubstr("old.qdrep`"));
}

TEST_F(Discover, TakesTheNamesThatWereGivenToNsys) {
  write("7_a.sqlite");
  ASSERT_EQ(::setenv("DISCOVER_TEST_RANK", "7", 1), 0);
  EXPECT_THAT(paths(discover({at("%q{DISCOVER_TEST_RANK}_%p.sqlite")}).traces), ElementsAre(at("7_a.sqlite")));
  ::unsetenv("DISCOVER_TEST_RANK");
  const Discovery without = discover({at("%q{DISCOVER_TEST_RANK}_%p.sqlite")});
  ASSERT_THAT(without.absent, SizeIs(1));
  EXPECT_THAT(without.absent[0].message, HasSubstr("DISCOVER_TEST_RANK is not set"));
}

TEST_F(Discover, ALiteralNameWinsOverItsPlaceholders) {
  write("%h.sqlite");
  EXPECT_THAT(paths(discover({at("%h.sqlite")}).traces), ElementsAre(at("%h.sqlite")));
}

TEST_F(Discover, AVariableThatNamesItselfEnds) {
  ASSERT_EQ(::setenv("DISCOVER_TEST_LOOP", "%q{DISCOVER_TEST_LOOP}", 1), 0);
  EXPECT_THAT(discover({at("%q{DISCOVER_TEST_LOOP}")}).absent, SizeIs(1));
  ::unsetenv("DISCOVER_TEST_LOOP");
}

}  // namespace
}  // namespace nsys_explain::ingest
