#include <fcntl.h>
#include <gmock/gmock.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <random>

#include "ingest/pages/page_rows.hpp"
#include "simulation/exports.hpp"
#include "simulation/simulated_job.hpp"
#include "unit/ingest/export_fixture.hpp"
#include "unit/ingest/reader_comparison.hpp"

namespace nsys_explain::ingest {
namespace {

using testing::compare_with_sqlite;
using testing::Comparison;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Writer;

class PageReaderTest : public testing::ScratchTest {
 protected:
  /// Warnings of a scan of column `n` of table T, and the values it gave.
  std::vector<std::string> scan(const ScanOptions& options = {}) {
    const Database database(file(), OpenMode::read_only, options);
    TableScan scan(database, "T");
    const auto n = scan.integer("n");
    numbers_.clear();
    scan.for_each_batch([&](std::size_t rows) {
      for (std::size_t row = 0; row < rows; ++row) numbers_.push_back(n[row]);
    });
    std::vector<std::string> messages;
    for (const Warning& warning : database.log().warnings) messages.push_back(warning.message);
    return messages;
  }
  void write_at(std::uintmax_t offset, const std::string& bytes) {
    std::fstream stream(file(), std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(static_cast<std::streamoff>(offset));
    stream << bytes;
  }

  std::vector<std::int64_t> numbers_;
};

/// Databases at random: page sizes, reserved bytes, schemas, values of all types and lengths, deletions, indexes.
class RandomDatabase {
 public:
  RandomDatabase(const std::string& path, std::uint64_t seed) : random_(seed) {
    sqlite3_open(path.c_str(), &handle_);
    run("PRAGMA synchronous = OFF");
    static constexpr int page_sizes[] = {512, 1024, 4096, 4096, 4096, 8192, 65536};
    run("PRAGMA page_size = " + std::to_string(page_sizes[below(7)]));
    if (below(3) == 0) reserve_bytes(static_cast<int>(below(33)));
    run("PRAGMA auto_vacuum = " + std::to_string(below(3)));
    run("BEGIN");
    const std::uint64_t tables = 1 + below(3);
    for (std::uint64_t t = 0; t < tables; ++t) make_table("t" + std::to_string(t));
    run("COMMIT");
    if (below(3) == 0) run("VACUUM");
  }
  ~RandomDatabase() { sqlite3_close(handle_); }
  RandomDatabase(const RandomDatabase&) = delete;
  RandomDatabase& operator=(const RandomDatabase&) = delete;

 private:
  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }

  void run(const std::string& sql) {
    if (sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
      throw std::runtime_error(sql + ": " + sqlite3_errmsg(handle_));
    }
  }

  void reserve_bytes(int bytes) { sqlite3_file_control(handle_, "main", SQLITE_FCNTL_RESERVE_BYTES, &bytes); }

  void make_table(const std::string& name) {
    static constexpr const char* types[] = {"INTEGER", "INT", "TEXT", "REAL", "BLOB", "", "DOUBLE", "NUMERIC"};
    static constexpr std::uint64_t widths[] = {1, 3, 8, 20, 40, 70, 120};
    const std::uint64_t columns = widths[below(7)];
    const bool has_key = below(3) == 0, has_long_values = below(3) == 0;
    std::string definition, values;
    for (std::uint64_t c = 0; c < columns; ++c) {
      const bool is_key = has_key && c == 0;
      definition +=
          (c > 0 ? ", c" : "c") + std::to_string(c) + " " + (is_key ? "INTEGER PRIMARY KEY" : types[below(8)]);
      values += c > 0 ? ", ?" : "?";
    }
    run("CREATE TABLE " + name + " (" + definition + ")");
    static constexpr std::uint64_t row_counts[] = {0, 1, 5, 100, 700};
    const std::uint64_t rows = row_counts[below(5)] / (columns > 40 ? 4 : 1);
    sqlite3_stmt* insert = nullptr;
    sqlite3_prepare_v2(handle_, ("INSERT OR IGNORE INTO " + name + " VALUES (" + values + ")").c_str(), -1, &insert,
                       nullptr);
    for (std::uint64_t r = 0; r < rows; ++r) {
      for (std::uint64_t c = 0; c < columns; ++c) bind(insert, static_cast<int>(c) + 1, has_long_values);
      if (has_key) bind_key(insert);
      sqlite3_step(insert);
      sqlite3_reset(insert);
    }
    sqlite3_finalize(insert);
    if (below(3) == 0) run("DELETE FROM " + name + " WHERE rowid % " + std::to_string(2 + below(5)) + " = 0");
    if (below(5) == 0) run("DELETE FROM " + name + " WHERE rowid < " + std::to_string(below(500)));
    if (below(3) == 0) run("CREATE INDEX i" + name + " ON " + name + " (c0)");
  }

