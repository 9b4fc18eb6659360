#include <gmock/gmock.h>

#include <map>
#include <random>

#include "ingest/export_content.hpp"
#include "unit/ingest/export_fixture.hpp"
#include "unit/ingest/reader_comparison.hpp"
#include "unit/ingest/structural_damage.hpp"

namespace nsys_explain::ingest {
namespace {

using ::testing::HasSubstr;
using testing::Rows;
using testing::Writer;

/// What scans of all columns of all tables give, and whether they said that something is missing.
struct AllRows {
  std::map<std::string, Rows> of_table;
  bool says_data_loss = false;
};

AllRows read_all(const std::string& path, Reader reader) {
  AllRows all;
  const Database database(path, OpenMode::read_only, {reader, 1});
  for (const auto& [table, columns] : database.tables()) {
    all.of_table[table + " as integers"] = testing::rows_by_scan(database, table, ColumnType::integer);
    all.of_table[table + " as texts"] = testing::rows_by_scan(database, table, ColumnType::text);
  }
  for (const Warning& warning : database.log().warnings) {
    EXPECT_GE(warning.count, 0) << warning.message;
    all.says_data_loss |= warning.severity != Severity::info;
  }
  return all;
}

class PageDamageTest : public testing::ScratchTest {
 protected:
  /// Tables as in an export, with pages so small that a few thousand rows make trees of three levels. Rows of `Old`
  /// lack a column, so SQLite has to read them.
  std::string small_export() {
    {
      Writer sql(file("whole"));
      sql("PRAGMA page_size = 512; BEGIN");
      sql("CREATE TABLE KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, stream INTEGER, name INTEGER NOT NULL)");
      sql("CREATE TABLE RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, name INTEGER)");
      sql("CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL)");
      sql("CREATE TABLE Old (start INTEGER NOT NULL)");
      sql("CREATE TABLE Small (a INTEGER, b TEXT)");
      const std::string numbers = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 3000) ";
      sql(numbers + "INSERT INTO KERNEL SELECT 1000 * n, 1000 * n + 500, n % 3, n % 90 FROM c");
      sql(numbers + "INSERT INTO RUNTIME SELECT 1000 * n - 200, 1000 * n - 100, n % 4 FROM c");
      sql(numbers + "INSERT INTO StringIds SELECT n, 'name ' || n || hex(zeroblob(n % 90 * 10)) FROM c WHERE n < 300");
      sql(numbers + "INSERT INTO Old SELECT n FROM c WHERE n < 900; ALTER TABLE Old ADD COLUMN extra INTEGER");
      sql("INSERT INTO Small VALUES (1, 'one'), (2, NULL); COMMIT");
    }
    return testing::bytes_of(file("whole"));
  }
  void write(const std::string& bytes) { std::ofstream(file(), std::ios::binary) << bytes; }
  std::string error_of_reading() {
    try {
      read_all(file(), Reader::automatic);
    } catch (const TraceError& error) {
      return error.what();
    }
    return "";
  }
};

TEST_F(PageDamageTest, RowsThatDifferFromTheIntactFilesAreRefusedOrSaidToBeMissing) {
  const std::string whole = small_export();
  const AllRows intact = read_all(file("whole"), Reader::automatic);
  ASSERT_FALSE(intact.says_data_loss);
  ASSERT_EQ(intact.of_table.at("KERNEL as integers").size(), 3000);
  const std::string names = "StringIds as integers";
  std::mt19937_64 random(33);
  std::map<std::string, int> refused;
  for (int i = 0; i < 300; ++i) {
    std::string bytes = whole;
    const std::string damage = testing::StructuralDamage(bytes, random).inflict();
    write(bytes);
    try {
      const AllRows all = read_all(file(), i % 4 == 0 ? Reader::sqlite : Reader::automatic);
      // One leaf in the place of the root is a tree, too. Where rows have ids of the user's, who looks for them tells.
      const bool lacks_names = all.of_table.at(names).size() < intact.of_table.at(names).size();
      ASSERT_TRUE(all.of_table == intact.of_table || all.says_data_loss || lacks_names) << damage << ", file " << i;
    } catch (const TraceError&) {
      ++refused[damage];
    }
  }
  EXPECT_GE(refused.size(), 14) << "hardly any kind of damage goes unnoticed";
}

TEST_F(PageDamageTest, SaysWhichTableIsDamagedAndWhere) {
  Writer{file()}("CREATE TABLE T (n INTEGER)")(
      "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 2000) INSERT INTO T SELECT n FROM c");
  std::string bytes = testing::bytes_of(file());
  bytes[2 * 4096] = '\0';  // the first leaf
  write(bytes);
  EXPECT_THAT(error_of_reading(),
              HasSubstr("table T is damaged (not a leaf of a rowid table (page 3); 0 rows were read"));
}

/// Paths through such files number more than rows could be read in a lifetime.
TEST_F(PageDamageTest, PagesThatLeadToEachOtherTakeNoLongerThanTheFileAllows) {
  const std::string rows =
      "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 40000) INSERT INTO ";
  const auto chain = [&](std::uint8_t kind) {
    std::string bytes = testing::bytes_of(file());
    std::mt19937_64 unused;
    testing::StructuralDamage(bytes, unused).chain_interior_pages(kind);
    write(bytes);
  };
  Writer{file()}("PRAGMA page_size = 512; CREATE TABLE T (a, b)")(rows + "T SELECT n, n FROM c");
  chain(0x05);
  EXPECT_THAT(error_of_reading(), HasSubstr("table T is damaged"));
  std::filesystem::remove(file());
  Writer{file()}("PRAGMA page_size = 512; CREATE TABLE NVTX_EVENTS (a PRIMARY KEY, b) WITHOUT ROWID")(
      rows + "NVTX_EVENTS SELECT n, n FROM c");
  chain(0x02);
  EXPECT_THAT(error_of_reading(), HasSubstr("takes longer to read than its size allows"));
  EXPECT_LE(count_events(file()).packed, std::filesystem::file_size(file()) / 8);
}

/// As hostile files do it: every row claims the same chain of overflow pages.
TEST_F(PageDamageTest, OverflowPagesThatRowsShareAreDamage) {
  Writer{file()}("PRAGMA page_size = 512; CREATE TABLE T (a INTEGER, b TEXT)")(
      "INSERT INTO T VALUES (1, hex(zeroblob(1000))), (2, hex(zeroblob(1000)))");
  std::string bytes = testing::bytes_of(file());
  // Both records are in the one leaf, page 2, which ends with the first; each ends with the number of its overflow
  // page.
  const std::size_t first = 2 * 512 - 4;
  const auto at = [&](std::size_t cell) {
    return static_cast<std::size_t>(static_cast<unsigned char>(bytes[512 + 8 + 2 * cell])) << 8 |
           static_cast<unsigned char>(bytes[512 + 9 + 2 * cell]);
  };
  const std::size_t second = 512 + at(0) - 4;
  ASSERT_LT(at(1), at(0));
  bytes.replace(second, 4, bytes.substr(first, 4));
  write(bytes);
  EXPECT_THAT(error_of_reading(), HasSubstr("a page is used twice"));
}

/// A chain that is one page over and over ends neither too early nor with its record.
TEST_F(PageDamageTest, AChainOfOverflowPagesThatLeadsToItselfIsDamage) {
  Writer{file()}("PRAGMA page_size = 512; CREATE TABLE T (a INTEGER, b TEXT)")(
      "INSERT INTO T VALUES (1, hex(zeroblob(5000)))");
  std::string bytes = testing::bytes_of(file());
  const std::size_t first = 2 * 512 - 4;  // the leaf, page 2, ends with the number of the row's overflow page
  const auto page = static_cast<std::size_t>(static_cast<unsigned char>(bytes[first + 3]));
  bytes.replace((page - 1) * 512, 4, bytes.substr(first, 4));
  write(bytes);
  for (const Reader reader : {Reader::automatic, Reader::sqlite}) {
    std::string error;
    try {
      read_all(file(), reader);
    } catch (const TraceError& damage) {
      error = damage.what();
    }
    EXPECT_THAT(error, HasSubstr("goes on after its record"));
  }
}

TEST_F(PageDamageTest, TablesInOnePlaceAreDamage) {
  Writer{file()}("CREATE TABLE A (a INTEGER); CREATE TABLE B (a INTEGER)")(
      "PRAGMA writable_schema = ON; UPDATE sqlite_master SET rootpage = 2");
  EXPECT_THAT(error_of_reading(), HasSubstr("in the same place of the file"));
}

TEST_F(PageDamageTest, RowsThatTheTableCannotHoldAreDamage) {
  const char* later_tables[] = {"CREATE TABLE T (a INTEGER, b INTEGER, c INTEGER NOT NULL)",
                                "CREATE TABLE T (a INTEGER NOT NULL, b INTEGER)", "CREATE TABLE T (a INTEGER)"};
  for (const char* later : later_tables) {
    std::filesystem::remove(file());
    Writer{file()}("CREATE TABLE T (a INTEGER, b INTEGER); INSERT INTO T VALUES (NULL, 1)")(
        std::string("PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = '") + later + "'");
    EXPECT_THAT(error_of_reading(), HasSubstr("a record is none of its table")) << later;
  }
}

TEST_F(PageDamageTest, CountsOfMissingRowsAreNeverNegative) {
  Writer{file()}("CREATE TABLE T (a INTEGER); INSERT INTO T(rowid) VALUES (-9223372036854775807), (5)");
  const Database database(file(), OpenMode::read_only);
  TableScan scan(database, "T");
  scan.for_each_batch([](std::size_t) {});
  ASSERT_EQ(database.log().warnings.size(), 1);
  EXPECT_EQ(database.log().warnings.front().count, std::numeric_limits<std::int64_t>::max());
}

TEST_F(PageDamageTest, RowsMissingAtTheBeginningOfATableAreDataLoss) {
  Writer{file()}("CREATE TABLE T (a INTEGER); INSERT INTO T VALUES (1), (2), (3); DELETE FROM T WHERE a = 1");
  const Database database(file(), OpenMode::read_only);
  TableScan scan(database, "T");
  scan.for_each_batch([](std::size_t) {});
  ASSERT_EQ(database.log().warnings.size(), 1);
  EXPECT_EQ(database.log().warnings.front().count, 1);
  EXPECT_EQ(database.log().warnings.front().severity, Severity::data_loss);
}

}  // namespace
}  // namespace nsys_explain::ingest
