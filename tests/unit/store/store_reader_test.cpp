#include "store/store_reader.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "nsys_explain/model/time.hpp"
#include "store/hdf5_object.hpp"
#include "store/store_writer.hpp"

namespace nsys_explain::store {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

class StoreReaderTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "store_reader_test.XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    path_ = (directory_ / "store.h5").string();
  }
  void TearDown() override { fs::remove_all(directory_); }

  void write_store() const {
    StoreWriter writer(path_);
    writer.set_attribute("/", "schema_version", "1.0");
    writer.set_attribute("/run", "tool_ranks", std::int64_t{4});
    Table table = make_table({"zebras",
                              "striped",
                              {{"name", ColumnKind::text, "", "any text"},
                               {"kind", ColumnKind::text, "", "short"},
                               {"at_ns", ColumnKind::time, "ns", "when"},
                               {"weight", ColumnKind::real, "kg", "how heavy"}}});
    RowWriter rows(table);
    rows << "größe"
         << "a" << std::int64_t{-5} << 0.5;
    rows << ""
         << "" << no_time << std::nan("");
    rows << std::string(3000, 'x') << "c" << std::int64_t{7} << -1.0;
    writer.write(table);
    writer.write(make_table({"apples", "none of them", {{"n", ColumnKind::text, "", ""}}}));
    writer.close();
  }

  fs::path directory_;
  std::string path_;
};

TEST_F(StoreReaderTest, GivesBackWhatWasWritten) {
  write_store();
  const StoreReader reader(path_);
  EXPECT_THAT(reader.table_names(), testing::UnorderedElementsAre("zebras", "apples"));
  const Table table = reader.read("zebras");
  EXPECT_EQ(table.schema.description, "striped");
  EXPECT_EQ(table.schema.columns[3].unit, "kg");
  EXPECT_EQ(table.schema.columns[0].kind, ColumnKind::text);
  EXPECT_EQ(table.schema.columns[1].kind, ColumnKind::text);
  EXPECT_THAT(column<std::string>(table, "name"), ElementsAre("größe", "", std::string(3000, 'x')));
  EXPECT_THAT(column<std::string>(table, "kind"), ElementsAre("a", "", "c"));
  EXPECT_THAT(column<std::int64_t>(table, "at_ns"), ElementsAre(-5, no_time, 7));
  EXPECT_EQ(column<double>(table, "weight")[2], -1.0);
  EXPECT_TRUE(std::isnan(column<double>(table, "weight")[1]));
  EXPECT_EQ(reader.attribute("/run", "tool_ranks"), "4");
  EXPECT_EQ(reader.attribute("/", "schema_version"), "1.0");
  EXPECT_EQ(reader.attribute("/nowhere", "x"), std::nullopt);
}

TEST_F(StoreReaderTest, GivesSomeColumnsOfSomeRows) {
  write_store();
  const StoreReader reader(path_);
  const Table rows = reader.read_rows("zebras", std::vector<std::int64_t>{0, 2}, {"weight", "name", "kind"});
  EXPECT_THAT(column<double>(rows, "weight"), ElementsAre(0.5, -1.0));
  EXPECT_THAT(column<std::string>(rows, "name"), ElementsAre("größe", std::string(3000, 'x')));
  EXPECT_THAT(column<std::string>(rows, "kind"), ElementsAre("a", "c"));
  EXPECT_EQ(rows.schema.columns.size(), 3);
  EXPECT_EQ(reader.read_rows("zebras", {}, {"weight", "name"}).row_count(), 0);
  EXPECT_EQ(reader.read_rows("apples", {}, {"n"}).row_count(), 0);
  const Table part = reader.read("zebras", 1, 5, {"at_ns"});
  EXPECT_THAT(column<std::int64_t>(part, "at_ns"), ElementsAre(no_time, 7));
  EXPECT_THROW(reader.read("zebras", 0, 1, {"lion"}), std::out_of_range);
  EXPECT_THROW(reader.read_rows("zebras", std::vector<std::int64_t>{3}, {"weight"}), std::runtime_error);
}

