#include "analysis/compare/comparison.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <stdexcept>

#include <fmt/format.h>

namespace nsys_explain::analysis {
namespace {

/// One cell of a key: numbers sort as numbers.
using KeyCell = std::pair<std::int64_t, std::string>;
using RowKey = std::vector<KeyCell>;

/// The sum of the rows with one key; of reals over `count`.
struct SideSum {
  std::int64_t count = 0;
  std::vector<std::int64_t> integers;  ///< by value; 0 where it is a real
  std::vector<double> reals;
};

struct BothSides {
  SideSum before, after;
};

bool is_number(ColumnKind kind) {
  return kind == ColumnKind::integer || kind == ColumnKind::real;
}

std::size_t place_among(const Table& table, const std::string& name) {
  const auto& columns = table.schema.columns;
  const auto found =
      std::find_if(columns.begin(), columns.end(), [&](const ColumnSchema& column) { return column.name == name; });
  if (found == columns.end())
    throw std::invalid_argument(fmt::format(
        "table {} has no column '{}', so rows cannot be compared by it; see --print-schema", table.schema.name, name));
  return static_cast<std::size_t>(found - columns.begin());
}

std::vector<std::string> names_by_default(const Table& table, bool keys) {
  std::vector<std::string> names;
  for (const ColumnSchema& column : table.schema.columns) {
    const bool is_key = column.kind == ColumnKind::text || column.name == "trace_rank";
    if (keys ? is_key : !is_key && is_number(column.kind)) names.push_back(column.name);
  }
  return names;
}

class Difference {
 public:
  Difference(const Table& before, const Table& after, const DifferenceRequest& request)
      : before_(before), after_(after), renames_(request.renames) {
    keys_ = request.by.empty() ? names_by_default(after, true) : request.by;
    values_ = request.values;
    if (values_.empty()) {
      for (const std::string& name : names_by_default(after, false))
        if (std::find(keys_.begin(), keys_.end(), name) == keys_.end()) values_.push_back(name);
    }
    if (keys_.empty() || values_.empty())
      throw std::invalid_argument(
          fmt::format("table {} has no {}, so its rows cannot be compared; name columns with --by and --columns",
                      after.schema.name, keys_.empty() ? "texts that tell rows apart" : "numbers"));
    for (const std::string& name : values_) {
      const ColumnSchema& column = after.schema.columns[place_among(after, name)];
      if (!is_number(column.kind))
        throw std::invalid_argument(
            fmt::format("column '{}' holds no numbers, so there is no difference; leave it out of --columns", name));
      is_real_.push_back(column.kind == ColumnKind::real);
    }
    add(before_, &BothSides::before);
    add(after_, &BothSides::after);
  }

  Table table() const {
    Table table = make_table(schema());
    std::vector<std::pair<const RowKey*, const BothSides*>> order;
    for (const auto& [key, sides] : rows_) order.emplace_back(&key, &sides);
    std::stable_sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
      return std::abs(change(*a.second, 0)) > std::abs(change(*b.second, 0));
    });
    RowWriter writer(table);
    for (const auto& [key, sides] : order) write(*key, *sides, writer);
    return table;
  }

 private:
  TableSchema schema() const {
    TableSchema schema{after_.schema.name + "_difference", "", {}};
    for (const std::string& name : keys_) {
      ColumnSchema column = after_.schema.columns[place_among(after_, name)];
      column.kind = column.kind == ColumnKind::text ? ColumnKind::text : ColumnKind::integer;
      schema.columns.push_back(std::move(column));
    }
    schema.columns.push_back({"in", ColumnKind::text, "", "both, before or after"});
    for (const std::string& name : values_) {
      const ColumnSchema& column = after_.schema.columns[place_among(after_, name)];
      for (const char* suffix : {"_before", "_after", "_change"})
        schema.columns.push_back({name + suffix, column.kind, column.unit, column.description});
    }
    return schema;
  }

  RowKey key_of(const Table& table, const std::vector<std::size_t>& places, std::size_t row) const {
    RowKey key;
    for (const std::size_t place : places) {
      const ColumnData& column = table.columns[place];
      if (const auto* texts = std::get_if<TextColumn>(&column)) {
        std::string name((*texts)[row]);
        for (const Rename& rename : renames_) name = rename.of(name);
        key.emplace_back(0, std::move(name));
      } else if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&column)) {
        key.emplace_back((*integers)[row], "");
      } else {
        throw std::invalid_argument("reals do not tell rows apart; name other columns with --by");
      }
    }
    return key;
  }

  void add(const Table& table, SideSum BothSides::*side) {
    std::vector<std::size_t> keys, values;
    for (const std::string& name : keys_) keys.push_back(place_among(table, name));
    for (const std::string& name : values_) values.push_back(place_among(table, name));
    for (std::size_t row = 0; row < table.row_count(); ++row) {
      SideSum& sum = rows_[key_of(table, keys, row)].*side;
      sum.integers.resize(values.size());
      sum.reals.resize(values.size());
      ++sum.count;
      for (std::size_t v = 0; v < values.size(); ++v) {
        const ColumnData& column = table.columns[values[v]];
        if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&column)) sum.integers[v] += (*integers)[row];
        if (const auto* reals = std::get_if<std::vector<double>>(&column)) sum.reals[v] += (*reals)[row];
      }
    }
  }

  std::int64_t integer_of(const SideSum& sum, std::size_t v) const { return sum.count == 0 ? 0 : sum.integers[v]; }
  double real_of(const SideSum& sum, std::size_t v) const {
    return sum.count == 0 ? std::numeric_limits<double>::quiet_NaN() : sum.reals[v] / static_cast<double>(sum.count);
  }
  /// For the order: what is on one side only changed by all of it.
  double change(const BothSides& sides, std::size_t v) const {
    if (!is_real_[v])
      return static_cast<double>(integer_of(sides.after, v)) - static_cast<double>(integer_of(sides.before, v));
    const double before = real_of(sides.before, v), after = real_of(sides.after, v);
    return (std::isnan(after) ? 0 : after) - (std::isnan(before) ? 0 : before);
  }

  void write(const RowKey& key, const BothSides& sides, RowWriter& writer) const {
    for (std::size_t k = 0; k < key.size(); ++k) {
      const ColumnSchema& column = after_.schema.columns[place_among(after_, keys_[k])];
      column.kind == ColumnKind::text ? writer << std::string_view(key[k].second) : writer << key[k].first;
    }
    writer << (sides.before.count == 0 ? "after" : sides.after.count == 0 ? "before" : "both");
    for (std::size_t v = 0; v < values_.size(); ++v) {
      if (is_real_[v]) {
        const double before = real_of(sides.before, v), after = real_of(sides.after, v);
        writer << before << after << after - before;
      } else {
        const std::int64_t before = integer_of(sides.before, v), after = integer_of(sides.after, v);
        writer << before << after << after - before;
      }
    }
  }

  const Table &before_, &after_;
  const std::vector<Rename>& renames_;
  std::vector<std::string> keys_, values_;
  std::vector<bool> is_real_;  ///< by value
  std::map<RowKey, BothSides> rows_;
};

}  // namespace

Table table_difference(const Table& before, const Table& after, const DifferenceRequest& request) {
  return Difference(before, after, request).table();
}

}  // namespace nsys_explain::analysis
