#include "ingest/input_file.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "unit/ingest/export_fixture.hpp"

namespace nsys_explain::ingest {
namespace {

namespace fs = std::filesystem;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::snapshot;

class InputFileTest : public testing::ScratchTest {
 protected:
  /// One kernel of one process.
  void write_export(testing::Writer& sql) {
    testing::add_basics(sql);
    testing::add_kernel_table(sql);
    sql("INSERT INTO StringIds VALUES (1, 'kernel')");
    testing::add_kernel(sql, {.start = 10, .end = 20, .name = 1});
  }
  void write_export(const std::string& path) {
    testing::Writer sql(path);
    write_export(sql);
  }
  static std::size_t kernels_of(const std::string& path) {
    const Trace trace = read_trace(path);
    return trace.processes.at(0).devices.at(0).kernels.size();
  }
  void write_text(const std::string& name, const std::string& text) { std::ofstream(file(name)) << text; }
};

/// TMPDIR for the time of a test.
class TemporaryTmpdir {
 public:
  explicit TemporaryTmpdir(const std::string& value) {
    if (const char* old = std::getenv("TMPDIR")) old_ = old;
    ::setenv("TMPDIR", value.c_str(), 1);
  }
  ~TemporaryTmpdir() { old_.empty() ? ::unsetenv("TMPDIR") : ::setenv("TMPDIR", old_.c_str(), 1); }
  TemporaryTmpdir(const TemporaryTmpdir&) = delete;
  TemporaryTmpdir& operator=(const TemporaryTmpdir&) = delete;

