#include "model/text.hpp"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace nsys_explain
