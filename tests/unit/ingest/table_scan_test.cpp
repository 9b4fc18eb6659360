#include "ingest/table_scan.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "nsys_explain/model/time.hpp"
#include "unit/ingest/export_fixture.hpp"

namespace nsys_explain::ingest {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Whatever reads, users of a scan see the same.
class TableScanTest : public testing::ScratchTest, public ::testing::WithParamInterface<ScanOptions> {};

INSTANTIATE_TEST_SUITE_P(Readers, TableScanTest,
                         ::testing::Values(ScanOptions{Reader::sqlite, 1}, ScanOptions{Reader::pages, 1},
                                           ScanOptions{Reader::automatic, 3}));

TEST_P(TableScanTest, DeliversColumnsByNameWhateverTheirPlaceAndType) {
  testing::Writer{file()}(
      "CREATE TABLE T (added_by_a_tool TEXT, b TEXT, a INTEGER);"
      "INSERT INTO T VALUES ('x', 'one', 1), ('x', NULL, NULL), ('x', x'00ff', -3), ('x', '', 2.75), ('x', 5, 'text')");
  const Database database(file(), OpenMode::read_only, GetParam());
  TableScan scan(database, "T");
  const auto a = scan.integer("a", Presence::required);
  const auto b = scan.text("b");
  const auto absent = scan.integer("not_in_this_version");
  const auto absent_text = scan.text("nor_this");
  std::vector<std::int64_t> numbers, nulls;
  std::vector<std::string> texts;
  std::vector<bool> null_texts;
  scan.for_each_batch([&](std::size_t rows) {
    for (std::size_t row = 0; row < rows; ++row) {
      numbers.push_back(a[row]);
      nulls.push_back(absent[row]);
      texts.emplace_back(b[row]);
      null_texts.push_back(is_null(b[row]));
      EXPECT_TRUE(is_null(absent_text[row]));
    }
  });
  EXPECT_THAT(numbers, ElementsAre(1, no_time, -3, 2, no_time));
  EXPECT_THAT(nulls, ElementsAre(no_time, no_time, no_time, no_time, no_time));
  EXPECT_THAT(texts, ElementsAre("one", "", std::string("\x00\xff", 2), "", "5"));
  EXPECT_THAT(null_texts, ElementsAre(false, true, false, false, false));
}

TEST_P(TableScanTest, SplitsLongTablesIntoBatchesWithoutLosingRows) {
  const std::size_t count = 40005;
  testing::Writer{file()}(
      "CREATE TABLE T (n INTEGER, t TEXT);"
      "WITH RECURSIVE c(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM c WHERE n + 1 < " +
      std::to_string(count) + ") INSERT INTO T SELECT n, 'text ' || n FROM c");
  const Database database(file(), OpenMode::read_only, GetParam());
  TableScan scan(database, "T");
  const auto n = scan.integer("n");
  const auto t = scan.text("t");
  std::size_t batches = 0;
  std::int64_t next = 0;
  scan.for_each_batch([&](std::size_t rows) {
    ++batches;
    EXPECT_LE(rows, 40000);
    for (std::size_t row = 0; row < rows; ++row, ++next) {
      ASSERT_EQ(n[row], next);
      ASSERT_EQ(t[row], "text " + std::to_string(next));
    }
  });
  EXPECT_EQ(next, count);
  EXPECT_GT(batches, 1);
  EXPECT_THAT(database.log().warnings, IsEmpty());
}

/// Row n of 40,000 lasts from 1000 n to 1000 n + 2500, shifted; rows are in no order of time within 100, and a few come
/// ten thousand rows late.
class ZoneMapTest : public testing::ScratchTest {
 protected:
  static constexpr Nanoseconds shift_ns = 5;

