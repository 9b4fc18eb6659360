#include "serve/table_query.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <compare>
#include <numeric>

#include <fmt/format.h>

#include "model/text.hpp"
#include "nsys_explain/model/time.hpp"
#include "serve/refusal.hpp"

namespace nsys_explain::serve {
namespace {

constexpr std::size_t most_conditions = 16, most_orders = 8;
constexpr const char* query_advice =
    "say e.g. columns=trace_rank,wait_ns, where=wait_ns>=1000, order=-wait_ns, limit=20; docs/service.md has all";

Refusal meaningless(std::string problem) {
  return {400, std::move(problem), "so nobody can tell which rows are asked for", query_advice};
}

bool is_column_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

std::int64_t number_of(const std::string& name, const std::string& text, std::int64_t least, std::int64_t most) {
  const auto number = integer_of(text);
  if (number && *number >= least && *number <= most) return *number;
  throw meaningless(fmt::format("{} is '{}' and no number from {} to {}", name, beginning_of(text), least, most));
}

template <class Part>
void for_each_name(std::string_view names, const Part& part) {
  while (!names.empty()) part(next_part(names, ','));
}

constexpr std::pair<std::string_view, Comparison> comparisons[] = {
    {"!=", Comparison::different}, {"<=", Comparison::at_most}, {">=", Comparison::at_least}, {"=", Comparison::equal},
    {"<", Comparison::less},       {">", Comparison::greater},  {"~", Comparison::contains}};

bool holds(Comparison comparison, std::partial_ordering order) {
  switch (comparison) {
    case Comparison::equal:
      return std::is_eq(order);
    case Comparison::different:
      return std::is_neq(order);
    case Comparison::less:
      return std::is_lt(order);
    case Comparison::at_most:
      return std::is_lteq(order);
    case Comparison::greater:
      return std::is_gt(order);
    case Comparison::at_least:
      return std::is_gteq(order);
    case Comparison::contains:
      break;
  }
  return false;
}

/// A number as exact as its text: integers do not go through `double`.
struct Number {
  std::optional<std::int64_t> integer;
  double real = 0;
};

Number parsed_number(const Condition& condition) {
  const std::string& text = condition.value;
  const char* const last = text.data() + text.size();
  Number number{integer_of(text)};
  const auto [end, error] = std::from_chars(text.data(), last, number.real);
  if (text.empty() || error != std::errc() || end != last || condition.comparison == Comparison::contains) {
    throw meaningless(fmt::format("column {} holds numbers and '{}' cannot be compared with them", condition.column,
                                  beginning_of(text)));
  }
  return number;
}

std::partial_ordering compared(std::int64_t value, const Number& number) {
  if (number.integer) return value <=> *number.integer;
  return static_cast<double>(value) <=> number.real;
}

std::partial_ordering compared(double value, const Number& number) {
  return value <=> number.real;
}

bool is_missing(std::int64_t value) {
  return value == no_time;
}

bool is_missing(double value) {
  return std::isnan(value);
}

template <class Values>
void keep_numbers(const Values& values, const Condition& condition, std::vector<std::int64_t>& rows) {
  const Number number = parsed_number(condition);
  std::erase_if(rows, [&](std::int64_t row) {
    const auto value = values[static_cast<std::size_t>(row)];
    return is_missing(value) || !holds(condition.comparison, compared(value, number));
  });
}

void keep_texts(const TextColumn& texts, const Condition& condition, std::vector<std::int64_t>& rows) {
  std::vector<bool> kept;
  for (const std::string& text : texts.distinct()) {
    kept.push_back(condition.comparison == Comparison::contains
                       ? text.find(condition.value) != std::string::npos
                       : holds(condition.comparison, text <=> condition.value));
  }
  std::erase_if(rows, [&](std::int64_t row) { return !kept[texts.codes()[static_cast<std::size_t>(row)]]; });
}

/// Which of two values comes first: negative, zero or positive. What is missing comes last either way.
template <class Value>
int value_order(const Value& x, const Value& y, bool descending) {
  if (is_missing(x) || is_missing(y)) return static_cast<int>(is_missing(x)) - static_cast<int>(is_missing(y));
  if (x == y) return 0;
  return (x < y) != descending ? -1 : 1;
}

/// The place of each row's text among the distinct ones in alphabetical order: compared instead of the texts.
std::vector<std::int64_t> places_of(const TextColumn& texts) {
  const std::vector<std::string>& distinct = texts.distinct();
  std::vector<std::size_t> sorted(distinct.size());
  std::iota(sorted.begin(), sorted.end(), std::size_t{0});
  std::sort(sorted.begin(), sorted.end(), [&](std::size_t a, std::size_t b) { return distinct[a] < distinct[b]; });
  std::vector<std::int64_t> place_of_code(distinct.size()), places;
  for (std::size_t place = 0; place < sorted.size(); ++place)
    place_of_code[sorted[place]] = static_cast<std::int64_t>(place);
  for (const std::uint32_t code : texts.codes()) places.push_back(place_of_code[code]);
  return places;
}

/// A column to sort by: numbers, or places of texts.
struct SortKey {
  const std::vector<std::int64_t>* integers = nullptr;
  const std::vector<double>* reals = nullptr;
  std::vector<std::int64_t> places;
  bool descending = false;

