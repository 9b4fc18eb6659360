#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nsys_explain::serve {

/// What a request asks for: "/api/v1/reports/a%2Fb/tables?limit=3" is the segments api, v1, reports, a/b, tables and
/// the parameter limit.
struct Target {
  std::vector<std::string> segments;
  std::vector<std::pair<std::string, std::string>> parameters;  ///< in their order; a name may come several times

  /// The last one of that name; empty where there is none.
  std::string parameter(std::string_view name) const;
};

/// Throws Refusal where the text is no target: a broken escape, a control character, too many parts.
Target parse_target(std::string_view text);

/// One segment or value, with all but letters, digits and "-._~" as escapes.
std::string escaped(std::string_view text);

/// Text for HTML, in an element or in a quoted attribute.
std::string html_text(std::string_view text);

}  // namespace nsys_explain::serve
