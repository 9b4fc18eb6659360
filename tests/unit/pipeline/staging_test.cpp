#include "ingest/staging.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>

#include "pipeline/write/outputs.hpp"

namespace nsys_explain::pipeline {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class Staging : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "staging_test.XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }
  void TearDown() override { fs::remove_all(directory_); }

  std::set<std::string> names(const fs::path& below = "") const {
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator(directory_ / below)) found.insert(entry.path().filename());
    return found;
  }
  /// A process that is killed, as by the kernel, while results are being made.
  void leave_behind(const fs::path& out) const {
    const pid_t child = ::fork();
    if (child == 0) {
      const OutputDirectory directory((directory_ / out).string());
      directory.write_text("report.md", "half of it");
      ::raise(SIGKILL);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
  }
  void publish_to(const fs::path& out) const {
    OutputDirectory directory((directory_ / out).string());
    directory.write_text("report.md", "content");
    directory.publish();
  }

  fs::path directory_;
};

TEST_F(Staging, TheNextRunRemovesWhatAKilledOneLeftBesideTheOutput) {
  leave_behind("out");
  EXPECT_THAT(names(), SizeIs(1));
  {
    const OutputDirectory next((directory_ / "out").string());
    EXPECT_THAT(names(), ElementsAre(next.staging().filename()));
  }
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(Staging, AndInsideOfIt) {
  leave_behind("out");
  fs::create_directory(directory_ / "out");
  leave_behind("out/");
  const OutputDirectory next((directory_ / "out").string());
  EXPECT_THAT(names(), ElementsAre("out"));
  EXPECT_THAT(names("out"), ElementsAre(next.staging().filename()));
}

TEST_F(Staging, OfLivingProcessesAndOfOthersStays) {
  const OutputDirectory living((directory_ / "out").string());
  fs::create_directory(directory_ / ".out-abcdef");
  std::ofstream(directory_ / ".out-abcdef" / ingest::StagingDirectory::owner_name) << "not this program's";
  fs::create_directory(directory_ / ".out-of-town");
  fs::create_directory_symlink(living.staging(), directory_ / ".out-linked");
  const std::set<std::string> before = names();
  { const OutputDirectory next((directory_ / "out").string()); }
  EXPECT_EQ(names(), before);
}

/// Killed between any two steps of its beginning and its end.
TEST_F(Staging, WhateverAKilledOneHadNotDoneYet) {
  const std::string owner(ingest::StagingDirectory::owner_name);
  fs::create_directory(directory_ / ".out-empty1");
  fs::permissions(directory_ / ".out-empty1", fs::perms::owner_all);
  fs::create_directory(directory_ / ".out-begun1");
  std::ofstream(directory_ / ".out-begun1" / (owner + ".new"));
  leave_behind("out");
  for (const auto& entry : fs::directory_iterator(directory_)) fs::remove(entry.path() / "report.md");
  { const OutputDirectory next((directory_ / "out").string()); }
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(Staging, NothingOfItIsPublished) {
  for (int run = 0; run < 2; ++run) {
    publish_to("out");
    EXPECT_THAT(names("out"), ElementsAre("report.md"));
  }
  EXPECT_THAT(names(), ElementsAre("out"));
}

TEST_F(Staging, ALinkThatLeadsNowhereIsNoPlace) {
  fs::create_symlink("nowhere", directory_ / "out");
  for (const char* name : {"out", "out/"}) {
    EXPECT_THROW(OutputDirectory((directory_ / name).string()), std::runtime_error);
  }
  EXPECT_THAT(names(), ElementsAre("out"));
  fs::create_directory(directory_ / "nowhere");
  publish_to("out");
  EXPECT_TRUE(fs::is_symlink(directory_ / "out"));
  EXPECT_THAT(names("nowhere"), ElementsAre("report.md"));
}

}  // namespace
}  // namespace nsys_explain::pipeline
