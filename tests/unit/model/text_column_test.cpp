#include "nsys_explain/model/text_column.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cereal/archives/binary.hpp>
#include <cereal/types/string.hpp>
#include <cereal/types/vector.hpp>
#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace nsys_explain {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;

TEST(TextColumn, HoldsWhatRepeatsOnce) {
  const TextColumn column{"matmul", "matmul", "copy", "", "matmul", ""};
  EXPECT_THAT(column, ElementsAre("matmul", "matmul", "copy", "", "matmul", ""));
  EXPECT_THAT(column.distinct(), ElementsAre("matmul", "copy", ""));
  EXPECT_THAT(column.codes(), ElementsAre(0, 0, 1, 2, 0, 2));
  EXPECT_EQ(column.size(), 6u);
}

TEST(TextColumn, AnEmptyOneHasNoRows) {
  TextColumn column;
  EXPECT_TRUE(column.empty());
  EXPECT_EQ(column.begin(), column.end());
  column.append(TextColumn(), 0, 0);
  EXPECT_TRUE(column.empty());
}

TEST(TextColumn, AppendedRowsBringTheirTextsAlone) {
  TextColumn column{"a", "b"};
  column.append({"c", "b", "d", "b"}, 1, 3);
  EXPECT_THAT(column, ElementsAre("a", "b", "b", "d", "b"));
  EXPECT_THAT(column.distinct(), ElementsAre("a", "b", "d"));
}

TEST(TextColumn, TextsMayHoldAnyByte) {
  const std::string with_nul("a\0b", 3);
  const TextColumn column{with_nul, "a", "\xff"};
  EXPECT_THAT(column, ElementsAre(with_nul, "a", "\xff"));
}

/// Against the texts themselves, one by one, with few and with many distinct ones.
TEST(TextColumn, HoldsWhatAVectorOfTextsHolds) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    std::mt19937_64 random(seed);
    const auto texts_of = [&](std::size_t rows) {
      std::vector<std::string> texts;
      for (std::size_t row = 0; row < rows; ++row) {
        texts.push_back("text " + std::to_string(random() % (seed % 2 == 0 ? 7 : 5'000)));
      }
      return texts;
    };
    std::vector<std::string> texts = texts_of(1'000);
    TextColumn column;
    for (const std::string& text : texts) column.push_back(text);
    const std::vector<std::string> others = texts_of(2'000);
    TextColumn other;
    for (const std::string& text : others) other.push_back(text);
    column.append(other, 300, 1'500);
    texts.insert(texts.end(), others.begin() + 300, others.begin() + 1'800);
    EXPECT_THAT(column, ElementsAreArray(texts)) << seed;

    std::stringstream bytes;
    cereal::BinaryOutputArchive{bytes}(column);
    TextColumn read{"something else"};
    cereal::BinaryInputArchive{bytes}(read);
    EXPECT_EQ(read, column) << seed;
    read.push_back(texts.front());
    column.push_back(texts.front());
    EXPECT_EQ(read, column) << seed << ": what was read knows its texts";
  }
}

}  // namespace
}  // namespace nsys_explain
