#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>

#include "nsys_explain/model/time.hpp"
#include "serve/refusal.hpp"
#include "serve/requests.hpp"
#include "serve/table_query.hpp"

/// libFuzzer target: the input is what a client sends, its first line the target of a request, the rest a header or a
/// body. Whatever its bytes, it is refused or understood: what was read is the same once it is written and read again,
/// and rows are those of the table. Build as page_reader_fuzz.cpp.
namespace {

using namespace nsys_explain;
using namespace nsys_explain::serve;

const Table& sample() {
  static const Table table = [] {
    Table made = make_table({"sample",
                             "",
                             {{"rank", ColumnKind::integer, "", ""},
                              {"share", ColumnKind::real, "", ""},
                              {"name", ColumnKind::text, "", ""}}});
    RowWriter rows(made);
    for (std::int64_t row = 0; row < 7; ++row) {
      rows << (row == 3 ? no_time : row * row % 5)
           << (row == 5 ? std::numeric_limits<double>::quiet_NaN() : static_cast<double>(row) / 2)
           << std::string(static_cast<std::size_t>(row % 3), 'a');
    }
    return made;
  }();
  return table;
}

void require(bool holds) {
  if (!holds) std::abort();
}

void ask(const std::string& text) {
  const Target target = parse_target(text);
  std::string again = "/";
  for (const std::string& segment : target.segments) again += escaped(segment) + '/';
  again += '?';
  for (const auto& [name, value] : target.parameters) again += escaped(name) + '=' + escaped(value) + '&';
  if (!target.segments.empty() && !target.segments.back().empty()) {
    const Target same = parse_target(again);
    require(same.segments == target.segments && same.parameters == target.parameters);
  }
  require(html_text(text).find_first_of("<>\"'") == std::string::npos);
  const TableQuery query = parse_table_query(target.parameters);
  check_columns(sample().schema, query);
  const ColumnLookup column = [](const std::string& name) -> const ColumnData& {
    return sample().columns[sample().schema.index_of(name)];
  };
  const ChosenRows chosen = chosen_rows(column, query, 7);
  require(chosen.matching <= 7 &&
          static_cast<std::int64_t>(chosen.rows.size()) <= std::min(query.limit, chosen.matching));
  for (const std::int64_t row : chosen.rows) require(row >= 0 && row < 7);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(bytes), size);
  const std::size_t line = std::min(text.find('\n'), text.size());
  const std::string rest = text.substr(std::min(line + 1, text.size()));
  try {
    ask(text.substr(0, line));
  } catch (const Refusal&) {
  }
  try {
    parse_address(rest);
  } catch (const Refusal&) {
  }
  is_loopback_host(rest);
  is_own_origin(rest, "localhost:8750", "");
  require(!is_authorised(rest, "a token that no input holds \x01") || rest.size() > 20);
  const auto json = parse_foreign_json(rest);
  if (!json.is_discarded()) (void)json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  return 0;
}
