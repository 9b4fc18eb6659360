#include "pipeline/read/packed_tables.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <iterator>
#include <map>
#include <optional>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <variant>

#include "pipeline/read/rank_schemas.hpp"
#include "pipeline/tool_rank/compress.hpp"
#include "pipeline/tool_rank/pack.hpp"

namespace nsys_explain::pipeline {
namespace {

/// Of what happened in ranges, or over time: as many rows as a trace rank has ranges.
constexpr std::array<std::string_view, 11> long_names = {
    "gpu_trace",       "communication_overlap_trace", "nvtx_trace",          "nvtx_sum",
    "nvtx_kernels",    "nvtx_gpu_projection_trace",   "nvtx_gpu_projection", "nvtx_steps",
    "kernel_progress", "expert_rule_cases",           "gpu_utilisation"};

/// So many that they compress well, so few that to unpack them for a few rows costs little.
constexpr std::size_t rows_of_run = std::size_t{1} << 14;

/// By name: what reading makes.
const std::map<std::string, TableSchema>& known_schemas() {
  static const std::map<std::string, TableSchema> known = [] {
    std::map<std::string, TableSchema> schemas;
    for (TableSchema& schema : rank_table_schemas()) {
      const std::string name = schema.name;
      schemas.emplace(name, std::move(schema));
    }
    return schemas;
  }();
  return known;
}

template <class T>
std::string bytes_of(std::span<const T> values) {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): numbers are bytes
  return shuffled({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)}, sizeof(T));
}

/// As many numbers as there are bytes for.
template <class T>
std::vector<T> numbers_of(std::string_view bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): numbers are bytes
  unshuffle(bytes, sizeof(T), reinterpret_cast<char*>(values.data()));
  return values;
}

/// Of the numbers that stand for a value of the column: itself, or of a text its code.
std::size_t bytes_of_value(const ColumnData& column) {
  return std::holds_alternative<TextColumn>(column) ? sizeof(std::uint32_t) : sizeof(std::int64_t);
}

/// Valid until the next call on this thread, so that the memory is asked for once.
std::string_view decompressed(std::string_view bytes) {
  thread_local std::string room;
  room = decompress(bytes, std::move(room));
  return room;
}

/// A table without what is known of it by its name.
struct BareTable {
  std::string name;
  std::uint64_t rows = 0;
  std::string numbers;                          ///< column after column: values, or of texts their codes
  std::vector<std::vector<std::string>> texts;  ///< of each column: those that differ

  template <class Archive>
  void serialize(Archive& archive) {
    archive(name, rows, numbers, texts);
  }
};

/// Codes and texts of some rows of a column, which may name millions in others.
std::pair<std::vector<std::uint32_t>, std::vector<std::string>> texts_of(const TextColumn& column, std::size_t first,
                                                                         std::size_t count) {
  std::vector<std::uint32_t> codes;
  std::vector<std::string> texts;
  std::unordered_map<std::uint32_t, std::uint32_t> own_codes;
  for (const std::uint32_t code : column.codes().subspan(first, count)) {
    const auto [own, is_new] = own_codes.emplace(code, static_cast<std::uint32_t>(texts.size()));
    if (is_new) texts.push_back(column.distinct()[code]);
    codes.push_back(own->second);
  }
  return {std::move(codes), std::move(texts)};
}

BareTable bared(const Table& table, std::size_t first, std::size_t count) {
  BareTable bare{table.schema.name, count, {}, {}};
  for (const ColumnData& column : table.columns) {
    std::visit(
        [&](const auto& values) {
          if constexpr (std::is_same_v<std::decay_t<decltype(values)>, TextColumn>) {
            auto [codes, texts] = texts_of(values, first, count);
            bare.numbers += bytes_of(std::span<const std::uint32_t>(codes));
            bare.texts.push_back(std::move(texts));
          } else {
            bare.numbers += bytes_of(
                std::span<const typename std::decay_t<decltype(values)>::value_type>(values).subspan(first, count));
            bare.texts.emplace_back();
          }
        },
        column);
  }
  return bare;
}