  void bind_key(sqlite3_stmt* insert) {
    if (below(5) > 0) {
      sqlite3_bind_null(insert, 1);
    } else {
      sqlite3_bind_int64(insert, 1, static_cast<std::int64_t>(below(1ULL << 40)) - 1000);
    }
  }

  std::int64_t integer() {
    static constexpr std::uint64_t widths[] = {0, 1, 7, 8, 15, 16, 23, 24, 31, 32, 47, 48, 62, 63};
    const std::uint64_t power = 1ULL << widths[below(14)];
    const std::uint64_t values[] = {below(power), 0 - below(power), power - 1, power, 0 - power};
    return static_cast<std::int64_t>(values[below(5)]);
  }

  void bind(sqlite3_stmt* insert, int column, bool long_values) {
    static constexpr double doubles[] = {3, -0.0, 0.5, 1e300, -1e18, 12345678901.25};
    const std::uint64_t kind = below(20);
    if (kind < 11) {
      sqlite3_bind_int64(insert, column, integer());
    } else if (kind < 13) {
      sqlite3_bind_null(insert, column);
    } else if (kind < 15) {
      sqlite3_bind_double(insert, column, doubles[below(6)]);
    } else {
      static constexpr std::uint64_t lengths[] = {0, 57, 58, 100, 400, 900, 3000, 5000, 20000};
      std::string bytes(long_values && below(8) == 0 ? lengths[below(9)] : below(60), '\0');
      for (char& byte : bytes) byte = static_cast<char>(kind < 18 ? 'a' + below(26) : below(256));
      const auto length = static_cast<int>(bytes.size());
      if (kind < 18) {
        sqlite3_bind_text(insert, column, bytes.data(), length, SQLITE_TRANSIENT);
      } else {
        sqlite3_bind_blob(insert, column, bytes.data(), length, SQLITE_TRANSIENT);
      }
    }
  }

  std::mt19937_64 random_;
  sqlite3* handle_ = nullptr;
};

TEST_F(PageReaderTest, ReadsRandomDatabasesAsSqliteDoes) {
  std::size_t tables = 0, rows = 0, left_to_sqlite = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    const std::string path = file("random-" + std::to_string(seed));
    { const RandomDatabase database(path, seed); }
    const Comparison comparison = compare_with_sqlite(path, {Reader::automatic, 1 + static_cast<int>(seed % 3)});
    ASSERT_EQ(comparison.difference, "") << "seed " << seed;
    ASSERT_EQ(comparison.failed, 0);
    tables += comparison.tables;
    rows += comparison.rows;
    left_to_sqlite += comparison.left_to_sqlite;
    std::filesystem::remove(path);
  }
  EXPECT_GT(tables, 250);
  EXPECT_GT(rows, 50000);
  // Only scans of doubles as text: at most one of the two scans of a table.
  EXPECT_LT(left_to_sqlite, tables);
  EXPECT_GT(left_to_sqlite, 0);
}

/// Byte flips, damaged page headers, zeroed, swapped and missing pages.
void damage(std::string& bytes, std::mt19937_64& random) {
  const auto below = [&](std::size_t limit) { return static_cast<std::size_t>(random() % limit); };
  const std::size_t stored = static_cast<unsigned char>(bytes[16]) << 8 | static_cast<unsigned char>(bytes[17]);
  const std::size_t page = stored == 1 ? 65536 : stored, pages = bytes.size() / page;
  const auto random_byte = [&] { return static_cast<char>(below(256)); };
  switch (below(6)) {
    case 0:
    case 1:
      for (std::size_t i = 0, count = 1 + below(4); i < count; ++i)
        bytes[100 + below(bytes.size() - 100)] = random_byte();
      break;
    case 2: {
      const std::size_t victim = 1 + below(pages - 1);
      for (std::size_t i = 0, count = 1 + below(3); i < count; ++i) bytes[victim * page + below(40)] = random_byte();
      break;
    }
    case 3:
      std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>((1 + below(pages - 1)) * page), page, '\0');
      break;
    case 4: {
      const auto a = static_cast<std::ptrdiff_t>((1 + below(pages - 1)) * page);
      const auto b = static_cast<std::ptrdiff_t>((1 + below(pages - 1)) * page);
      if (a != b) {
        std::swap_ranges(bytes.begin() + a, bytes.begin() + a + static_cast<std::ptrdiff_t>(page), bytes.begin() + b);
      }
      break;
    }
    default:
      bytes.resize(page + below(bytes.size() - page));
  }
}

