#include "pipeline/tool_rank/enclosure.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace nsys_explain::pipeline {
namespace {

namespace fs = std::filesystem;

class EnclosureTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "enclosure_test.XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    for (const char* name : {"given", "results", "elsewhere"}) {
      fs::create_directory(directory_ / name);
      std::ofstream(directory_ / name / "file") << "text";
    }
    fs::create_symlink(directory_ / "elsewhere" / "file", directory_ / "given" / "link");
  }
  void TearDown() override { fs::remove_all(directory_); }

  /// What `work` returns in a process that is enclosed: its errno, 0 where it succeeds.
  static int enclosed(const Enclosure& enclosure, const std::function<int()>& work) {
    const pid_t child = ::fork();
    if (child == 0) {
      enclosure.enter();
      ::_exit(work());
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  int opened(const Enclosure& enclosure, const fs::path& path, int flags) const {
    return enclosed(enclosure, [&] { return ::open((directory_ / path).c_str(), flags, 0600) < 0 ? errno : 0; });
  }

  fs::path directory_;
};

TEST_F(EnclosureTest, OnlyWhatIsGivenIsReadAndOnlyResultsAreWritten) {
  if (!Enclosure::missing().empty()) GTEST_SKIP() << Enclosure::missing();
  const Enclosure enclosure({(directory_ / "given").string(), (directory_ / "absent").string()},
                            {(directory_ / "results").string()});
  EXPECT_EQ(opened(enclosure, "given/file", O_RDONLY), 0);
  EXPECT_EQ(opened(enclosure, "given", O_RDONLY | O_DIRECTORY), 0);
  EXPECT_EQ(opened(enclosure, "given/file", O_WRONLY), EACCES);
  EXPECT_EQ(opened(enclosure, "given/new", O_WRONLY | O_CREAT), EACCES);
  EXPECT_EQ(opened(enclosure, "given/link", O_RDONLY), EACCES);
  EXPECT_EQ(opened(enclosure, "elsewhere/file", O_RDONLY), EACCES);
  EXPECT_EQ(opened(enclosure, "/etc/passwd", O_RDONLY), EACCES);
  EXPECT_EQ(opened(enclosure, "/proc/self/environ", O_RDONLY), EACCES);
  EXPECT_EQ(opened(enclosure, "/proc/self/status", O_RDONLY), 0);
  EXPECT_EQ(opened(enclosure, "results/file", O_RDONLY), 0);
  EXPECT_EQ(opened(enclosure, "results/new", O_WRONLY | O_CREAT), 0);
  const fs::path from = directory_ / "results" / "file", to = directory_ / "results" / "deeper" / "file";
  fs::create_directory(to.parent_path());
  EXPECT_EQ(enclosed(enclosure, [&] { return ::rename(from.c_str(), to.c_str()) < 0 ? errno : 0; }), 0);
  EXPECT_EQ(enclosed(enclosure, [&] { return ::unlink((directory_ / "elsewhere/file").c_str()) < 0 ? errno : 0; }),
            EACCES);
  EXPECT_EQ(::access((directory_ / "elsewhere/file").c_str(), F_OK), 0);
}

TEST_F(EnclosureTest, AFileCanBeGivenByItsDescriptor) {
  if (!Enclosure::missing().empty()) GTEST_SKIP() << Enclosure::missing();
  const int file = ::open((directory_ / "elsewhere/file").c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(file, 0);
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  EXPECT_EQ(opened(Enclosure({path}, {}), path, O_RDONLY), 0);
  EXPECT_EQ(opened(Enclosure({}, {}), path, O_RDONLY), EACCES);
  ::close(file);
}

TEST_F(EnclosureTest, NoSocketIsMade) {
#if !defined(__x86_64__) && !defined(__aarch64__)
  GTEST_SKIP() << "sockets are refused on x86-64 and ARM64 only";
#endif
  if (::prctl(PR_GET_SECCOMP) < 0) GTEST_SKIP() << "the kernel has no seccomp";
  const Enclosure enclosure({}, {});
  for (const int family : {AF_INET, AF_INET6, AF_UNIX, AF_NETLINK}) {
    EXPECT_EQ(enclosed(enclosure, [&] { return ::socket(family, SOCK_DGRAM, 0) < 0 ? errno : 0; }), EACCES) << family;
  }
}

}  // namespace
}  // namespace nsys_explain::pipeline
