#include "analysis/tables/tables.hpp"

#include <gmock/gmock.h>

#include "unit/analysis/rank_fixture.hpp"

namespace nsys_explain::analysis {
namespace {

using testing::integers;
using testing::Integers;
using testing::OneRank;
using testing::reals;
using testing::Reals;
using testing::texts;
using testing::Texts;

TEST(CallStacks, SumsByFunctionAndPlace) {
  OneRank rank;
  rank.kernel("k", 0, 1);
  const StringIndex sync = rank.text("cudaDeviceSynchronize"), load = rank.text("load < main"),
                    eval = rank.text("eval < main");
  rank.process().traced_calls = {{0, 10, 1, sync, load}, {20, 90, 1, sync, eval}, {100, 105, 1, sync, load}};
  const Table table = call_stacks_table(rank.events());
  EXPECT_EQ(texts(table, "stack"), (Texts{"eval < main", "load < main"}));
  EXPECT_EQ(integers(table, "count"), (Integers{1, 2}));
  EXPECT_EQ(integers(table, "total_ns"), (Integers{70, 15}));
  EXPECT_EQ(integers(table, "max_ns"), (Integers{70, 10}));
}

TEST(LibraryCalls, AreSummedByLibraryAndFunction) {
  OneRank rank;
  rank.kernel("k", 0, 1);
  const StringIndex gemm = rank.text("cublasSgemm_v2"), conv = rank.text("cudnnConvolutionForward");
  rank.process().library_calls = {{0, 10, 1, gemm, false}, {20, 24, 1, conv, true}, {30, 60, 2, gemm, false}};
  const Table table = library_calls_table(rank.events());
  EXPECT_EQ(texts(table, "library"), (Texts{"cuBLAS", "cuDNN"}));
  EXPECT_EQ(integers(table, "count"), (Integers{2, 1}));
  EXPECT_EQ(integers(table, "total_ns"), (Integers{40, 4}));
  EXPECT_EQ(reals(table, "median_ns"), (Reals{20, 4}));
}

}  // namespace
}  // namespace nsys_explain::analysis