TEST_F(StoreReaderTest, TakesNoBytesOfAnAttributeForAddresses) {
  write_store();
  {
    const Object file = own(H5Fopen(path_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose, "open", path_);
    const Object group = own(H5Gopen2(file.id(), "zebras", H5P_DEFAULT), H5Gclose, "open", "zebras");
    checked(H5Adelete(group.id(), "description"), "delete", "description");
    const Object type = own(H5Tcopy(H5T_C_S1), H5Tclose, "create", "type");
    checked(H5Tset_size(type.id(), 8), "size", "type");
    const Object space = own(H5Screate(H5S_SCALAR), H5Sclose, "create", "space");
    const Object attribute = own(H5Acreate2(group.id(), "description", type.id(), space.id(), H5P_DEFAULT, H5P_DEFAULT),
                                 H5Aclose, "create", "description");
    checked(H5Awrite(attribute.id(), type.id(), "12345678"), "write", "description");
  }
  const StoreReader reader(path_);
  EXPECT_THAT([&] { reader.schema("zebras"); },
              ThrowsMessage<std::runtime_error>(HasSubstr("the store is damaged or incomplete")));
}

TEST_F(StoreReaderTest, ReadsPartsAndEmptyTables) {
  write_store();
  const StoreReader reader(path_);
  EXPECT_THAT(column<std::string>(reader.read("zebras", 1, 1), "kind"), ElementsAre(""));
  EXPECT_THAT(column<std::int64_t>(reader.read("zebras", 2, 100), "at_ns"), ElementsAre(7));
  EXPECT_EQ(reader.read("zebras", 3, 5).row_count(), 0U);
  EXPECT_EQ(reader.read("apples").row_count(), 0U);
  EXPECT_EQ(reader.row_count("apples"), 0);
}

TEST_F(StoreReaderTest, ReadsTextsOfMoreRowsThanASlab) {
  constexpr std::int64_t rows = 150'000;
  const auto name_of = [](std::int64_t row) { return std::to_string(row % 1'000); };
  {
    StoreWriter writer(path_);
    writer.set_attribute("/", "schema_version", "1.0");
    Table table =
        make_table({"ants", "many", {{"name", ColumnKind::text, "", ""}, {"tale", ColumnKind::text, "", ""}}});
    RowWriter out(table);
    for (std::int64_t row = 0; row < rows; ++row) {
      out << name_of(row) << (row == 70'000 ? std::string(500, 'x') : std::string("short"));
    }
    writer.write(table);
    writer.close();
  }
  const StoreReader reader(path_);
  const Table part = reader.read("ants", 1, rows - 1);
  const auto& names = column<std::string>(part, "name");
  ASSERT_EQ(names.size(), rows - 1);
  for (std::int64_t row = 1; row < rows; ++row) ASSERT_EQ(names[static_cast<std::size_t>(row - 1)], name_of(row));
  EXPECT_EQ(column<std::string>(part, "tale")[69'999], std::string(500, 'x'));
  EXPECT_EQ(column<std::string>(part, "tale")[70'000], "short");
  const Table some = reader.read_rows("ants", std::vector<std::int64_t>{5, 70'000, rows - 1}, {"name", "tale"});
  EXPECT_THAT(column<std::string>(some, "name"), ElementsAre("5", "0", "999"));
}

TEST_F(StoreReaderTest, SaysWhichTablesThereAre) {
  write_store();
  const StoreReader reader(path_);
  EXPECT_THAT([&] { (void)reader.read("lions"); },
              ThrowsMessage<std::out_of_range>(testing::AllOf(HasSubstr("lions"), HasSubstr("zebras"))));
}

TEST_F(StoreReaderTest, RefusesWhatIsNoStore) {
  EXPECT_THAT([&] { StoreReader reader((directory_ / "absent.h5").string()); },
              ThrowsMessage<std::runtime_error>(HasSubstr("absent.h5")));
  std::ofstream(path_) << "no HDF5 at all";
  EXPECT_THAT([&] { StoreReader reader(path_); }, ThrowsMessage<std::runtime_error>(HasSubstr("name the store.h5")));
}

TEST_F(StoreReaderTest, ATruncatedStoreIsAMessage) {
  write_store();
  fs::resize_file(path_, fs::file_size(path_) / 2);
  EXPECT_THROW(
      {
        const StoreReader reader(path_);
        (void)reader.read("zebras");
      },
      std::runtime_error);
}

}  // namespace
}  // namespace nsys_explain::store
