#include "pipeline/tool_rank/own_files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "pipeline/tool_rank/record_directory.hpp"

namespace nsys_explain::pipeline {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

class OwnRecords : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "own_files_test.XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    record_ = RecordDirectory(shards_ = directory_ / "shards").save("key", [](std::streambuf& out) { out.sputc('x'); });
  }
  void TearDown() override { fs::remove_all(directory_); }

  fs::path directory_, shards_, record_;
};

TEST_F(OwnRecords, AreWholeOrUnfinished) {
  const fs::path unfinished = shards_ / ".nsys-explain-0123456789abcdef",
                 longer = shards_ / ".nsys-explain-1123456789abcdef";
  std::ofstream{unfinished};
  fs::copy_file(record_, longer);
  fs::resize_file(longer, 20);
  const OwnFiles files = records_in(shards_);
  EXPECT_THAT(files.ours, ElementsAre(shards_, unfinished, longer, record_));
  EXPECT_THAT(files.others, IsEmpty());
  EXPECT_EQ(only_ours(files).size(), 4);
  EXPECT_THAT(records_in(directory_ / "missing").ours, IsEmpty());
}

TEST_F(OwnRecords, AreNothingElse) {
  const fs::path empty = shards_ / ".keep", link = shards_ / "0.record", other = shards_ / "1.record";
  std::ofstream{empty};
  fs::create_symlink(record_, link);
  std::ofstream(other) << "nsys-explain of mine";
  fs::create_directory(shards_ / "2.record");
  const OwnFiles files = records_in(shards_);
  EXPECT_THAT(files.ours, ElementsAre(record_)) << "and so the directory itself is not";
  EXPECT_THAT(files.others, ElementsAre(empty, link, other, shards_ / "2.record"));
  EXPECT_THROW(only_ours(files), std::runtime_error);
  fs::create_directory_symlink(shards_, directory_ / "linked");
  EXPECT_THAT(records_in(directory_ / "linked").others, ElementsAre(directory_ / "linked"));
}

}  // namespace
}  // namespace nsys_explain::pipeline
