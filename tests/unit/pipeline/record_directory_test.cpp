#include "pipeline/tool_rank/record_directory.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <new>
#include <random>
#include <string>

namespace nsys_explain::pipeline {
namespace {

namespace fs = std::filesystem;

class RecordDirectoryTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "record_directory_test.XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }
  void TearDown() override { fs::remove_all(directory_); }

  fs::path directory_;
};

std::string noise(std::size_t size) {
  std::mt19937 random(1);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

/// In pieces of all sizes, and single bytes.
WriteBytes in_pieces(const std::string& bytes) {
  return [&bytes](std::streambuf& out) {
    std::size_t piece = 1;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      piece = std::min(bytes.size() - at, piece % 100'003 * 3 + 1);
      if (piece == 1) {
        out.sputc(bytes[at]);
      } else {
        out.sputn(bytes.data() + at, static_cast<std::streamsize>(piece));
      }
    }
  };
}

TEST_F(RecordDirectoryTest, GivesBackWhatWasWrittenInPieces) {
  const RecordDirectory records(directory_ / "made");
  for (const std::size_t size : {0, 1, 7, 8, 262'143, 262'144, 262'145, 1'000'003}) {
    const std::string bytes = noise(size);
    const fs::path file = records.save("a key", in_pieces(bytes));
    EXPECT_EQ(fs::file_size(file), 40 + 5 + size);  // header, key, bytes
    EXPECT_TRUE(records.load("a key") == bytes) << size;
    EXPECT_EQ(records.load("b key"), std::nullopt);
  }
}

TEST_F(RecordDirectoryTest, WhatIsDamagedIsNoRecord) {
  const RecordDirectory records(directory_);
  const std::string bytes = noise(300'001);
  const fs::path file = records.save("a key", in_pieces(bytes));
  for (const std::size_t at : {0u, 20u, 30u, 35u, 44u, 45u, 150'000u, 300'045u}) {
    std::fstream damaged(file, std::ios::binary | std::ios::in | std::ios::out);
    const auto flip = [&] {
      damaged.seekg(static_cast<std::streamoff>(at));
      const int byte = damaged.get();
      damaged.seekp(static_cast<std::streamoff>(at));
      damaged.put(static_cast<char>(byte ^ 1));
      damaged.flush();
    };
    flip();
    EXPECT_EQ(records.load("a key"), std::nullopt) << at;
    flip();
    EXPECT_TRUE(records.load("a key") == bytes) << at;
  }
  fs::resize_file(file, 300'000);
  EXPECT_EQ(records.load("a key"), std::nullopt);
}

TEST_F(RecordDirectoryTest, WhatCannotBeWrittenToItsEndLeavesNothing) {
  const RecordDirectory records(directory_);
  EXPECT_THROW(records.save("a key", [](std::streambuf&) { throw std::bad_alloc(); }), std::bad_alloc);
  EXPECT_TRUE(fs::is_empty(directory_));
  EXPECT_EQ(records.load("a key"), std::nullopt);
}

}  // namespace
}  // namespace nsys_explain::pipeline
