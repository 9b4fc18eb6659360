#include "pipeline/run/own_process.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <sstream>

#include "pipeline/run/job.hpp"

namespace nsys_explain::pipeline {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

TEST(OwnProcess, EndsAsItsWorkDoes) {
  std::ostringstream problems;
  int here = 0;
  EXPECT_EQ(run_in_own_process({"show", 0, [&] { return here = 10; }}, problems), 10);
  EXPECT_EQ(here, 0) << "it ran elsewhere";
  EXPECT_THAT(problems.str(), IsEmpty());
}

TEST(OwnProcess, OutlivesACrash) {
  std::ostringstream problems;
  const auto crash = [] {
    ::signal(SIGBUS, SIG_DFL);  // a sanitizer makes an exit code of it
    return ::raise(SIGBUS);
  };
  EXPECT_EQ(run_in_own_process({"show", 0, crash}, problems), nothing_analysed);
  EXPECT_THAT(problems.str(), HasSubstr("show: a store is damaged so badly"));
}

TEST(OwnProcess, HasProcessorTimeByTheSizeOfWhatItReads) {
  std::ostringstream problems;
  const auto seconds = [] {
    rlimit limit{};
    ::getrlimit(RLIMIT_CPU, &limit);
    return static_cast<int>(limit.rlim_cur);
  };
  EXPECT_EQ(run_in_own_process({"show", 5'000'000, seconds}, problems), 60 + 5);
  EXPECT_EQ(run_in_own_process({"show", 0, [] { return ::raise(SIGXCPU); }}, problems), nothing_analysed);
  EXPECT_THAT(problems.str(), HasSubstr("does not end"));
}

}  // namespace
}  // namespace nsys_explain::pipeline
