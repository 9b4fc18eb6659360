// A table whose rows lie on all tool ranks, in short runs that cross the borders of slabs, is written as if one rank
// had held it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "exchange/agree.hpp"
#include "mpi/mpi_test.hpp"
#include "pipeline/tool_rank/slabs.hpp"
#include "report/report.hpp"
#include "store/store_reader.hpp"
#include "store/store_writer.hpp"

namespace nsys_explain::pipeline {
namespace {

namespace fs = std::filesystem;
using mpi_test::world;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr std::int64_t row_count = 3 * 65'536 + 777;  // a slab more than three ranks take in a round, not a whole one
constexpr std::int64_t run_rows = 997;

TableSchema schema() {
  return {"events",
          "for tests",
          {{"number", ColumnKind::integer, "", ""},
           {"share", ColumnKind::real, "", ""},
           {"kind", ColumnKind::text, "", ""},
           {"name", ColumnKind::text, "", ""},
           {"note", ColumnKind::text, "", ""}}};
}

/// Notes are too long for a fixed width.
TableExtent extent(std::int64_t rows) {
  return {static_cast<std::size_t>(rows), {0, 0, 7, 12, 300}};
}

Table rows_between(std::int64_t first, std::int64_t end) {
  Table table = make_table(schema());
  RowWriter writer(table);
  for (std::int64_t row = first; row < end; ++row) {
    writer << row * row - 5 << static_cast<double>(row) / 8 << (row % 3 == 0 ? "send" : "receive")
           << "name " + std::to_string(row) << (row % 10'000 == 0 ? std::string(300, 'n') : "");
  }
  return table;
}

/// Every rank holds each size()-th run of rows.
std::vector<RowRun> take(std::int64_t first, std::int64_t end) {
  std::vector<RowRun> runs;
  for (std::int64_t run = first / run_rows; run * run_rows < end; ++run) {
    if (run % world().size() != world().rank()) continue;
    const std::int64_t from = std::max(first, run * run_rows), to = std::min(end, (run + 1) * run_rows);
    runs.push_back({from, rows_between(from, to)});
  }
  std::reverse(runs.begin(), runs.end());  // any order will do
  return runs;
}

DealtTable dealt(std::int64_t rows, TakeRows take_rows, std::function<void(const Slab&)> write) {
  return {extent(rows), std::move(take_rows), std::move(write)};
}

class SlabsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!world().is_root()) return;
    std::string pattern = (fs::temp_directory_path() / "slabs_test.XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }
  void TearDown() override {
    if (world().is_root()) fs::remove_all(directory_);
  }
  std::string bytes_of(const std::string& name) const {
    std::ifstream in(directory_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  fs::path directory_;
};

TEST_F(SlabsTest, AreWrittenAsIfOneRankHadHeldTheTable) {
  std::optional<store::StoreWriter> writer;
  if (world().is_root()) {
    writer.emplace((directory_ / "dealt.h5").string());
    writer->set_attribute("/", "schema_version", "1.0");
    writer->create_table(schema(), extent(row_count));
  }
  std::string csv;
  const DealtTable table = dealt(row_count, take, [&](const Slab& slab) {
    EXPECT_TRUE(world().is_root());
    writer->append(slab.rows);
    csv += slab.csv;
  });
  write_by_slabs(world(), {&table, 1}, true);
  if (!world().is_root()) return;
  writer->close();
  const Table expected = rows_between(0, row_count);
  const Table read = store::StoreReader((directory_ / "dealt.h5").string()).read("events");
  EXPECT_TRUE(read.columns == expected.columns);
  EXPECT_TRUE(csv == report::csv_rows(expected));

  store::StoreWriter whole((directory_ / "whole.h5").string());
  whole.set_attribute("/", "schema_version", "1.0");
  whole.create_table(schema(), extent(row_count));
  whole.append(expected);
  whole.close();
  EXPECT_TRUE(bytes_of("dealt.h5") == bytes_of("whole.h5"));
}

TEST_F(SlabsTest, OfAnEmptyTableThereAreNone) {
  const DealtTable empty = dealt(0, take, [](const Slab&) { ADD_FAILURE() << "nothing to write"; });
  write_by_slabs(world(), {&empty, 1}, true);
  write_by_slabs(world(), {}, true);
}

TEST_F(SlabsTest, OfSeveralTablesComeTableByTable) {
  std::string order;
  std::vector<std::string> csv(5);
  std::vector<DealtTable> tables;
  const std::vector<std::int64_t> lengths{500, 2 * 65'536 + 1, 0, 65'536, 3};
  for (std::size_t t = 0; t < lengths.size(); ++t) {
    tables.push_back(dealt(lengths[t], take, [&, t](const Slab& slab) {
      order += static_cast<char>('0' + t);
      csv[t] += slab.csv;
    }));
  }
  write_by_slabs(world(), tables, true);
  if (!world().is_root()) return;
  EXPECT_EQ(order, "011134");
  for (std::size_t t = 0; t < lengths.size(); ++t)
    EXPECT_TRUE(csv[t] == report::csv_rows(rows_between(0, lengths[t]))) << "table " << t;
}

TEST_F(SlabsTest, AFailureOfOneRankEndsItOnAll) {
  const int last = world().size() - 1;
  const auto take_or_fail = [&](std::int64_t first, std::int64_t end) {
    if (world().rank() == last && end == row_count) throw std::runtime_error("its rows are gone");
    return take(first, end);
  };
  const DealtTable lost = dealt(row_count, take_or_fail, [](const Slab&) {});
  EXPECT_THAT(
      [&] {
        write_by_slabs(world(), {&lost, 1}, false);
      },
      ThrowsMessage<exchange::AgreedFailure>(HasSubstr("its rows are gone")));
  const DealtTable unwritten =
      dealt(row_count, take, [](const Slab&) { throw std::runtime_error("the disk is full"); });
  EXPECT_THAT(
      [&] {
        write_by_slabs(world(), {&unwritten, 1}, false);
      },
      ThrowsMessage<exchange::AgreedFailure>(HasSubstr("the disk is full")));
}

}  // namespace
}  // namespace nsys_explain::pipeline