TEST_F(PageReaderTest, AcceptsNoDamagedFileThatSqliteRefusesAndGivesNoOtherRows) {
  std::mt19937_64 random(1);
  std::size_t readable = 0, refused = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    { const RandomDatabase database(file("whole"), seed); }
    const std::string whole = testing::bytes_of(file("whole"));
    std::filesystem::remove(file("whole"));
    for (int i = 0; i < 8; ++i) {
      std::string bytes = whole;
      damage(bytes, random);
      std::ofstream(file("damaged"), std::ios::binary) << bytes;
      const Comparison comparison = compare_with_sqlite(file("damaged"), {});
      ASSERT_EQ(comparison.difference, "") << "seed " << seed << ", damage " << i;
      (comparison.failed > 0 ? refused : readable) += 1;
    }
  }
  EXPECT_GT(readable, 20);
  EXPECT_GT(refused, 20);
}

TEST_F(PageReaderTest, ReadsSimulatedExportsAsSqliteDoes) {
  for (const char* version : {"2022.4", "2025.5", "2026.4"}) {
    synth::JobPlan plan;
    plan.layout.nodes = 1;
    plan.layout.gpus_per_node = 2;
    plan.layout.data_parallel = 2;
    plan.workload.steps = 4;
    plan.export_style.nsys_version = version;
    plan.export_style.gpu_metrics = true;
    plan = synth::complete_plan(plan);
    for (const auto& written : synth::write_exports(synth::simulate(plan), plan, file(version))) {
      const Comparison comparison = compare_with_sqlite(written.path, {Reader::automatic, 2});
      EXPECT_EQ(comparison.difference, "");
      EXPECT_LE(comparison.left_to_sqlite, 1) << version;  // a column with fractions as text
      EXPECT_GT(comparison.rows, 4000);
    }
  }
}

TEST_F(PageReaderTest, ReadsRealExportsAsSqliteDoes) {
  const char* shared = std::getenv("NSYS_EXPLAIN_SHARED_TRACES");
  if (shared == nullptr || !std::filesystem::is_directory(shared)) {
    GTEST_SKIP() << "no real traces: set NSYS_EXPLAIN_SHARED_TRACES to a directory of them";
  }
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(shared)) {
    if (entry.path().extension() != ".sqlite") continue;
    std::filesystem::copy_file(entry.path(), file(), std::filesystem::copy_options::overwrite_existing);
    const Comparison comparison = compare_with_sqlite(file(), {Reader::automatic, 2});
    EXPECT_EQ(comparison.difference, "") << entry.path();
    EXPECT_EQ(comparison.failed, 0) << entry.path();
    EXPECT_LE(comparison.left_to_sqlite, comparison.tables / 10) << entry.path();
    ++files;
  }
  EXPECT_GE(files, 10);
}

