#include "model/text.hpp"

#include <gtest/gtest.h>

#include "nsys_explain/model/utf8.hpp"

namespace nsys_explain {
namespace {

TEST(FunctionName, LeavesOutWhatItReturnsAndTakes) {
  EXPECT_EQ(function_name("void deep_ep::intranode::dispatch<8, 768>(int4*, float*)"), "deep_ep::intranode::dispatch");
  EXPECT_EQ(function_name("scale(float*)"), "scale");
  EXPECT_EQ(function_name("ncclDevKernel_AllGather_RING_LL"), "ncclDevKernel_AllGather_RING_LL");
  EXPECT_EQ(function_name(""), "");
  EXPECT_EQ(function_name("std::enable_if<(sizeof(T1)>(2)), void>::type internal::gemvx::kernel<int, 7>(T1, int)"),
            "internal::gemvx::kernel");
  EXPECT_EQ(function_name("typename std::enable_if<!a<T>::b, void>::type f<float>(float*)"), "f");
}

TEST(FunctionName, KeepsNamespacesWithoutName) {
  EXPECT_EQ(function_name("void (anonymous namespace)::add<float>(float*)"), "(anonymous namespace)::add");
  EXPECT_EQ(function_name("void at::<unnamed>::add<float>(float*)"), "at::<unnamed>::add");
}

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
