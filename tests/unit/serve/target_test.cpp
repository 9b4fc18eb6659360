#include "serve/requests.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serve/refusal.hpp"

namespace nsys_explain::serve {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

TEST(Target, IsSegmentsAndParametersWithoutTheirEscapes) {
  const Target target =
      parse_target("/api/v1/reports/team%2Fjob%208/tables/ranks?where=wait_ns%3E=10&where=a~b+c&limit=3&&flag");
  EXPECT_THAT(target.segments, ElementsAre("api", "v1", "reports", "team/job 8", "tables", "ranks"));
  EXPECT_THAT(target.parameters,
              ElementsAre(Pair("where", "wait_ns>=10"), Pair("where", "a~b c"), Pair("limit", "3"), Pair("flag", "")));
  EXPECT_EQ(target.parameter("where"), "a~b c");
  EXPECT_EQ(target.parameter("absent"), "");
}

TEST(Target, OfTheRootHasNoSegmentAndASlashAtTheEndMeansTheSame) {
  EXPECT_THAT(parse_target("/").segments, IsEmpty());
  EXPECT_THAT(parse_target("/?a=b").segments, IsEmpty());
  EXPECT_THAT(parse_target("/reports/").segments, ElementsAre("reports"));
  EXPECT_THAT(parse_target("/a//b").segments, ElementsAre("a", "", "b"));
  EXPECT_THAT(parse_target("/a#b?c").segments, ElementsAre("a"));
  EXPECT_THAT(parse_target("/a+b").segments, ElementsAre("a+b"));
}

TEST(Target, RefusesWhatNobodyCanRead) {
  for (const char* text : {"", "a", "/%", "/%4", "/%zz", "/a%00b", "/a%0ab", "/a?b=%7f", "*", "http://host/a"}) {
    EXPECT_THROW(parse_target(text), Refusal) << text;
  }
  std::string deep;
  for (int i = 0; i < 65; ++i) deep += "/a";
  EXPECT_THROW(parse_target(deep), Refusal);
}

TEST(Target, EscapesAreReadAsTheyWereWritten) {
  std::string all;
  for (int c = 0x20; c < 0x100; ++c) {
    if (c != 0x7f) all += static_cast<char>(c);
  }
  EXPECT_THAT(parse_target("/" + escaped(all)).segments, ElementsAre(all));
  EXPECT_EQ(escaped("a/b c%"), "a%2Fb%20c%25");
}

TEST(HtmlText, LeavesNothingThatHtmlObeys) {
  EXPECT_EQ(html_text("<a href='x' b=\"y\">&"), "&lt;a href=&#39;x&#39; b=&quot;y&quot;&gt;&amp;");
}

}  // namespace
}  // namespace nsys_explain::serve