constexpr const char* some_rows =
    "WITH RECURSIVE c(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM c WHERE n < 49999) INSERT INTO T(n) SELECT n FROM c";

TEST_F(PageReaderTest, LeavesWhatItDoesNotKnowToSqlite) {
  const std::pair<const char*, const char*> cases[] = {
      {"PRAGMA encoding = 'UTF-16le'; CREATE TABLE T (n INTEGER)", "texts are not in UTF-8"},
      {"CREATE TABLE T (n INTEGER, text TEXT, PRIMARY KEY (n)) WITHOUT ROWID", "its rowid has no name"},
      {"CREATE TABLE T (n INTEGER, rowid, _rowid_, oid)", "its rowid has no name"},
      {"CREATE TABLE T (n INTEGER, twice AS (2 * n))", "generated"},
  };
  for (const auto& [schema, reason] : cases) {
    std::filesystem::remove(file());
    Writer{file()}(schema)(some_rows);
    const std::vector<std::string> warnings = scan();
    ASSERT_EQ(warnings.size(), 1) << schema;
    EXPECT_THAT(warnings.front(), HasSubstr(reason));
    EXPECT_THAT(warnings.front(), HasSubstr("through SQLite"));
    ASSERT_EQ(numbers_.size(), 50000) << schema;
    for (std::int64_t i = 0; i < 50000; ++i) ASSERT_EQ(numbers_[static_cast<std::size_t>(i)], i);
    EXPECT_THAT(scan({Reader::sqlite, 1}), IsEmpty());
    EXPECT_THROW(scan({Reader::pages, 1}), TraceError);
  }
}

TEST_F(PageReaderTest, LeavesRowsOlderThanTheNewestColumnToSqlite) {
  Writer{file()}("CREATE TABLE T (a INTEGER)")("INSERT INTO T VALUES (1)")(
      "ALTER TABLE T ADD COLUMN n INTEGER DEFAULT 7")("INSERT INTO T VALUES (2, 8)");
  EXPECT_THAT(scan().front(), HasSubstr("older than its newest column"));
  EXPECT_THAT(numbers_, ::testing::ElementsAre(7, 8));
}

TEST_F(PageReaderTest, SqliteGoesOnAtTheRowWherePagesEnd) {
  Writer{file()}("CREATE TABLE T (a INTEGER)")(
      "WITH RECURSIVE c(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM c WHERE n < 99999) INSERT INTO T SELECT n FROM c")(
      "ALTER TABLE T ADD COLUMN n INTEGER DEFAULT 7")("UPDATE T SET n = a WHERE a < 60000 OR a > 60009");
  for (const int threads : {1, 3}) {
    ASSERT_EQ(scan({Reader::automatic, threads}).size(), 1);
    ASSERT_EQ(numbers_.size(), 100000);
    for (std::int64_t i = 0; i < 100000; ++i) {
      ASSERT_EQ(numbers_[static_cast<std::size_t>(i)], i >= 60000 && i <= 60009 ? 7 : i);
    }
  }
}

TEST_F(PageReaderTest, AnIndexThatHoldsAllColumnsDoesNotChangeTheOrder) {
  Writer{file()}("CREATE TABLE T (n INTEGER)")("INSERT INTO T VALUES (3), (1), (2)")("CREATE INDEX added ON T (n)");
  for (const Reader reader : {Reader::sqlite, Reader::pages}) {
    scan({reader, 1});
    EXPECT_THAT(numbers_, ::testing::ElementsAre(3, 1, 2));
  }
}

