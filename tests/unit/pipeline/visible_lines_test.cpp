#include "pipeline/tool_rank/visible_lines.hpp"

#include <gtest/gtest.h>

#include <sstream>

namespace nsys_explain::pipeline {
namespace {

TEST(VisibleLines, ShowsCharactersThatCameInParts) {
  std::ostringstream stream;
  {
    const VisibleLines visible(stream);
    stream << "\xe2\x80" << std::flush << "\xae" << 5 << "\x1b\n"
           << "the rest\a";
    EXPECT_EQ(stream.str(), "\\u202E5\\x1B\n") << "a line goes at its end";
  }
  EXPECT_EQ(stream.str(), "\\u202E5\\x1B\nthe rest\\x07");
}

}  // namespace
}  // namespace nsys_explain::pipeline