  void SetUp() override {
    testing::Writer{file()}(
        "CREATE TABLE T (start INTEGER, end INTEGER, n INTEGER, other TEXT);"
        "WITH RECURSIVE c(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM c WHERE n + 1 < 40000) "
        "INSERT INTO T SELECT 1000 * n + 5, 1000 * n + 2505, n, hex(zeroblob(30)) FROM c "
        "ORDER BY n / 100, n * 37 % 100; "
        "INSERT INTO T SELECT * FROM T WHERE n % 10000 = 17; DELETE FROM T WHERE rowid < 40000 AND n % "
        "10000 = 17");
  }

  /// Numbers of the rows read.
  std::vector<std::int64_t> scan(const ScanOptions& options) {
    const Database database(file(), OpenMode::read_only, options);
    TableScan scan(database, "T");
    scan.integer("start", Presence::required);
    scan.integer("end", Presence::required);
    const auto n = scan.integer("n");
    scan.happens_between_start_and_end(shift_ns);
    std::vector<std::int64_t> numbers;
    scan.for_each_batch([&](std::size_t rows) {
      for (std::size_t row = 0; row < rows; ++row) numbers.push_back(n[row]);
    });
    return numbers;
  }
};

TEST_F(ZoneMapTest, NothingOfTheTimesAskedForIsLeftOutAndMostOfTheRestIs) {
  ZoneMap zones, of_threads;
  ScanOptions options;
  options.learnt_zones = &zones;
  EXPECT_EQ(scan(options).size(), 40000);
  options.threads = 3;
  options.learnt_zones = &of_threads;
  scan(options);
  ASSERT_EQ(zones.at("T").size(), of_threads.at("T").size());
  for (std::size_t i = 0; i < zones.at("T").size(); ++i)
    EXPECT_EQ(zones.at("T")[i].end_ns, of_threads.at("T")[i].end_ns);
  const std::vector<Interval> times = {{3'000'000, 3'100'000}, {10'015'000, 10'020'000}, {39'990'000, 50'000'000}};
  for (const int threads : {1, 3}) {
    std::vector<std::int64_t> read = scan({Reader::pages, threads, {}, {&zones, times}, nullptr});
    EXPECT_LT(read.size(), 32000);
    std::sort(read.begin(), read.end());
    for (std::int64_t n = 0; n < 40000; ++n) {
      const bool is_wanted = std::any_of(times.begin(), times.end(), [&](const Interval& time) {
        return 1000 * n <= time.end_ns && 1000 * n + 2500 >= time.start_ns;
      });
      EXPECT_TRUE(!is_wanted || std::binary_search(read.begin(), read.end(), n)) << n;
    }
  }
  EXPECT_THAT(scan({Reader::pages, 1, {}, {&zones, {}}, nullptr}), IsEmpty());
}

TEST_F(ZoneMapTest, OneOfAnotherFileAndOneThatIsMissingLeaveNothingOut) {
  const ZoneMap shorter = {{"T", {{0, 1}, {2, 3}}}}, none;
  const std::vector<Interval> times = {{0, 1}};
  EXPECT_EQ(scan({Reader::pages, 1, {}, {&shorter, times}, nullptr}).size(), 40000);
  EXPECT_EQ(scan({Reader::pages, 1, {}, {&none, times}, nullptr}).size(), 40000);
  ZoneMap learnt;
  EXPECT_EQ(scan({Reader::sqlite, 1, {}, {&shorter, times}, &learnt}).size(), 40000);
  EXPECT_THAT(learnt, IsEmpty());
}

TEST_F(ZoneMapTest, TimesThatCannotBeShiftedLeaveNothingOut) {
  ZoneMap zones;
  ScanOptions options;
  options.learnt_zones = &zones;
  scan(options);
  const std::vector<Interval> times = {{0, std::numeric_limits<Nanoseconds>::max()}};
  EXPECT_EQ(scan({Reader::pages, 1, {}, {&zones, times}, nullptr}).size(), 40000);
}

TEST_P(TableScanTest, ATableThatDoesNotExistHasNoRows) {
  testing::Writer{file()}("CREATE TABLE Other (a)");
  const Database database(file(), OpenMode::read_only, GetParam());
  TableScan scan(database, "T");
  scan.integer("a", Presence::required);
  scan.for_each_batch([](std::size_t) { FAIL(); });
}

TEST_P(TableScanTest, AMissingRequiredColumnIsAnErrorThatNamesIt) {
  testing::Writer{file()}("CREATE TABLE T (b INTEGER)");
  const Database database(file(), OpenMode::read_only, GetParam());
  TableScan scan(database, "T");
  try {
    scan.integer("a", Presence::required);
    FAIL() << "no error";
  } catch (const TraceError& error) {
    EXPECT_THAT(error.what(), HasSubstr("table T has no column a"));
  }
}

TEST_P(TableScanTest, WhatTheSinkThrowsArrivesAndTheNextScanWorks) {
  testing::Writer{file()}(
      "CREATE TABLE T (n INTEGER);"
      "WITH RECURSIVE c(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM c WHERE n < 40000) INSERT INTO T SELECT n FROM c");
  const Database database(file(), OpenMode::read_only, GetParam());
  TableScan broken(database, "T");
  broken.integer("n");
  int calls = 0;
  EXPECT_THROW(broken.for_each_batch([&](std::size_t) {
    ++calls;
    throw std::out_of_range("stop");
  }),
               std::out_of_range);
  EXPECT_EQ(calls, 1);
  TableScan scan(database, "T");
  scan.integer("n");
  std::size_t total = 0;
  scan.for_each_batch([&](std::size_t rows) { total += rows; });
  EXPECT_EQ(total, 40001);
}

TEST_P(TableScanTest, ViewsAndVirtualTablesAreNotTables) {
  testing::Writer{file()}("CREATE TABLE T (a INTEGER); CREATE VIEW V AS SELECT a FROM T");
  const Database database(file(), OpenMode::read_only, GetParam());
  EXPECT_TRUE(database.has_table("T"));
  EXPECT_FALSE(database.has_table("V"));
  EXPECT_TRUE(database.has_column("T", "a"));
  EXPECT_FALSE(database.has_column("T", "b"));
}

TEST_P(TableScanTest, QuotesNamesThatAreNoPlainIdentifiers) {
  testing::Writer{file()}("CREATE TABLE \"odd \"\"name\" (\"end\" INTEGER); INSERT INTO \"odd \"\"name\" VALUES (7)");
  const Database database(file(), OpenMode::read_only, GetParam());
  TableScan scan(database, "odd \"name");
  const auto end = scan.integer("end", Presence::required);
  std::int64_t value = 0;
  scan.for_each_batch([&](std::size_t) { value = end[0]; });
  EXPECT_EQ(value, 7);
}

TEST_P(TableScanTest, ADamagedPageInTheMiddleIsAnErrorThatNamesTheTable) {
  testing::Writer{file()}(
      "PRAGMA page_size = 4096; CREATE TABLE Damaged (n INTEGER, t TEXT);"
      "WITH RECURSIVE c(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM c WHERE n < 60000)"
      "INSERT INTO Damaged SELECT n, 'some text to fill pages' FROM c");
  const auto size = std::filesystem::file_size(file());
  ASSERT_GT(size, 100 * 4096);
  {
    std::fstream stream(file(), std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(static_cast<std::streamoff>(size / 2 / 4096 * 4096));
    stream << std::string(4096, '\x5a');
  }
  const Database database(file(), OpenMode::read_only, GetParam());
  TableScan scan(database, "Damaged");
  scan.integer("n");
  try {
    scan.for_each_batch([](std::size_t) {});
    FAIL() << "no error";
  } catch (const TraceError& error) {
    EXPECT_THAT(error.what(), HasSubstr("table Damaged"));
    EXPECT_THAT(error.what(), HasSubstr("not a leaf"));
  }
}

}  // namespace
}  // namespace nsys_explain::ingest