  int order(std::int64_t a, std::int64_t b) const {
    const auto x = static_cast<std::size_t>(a), y = static_cast<std::size_t>(b);
    if (reals != nullptr) return value_order((*reals)[x], (*reals)[y], descending);
    const std::vector<std::int64_t>& values = integers != nullptr ? *integers : places;
    return value_order(values[x], values[y], descending);
  }
};

/// Sorts as many rows as will be shown.
void sort_first_rows(const ColumnLookup& lookup, const std::vector<Order>& order, std::size_t shown,
                     std::vector<std::int64_t>& rows) {
  std::vector<SortKey> keys;
  for (const Order& by : order) {
    const ColumnData& column = lookup(by.column);
    SortKey& key = keys.emplace_back();
    key.descending = by.descending;
    key.integers = std::get_if<std::vector<std::int64_t>>(&column);
    key.reals = std::get_if<std::vector<double>>(&column);
    if (const auto* texts = std::get_if<TextColumn>(&column)) key.places = places_of(*texts);
  }
  const auto comes_first = [&](std::int64_t a, std::int64_t b) {
    for (const SortKey& key : keys) {
      const int by_key = key.order(a, b);
      if (by_key != 0) return by_key < 0;
    }
    return a < b;
  };
  const auto end = rows.begin() + static_cast<std::ptrdiff_t>(std::min(shown, rows.size()));
  std::partial_sort(rows.begin(), end, rows.end(), comes_first);
}

}  // namespace

Condition parse_condition(std::string_view text) {
  const std::size_t at = text.find_first_of("!<>=~");
  if (at == std::string_view::npos || !is_column_name(text.substr(0, at)))
    throw meaningless(fmt::format("where is '{}' and no comparison of a column", beginning_of(text)));
  for (const auto& [word, comparison] : comparisons) {
    if (text.substr(at).starts_with(word))
      return {std::string(text.substr(0, at)), comparison, std::string(text.substr(at + word.size()))};
  }
  throw meaningless(fmt::format("where is '{}' and no comparison of a column", beginning_of(text)));
}

TableQuery parse_table_query(const std::vector<std::pair<std::string, std::string>>& parameters) {
  TableQuery query;
  for (const auto& [name, value] : parameters) {
    if (name == "columns") {
      for_each_name(value, [&](std::string_view column) { query.columns.emplace_back(column); });
    } else if (name == "where") {
      query.conditions.push_back(parse_condition(value));
    } else if (name == "order") {
      for_each_name(value, [&](std::string_view column) {
        const bool descending = column.starts_with('-');
        query.order.push_back({std::string(column.substr(descending ? 1 : 0)), descending});
      });
    } else if (name == "limit") {
      query.limit = number_of(name, value, 0, most_rows);
    } else if (name == "offset") {
      query.offset = number_of(name, value, 0, std::int64_t{1} << 60);
    } else {
      throw meaningless(fmt::format("there is no parameter '{}'", beginning_of(name)));
    }
  }
  if (query.conditions.size() > most_conditions || query.order.size() > most_orders) {
    throw meaningless(
        fmt::format("there are more than {} conditions or {} columns to order by", most_conditions, most_orders));
  }
  return query;
}

ChosenRows chosen_rows(const ColumnLookup& column, const TableQuery& query, std::int64_t rows) {
  ChosenRows chosen;
  const auto cut = [&](std::int64_t count) {
    const std::int64_t first = std::min(query.offset, count);
    return std::pair(first, first + std::min(query.limit, count - first));
  };
  if (query.conditions.empty() && query.order.empty()) {
    chosen.matching = rows;
    const auto [first, last] = cut(rows);
    chosen.rows.resize(static_cast<std::size_t>(last - first));
    std::iota(chosen.rows.begin(), chosen.rows.end(), first);
    return chosen;
  }
  std::vector<std::int64_t> matching(static_cast<std::size_t>(rows));
  std::iota(matching.begin(), matching.end(), std::int64_t{0});
  for (const Condition& condition : query.conditions) {
    const ColumnData& data = column(condition.column);
    if (const auto* texts = std::get_if<TextColumn>(&data)) {
      keep_texts(*texts, condition, matching);
    } else if (const auto* reals = std::get_if<std::vector<double>>(&data)) {
      keep_numbers(*reals, condition, matching);
    } else {
      keep_numbers(std::get<std::vector<std::int64_t>>(data), condition, matching);
    }
  }
  chosen.matching = static_cast<std::int64_t>(matching.size());
  const auto [first, last] = cut(chosen.matching);
  if (!query.order.empty()) sort_first_rows(column, query.order, static_cast<std::size_t>(last), matching);
  chosen.rows.assign(matching.begin() + first, matching.begin() + last);
  return chosen;
}

void check_columns(const TableSchema& schema, const TableQuery& query) {
  const auto check = [&](const std::string& name) {
    const bool is_there = std::any_of(schema.columns.begin(), schema.columns.end(),
                                      [&](const ColumnSchema& column) { return column.name == name; });
    if (is_there) return;
    std::vector<std::string_view> names;
    for (const ColumnSchema& column : schema.columns) names.push_back(column.name);
    throw Refusal(400, fmt::format("table {} has no column '{}'", schema.name, beginning_of(name)),
                  "so nobody can tell what is asked for", fmt::format("its columns are: {}", fmt::join(names, ", ")));
  };
  for (const Condition& condition : query.conditions) check(condition.column);
  for (const Order& order : query.order) check(order.column);
  for (const std::string& column : query.columns) check(column);
}

}  // namespace nsys_explain::serve
