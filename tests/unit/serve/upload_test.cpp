#include "serve/upload.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace nsys_explain::serve {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t leave = UploadRoom::room_to_leave, million = 1'000'000;

TEST(UploadRoom, CountsWhatAllUploadsHaveClaimedAndNotWritten) {
  std::int64_t free = leave + 100;
  UploadRoom room([&] { return free; });
  EXPECT_FALSE(room.claim(101));
  EXPECT_TRUE(room.claim(60));
  EXPECT_FALSE(room.claim(41)) << "of another upload";
  EXPECT_TRUE(room.claim(40));
  free -= 60;
  room.release(60);  // written
  EXPECT_TRUE(room.is_kept());
  EXPECT_FALSE(room.claim(1));
  room.release(40);  // given up
  EXPECT_TRUE(room.claim(40));
  free = leave - 1;  // another program wrote
  EXPECT_FALSE(room.is_kept());
}

class Uploads : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "upload_test.XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    ServiceOptions options;
    options.root = pattern;
    analyses_ = std::make_unique<Analyses>(options, [] {});
  }
  void TearDown() override {
    analyses_.reset();
    fs::remove_all(directory_);
  }
  /// An upload that is about to get the bytes of a file.
  std::unique_ptr<Upload> begun(const std::string& name) {
    auto upload = std::make_unique<Upload>(*analyses_, room_, 1'000 * million);
    EXPECT_TRUE(upload->begin_part("name", "") && upload->add(name) && upload->begin_part("files", "a.sqlite"));
    return upload;
  }
  static int status_of(Upload& upload) {
    try {
      upload.finish(false);
      return 202;
    } catch (const Refusal& refusal) {
      return refusal.status();
    }
  }

  fs::path directory_;
  std::int64_t free_bytes_ = leave + 100 * million;
  UploadRoom room_{[this] { return free_bytes_; }};
  std::unique_ptr<Analyses> analyses_;
  const std::string megabyte_ = std::string(million, 'x');
};

TEST_F(Uploads, LeaveRoomWhateverLengthTheySay) {
  const auto upload = begun("a");  // of a length that nobody said
  std::int64_t taken = 0;
  while (taken < 200 && upload->add(megabyte_)) {
    ++taken;
    free_bytes_ -= million;
  }
  EXPECT_GT(taken, 80);
  EXPECT_LE(taken, 100);
  EXPECT_EQ(status_of(*upload), 507);
}

TEST_F(Uploads, ShareTheRoom) {
  Upload first(*analyses_, room_, 1'000 * million), second(*analyses_, room_, 1'000 * million);
  EXPECT_NO_THROW(first.claim_room(70 * million));
  EXPECT_THROW(second.claim_room(70 * million), Refusal);
  const auto third = begun("c");
  std::int64_t taken = 0;
  while (taken < 200 && third->add(megabyte_)) {
    ++taken;
    free_bytes_ -= million;
  }
  EXPECT_LT(taken, 31) << "the rest is the first one's";
  { Upload fourth(*analyses_, room_, 1'000 * million); }
  EXPECT_NO_THROW(second.claim_room(1));
}

TEST_F(Uploads, EndWhenOthersFillTheDisk) {
  const auto upload = begun("a");
  upload->claim_room(90 * million);
  EXPECT_TRUE(upload->add(megabyte_));
  free_bytes_ = leave - million;
  std::int64_t taken = 0;
  while (taken < 90 && upload->add(megabyte_)) ++taken;
  EXPECT_LT(taken, 20);
  EXPECT_EQ(status_of(*upload), 507);
}

}  // namespace
}  // namespace nsys_explain::serve
