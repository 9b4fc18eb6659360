#pragma once

#include <array>
#include <string_view>

#include "nsys_explain/model/table.hpp"

namespace nsys_explain {

/// As docs/outputs.md and the service's answers call it.
constexpr std::string_view column_kind_name(ColumnKind kind) {
  constexpr std::array<std::string_view, 4> names{"integer", "time", "real", "text"};
  return names[static_cast<std::size_t>(kind)];
}

}  // namespace nsys_explain
