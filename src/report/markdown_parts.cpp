#include "report/markdown_parts.hpp"

#include <fmt/format.h>

#include "report/text.hpp"

namespace nsys_explain::report {

std::string heading(std::string_view title, std::string_view derivation) {
  return fmt::format("\n## {}\n\n{}\n", title, wrap(derivation, "", ""));
}

std::string rest_note(std::size_t all, std::size_t shown, std::string_view where) {
  if (all <= shown) return {};
  return wrap(fmt::format("... and {} more ({}).", format_count(static_cast<std::int64_t>(all - shown)), where), "\n",
              "");
}

}  // namespace nsys_explain::report