TEST_F(PageReaderTest, KnowsPrimaryKeysThatAreTheRowid) {
  Writer{file()}("CREATE TABLE T (text TEXT, n integer PRIMARY KEY)")(
      "INSERT INTO T VALUES ('a', 5), ('b', -2), ('c', 90)");
  EXPECT_THAT(scan({Reader::pages, 1}), IsEmpty());  // gaps in ids of the user's are no loss
  EXPECT_THAT(numbers_, ::testing::ElementsAre(-2, 5, 90));
  // For the sake of old files, SQLite takes this one for an ordinary column.
  std::filesystem::remove(file());
  Writer{file()}("CREATE TABLE T (text TEXT, n INTEGER PRIMARY KEY DESC)")("INSERT INTO T VALUES ('a', 5), ('b', -2)");
  EXPECT_THAT(scan({Reader::pages, 1}), IsEmpty());
  EXPECT_THAT(numbers_, ::testing::ElementsAre(5, -2));
}

TEST_F(PageReaderTest, WarnsAboutGapsInRowNumbersWhateverReads) {
  Writer{file()}("CREATE TABLE T (n INTEGER)")(some_rows);
  EXPECT_THAT(scan(), IsEmpty());
  Writer{file()}("DELETE FROM T WHERE n BETWEEN 1000 AND 1003");
  for (const Reader reader : {Reader::sqlite, Reader::pages}) {
    const Database database(file(), OpenMode::read_only, {reader, 1});
    TableScan scan(database, "T");
    scan.for_each_batch([](std::size_t) {});
    ASSERT_EQ(database.log().warnings.size(), 1);
    EXPECT_EQ(database.log().warnings.front().count, 4);
    EXPECT_EQ(database.log().warnings.front().severity, Severity::data_loss);
    EXPECT_THAT(database.log().warnings.front().message, HasSubstr("rows are missing in table T"));
  }
}

/// SQLite does not notice this damage; what the page says of itself gives it away.
TEST_F(PageReaderTest, SeesRowsLostToALoweredCellCount) {
  Writer{file()}("PRAGMA page_size = 4096; CREATE TABLE T (n INTEGER)")(some_rows);
  const auto middle = std::filesystem::file_size(file()) / 4096 / 2 * 4096;
  write_at(middle + 3, std::string("\0\x05", 2));
  for (const Reader reader : {Reader::sqlite, Reader::automatic}) EXPECT_THROW(scan({reader, 1}), TraceError);
  EXPECT_LT(numbers_.size(), 50000);
}

TEST_F(PageReaderTest, AFileCutWhileItIsReadIsAnError) {
  Writer{file()}("CREATE TABLE T (n INTEGER, t TEXT)")(
      "WITH RECURSIVE c(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM c WHERE n < 99999)"
      "INSERT INTO T SELECT n, 'a text that fills pages' FROM c");
  const Database database(file(), OpenMode::read_only);
  TableScan scan(database, "T");
  scan.integer("n");
  bool cut = false;
  const auto read_and_cut = [&] {
    scan.for_each_batch([&](std::size_t) {
      if (!cut) std::filesystem::resize_file(file(), std::filesystem::file_size(file()) / 2);
      cut = true;
    });
  };
  EXPECT_THROW(read_and_cut(), TraceError);
}

/// True where another process could take SQLite's write lock (https://sqlite.org/src/file/src/os.h: SHARED_FIRST).
bool another_process_can_write(const std::string& path) {
  const pid_t child = ::fork();
  if (child == 0) {
    struct flock lock {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    lock.l_start = 0x40000002;
    lock.l_len = 510;
    const int descriptor = ::open(path.c_str(), O_RDWR);
    ::_exit(descriptor >= 0 && ::fcntl(descriptor, F_GETLK, &lock) == 0 && lock.l_type == F_UNLCK ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// Closing any descriptor of a file drops the locks of the process on it, SQLite's among them.
TEST_F(PageReaderTest, NobodyCanWriteWhileTheDatabaseIsOpen) {
  Writer{file()}("CREATE TABLE T (n INTEGER)")("INSERT INTO T VALUES (1)");
  {
    const Database database(file(), OpenMode::read_only);
    TableScan scan(database, "T");
    scan.integer("n");
    scan.for_each_batch([](std::size_t) {});
    EXPECT_FALSE(another_process_can_write(file()));
  }
  EXPECT_TRUE(another_process_can_write(file()));
}

}  // namespace
}  // namespace nsys_explain::ingest
