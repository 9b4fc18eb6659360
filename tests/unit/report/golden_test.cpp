#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "report/report.hpp"
#include "sample_report.hpp"

// To accept new output after reading it: NSYS_EXPLAIN_UPDATE_GOLDEN=1 ctest -R unit.report. Such a run fails, so that
// it is never mistaken for a passing one.
namespace nsys_explain::report {
namespace {

void compare_with_golden(const std::string& actual, const std::string& name) {
  const std::filesystem::path path = std::filesystem::path(NSYS_EXPLAIN_TESTS) / "golden" / name;
  if (std::getenv("NSYS_EXPLAIN_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path, std::ios::binary) << actual;
    FAIL() << "wrote " << path << "; read it, then run again without NSYS_EXPLAIN_UPDATE_GOLDEN";
  }
  std::ifstream file(path, std::ios::binary);
  ASSERT_TRUE(file) << path << " is missing";
  const std::string expected{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(actual, expected);
}

TEST(Golden, SmallReportAsMarkdown) {
  compare_with_golden(to_markdown(small_report()), "report_small.md");
}

TEST(Golden, SmallReportAsJson) {
  compare_with_golden(to_json(small_report()), "report_small.json");
}

}  // namespace
}  // namespace nsys_explain::report
