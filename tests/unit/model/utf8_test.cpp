#include "nsys_explain/model/utf8.hpp"

#include <gtest/gtest.h>

namespace nsys_explain {
namespace {

TEST(ValidUtf8, ReplacesOnlyWhatIsWrong) {
  EXPECT_EQ(valid_utf8("größe \xf0\x9f\x9a\x80"), "größe \xf0\x9f\x9a\x80");
  EXPECT_EQ(valid_utf8("a\xff\x62"), "a\uFFFD\x62");
  EXPECT_EQ(valid_utf8("\xc0\x80"), "\uFFFD\uFFFD");            // overlong
  EXPECT_EQ(valid_utf8("\xed\xa0\x80"), "\uFFFD\uFFFD\uFFFD");  // surrogate
  EXPECT_EQ(valid_utf8("\xf4\x90\x80\x80").size(), 12u);        // beyond U+10FFFF: four replacements
  EXPECT_EQ(valid_utf8("end \xe2\x82"), "end \uFFFD\uFFFD");
  EXPECT_EQ(valid_utf8(std::string("a\0b", 3)), "a\uFFFD\x62");
}

}  // namespace
}  // namespace nsys_explain
