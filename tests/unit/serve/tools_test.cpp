#include "serve/tools.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serve/pages.hpp"
#include "serve/refusal.hpp"

namespace nsys_explain::serve {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

TEST(ToolText, StopsBeforeItHasTooManyTokensAndSaysSo) {
  ToolText text;
  int lines = 0;
  while (text.add("ranks[5]: wait_ns=123456789, place=\"node001\"") && lines < 10'000) ++lines;
  EXPECT_GT(lines, 50);
  EXPECT_LT(lines, 10'000);
  EXPECT_LE(most_tokens_of(text.text()), most_answer_tokens);
  EXPECT_FALSE(text.add("a"));  // nothing after the first that did not fit
  EXPECT_THAT(text.text(), HasSubstr("cut: "));
}

TEST(ToolText, CountsNoFewerTokensThanModelsMake) {
  EXPECT_EQ(most_tokens_of(""), 0);
  EXPECT_EQ(most_tokens_of("abcdef"), 2);
  EXPECT_EQ(most_tokens_of("1234"), 2);
  EXPECT_EQ(most_tokens_of("a b,c"), 4);
  EXPECT_EQ(most_tokens_of("\xe4\xb8\xad"), 3);  // a byte each, at worst
}

TEST(ObjectLine, HasItsPlaceFirstAndLeavesOutWhatIsNotThere) {
  const Json row = {{"trace_rank", 5}, {"share", 0.1}, {"name", "a \"b\"\n"}, {"missing", nullptr}};
  EXPECT_EQ(object_line("ranks[7]", row), "ranks[7]: trace_rank=5, share=0.1, name=\"a \\\"b\\\"\\n\"");
}

TEST(ObjectLine, CutsLongTextsBetweenCharacters) {
  const Json row = {{"name", "ab\xc3\xa4z"}};
  EXPECT_EQ(object_line("t[0]", row, 3), "t[0]: name=\"ab...\"");
  EXPECT_EQ(object_line("t[0]", row, 4), "t[0]: name=\"ab\xc3\xa4...\"");
}

TEST(CompareTool, NamesThePlaceOfEveryFigureAndTellsWhatIsProvenFirst) {
  const Json comparison = Json::parse(R"({"verdict": "worse", "headline": {"ratio": 1.25},
    "changes": [{"name": "a", "ratio": 1.1, "significant": false}, {"name": "b", "ratio": 2.0, "significant": true}]})");
  EXPECT_EQ(compare_tool_answer("x", "y", comparison),
            "before: \"x\"\nafter: \"y\"\ncompare.json#: verdict=\"worse\"\ncompare.json#/headline: ratio=1.25\n"
            "compare.json#/changes/1: name=\"b\", ratio=2, significant=true\n"
            "compare.json#/changes/0: name=\"a\", ratio=1.1, significant=false\n");
}

TEST(ForeignJson, IsRefusedWhereItIsNoneOrTooDeep) {
  EXPECT_EQ(parse_foreign_json("{\"a\": [1]}"), Json::parse("{\"a\": [1]}"));
  EXPECT_TRUE(parse_foreign_json("{").is_discarded());
  EXPECT_TRUE(parse_foreign_json("").is_discarded());
  EXPECT_TRUE(parse_foreign_json(std::string(1'000'000, '[')).is_discarded());
  EXPECT_TRUE(parse_foreign_json(std::string(100, '[') + std::string(100, ']')).is_discarded());
}

TEST(OpenApi, IsJsonAndDescribesAnswersAndErrors) {
  const Json document = Json::parse(openapi_json());
  EXPECT_EQ(document["openapi"], "3.0.3");
  for (const auto& [path, operations] : document["paths"].items()) {
    for (const auto& [method, operation] : operations.items()) {
      EXPECT_FALSE(operation["summary"].get<std::string>().empty()) << path;
      EXPECT_TRUE(operation["responses"].contains("default")) << path << method;
    }
  }
}

}  // namespace
}  // namespace nsys_explain::serve