const TableSchema& schema_named(const std::string& name) {
  const auto known = known_schemas().find(name);
  if (known == known_schemas().end()) throw std::runtime_error("a packed table is none that reading makes");
  return known->second;
}

Table dressed(BareTable bare) {
  Table table = make_table(schema_named(bare.name));
  std::size_t bytes_of_row = 0;
  for (const ColumnData& column : table.columns) bytes_of_row += bytes_of_value(column);
  if (bare.texts.size() != table.columns.size() || bare.numbers.size() % bytes_of_row != 0 ||
      bare.numbers.size() / bytes_of_row != bare.rows)
    throw std::length_error("a packed table has more or fewer columns or rows");
  std::string_view left = bare.numbers;
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    const std::string_view numbers = left.substr(0, bare.rows * bytes_of_value(table.columns[c]));
    left.remove_prefix(numbers.size());
    std::visit(
        [&](auto& values) {
          using Column = std::decay_t<decltype(values)>;
          if constexpr (std::is_same_v<Column, TextColumn>) {
            values = TextColumn(std::move(bare.texts[c]), numbers_of<std::uint32_t>(numbers));
          } else {
            values = numbers_of<typename Column::value_type>(numbers);
          }
        },
        table.columns[c]);
  }
  return table;
}

/// Throws std::logic_error where rank_table_schemas() does not know a table that is made.
void require_known(const TableSchema& schema) {
  const auto known = known_schemas().find(schema.name);
  const auto is_same = [](const ColumnSchema& a, const ColumnSchema& b) {
    return a.name == b.name && a.kind == b.kind;
  };
  if (known == known_schemas().end() ||
      !std::equal(schema.columns.begin(), schema.columns.end(), known->second.columns.begin(),
                  known->second.columns.end(), is_same))
    throw std::logic_error("rank_table_schemas() does not have table " + schema.name);
}

PackedRowRun packed_run(const Table& table, std::size_t first, std::size_t count) {
  const BareTable bare = bared(table, first, count);
  PackedRowRun run{table.schema.name, {count, {}}, compress(pack(bare))};
  for (const std::vector<std::string>& texts : bare.texts) {
    std::size_t longest = 0;
    for (const std::string& text : texts) longest = std::max(longest, text.size());
    run.extent.longest_texts.push_back(longest);
  }
  return run;
}

}  // namespace

bool is_long(std::string_view table) {
  return std::find(long_names.begin(), long_names.end(), table) != long_names.end();
}

std::vector<std::string_view> long_table_names() {
  return {long_names.begin(), long_names.end()};
}

PackedTables::PackedTables(std::vector<Table> tables) {
  std::vector<BareTable> shorts;
  for (Table& table : tables) {
    require_known(table.schema);
    if (is_long(table.schema.name)) {
      const std::size_t rows = table.row_count();
      for (std::size_t first = 0; first < rows; first += rows_of_run)
        long_.push_back(packed_run(table, first, std::min(rows_of_run, rows - first)));
      shorts.push_back(bared(table, 0, 0));
    } else {
      shorts.push_back(bared(table, 0, table.row_count()));
    }
    table = {};
  }
  short_ = compress(pack(shorts));
}

std::vector<Table> PackedTables::short_tables() const {
  std::vector<Table> tables;
  if (short_.empty()) return tables;
  for (BareTable& bare : unpack<std::vector<BareTable>>(decompressed(short_)))
    tables.push_back(dressed(std::move(bare)));
  return tables;
}

const TableSchema& schema_of(const PackedRowRun& run) {
  return schema_named(run.table);
}

Table unpacked(const PackedRowRun& run) {
  return dressed(unpack<BareTable>(decompressed(run.bytes)));
}

bool are_whole(const PackedTables& tables) {
  try {
    for (const Table& table : tables.short_tables())
      if (is_long(table.schema.name) && table.row_count() > 0) return false;
    return std::all_of(tables.long_runs().begin(), tables.long_runs().end(), [](const PackedRowRun& run) {
      const Table table = unpacked(run);
      const TableExtent extent = extent_of(table);
      return is_long(run.table) && run.table == table.schema.name && extent.rows == run.extent.rows &&
             extent.longest_texts == run.extent.longest_texts;
    });
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace nsys_explain::pipeline
