#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace re2 {
class RE2;
}

/// Names and numbers as people read and write them.
namespace nsys_explain {

/// What a kernel is called in its source: "deep_ep::intranode::dispatch" of "void deep_ep::intranode::dispatch<8,
/// 768>(int4*)". Template and argument lists name what a kernel works on, not what it does.
std::string_view function_name(std::string_view demangled);

/// A file name for messages and command lines: as it is where it is plain, otherwise quoted for a POSIX shell with
/// bash's $'...' for control characters and bytes that are not UTF-8. The result is valid UTF-8 on one line.
std::string shell_quoted(std::string_view name);

/// Takes the part before the next separator off the text, and the separator with it: lines, as a rule.
inline std::string_view next_part(std::string_view& text, char separator = '\n') {
  const std::string_view part = text.substr(0, text.find(separator));
  text.remove_prefix(std::min(part.size() + 1, text.size()));
  return part;
}

/// Of an enumerator, with the names in the order of the enumeration; the last one where there are no more.
template <class Enum>
constexpr std::string_view name_in_order(Enum value, std::initializer_list<std::string_view> names) {
  return names.begin()[std::min(static_cast<std::size_t>(value), names.size() - 1)];
}

/// The whole number that all of the text is; empty: it is none, or does not fit.
template <class Integer = std::int64_t>
std::optional<Integer> integer_of(std::string_view text, int base = 10) {
  Integer number{};
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  return problem == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

/// A chance, the same way wherever people read one: "< 1e-12", "4e-09", "0.031".
inline std::string p_value_text(double p_value) {
  constexpr double smallest = 1e-12;  // below it no assumption of a test holds as exactly
  if (p_value < smallest) return "< 1e-12";
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), p_value < 0.001 ? "%.0e" : "%.3f", p_value);
  return text.data();
}

/// "p < 1e-12", "p = 0.031".
inline std::string p_value_equation(double p_value) {
  const std::string text = p_value_text(p_value);
  return (text.front() == '<' ? "p " : "p = ") + text;
}

/// A rule that makes names alike: every match of a regular expression (regex.hpp) is replaced; \1 to \9 in the
/// replacement are what the groups matched, \0 all of it.
class Rename {
 public:
  /// Throws std::invalid_argument with what is wrong with the expression or the replacement.
  Rename(std::string_view expression, std::string_view replacement);

  std::string of(std::string_view name) const;

 private:
  std::shared_ptr<const re2::RE2> compiled_;
  std::string replacement_;
};

}  // namespace nsys_explain
