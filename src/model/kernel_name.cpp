#include "model/kernel_name.hpp"

#include <algorithm>
#include <array>

namespace nsys_explain {

std::string_view function_name(std::string_view demangled) {
  constexpr std::array<std::string_view, 2> unnamed{"(anonymous namespace)", "<unnamed>"};
  std::size_t begin = 0, end = 0;
  while (end < demangled.size()) {
    const std::string_view rest = demangled.substr(end);
    const auto* const skipped =
        std::find_if(unnamed.begin(), unnamed.end(), [&](std::string_view name) { return rest.starts_with(name); });
    if (skipped == unnamed.end() && (rest.front() == '(' || rest.front() == '<')) break;
    end += skipped == unnamed.end() ? 1 : skipped->size();
    if (rest.front() == ' ') begin = end;  // after the type that it returns
  }
  return demangled.substr(begin, end - begin);
}

}  // namespace nsys_explain
