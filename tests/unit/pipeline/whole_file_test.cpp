#include "pipeline/tool_rank/whole_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <stdexcept>
#include <string>

namespace nsys_explain::pipeline {
namespace {

namespace fs = std::filesystem;

class WholeFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "whole_file_test.XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }
  void TearDown() override { fs::remove_all(directory_); }

  std::set<std::string> names() const {
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator(directory_)) found.insert(entry.path().filename());
    return found;
  }
  static std::string content(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static void write(const fs::path& path, std::string_view bytes) {
    WholeFile file(path);
    file.write(bytes);
    file.publish();
  }

  fs::path directory_;
};

TEST_F(WholeFileTest, AppearsWholeOrNotAtAll) {
  const fs::path path = directory_ / "file";
  write(path, "older");
  {
    WholeFile file(path);
    file.write("12345");
    EXPECT_EQ(content(path), "older");
    file.rewrite(1, "xy");
    file.publish();
    EXPECT_EQ(content(path), "1xy45");
  }
  { WholeFile(path).write("never published"); }
  EXPECT_EQ(content(path), "1xy45");
  EXPECT_EQ(names(), std::set<std::string>{"file"});
}

TEST_F(WholeFileTest, ReplacesALinkAndFollowsNone) {
  std::ofstream(directory_ / "precious") << "kept";
  fs::create_symlink("precious", directory_ / "link");
  write(directory_ / "link", "new");
  EXPECT_EQ(content(directory_ / "precious"), "kept");
  EXPECT_EQ(content(directory_ / "link"), "new");
  EXPECT_FALSE(fs::is_symlink(directory_ / "link"));
}

TEST_F(WholeFileTest, IsAsReadableAsTheUserHasItsFiles) {
  for (const mode_t mask : {0022U, 0027U, 0077U}) {
    const mode_t before = ::umask(mask);
    write(directory_ / "file", "");
    ::umask(before);
    EXPECT_EQ(static_cast<mode_t>(fs::status(directory_ / "file").permissions()), 0666U & ~mask);
  }
}

TEST_F(WholeFileTest, ReplacesNothingButFiles) {
  ASSERT_EQ(::mkfifo((directory_ / "pipe").c_str(), 0600), 0);
  try {
    WholeFile file(directory_ / "pipe", "name another file");
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("pipe"), testing::EndsWith("; name another file")));
  }
  EXPECT_THROW(WholeFile file(directory_), std::runtime_error);
  EXPECT_THROW(WholeFile file(directory_ / "absent" / "file"), std::runtime_error);
  EXPECT_EQ(names(), std::set<std::string>{"pipe"});
}

}  // namespace
}  // namespace nsys_explain::pipeline
