// What a store must not make HDF5 do: read other files, or more than the file holds. Each store here is one that
// StoreWriter wrote, with a column that HDF5 replaced.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "store/hdf5_object.hpp"
#include "store/store_reader.hpp"
#include "store/store_writer.hpp"

namespace nsys_explain::store {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr hsize_t rows_of_zebras = 3;

class OwnValues : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "own_values_test.XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    path_ = (directory_ / "store.h5").string();
    secret_ = (directory_ / "secret").string();
    std::ofstream(secret_) << "AKIAIOSFODNN7EXAMPLE/top-secret!";
    write_store(path_);
    write_store((directory_ / "other.h5").string());
  }
  void TearDown() override { fs::remove_all(directory_); }

  static void write_store(const std::string& path) {
    StoreWriter writer(path);
    writer.set_attribute("/", "schema_version", "1.0");
    Table table = make_table(
        {"zebras", "striped", {{"at_ns", ColumnKind::time, "ns", "when"}, {"name", ColumnKind::text, "", "short"}}});
    RowWriter rows(table);
    for (hsize_t row = 0; row < rows_of_zebras; ++row) rows << std::int64_t{7} << "a";
    writer.write(table);
    writer.close();
  }

  /// Replaces zebras/name; `make` returns the new dataset, or nothing where it made a link.
  void forge(const std::function<Object(hid_t zebras)>& make) const {
    const Object file = own(H5Fopen(path_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose, "open", path_);
    const Object zebras = own(H5Gopen2(file.id(), "zebras", H5P_DEFAULT), H5Gclose, "open", "zebras");
    checked(H5Ldelete(zebras.id(), "name", H5P_DEFAULT), "delete", "name");
    const Object dataset = make(zebras.id());
    if (dataset.id() < 0) return;
    const Object type = own(H5Tcopy(H5T_C_S1), H5Tclose, "create", "type");
    checked(H5Tset_size(type.id(), H5T_VARIABLE), "size", "type");
    const Object space = own(H5Screate(H5S_SCALAR), H5Sclose, "create", "space");
    const char* text = "";
    for (const char* name : {"unit", "description"}) {
      const Object attribute = own(H5Acreate2(dataset.id(), name, type.id(), space.id(), H5P_DEFAULT, H5P_DEFAULT),
                                   H5Aclose, "create", name);
      checked(H5Awrite(attribute.id(), type.id(), &text), "write", name);
    }
  }

  static Object dataset(hid_t group, hid_t type, hsize_t rows, const Object& properties) {
    const Object space = own(H5Screate_simple(1, &rows, nullptr), H5Sclose, "create", "space");
    return own(H5Dcreate2(group, "name", type, space.id(), H5P_DEFAULT, properties.id(), H5P_DEFAULT), H5Dclose,
               "create", "name");
  }
  static Object properties() { return own(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "create", "properties"); }
  static Object chunks(hsize_t rows) {
    Object made = properties();
    checked(H5Pset_chunk(made.id(), 1, &rows), "set", "chunks");
    return made;
  }
  static Object text_type(std::size_t width) {
    Object type = own(H5Tcopy(H5T_C_S1), H5Tclose, "create", "type");
    checked(H5Tset_size(type.id(), width), "size", "type");
    return type;
  }

  void expect_refused(const std::string& why) const {
    const StoreReader reader(path_);
    for (const std::function<void()>& look : std::vector<std::function<void()>>{
             [&] { reader.schema("zebras"); }, [&] { reader.row_count("zebras"); },
             [&] { (void)reader.read("zebras"); }, [&] { (void)reader.read("zebras", 0, 1, {"name"}); },
             [&] { (void)reader.read_rows("zebras", std::vector<std::int64_t>{0}, {"name"}); }}) {
      EXPECT_THAT(look, ThrowsMessage<std::runtime_error>(
                            AllOf(HasSubstr("'zebras/name'"), HasSubstr(why), HasSubstr("run the analysis again"))));
    }
  }

  fs::path directory_;
  std::string path_, secret_;
};

TEST_F(OwnValues, NotThoseOfAnotherFile) {
  forge([&](hid_t zebras) {
    const Object outside = properties();
    checked(H5Pset_external(outside.id(), secret_.c_str(), 0, rows_of_zebras * 10), "set", "external");
    return dataset(zebras, text_type(10).id(), rows_of_zebras, outside);
  });
  expect_refused("other files");
}

TEST_F(OwnValues, NotThoseOfAVirtualDataset) {
  forge([&](hid_t zebras) {
    const Object outside = properties();
    const Object space = own(H5Screate_simple(1, &rows_of_zebras, nullptr), H5Sclose, "create", "space");
    checked(H5Pset_virtual(outside.id(), space.id(), (directory_ / "other.h5").c_str(), "/zebras/name", space.id()),
            "set", "virtual");
    return dataset(zebras, text_type(1).id(), rows_of_zebras, outside);
  });
  expect_refused("other files");
}

TEST_F(OwnValues, NotThroughLinks) {
  forge([&](hid_t zebras) {
    checked(
        H5Lcreate_external((directory_ / "other.h5").c_str(), "/zebras/name", zebras, "name", H5P_DEFAULT, H5P_DEFAULT),
        "link", "name");
    return Object();
  });
  expect_refused("other files");
  write_store(path_);
  forge([&](hid_t zebras) {
    checked(H5Lcreate_soft("/zebras/at_ns", zebras, "name", H5P_DEFAULT, H5P_DEFAULT), "link", "name");
    return Object();
  });
  expect_refused("it is a link");
}

