#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace nsys_explain::serve {

/// JSON that somebody sent; discarded where it is none, or nested deeper than anything that has a meaning here: it is
/// copied and written by functions that call themselves.
inline nlohmann::ordered_json parse_foreign_json(const std::string& text) {
  constexpr int deepest = 32;
  struct TooDeep {};
  try {
    return nlohmann::ordered_json::parse(
        text,
        [](int depth, nlohmann::ordered_json::parse_event_t, nlohmann::ordered_json&) {
          if (depth > deepest) throw TooDeep();
          return true;
        },
        false);
  } catch (const TooDeep&) {
    return nlohmann::ordered_json(nlohmann::ordered_json::value_t::discarded);
  }
}

}  // namespace nsys_explain::serve
