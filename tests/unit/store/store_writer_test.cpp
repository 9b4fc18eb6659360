#include "store/store_writer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "nsys_explain/model/table.hpp"
#include "nsys_explain/model/time.hpp"
#include "store/store_reader.hpp"

/// Read by LeakSanitizer, where one is linked. HDF5 1.10 forgets a buffer when it cannot flush a file to a full disk.
extern "C" const char* __lsan_default_suppressions() {  // NOLINT(bugprone-reserved-identifier)
  return "leak:H5F__accum_write";
}

namespace nsys_explain::store {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A directory of its own for every test.
class StoreWriterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "store_writer_test.XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }
  void TearDown() override { fs::remove_all(directory_); }

  std::string file(const std::string& name = "store.h5") const { return (directory_ / name).string(); }

  fs::path directory_;
};

/// Values of one integer dataset, read with plain HDF5 calls.
std::vector<std::int64_t> read_integers(const std::string& path, const std::string& dataset) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t data = H5Dopen2(file, dataset.c_str(), H5P_DEFAULT);
  const hid_t space = H5Dget_space(data);
  std::vector<std::int64_t> values(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)));
  EXPECT_GE(H5Dread(data, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0) << dataset;
  H5Sclose(space);
  H5Dclose(data);
  H5Fclose(file);
  return values;
}

/// The length of the dataset's chunks, 0 where it is compact.
hsize_t chunk_length(const std::string& path, const std::string& dataset) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t data = H5Dopen2(file, dataset.c_str(), H5P_DEFAULT);
  const hid_t properties = H5Dget_create_plist(data);
  hsize_t length = 0;
  if (H5Pget_layout(properties) == H5D_CHUNKED) {
    EXPECT_EQ(H5Pget_chunk(properties, 1, &length), 1);
    EXPECT_EQ(H5Pget_nfilters(properties), 2);  // shuffled and deflated numbers
  }
  H5Pclose(properties);
  H5Dclose(data);
  H5Fclose(file);
  return length;
}

/// Bytes of each value, H5T_VARIABLE where they differ.
std::size_t text_width(const std::string& path, const std::string& dataset) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t data = H5Dopen2(file, dataset.c_str(), H5P_DEFAULT);
  const hid_t type = H5Dget_type(data);
  EXPECT_EQ(H5Tget_cset(type), H5T_CSET_UTF8);
  const std::size_t width = H5Tis_variable_str(type) > 0 ? H5T_VARIABLE : H5Tget_size(type);
  H5Tclose(type);
  H5Dclose(data);
  H5Fclose(file);
  return width;
}

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TableSchema arrivals_schema() {
  return {"collective_arrivals",
          "Arrivals, für Tests",
          {{"instance", ColumnKind::integer, "", "number of the instance"},
           {"wait_ns", ColumnKind::integer, "ns", "time spent waiting"},
           {"share", ColumnKind::real, "", "of something"},
           {"timing_source", ColumnKind::text, "", "kernel, projection or graph_node"},
           {"a_note", ColumnKind::text, "", "any text; its name sorts before the others"}}};
}

Table arrivals() {
  Table table = make_table(arrivals_schema());
  table.columns[0] = std::vector<std::int64_t>{0, 1, 2};
  table.columns[1] = std::vector<std::int64_t>{-1, std::numeric_limits<std::int64_t>::max(), no_time};
  table.columns[2] = std::vector<double>{0.25, -0.0, std::numeric_limits<double>::quiet_NaN()};
  table.columns[3] = TextColumn{"kernel", "", "größe"};
  std::string lambdas;
  for (int i = 0; i < 3000; ++i) lambdas += "λ";
  table.columns[4] = TextColumn{"", "two\nlines", lambdas};
  return table;
}

Table integers(const std::string& name, std::vector<std::int64_t> values) {
  Table table = make_table({name, "", {{"value", ColumnKind::integer, "", ""}}});
  table.columns[0] = std::move(values);
  return table;
}

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing was thrown";
}

