#include "pipeline/tool_rank/file_memory.hpp"

#include <gmock/gmock.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <numeric>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "nsys_explain/model/trace.hpp"

namespace nsys_explain::pipeline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class FileMemoryTest : public ::testing::Test {
 protected:
  FileMemoryTest() {
    std::string name = (std::filesystem::temp_directory_path() / "file-memory-XXXXXX").string();
    directory_ = ::mkdtemp(name.data());
  }
  ~FileMemoryTest() override { std::filesystem::remove_all(directory_); }

  std::string directory_;
};

TEST_F(FileMemoryTest, KeepsLargeArraysInFilesWithoutNames) {
  FileMemory memory(directory_);
  std::pmr::vector<std::int64_t> values(&memory);
  for (std::int64_t i = 0; i < 1'000'000; ++i) values.push_back(i);  // grows from small to large
  EXPECT_GE(memory.most_bytes(), 8'000'000);
  EXPECT_EQ(std::accumulate(values.begin(), values.end(), std::int64_t{0}), std::int64_t{999'999} * 500'000);
  EXPECT_TRUE(std::filesystem::is_empty(directory_));
  const std::int64_t most = memory.most_bytes();
  values = std::pmr::vector<std::int64_t>(&memory);
  const std::pmr::vector<char> again(2'000'000, 'x', &memory);
  EXPECT_EQ(memory.most_bytes(), most) << "what was given back counts no more";
}

TEST_F(FileMemoryTest, LeavesSmallArraysInMemory) {
  FileMemory memory(directory_ + "/absent");
  const std::pmr::vector<char> values(100'000, 'x', &memory);
  EXPECT_EQ(memory.most_bytes(), 0);
  EXPECT_EQ(values.back(), 'x');
}

TEST_F(FileMemoryTest, SaysWhereNoFileCanBeMade) {
  FileMemory memory(directory_ + "/absent");
  EXPECT_EQ(memory.available_bytes(), 0);
  EXPECT_THAT([&] { const std::pmr::vector<char> values(2 << 20, 'x', &memory); },
              ThrowsMessage<std::runtime_error>(AllOf(HasSubstr("/absent"), HasSubstr("set TMPDIR"))));
}

/// A limit on the size of files, which is met before the disk is full: who begins such a file is told "File too large".
TEST_F(FileMemoryTest, DoesNotFillTheDiskToLearnThatItIsTooSmall) {
  struct rlimit before {};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  struct rlimit limited = before;
  limited.rlim_cur = 1 << 20;
  ::setrlimit(RLIMIT_FSIZE, &limited);
  FileMemory memory(directory_);
  const auto too_much = static_cast<std::size_t>(memory.available_bytes()) + (std::size_t{1} << 40);
  EXPECT_THAT([&] { std::ignore = memory.allocate(too_much); },
              ThrowsMessage<std::runtime_error>(AllOf(HasSubstr("No space left"), HasSubstr("set TMPDIR"))));
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_TRUE(std::filesystem::is_empty(directory_));
}

TEST_F(FileMemoryTest, HoldsPackedEvents) {
  FileMemory memory(directory_);
  std::pmr::memory_resource* const before = std::pmr::set_default_resource(&memory);
  {
    Kernels kernels;
    for (std::uint32_t i = 200'000; i-- > 0;) kernels.push_back({i * 10, i * 10 + 7, i, i % 5});
    kernels.sort([](const Kernel& a, const Kernel& b) { return a.start_ns < b.start_ns; });
    EXPECT_GE(memory.most_bytes(), 16 * 200'000);
    EXPECT_EQ(kernels[123'456].start_ns, 1'234'560);
    EXPECT_EQ(kernels[123'456].correlation_id, 123'456u);
    EXPECT_EQ(kernels[199'999].kind, 4u);
  }
  std::pmr::set_default_resource(before);
}

TEST(FileMemory, HasNoRoomInADirectoryThatIsMemoryItself) {
  if (!std::filesystem::is_directory("/dev/shm")) GTEST_SKIP() << "no tmpfs at /dev/shm";
  EXPECT_EQ(FileMemory("/dev/shm").available_bytes(), 0);
}

}  // namespace
}  // namespace nsys_explain::pipeline
