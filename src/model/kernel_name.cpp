#include "model/kernel_name.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "nsys_explain/model/range_name.hpp"

namespace nsys_explain {

namespace {

/// As many characters as a name in brackets has there that stands for none; 0: it does not.
std::size_t unnamed_at(std::string_view text) {
  constexpr std::array<std::string_view, 2> unnamed{"(anonymous namespace)", "<unnamed>"};
  const auto* const found =
      std::find_if(unnamed.begin(), unnamed.end(), [&](std::string_view name) { return text.starts_with(name); });
  return found == unnamed.end() ? 0 : found->size();
}

/// Behind the type that it returns, whatever lists that type has: "std::enable_if<(sizeof(T)>2), void>::type f<T>(T)".
std::size_t begin_of_name(std::string_view demangled) {
  std::size_t begin = 0, at = 0;
  std::vector<char> open;
  while (at < demangled.size()) {
    const char c = demangled[at];
    if (const std::size_t unnamed = unnamed_at(demangled.substr(at)); unnamed > 0) {
      at += unnamed;
      continue;
    }
    if (c == '(' && open.empty()) break;
    if (c == '(' || (c == '<' && (open.empty() || open.back() == '<'))) open.push_back(c);
    if ((c == ')' && !open.empty() && open.back() == '(') || (c == '>' && !open.empty() && open.back() == '<'))
      open.pop_back();
    ++at;
    if (c == ' ' && open.empty()) begin = at;
  }
  return begin;
}

}  // namespace

std::string_view function_name(std::string_view demangled) {
  const std::size_t begin = begin_of_name(demangled);
  std::size_t end = begin;
  while (end < demangled.size()) {
    const std::size_t unnamed = unnamed_at(demangled.substr(end));
    if (unnamed == 0 && (demangled[end] == '(' || demangled[end] == '<')) break;
    end += std::max<std::size_t>(unnamed, 1);
  }
  return demangled.substr(begin, end - begin);
}

std::string_view range_name(std::string_view label) {
  for (std::size_t at = label.find(',', 1); at != std::string_view::npos; at = label.find(',', at + 1)) {
    for (const std::string_view mark : {", op_id = ", ", seq = ", ", sizes = ["}) {
      if (label.substr(at).starts_with(mark)) return label.substr(0, at);
    }
  }
  return label;
}

}  // namespace nsys_explain