/// An interpreter with h5py and pandas: not every python3 on the PATH has them.
std::optional<std::string> python_with_h5py() {
  for (const char* python : {"python3", "/usr/bin/python3"}) {
    const std::string probe = std::string(python) + " -c 'import h5py, pandas' >/dev/null 2>&1";
    if (std::system(probe.c_str()) == 0) return python;
  }
  return std::nullopt;
}

TEST_F(StoreWriterTest, IsReadByH5pyAndPandasInThreeLines) {
  const std::optional<std::string> python = python_with_h5py();
  if (!python)
    GTEST_SKIP() << "SKIPPED: no python3 with h5py and pandas (Debian: apt install python3-h5py python3-pandas)";
  StoreWriter writer(file());
  writer.set_attribute("/run", "tool_version", "1.2.3");
  writer.set_attribute("/run", "tool_ranks", std::int64_t{4});
  writer.write(arrivals());
  writer.close();
  const fs::path script = fs::path(NSYS_EXPLAIN_TESTS) / "unit" / "store" / "read_store.py";
  const std::string command = *python + " '" + script.string() + "' '" + file() + "'";
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
}

TEST_F(StoreWriterTest, AppendsOfAnySizeAddUpAcrossChunkBorders) {
  std::vector<std::int64_t> expected;
  StoreWriter writer(file());
  writer.create_table(integers("numbers", {}).schema, {135'540, {0}});
  for (const std::int64_t rows : {1, 0, 65'535, 1, 70'000, 3}) {
    std::vector<std::int64_t> part;
    for (std::int64_t i = 0; i < rows; ++i) part.push_back(static_cast<std::int64_t>(expected.size()) + i);
    expected.insert(expected.end(), part.begin(), part.end());
    writer.append(integers("numbers", part));
  }
  writer.close();
  EXPECT_EQ(read_integers(file(), "numbers/value"), expected);
  EXPECT_EQ(expected.size(), 135'540u);
}

TEST_F(StoreWriterTest, ShortTablesLieInTheirHeadersAndLongTablesCompress) {
  const std::vector<std::int64_t> most_compact(1024, 7), fewest_chunked(1025, 8);
  std::vector<std::int64_t> steps;
  for (std::int64_t i = 0; i < 1'000'000; ++i) steps.push_back(1'000'000'000'000 + i * 250'000);
  StoreWriter writer(file());
  writer.write(integers("empty", {}));
  writer.write(integers("compact", most_compact));
  writer.write(integers("chunked", fewest_chunked));
  writer.write(integers("long", steps));
  writer.close();
  EXPECT_EQ(chunk_length(file(), "empty/value"), 0u);
  EXPECT_EQ(chunk_length(file(), "compact/value"), 0u);
  EXPECT_EQ(chunk_length(file(), "chunked/value"), 1025u);
  EXPECT_EQ(chunk_length(file(), "long/value"), 65'536u);
  EXPECT_LT(fs::file_size(file()), 8u * steps.size() / 2);
  EXPECT_TRUE(read_integers(file(), "empty/value").empty());
  EXPECT_EQ(read_integers(file(), "compact/value"), most_compact);
  EXPECT_EQ(read_integers(file(), "chunked/value"), fewest_chunked);
  EXPECT_EQ(read_integers(file(), "long/value"), steps);
}

TEST_F(StoreWriterTest, RowsEncodedElsewhereAreWrittenAsTheNextSlabOnly) {
  std::vector<std::int64_t> values;
  for (std::int64_t i = 0; i < 150'000; ++i) values.push_back(i * i);
  const Table table = integers("numbers", values);
  const TableExtent extent = extent_of(table);
  StoreWriter writer(file());
  writer.create_table(table.schema, extent);
  EXPECT_THROW(writer.append(encode_rows(table, extent, 0, 1'000)), std::invalid_argument);
  EXPECT_THROW(writer.append(encode_rows(integers("unknown", {1}), {1, {0}}, 0, 1)), std::invalid_argument);
  EXPECT_THROW((void)encode_rows(table, {150'000, {}}, 0, 1'000), std::exception);
  writer.append(encode_rows(table, extent, 0, slab_rows));
  writer.append(integers("numbers", {values.begin() + slab_rows, values.begin() + slab_rows + 7}));
  EXPECT_THROW(writer.append(encode_rows(table, extent, slab_rows, slab_rows)), std::invalid_argument);
  writer.append(integers("numbers", {values.begin() + slab_rows + 7, values.end()}));
  EXPECT_THROW(writer.append(encode_rows(table, extent, 0, 1)), std::runtime_error);
  writer.close();
  EXPECT_EQ(read_integers(file(), "numbers/value"), values);
}

TEST_F(StoreWriterTest, TextsHaveTheWidthOfTheLongestUnlessItIsVeryLong) {
  const TableSchema schema{
      "texts",
      "",
      {{"short", ColumnKind::text, "", ""}, {"long", ColumnKind::text, "", ""}, {"empty", ColumnKind::text, "", ""}}};
  Table table = make_table(schema);
  for (std::size_t row = 0; row < 5'000; ++row) {
    RowWriter(table) << (row == 77 ? "größer" : "x") << std::string(257, 'z') << "";
  }
  StoreWriter writer(file());
  writer.set_attribute("/", "schema_version", "1.0");
  writer.write(table);
  Table longer = make_table(schema);
  longer.schema.name = "longer";
  writer.create_table(longer.schema, {1, {3, 1, 1}});
  RowWriter(longer) << "1234"
                    << ""
                    << "";
  EXPECT_THAT(message_of([&] { writer.append(longer); }), AllOf(HasSubstr("longer/short"), HasSubstr("4 bytes")));
  longer.columns[0] = TextColumn{"123"};
  writer.append(longer);
  writer.close();
  EXPECT_EQ(text_width(file(), "texts/short"), 8u);  // "größer": 6 characters
  EXPECT_EQ(text_width(file(), "texts/long"), H5T_VARIABLE);
  EXPECT_EQ(text_width(file(), "texts/empty"), 1u);
  StoreReader reader(file());
  const Table read = reader.read("texts");
  EXPECT_EQ(read.columns, table.columns);
  for (const ColumnSchema& column : read.schema.columns) EXPECT_EQ(column.kind, ColumnKind::text) << column.name;
}

TEST_F(StoreWriterTest, OtherRowsThanWereAnnouncedAreRefused) {
  for (const std::size_t announced : {4u, 5'000u}) {
    StoreWriter writer(file());
    writer.create_table(integers("numbers", {}).schema, {announced, {0}});
    writer.append(integers("numbers", {1, 2, 3}));
    EXPECT_THROW(writer.close(), std::logic_error) << announced;
  }
  StoreWriter writer(file());
  writer.create_table(integers("numbers", {}).schema, {2, {0}});
  EXPECT_THROW(writer.append(integers("numbers", {1, 2, 3})), std::runtime_error);
}

TEST_F(StoreWriterTest, TheSameTablesMakeTheSameBytes) {
  for (const char* name : {"one.h5", "two.h5"}) {
    StoreWriter writer(file(name));
    writer.set_attribute("/", "schema_version", "1.0");
    writer.write(arrivals());
    writer.create_table(integers("numbers", {}).schema, {3, {0}});
    writer.append(integers("numbers", {5, 6, 7}));
    writer.close();
  }
  EXPECT_EQ(bytes_of(file("one.h5")), bytes_of(file("two.h5")));
  // Both were written within one second, perhaps: no object may hold a time stamp at all.
  const hid_t opened = H5Fopen(file("one.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  for (const char* object : {"/numbers", "/numbers/value"}) {
    H5O_info_t info{};
    ASSERT_GE(H5Oget_info_by_name2(opened, object, &info, H5O_INFO_TIME, H5P_DEFAULT), 0);
    EXPECT_EQ(info.mtime, 0) << object;
    EXPECT_EQ(info.ctime, 0) << object;
  }
  H5Fclose(opened);
}

TEST_F(StoreWriterTest, AttributesAreReplacedAndGroupsNest) {
  StoreWriter writer(file());
  writer.set_attribute("/run/environment", "launcher", "srun");
  writer.set_attribute("/run/environment", "launcher", std::int64_t{7});
  writer.set_attribute("/run/environment", "empty", "");
  writer.write(integers("run/phases", {1}));  // a table may live below a group that exists
  writer.close();
  const hid_t opened = H5Fopen(file().c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t attribute = H5Aopen_by_name(opened, "/run/environment", "launcher", H5P_DEFAULT, H5P_DEFAULT);
  std::int64_t value = 0;
  EXPECT_GE(H5Aread(attribute, H5T_NATIVE_INT64, &value), 0);
  EXPECT_EQ(value, 7);
  H5Aclose(attribute);
  H5Fclose(opened);
  EXPECT_EQ(read_integers(file(), "run/phases/value"), std::vector<std::int64_t>{1});
}

TEST_F(StoreWriterTest, HostileTextIsStoredAsValidUtf8) {
  for (const std::size_t length : {1, 300}) {  // of one width, and of any
    const std::string last(length, 'x');
    Table table = make_table({"names", "bad \xff description", {{"name", ColumnKind::text, "", ""}}});
    table.columns[0] =
        TextColumn{std::string("a\0b", 3), "bad\xc3(", "overlong\xc0\x80", "\xed\xa0\x80", "good \xf0\x9f\x9a\x80",
                   "cut \xf0\x9f\x9a",     last};
    StoreWriter writer(file());
    writer.set_attribute("/", "schema_version", "1.0");
    writer.write(table);
    writer.close();
    EXPECT_EQ(text_width(file(), "names/name"), length == 1 ? 10 : H5T_VARIABLE);
    const Table read = StoreReader(file()).read("names");
    EXPECT_THAT(column<std::string>(read, "name"),
                ElementsAre("a?b", "bad?(", "overlong??", "???", "good \xf0\x9f\x9a\x80", "cut ???", last));
  }
}

TEST_F(StoreWriterTest, ARefusedChunkLeavesNoTrace) {
  StoreWriter writer(file());
  writer.create_table(arrivals_schema(), extent_of(arrivals()));

  Table unequal = arrivals();
  std::get<std::vector<double>>(unequal.columns[2]).pop_back();
  EXPECT_THROW(writer.append(unequal), std::invalid_argument);

  Table wrong_type = arrivals();
  wrong_type.columns[1] = std::vector<double>{1, 2, 3};
  EXPECT_THROW(writer.append(wrong_type), std::invalid_argument);

  Table longer = arrivals();
  longer.columns[3] = TextColumn{"kernel", "8 bytes!", ""};
  EXPECT_THAT(message_of([&] { writer.append(longer); }),
              AllOf(HasSubstr("collective_arrivals/timing_source"), HasSubstr("of 8 bytes"), HasSubstr("width of 7")));

  Table too_few = arrivals();
  too_few.columns.pop_back();
  EXPECT_THROW(writer.append(too_few), std::invalid_argument);

  EXPECT_THROW(writer.append(integers("unknown", {1})), std::invalid_argument);

  Table longest = arrivals();
  longest.columns[3] = TextColumn{"kernel", "7 bytes", ""};
  writer.append(longest);
  writer.close();
  EXPECT_EQ(read_integers(file(), "collective_arrivals/instance"), (std::vector<std::int64_t>{0, 1, 2}));
}

TEST_F(StoreWriterTest, RefusesTablesItCannotHold) {
  StoreWriter writer(file());
  writer.write(integers("twice", {1}));
  EXPECT_THROW(writer.create_table(integers("twice", {}).schema, {1, {0}}), std::runtime_error);
  EXPECT_THROW(writer.create_table({"no_columns", "", {}}, {1, {}}), std::invalid_argument);
  EXPECT_THROW(writer.create_table({"", "", {{"a", ColumnKind::integer, "", ""}}}, {1, {0}}), std::invalid_argument);
  EXPECT_THROW(writer.create_table({"slash", "", {{"a/b", ColumnKind::integer, "", ""}}}, {1, {0}}),
               std::invalid_argument);
  EXPECT_THROW(writer.create_table({"same", "", {{"a", ColumnKind::integer, "", ""}, {"a", ColumnKind::real, "", ""}}},
                                   {1, {0, 0}}),
               std::runtime_error);
  writer.close();
  EXPECT_THAT(message_of([&] { writer.write(integers("late", {1})); }), HasSubstr("closed"));
  EXPECT_NO_THROW(writer.close());
}

TEST_F(StoreWriterTest, SaysWhyAFileCannotBeCreated) {
  EXPECT_THAT(message_of([&] { StoreWriter writer(file("missing/store.h5")); }),
              AllOf(HasSubstr("missing/store.h5"), HasSubstr("No such file or directory"), HasSubstr("check that")));
}

/// Random values, which do not compress.
Table noise(std::size_t rows) {
  std::mt19937_64 random(1);
  std::vector<std::int64_t> values(rows);
  for (std::int64_t& value : values) value = static_cast<std::int64_t>(random());
  return integers("noise", values);
}

/// A limit on file sizes stands in for a full disk: write() fails with a system error in both cases.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    previous_handler_ = std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &previous_);
    const rlimit limited{bytes, previous_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limited);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &previous_);
    std::signal(SIGXFSZ, previous_handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit previous_{};
  void (*previous_handler_)(int) = SIG_DFL;
};

TEST_F(StoreWriterTest, AFullDiskSurfacesWhileAppending) {
  const FileSizeLimit limit(1'000'000);
  StoreWriter writer(file());
  writer.create_table(noise(0).schema, {1'000'000, {0}});
  const std::string message = message_of([&] {
    for (int i = 0; i < 100; ++i) writer.append(noise(10'000));
  });
  EXPECT_THAT(message, AllOf(HasSubstr("write 'noise/value'"), HasSubstr("File too large"), HasSubstr(file()),
                             HasSubstr("incomplete"), HasSubstr("make room")));
}

TEST_F(StoreWriterTest, AFullDiskSurfacesInCloseAtTheLatest) {
  const FileSizeLimit limit(200'000);
  StoreWriter writer(file());
  EXPECT_THAT(message_of([&] {
                writer.write(noise(50'000));
                writer.close();
              }),
              AllOf(HasSubstr("write 'noise/value'"), HasSubstr("File too large")));
}

TEST_F(StoreWriterTest, AFullDiskLeavesTheExitCodeToUs) {
  // HDF5's clean-up at exit crashes on data it could not write.
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";  // a fresh process, in which HDF5 has not started yet
  const auto run_into_a_full_disk = [this] {
    const FileSizeLimit limit(200'000);
    try {
      StoreWriter writer(file());
      writer.write(noise(50'000));
      writer.close();
    } catch (const std::runtime_error&) {
      std::exit(5);
    }
    std::exit(0);
  };
  EXPECT_EXIT(run_into_a_full_disk(), ::testing::ExitedWithCode(5), "");
}

TEST_F(StoreWriterTest, ADeviceWithoutRoomIsToldApart) {
  if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "SKIPPED: this system has no /dev/full";
  EXPECT_THAT(message_of([&] {
                StoreWriter writer("/dev/full");
                writer.write(noise(10));
                writer.close();
              }),
              HasSubstr("No space left on device"));
}

TEST_F(StoreWriterTest, TheDestructorClosesSilentlyAndNoHandleIsLost) {
  StoreWriter(file("first.h5")).close();  // HDF5 is up, whatever test ran before
  const ssize_t before = H5Fget_obj_count(H5F_OBJ_ALL, H5F_OBJ_ALL);
  { StoreWriter(file()).write(arrivals()); }
  EXPECT_EQ(H5Fget_obj_count(H5F_OBJ_ALL, H5F_OBJ_ALL), before);
  EXPECT_EQ(read_integers(file(), "collective_arrivals/instance").size(), 3u);
}

}  // namespace
}  // namespace nsys_explain::store