 private:
  std::string old_;
};

TEST_F(InputFileTest, NothingChangesBesideAPlainExport) {
  write_export(file());
  const auto before = snapshot(directory());
  EXPECT_EQ(kernels_of(file()), 1);
  EXPECT_EQ(snapshot(directory()), before);
  EXPECT_FALSE(InputFile(file()).is_private_copy());
}

TEST_F(InputFileTest, AnEmptyFileIsRefused) {
  write_text("trace.sqlite", "");
  EXPECT_THAT(error_of(file()), HasSubstr("the file is empty"));
}

TEST_F(InputFileTest, JunkIsRefused) {
  write_text("trace.sqlite", std::string(5000, 'j'));
  EXPECT_THAT(error_of(file()), HasSubstr("not a SQLite database"));
  write_text("short.sqlite", "SQLite");
  EXPECT_THAT(error_of(file("short.sqlite")), HasSubstr("not a SQLite database"));
}

TEST_F(InputFileTest, APointerOfGitLfsIsNamed) {
  const std::string pointer =
      "version https://git-lfs.github.com/spec/v1\noid sha256:" + std::string(64, 'a') + "\nsize 1234567\n";
  write_text("trace.sqlite", pointer);
  EXPECT_THAT(error_of(file()), HasSubstr("pointer of Git LFS"));
  EXPECT_THAT(error_of(file()), HasSubstr("run `git lfs pull`"));
  write_text("job.nsys-rep", pointer);
  EXPECT_THAT(error_of(file("job.nsys-rep")), HasSubstr("run `git lfs pull`"));
}

TEST_F(InputFileTest, AReportGetsTheExportCommand) {
  write_text("job.nsys-rep", "NVIDIA report");
  EXPECT_THAT(error_of(file("job.nsys-rep")), HasSubstr("report of Nsight Systems"));
  EXPECT_THAT(error_of(file("job.nsys-rep")), HasSubstr("nsys export --type sqlite"));
}

TEST_F(InputFileTest, ADirectoryAndAMissingFileAreRefused) {
  EXPECT_THAT(error_of(directory().string()), HasSubstr("directory"));
  EXPECT_THAT(error_of(file("nothing.sqlite")), HasSubstr("cannot be found"));
}

TEST_F(InputFileTest, APipeIsRefusedWithoutWaiting) {
  ASSERT_EQ(::mkfifo(file("pipe").c_str(), 0600), 0);
  EXPECT_THAT(error_of(file("pipe")), HasSubstr("not a regular file"));
}

TEST_F(InputFileTest, ATruncatedExportIsRefusedEvenIfOnlyTheLastBytesAreMissing) {
  write_export(file());
  const auto size = fs::file_size(file());
  for (const auto kept : {size - 100, size / 2, std::uintmax_t{50}}) {
    fs::copy_file(file(), file("cut.sqlite"), fs::copy_options::overwrite_existing);
    fs::resize_file(file("cut.sqlite"), kept);
    EXPECT_THAT(error_of(file("cut.sqlite")), HasSubstr("cut short")) << kept;
  }
}

TEST_F(InputFileTest, ADamagedSchemaIsRefused) {
  write_export(file());
  std::fstream stream(file(), std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(100);
  stream << std::string(200, '\x77');
  stream.close();
  EXPECT_THAT(error_of(file()), HasSubstr("damaged"));
}

TEST_F(InputFileTest, AFileWithoutPermissionIsRefused) {
  write_export(file());
  fs::permissions(directory(), fs::perms::all);
  fs::permissions(file(), fs::perms::none);
  // In a child, because root may read everything and tests often run as root.
  const auto run = [&] {
    if (::geteuid() == 0 && ::setuid(65534) != 0) ::_exit(3);
    ::_exit(error_of(file()).find("may not be read") != std::string::npos ? 0 : 1);
  };
  EXPECT_EXIT(run(), ::testing::ExitedWithCode(0), "");
}

TEST_F(InputFileTest, AReadOnlyDirectoryOfAnotherUserIsNoObstacle) {
  write_export(file());
  {
    testing::Writer sql(file("wal.sqlite"));
    sql("PRAGMA journal_mode = WAL");
    write_export(sql);
  }
  const fs::perms read_only = fs::perms::owner_read | fs::perms::owner_exec | fs::perms::group_read |
                              fs::perms::group_exec | fs::perms::others_read | fs::perms::others_exec;
  fs::permissions(file(), read_only);
  fs::permissions(file("wal.sqlite"), read_only);
  fs::permissions(directory(), read_only);
  const auto before = snapshot(directory());
  const auto run = [&] {
    if (::geteuid() == 0 && ::setuid(65534) != 0) ::_exit(3);
    ::_exit(kernels_of(file()) == 1 && kernels_of(file("wal.sqlite")) == 1 ? 0 : 1);
  };
  EXPECT_EXIT(run(), ::testing::ExitedWithCode(0), "");
  EXPECT_EQ(snapshot(directory()), before);
}

TEST_F(InputFileTest, AWalModeFileWithoutSidecarsIsReadThroughACopy) {
  {
    testing::Writer sql(file());
    sql("PRAGMA journal_mode = WAL");
    write_export(sql);
  }
  ASSERT_FALSE(fs::exists(file() + "-wal"));
  const testing::TestDirectory copies;
  const auto before = snapshot(directory());
  const TemporaryTmpdir tmpdir(copies.path().string());
  EXPECT_EQ(kernels_of(file()), 1);
  EXPECT_EQ(snapshot(directory()), before);
  EXPECT_TRUE(fs::is_empty(copies.path()));
}

TEST_F(InputFileTest, RowsThatAreOnlyInTheWalAreRead) {
  testing::Writer sql(file());  // stays open, so the log stays unmerged
  sql("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0");
  write_export(sql);
  sql("PRAGMA wal_checkpoint(TRUNCATE)");
  testing::add_kernel(sql, {.start = 30, .end = 40, .name = 1});
  ASSERT_GT(fs::file_size(file() + "-wal"), 0);
  const testing::TestDirectory copies;
  const auto before = snapshot(directory());
  const TemporaryTmpdir tmpdir(copies.path().string());
  EXPECT_EQ(kernels_of(file()), 2);
  EXPECT_EQ(snapshot(directory()), before);
  EXPECT_TRUE(fs::is_empty(copies.path()));
}

constexpr std::size_t kernels_of_hot = 20'001;

/// Rows of `hot` that are as they were before the change that its journal takes back.
std::size_t kernels_from_10(const std::string& path) {
  const Trace trace = read_trace(path);
  const auto& all = trace.processes.at(0).devices.at(0).kernels;
  return static_cast<std::size_t>(
      std::count_if(all.begin(), all.end(), [](const Kernel& kernel) { return kernel.start_ns == 10; }));
}

class HotJournalTest : public InputFileTest {
 protected:
  /// A crash in the middle of a transaction that had spilled into the file: both files as they were then.
  void write_hot_export() {
    testing::Writer sql(file("source.sqlite"));
    write_export(sql);
    sql("WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 20000)"
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT k.* FROM CUPTI_ACTIVITY_KIND_KERNEL k, c");
    sql("PRAGMA synchronous = FULL; PRAGMA cache_size = 5; BEGIN; UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 15");
    fs::copy_file(file("source.sqlite"), file());
    fs::copy_file(file("source.sqlite-journal"), file() + "-journal");
    sql("ROLLBACK");
  }

  /// Ends the journal with the name of a super-journal (https://sqlite.org/atomiccommit.html, 5.6): the number of the
  /// page at the lock byte (its file has pages of 4096 bytes), the name, its length, the sum of its bytes, a mark.
  void name_super_journal(const std::string& name) {
    std::ofstream journal(file() + "-journal", std::ios::binary | std::ios::app);
    const auto number = [&](std::uint32_t value) {
      for (const int shift : {24, 16, 8, 0}) journal.put(static_cast<char>(value >> shift));
    };
    std::uint32_t sum = 0;
    for (const char c : name) sum += static_cast<std::uint32_t>(static_cast<signed char>(c));
    number(0x40000000 / 4096 + 1);
    journal << name;
    number(static_cast<std::uint32_t>(name.size()));
    number(sum);
    journal << "\xd9\xd5\x05\xf9\x20\xa1\x63\xd7";
  }
};

TEST_F(HotJournalTest, IsRolledBackInACopyOnly) {
  write_hot_export();
  fs::copy_file(file(), file("without_journal.sqlite"));
  ASSERT_LT(kernels_from_10(file("without_journal.sqlite")), kernels_of_hot) << "the journal must matter in this test";
  const testing::TestDirectory copies;
  const auto before = snapshot(directory());
  const TemporaryTmpdir tmpdir(copies.path().string());
  EXPECT_EQ(kernels_from_10(file()), kernels_of_hot);
  EXPECT_EQ(snapshot(directory()), before);
  EXPECT_TRUE(fs::is_empty(copies.path()));
}

/// SQLite deletes the super-journal that a journal names, and takes a journal whose super-journal is missing for none.
TEST_F(HotJournalTest, NamesNoFileThatSqliteMayTouch) {
  write_text("of_the_user", "a file of the user's");
  write_hot_export();
  fs::copy_file(file() + "-journal", file("journal"));
  for (const std::string& named : {file("of_the_user"), file("missing")}) {
    fs::copy_file(file("journal"), file() + "-journal", fs::copy_options::overwrite_existing);
    name_super_journal(named);
    const testing::TestDirectory copies;
    const auto before = snapshot(directory());
    const TemporaryTmpdir tmpdir(copies.path().string());
    EXPECT_THAT(error_of(file()), HasSubstr("the journal beside the export names another file")) << named;
    EXPECT_EQ(snapshot(directory()), before) << named;
    EXPECT_TRUE(fs::is_empty(copies.path()));
  }
}

TEST_F(HotJournalTest, IsNotRecommendedToSqliteWhereNoCopyCanBeMade) {
  write_hot_export();
  const TemporaryTmpdir tmpdir(file("no/such/directory"));
  EXPECT_THAT(error_of(file()), HasSubstr("set TMPDIR to a larger disk, or repeat the export"));
  EXPECT_THAT(error_of(file()), Not(HasSubstr("sqlite3")));
}

/// So nothing is left to SQLite, which would have to be trusted with damage.
TEST_F(InputFileTest, CopiesAreReadPageByPageWhateverJournalTheyHad) {
  for (const char* mode : {"WAL", "PERSIST", "TRUNCATE"}) {
    testing::Writer sql(file(mode));
    sql(std::string("PRAGMA wal_autocheckpoint = 0; PRAGMA journal_mode = ") + mode);
    write_export(sql);
    EXPECT_TRUE(InputFile(file(mode)).is_private_copy()) << mode;
    EXPECT_NO_THROW(read_trace(file(mode), {Reader::pages, 1})) << mode;
  }
}

TEST_F(InputFileTest, SidecarsAreFoundBehindASymbolicLink) {
  testing::Writer sql(file("real.sqlite"));
  sql("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0");
  write_export(sql);
  fs::create_directory(file("links"));
  fs::create_symlink(file("real.sqlite"), file("links/trace.sqlite"));
  EXPECT_EQ(kernels_of(file("links/trace.sqlite")), 1);
  EXPECT_TRUE(InputFile(file("links/trace.sqlite")).is_private_copy());
}

TEST_F(InputFileTest, ACopyThatCannotBeMadeIsRefusedWithTheCommandThatMendsTheFile) {
  {
    testing::Writer sql(file());
    sql("PRAGMA journal_mode = WAL");
    write_export(sql);
  }
  const auto before = snapshot(directory());
  const TemporaryTmpdir tmpdir(file("no/such/directory"));
  EXPECT_THAT(error_of(file()), HasSubstr("PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode=DELETE"));
  EXPECT_EQ(snapshot(directory()), before);
}

TEST_F(InputFileTest, TheCopyIsRemovedAfterAFailureToo) {
  {
    testing::Writer sql(file());
    sql("PRAGMA journal_mode = WAL; CREATE TABLE NotFromNsys (a)");
  }
  const testing::TestDirectory copies;
  const TemporaryTmpdir tmpdir(copies.path().string());
  EXPECT_THAT(error_of(file()), HasSubstr("not an export of Nsight Systems"));
  EXPECT_TRUE(fs::is_empty(copies.path()));
}

TEST_F(InputFileTest, ANameThatLooksLikeAUriIsJustAName) {
  const fs::path old = fs::current_path();
  fs::current_path(directory());
  write_export(file("file:trace.sqlite?mode=rwc"));
  EXPECT_EQ(kernels_of("file:trace.sqlite?mode=rwc"), 1);
  fs::current_path(old);
}

TEST_F(InputFileTest, AnExportThatIsBeingWrittenIsRefused) {
  write_export(file());
  testing::Writer sql(file());
  sql("BEGIN EXCLUSIVE");
  EXPECT_THAT(error_of(file()), HasSubstr("being written"));
  sql("ROLLBACK");
}

/// A default VFS on which locking fails, as on a parallel file system that is mounted without locks.
class FileSystemWithoutLocks {
 public:
  FileSystemWithoutLocks() {
    original_ = sqlite3_vfs_find(nullptr);
    shim_ = *original_;
    shim_.zName = "no-locks";
    shim_.xOpen = open;
    sqlite3_vfs_register(&shim_, 1);
  }
  ~FileSystemWithoutLocks() {
    sqlite3_vfs_unregister(&shim_);
    sqlite3_vfs_register(original_, 1);
  }
  FileSystemWithoutLocks(const FileSystemWithoutLocks&) = delete;
  FileSystemWithoutLocks& operator=(const FileSystemWithoutLocks&) = delete;

 private:
  static int open(sqlite3_vfs*, const char* name, sqlite3_file* opened, int flags, int* out_flags) {
    const int code = original_->xOpen(original_, name, opened, flags, out_flags);
    if (code != SQLITE_OK) return code;
    methods_ = *opened->pMethods;
    methods_.xLock = [](sqlite3_file*, int) { return SQLITE_IOERR_LOCK; };
    opened->pMethods = &methods_;
    return SQLITE_OK;
  }
  inline static sqlite3_vfs* original_ = nullptr;
  inline static sqlite3_io_methods methods_{};
  sqlite3_vfs shim_{};
};

TEST_F(InputFileTest, AFileSystemWithoutLocksIsNoObstacle) {
  write_export(file());
  const FileSystemWithoutLocks no_locks;
  sqlite3* handle = nullptr;
  ASSERT_EQ(sqlite3_open_v2(file().c_str(), &handle, SQLITE_OPEN_READONLY, nullptr), SQLITE_OK);
  ASSERT_NE(sqlite3_exec(handle, "SELECT count(*) FROM StringIds", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(handle);
  EXPECT_EQ(kernels_of(file()), 1);
}

TEST_F(InputFileTest, ErrorsAreOneLine) {
  write_text("trace.sqlite", "junk");
  EXPECT_THAT(error_of(file()), Not(HasSubstr("\n")));
}

}  // namespace
}  // namespace nsys_explain::ingest
