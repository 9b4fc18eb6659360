#pragma once

#include "serve/report_answers.hpp"

/// What an assistant is told. Every figure stands behind the row that holds it: `ranks[5]: wait_ns=1234` is column
/// wait_ns in row 5, from 0, of table ranks in store.h5; `report.json#/verdict: saved_share=0.2` is a value there.
namespace nsys_explain::serve {

/// Tokens that an assistant's model may make of a text: more than any of them does.
std::size_t most_tokens_of(std::string_view text);

inline constexpr std::size_t most_answer_tokens = 2'000;

/// Lines until there is no room left; says what was cut.
class ToolText {
 public:
  /// Returns whether it fitted. Nothing is added after the first line that did not.
  bool add(const std::string& line);
  std::string text() const;

 private:
  std::string text_;
  std::size_t tokens_ = 0;
  bool is_cut_ = false;
};

/// "PLACE: key=value, ..." of an object whose values are no objects; keys that are null are left out.
std::string object_line(const std::string& place, const Json& object, std::size_t longest_text = 400);

/// The answer of a tool that asks one report. Throws Refusal.
std::string tool_answer(Report& report, const std::string& tool, const Json& arguments);

/// The answer of `compare`, from what the command wrote.
std::string compare_tool_answer(const std::string& before, const std::string& after, const Json& comparison);

/// The answer of `reports`.
std::string reports_tool_answer(const History& history, const HistoryQuery& query);

}  // namespace nsys_explain::serve
