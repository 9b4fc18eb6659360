#include "pipeline/read/packed_tables.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "model/schema/gpu.hpp"
#include "model/schema/host.hpp"
#include "pipeline/tool_rank/compress.hpp"
#include "pipeline/tool_rank/pack.hpp"

namespace nsys_explain::pipeline {
namespace {

using testing::ElementsAre;

TEST(Compress, GivesBackWhatItTook) {
  for (const std::string& bytes : {std::string(), std::string("a"), std::string(100'000, 'x'), std::string("a\0b", 3)})
    EXPECT_EQ(decompress(compress(bytes)), bytes);
  EXPECT_LT(compress(std::string(100'000, 'x')).size(), 200U);
}

TEST(Compress, RefusesWhatItDidNotMake) {
  EXPECT_THROW(decompress(""), std::runtime_error);
  EXPECT_THROW(decompress("no frame of zstd"), std::runtime_error);
  std::string cut = compress("some text that is long enough to be cut");
  cut.resize(cut.size() / 2);
  EXPECT_THROW(decompress(cut), std::runtime_error);
}

/// A frame of 20 bytes can say that it holds a gigabyte.
TEST(Compress, BelievesNoSizeFarBeyondItsOwn) {
  std::string frame = compress(std::string(1'000'000, 'x'));
  EXPECT_EQ(decompress(frame).size(), 1'000'000U);
  frame.resize(frame.find_last_not_of('\0') + 1);  // without what makes it large enough to be believed
  EXPECT_THROW(decompress(frame), std::runtime_error);
}

std::string unshuffled(const std::string& bytes, std::size_t stride) {
  std::string rows(bytes.size(), '\0');
  unshuffle(bytes, stride, rows.data());
  return rows;
}

TEST(Compress, ShufflesRowsOfAnyLength) {
  EXPECT_EQ(shuffled("aAbBcC", 2), "abcABC");
  EXPECT_EQ(shuffled("aAbBcCd", 2), "abcABCd");
  for (const std::size_t stride : {1, 4, 7, 8, 12, 16, 19}) {
    for (const std::size_t count : {0, 1, 7, 8, 9, 35}) {
      std::string rows;
      for (std::size_t i = 0; i < stride * count; ++i) rows += static_cast<char>(i * 31 % 251);
      const std::string planes = shuffled(rows, stride);
      for (std::size_t row = 0; row < count; ++row)
        for (std::size_t byte = 0; byte < stride; ++byte)
          ASSERT_EQ(planes[byte * count + row], rows[row * stride + byte]) << stride << " x " << count;
      EXPECT_EQ(unshuffled(planes, stride), rows) << stride << " x " << count;
    }
  }
  for (const std::size_t stride : {1U, 3U, 8U, 40U}) {
    const std::string rows = "The quick brown fox jumps over it.";
    EXPECT_EQ(unshuffled(shuffled(rows, stride), stride), rows) << stride;
  }
}

TEST(PackedRows, GiveBackTheirRows) {
  const std::vector<std::int64_t> rows{3, -1, std::int64_t{1} << 60};
  const PackedRows<std::int64_t> packed(rows);
  EXPECT_EQ(packed.size(), 3U);
  EXPECT_EQ(packed.rows(), rows);
  EXPECT_TRUE(PackedRows<std::int64_t>().rows().empty());
}

Table functions(const std::vector<std::string>& names) {
  Table table = make_table(schema::cpu_functions);
  for (const std::string& name : names)
    RowWriter(table) << std::int64_t{7} << std::int64_t{1} << name << std::int64_t{3} << std::int64_t{300} << 50.0
                     << std::int64_t{1};
  return table;
}

/// So many rows that they are packed in several runs; every other name is its own.
Table steps(std::int64_t rows) {
  Table table = make_table(schema::gpu_trace);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (ColumnData& column : table.columns) {
      if (auto* texts = std::get_if<TextColumn>(&column)) {
        texts->push_back(r % 2 == 0 ? "even" : "odd " + std::to_string(r));
      } else if (auto* reals = std::get_if<std::vector<double>>(&column)) {
        reals->push_back(static_cast<double>(r) / 3);
      } else {
        std::get<std::vector<std::int64_t>>(column).push_back(r == 5 ? no_time : 1000 * r);
      }
    }
  }
  return table;
}

TEST(PackedTables, GiveBackTheirTables) {
  const Table short_one = functions({"read", "write", "read"}), long_one = steps(40'000);
  const PackedTables packed({short_one, long_one});
  EXPECT_TRUE(are_whole(packed));
  const std::vector<Table> tables = packed.short_tables();
  ASSERT_EQ(tables.size(), 2U);
  EXPECT_EQ(tables[0].columns, short_one.columns);
  EXPECT_EQ(tables[0].schema.columns.front().description, short_one.schema.columns.front().description);
  EXPECT_EQ(tables[1].row_count(), 0U) << "its rows stay";
  ASSERT_GT(packed.long_runs().size(), 1U);
  Table joined = make_table(long_one.schema);
  for (const PackedRowRun& run : packed.long_runs()) {
    const Table rows = unpacked(run);
    EXPECT_EQ(rows.row_count(), run.extent.rows);
    EXPECT_EQ(extent_of(rows).longest_texts, run.extent.longest_texts);
    append_run(rows, 0, rows.row_count(), joined);
  }
  EXPECT_EQ(joined.columns, long_one.columns);
}

TEST(PackedTables, TakeOnlyTablesThatReadingMakes) {
  Table unknown = functions({"read"});
  unknown.schema.name = "a_table_of_mine";
  EXPECT_THROW(PackedTables({unknown}), std::logic_error);
  Table renamed = functions({"read"});
  renamed.schema.columns.own()[0].name = "a/b";
  EXPECT_THROW(PackedTables({renamed}), std::logic_error);
}

/// As a table lies in a record.
struct Forged {
  std::string name = "cpu_functions";
  std::uint64_t rows = 1;
  std::string numbers;
  std::vector<std::vector<std::string>> texts;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(name, rows, numbers, texts);
  }
};

Forged sound() {
  Forged table;
  for (const ColumnSchema& column : make_table(schema::cpu_functions).schema.columns) {
    const bool is_text = column.kind == ColumnKind::text;
    table.numbers.append(is_text ? 4 : 8, '\0');
    table.texts.push_back(is_text ? std::vector<std::string>{"read"} : std::vector<std::string>());
  }
  return table;
}

bool is_whole(const Forged& table) {
  const std::string record = pack(compress(pack(std::vector<Forged>{table}))) + pack(std::vector<PackedRowRun>());
  return are_whole(unpack<PackedTables>(record));
}

TEST(PackedTables, ForgedOnesAreNotWhole) {
  EXPECT_TRUE(is_whole(sound()));
  const std::vector<std::function<void(Forged&)>> forgeries = {
      [](Forged& table) { table.name = "../../elsewhere"; },
      [](Forged& table) { table.rows = 2; },
      [](Forged& table) { table.rows = std::uint64_t{1} << 61; },
      [](Forged& table) { table.numbers.resize(table.numbers.size() - 8); },
      [](Forged& table) { table.texts.pop_back(); },
      [](Forged& table) { table.numbers += "more"; },
      [](Forged& table) { std::fill(table.numbers.begin(), table.numbers.end(), 1); },  // texts that are not there
      [](Forged& table) { table.name = "gpu_trace"; }};
  for (std::size_t i = 0; i < forgeries.size(); ++i) {
    Forged table = sound();
    forgeries[i](table);
    EXPECT_FALSE(is_whole(table)) << "forgery " << i;
  }
}

TEST(PackedTables, ExtentsOfForgedRunsMustBeTrue) {
  const PackedTables packed({steps(3)});
  std::vector<PackedRowRun> runs = packed.long_runs();
  const auto is_whole = [](const std::vector<PackedRowRun>& of) {
    return are_whole(unpack<PackedTables>(pack(std::string()) + pack(of)));
  };
  EXPECT_TRUE(is_whole(runs));
  runs[0].extent.rows = 1'000'000'000;
  EXPECT_FALSE(is_whole(runs));
  runs = packed.long_runs();
  runs[0].table = "nvtx_sum";
  EXPECT_FALSE(is_whole(runs));
}

}  // namespace
}  // namespace nsys_explain::pipeline
