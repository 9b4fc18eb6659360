#include "nsys_explain/model/regex.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace nsys_explain {
namespace {

using testing::HasSubstr;

std::string problem(const std::string& expression) {
  try {
    Regex compiled(expression);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(Regex, FindsTheFirstMatchAndItsFirstGroup) {
  const Regex step("step (\\d+)|last");
  EXPECT_EQ(step.find("a step 7, a step 8")->first_group, "7");
  EXPECT_EQ(step.find("the last")->first_group, std::nullopt) << "the group takes no part";
  EXPECT_FALSE(step.find("none"));
  EXPECT_EQ(Regex("x()").find("x")->first_group, "");
  EXPECT_EQ(Regex("x").find("x")->first_group, std::nullopt);
  EXPECT_EQ(step.group_count(), 1);
  EXPECT_EQ(step.text(), "step (\\d+)|last");
}

TEST(Regex, ReadsWhatEcmascriptReads) {
  EXPECT_TRUE(Regex("^a\\w*?_[[:digit:]]{2,3}$").occurs_in("ab_123"));
  EXPECT_FALSE(Regex("^b").occurs_in("a\nb")) << "^ is the begin of the text, not of a line";
  EXPECT_FALSE(Regex("a.b").occurs_in("a\nb"));
  EXPECT_FALSE(Regex("a").occurs_in("A"));
  EXPECT_TRUE(Regex("gr[oö]ß").occurs_in("größer"));
  EXPECT_TRUE(Regex("b$").occurs_in("\xff b")) << "bytes that are no UTF-8 are passed over";
}

TEST(Regex, SaysWhatItCannotRead) {
  EXPECT_THAT(problem("("), HasSubstr("("));
  for (const char* expression : {"a(?!b)", "(?<=a)b", "(a)\\1"}) {
    EXPECT_THAT(problem(expression), HasSubstr("no lookaround, no backreferences")) << expression;
  }
}

TEST(Regex, TakesTextsAndExpressionsOfAnyLength) {
  const std::string text(100'000, 'a');
  EXPECT_TRUE(Regex("(a|b)*a$").occurs_in(text));
  EXPECT_FALSE(Regex("(a*)*b").occurs_in(text)) << "a backtracking search would not end";
  EXPECT_EQ(Regex("^(.*)$").find(text)->first_group, text);
  std::string alternatives = "b";
  while (alternatives.size() < 300'000) alternatives += "|kernel" + std::to_string(alternatives.size());
  EXPECT_TRUE(problem(alternatives).empty() ? !Regex(alternatives).occurs_in(text)
                                            : problem(alternatives).find("too large") != std::string::npos);
  EXPECT_NE(problem(std::string(300'000, '(')), "");
}

}  // namespace
}  // namespace nsys_explain
