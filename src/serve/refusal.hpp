#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

namespace nsys_explain::serve {

/// What somebody sent, as far as an answer repeats it: its beginning, not within a character.
std::string beginning_of(std::string_view text, std::size_t longest = 200);

/// Why something that was asked for is not done: in the words of the command line, with HTTP's number for its kind.
class Refusal : public std::runtime_error {
 public:
  Refusal(int status, std::string problem, std::string why, std::string what_to_do)
      : std::runtime_error(problem + ", " + why + "; " + what_to_do),
        status_(status),
        problem_(std::move(problem)),
        why_(std::move(why)),
        what_to_do_(std::move(what_to_do)) {}
  int status() const { return status_; }
  const std::string& problem() const { return problem_; }
  const std::string& why() const { return why_; }
  const std::string& what_to_do() const { return what_to_do_; }

 private:
  int status_;
  std::string problem_, why_, what_to_do_;
};

/// A sentence of the command line, "problem, why it matters; what to do", taken apart.
Refusal refusal_of(int status, std::string_view sentence);

/// {"error": {"problem", "why", "what_to_do"}}
std::string error_json(const Refusal& refusal);

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