TEST_F(OwnValues, NoTableThroughLinks) {
  for (const bool is_soft : {false, true}) {
    write_store(path_);
    {
      const Object file = own(H5Fopen(path_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose, "open", path_);
      checked(is_soft ? H5Lcreate_soft("/zebras", file.id(), "lions", H5P_DEFAULT, H5P_DEFAULT)
                      : H5Lcreate_external((directory_ / "other.h5").c_str(), "/zebras", file.id(), "lions",
                                           H5P_DEFAULT, H5P_DEFAULT),
              "link", "lions");
    }
    EXPECT_THAT([&] { const StoreReader reader(path_); },
                ThrowsMessage<std::runtime_error>(AllOf(HasSubstr("'lions'"), HasSubstr("name the store.h5"))));
  }
}

TEST_F(OwnValues, NoColumnThatIsNone) {
  forge([&](hid_t zebras) {
    own(H5Gcreate2(zebras, "name", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Gclose, "create", "name");
    return Object();
  });
  expect_refused("");
}

TEST_F(OwnValues, NoRowsThatTheFileDoesNotHold) {
  // 2^20 rows of 8 bytes need at least 2^23 / 1032 bytes; no chunk of them is there.
  forge([&](hid_t zebras) { return dataset(zebras, H5T_STD_I64LE, 1 << 20, chunks(65'536)); });
  expect_refused("1048576 rows, but 0 bytes");
  write_store(path_);
  forge([&](hid_t zebras) { return dataset(zebras, H5T_STD_I64LE, hsize_t{1} << 60, chunks(65'536)); });
  expect_refused("rows");
}

TEST_F(OwnValues, NoOtherNumberOfRows) {
  forge([&](hid_t zebras) {
    Object column = dataset(zebras, H5T_STD_I64LE, 2, properties());
    const std::vector<std::int64_t> values(2);
    checked(H5Dwrite(column.id(), H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), "write", "name");
    return column;
  });
  expect_refused("2 rows");
}

TEST_F(OwnValues, NoTextsOfAbsurdWidths) {
  forge([&](hid_t zebras) { return dataset(zebras, text_type(1'000'000'000).id(), rows_of_zebras, chunks(1)); });
  expect_refused("1000000000 bytes wide");
}

TEST_F(OwnValues, NoChunksOfAbsurdSizes) {
  forge([&](hid_t zebras) {
    const Object bomb = chunks(1 << 22);  // 32 MB, deflated to some 32 kB
    checked(H5Pset_deflate(bomb.id(), 9), "set", "deflate");
    Object column = dataset(zebras, H5T_STD_I64LE, 1 << 22, bomb);
    const std::vector<std::int64_t> zeros(1 << 22);
    checked(H5Dwrite(column.id(), H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, zeros.data()), "write", "name");
    return column;
  });
  expect_refused("chunks");
}

TEST_F(OwnValues, NotDeflatedTwice) {
  forge([&](hid_t zebras) {
    const Object twice = chunks(rows_of_zebras);
    checked(H5Pset_deflate(twice.id(), 9), "set", "deflate");
    checked(H5Pset_deflate(twice.id(), 9), "set", "deflate");
    return dataset(zebras, H5T_STD_I64LE, rows_of_zebras, twice);
  });
  expect_refused("packed");
}

/// A text of any length is a reference to its bytes: many rows may name the same ones.
TEST_F(OwnValues, NoTextsThatAreLongerThanTheFile) {
  constexpr std::size_t length = 100'000;
  const std::string longest(length, 'x');
  forge([&](hid_t zebras) {
    const Object flat = properties();
    checked(H5Pset_layout(flat.id(), H5D_CONTIGUOUS), "set", "layout");
    Object column = dataset(zebras, text_type(H5T_VARIABLE).id(), rows_of_zebras, flat);
    const char* texts[] = {longest.c_str(), "b", "c"};
    checked(H5Dwrite(column.id(), text_type(H5T_VARIABLE).id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, texts), "write", "name");
    return column;
  });
  EXPECT_EQ(column<std::string>(StoreReader(path_).read("zebras"), "name")[0], longest);
  std::ifstream in(path_, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  // A reference: 4 bytes of length (and end), 8 of the place, 4 of the number there.
  const std::string size{'\xa1', '\x86', '\x01', '\0'};
  std::size_t at = bytes.find(size);
  if (at == std::string::npos) at = bytes.find(std::string{'\xa0', '\x86', '\x01', '\0'});
  ASSERT_NE(at, std::string::npos);
  for (const std::size_t row : {1U, 2U}) bytes.replace(at + 16 * row, 16, bytes, at, 16);
  std::ofstream(path_, std::ios::binary) << bytes;
  EXPECT_THAT([&] { (void)StoreReader(path_).read("zebras"); },
              ThrowsMessage<std::runtime_error>(AllOf(HasSubstr("'zebras/name'"), HasSubstr("longer than the file"))));
}

TEST_F(OwnValues, NothingButARegularFileIsOpened) {
  const std::string pipe = (directory_ / "pipe.h5").string();
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& path : {pipe, directory_.string(), std::string("/dev/null")}) {
    EXPECT_THAT([&] { const StoreReader reader(path); },
                ThrowsMessage<std::runtime_error>(AllOf(HasSubstr(path), HasSubstr("no regular file"))));
  }
}

}  // namespace
}  // namespace nsys_explain::store
