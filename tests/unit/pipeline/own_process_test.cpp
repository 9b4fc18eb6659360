#include "pipeline/tool_rank/own_process.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <sstream>
#include <variant>
#include <vector>

#include "pipeline/tool_rank/job.hpp"

namespace nsys_explain::pipeline {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

CrashableWork work_on(const std::vector<std::string>& stores, const std::function<int(std::ostream&)>& run) {
  return {"show", stores, "", run};
}

/// A file of so many bytes, which takes none of the disk.
class LongFile {
 public:
  explicit LongFile(std::uintmax_t bytes)
      : path_((std::filesystem::temp_directory_path() / "own_process_test.XXXXXX").string()) {
    ::close(::mkstemp(path_.data()));
    std::filesystem::resize_file(path_, bytes);
  }
  ~LongFile() { std::filesystem::remove(path_); }
  LongFile(const LongFile&) = delete;
  LongFile& operator=(const LongFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(OwnProcess, EndsAsItsWorkDoes) {
  std::ostringstream problems;
  int here = 0;
  EXPECT_EQ(run_in_own_process(work_on({}, [&](std::ostream&) { return here = 10; }), problems), 10);
  EXPECT_EQ(here, 0) << "it ran elsewhere";
  EXPECT_THAT(problems.str(), IsEmpty());
}

TEST(OwnProcess, OutlivesACrashAndShowsNothingOfIt) {
  std::ostringstream problems;
  const auto crash = [](std::ostream& out) {
    out << "half a table";
    ::signal(SIGBUS, SIG_DFL);  // a sanitizer makes an exit code of it
    return ::raise(SIGBUS);
  };
  testing::internal::CaptureStdout();
  EXPECT_EQ(run_in_own_process(work_on({}, crash), problems), nothing_analysed);
  EXPECT_THAT(problems.str(), HasSubstr("show: a store is damaged so badly"));
  const auto whole = [](std::ostream& out) {
    out << "a table";
    return 0;
  };
  EXPECT_EQ(run_in_own_process(work_on({}, whole), problems), 0);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "a table");
}

TEST(OwnProcess, HasTimeByTheSizeOfWhatItReads) {
  std::ostringstream problems;
  const LongFile three(3'000'000), two(2'000'000);
  const auto seconds = [](std::ostream&) {
    rlimit limit{};
    itimerval left{};
    ::getrlimit(RLIMIT_CPU, &limit);
    ::getitimer(ITIMER_REAL, &left);
    // Some of it is over.
    return left.it_value.tv_sec > 600 && left.it_value.tv_sec <= 650 ? static_cast<int>(limit.rlim_cur) : -1;
  };
  EXPECT_EQ(run_in_own_process(work_on({three.path(), two.path()}, seconds), problems), 60 + 5);
  for (const int signal : {SIGXCPU, SIGALRM}) {
    std::ostringstream endless;
    EXPECT_EQ(run_in_own_process(work_on({}, [&](std::ostream&) { return ::raise(signal); }), endless),
              nothing_analysed);
    EXPECT_THAT(endless.str(), HasSubstr("does not end"));
  }
}

TEST(OwnProcess, HasMemoryByTheSizeOfWhatItReads) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer takes more memory than any limit";
#endif
  std::ostringstream problems;
  const LongFile file(5'000'000);
  const auto has_bytes = [](rlim_t most) {
    return [most](std::ostream&) {
      rlimit limit{};
      ::getrlimit(RLIMIT_DATA, &limit);
      return limit.rlim_cur == most ? 1 : 0;
    };
  };
  EXPECT_EQ(run_in_own_process(work_on({file.path()}, has_bytes(1'250'000'000)), problems), 1);
  EXPECT_EQ(run_in_own_process(work_on({}, has_bytes(1'000'000'000)), problems), 1);
  const auto takes_more = [](std::ostream&) {
    try {
      const std::vector<char> room(1'500'000'000);
      return room.empty() ? 2 : 3;
    } catch (const std::bad_alloc&) {
      return 4;
    }
  };
  EXPECT_EQ(run_in_own_process(work_on({}, takes_more), problems), 4);
}

TEST(OwnProcess, SaysInASentenceWhatIsWrong) {
  EXPECT_THAT(sentence_of(std::bad_alloc()), testing::AllOf(HasSubstr("memory"), Not(HasSubstr("bad_alloc"))));
  EXPECT_THAT(sentence_of(std::bad_variant_access()), HasSubstr("run the analysis again"));
  EXPECT_EQ(sentence_of(std::runtime_error("the disk is full; make room")), "the disk is full; make room");
}

}  // namespace
}  // namespace nsys_explain::pipeline
