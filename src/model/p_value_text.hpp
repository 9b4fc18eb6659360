#pragma once

#include <array>
#include <cstdio>
#include <string>

namespace nsys_explain {

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

}  // namespace nsys_explain
