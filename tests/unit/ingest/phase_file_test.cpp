#include "ingest/side_files.hpp"

#include <stdexcept>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nsys_explain/model/regex.hpp"

namespace nsys_explain::ingest {
namespace {

TEST(PhaseFile, JsonBecomesLinesInItsOrder) {
  EXPECT_EQ(phase_map_lines(R"({"prefill": ["prefill", "re:^execute_context"], "de code": "token"})"),
            "prefill (?i)prefill\nprefill ^execute_context\nde_code (?i)token\n");
}

TEST(PhaseFile, WordsMatchAsTheyAre) {
  const std::string lines = phase_map_lines(R"({"a": "Run (x+1) #2"})");
  const Regex pattern(lines.substr(2, lines.size() - 3));
  EXPECT_TRUE(pattern.occurs_in("then run (X+1) #2 again"));
  EXPECT_FALSE(pattern.occurs_in("run xx1 2"));
  EXPECT_EQ(lines.find('#'), std::string::npos) << "which begins a comment";
}

TEST(PhaseFile, LinesStayAsTheyAre) {
  EXPECT_EQ(phase_map_lines("# engine\nprefill ^a{2}\n"), "# engine\nprefill ^a{2}\n");
}

TEST(PhaseFile, WhatIsNoMapIsRefused) {
  const auto problem = [](std::string_view text) -> std::string {
    try {
      phase_map_lines(text);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(problem("{\"a\": "), ::testing::HasSubstr("is no JSON"));
  EXPECT_THAT(problem(R"({"a": [1]})"), ::testing::HasSubstr("something else than texts for 'a'"));
  EXPECT_THAT(problem(R"({"a": ""})"), ::testing::HasSubstr("something else than texts"));
}

}  // namespace
}  // namespace nsys_explain::ingest
