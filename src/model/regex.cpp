#include "nsys_explain/model/regex.hpp"

#include <stdexcept>

#include <re2/re2.h>

namespace nsys_explain {
namespace {

re2::RE2::Options quiet_options() {
  re2::RE2::Options options;
  options.set_log_errors(false);  // to stderr, from every tool rank
  return options;
}

re2::StringPiece piece(std::string_view text) {
  return {text.data(), text.size()};
}

std::string problem_of(const re2::RE2& compiled) {
  switch (compiled.error_code()) {
    case re2::RE2::ErrorBadPerlOp:
    case re2::RE2::ErrorBadEscape:
      return compiled.error() + "; RE2 reads it, whose syntax has no lookaround, no backreferences, no \\u and no \\c";
    default:
      return compiled.error();
  }
}

}  // namespace

Regex::Regex(std::string_view expression)
    : compiled_(std::make_shared<const re2::RE2>(piece(expression), quiet_options())) {
  if (!compiled_->ok()) throw std::invalid_argument(problem_of(*compiled_));
}

const std::string& Regex::text() const {
  return compiled_->pattern();
}

int Regex::group_count() const {
  return compiled_->NumberOfCapturingGroups();
}

bool Regex::occurs_in(std::string_view text) const {
  return re2::RE2::PartialMatch(piece(text), *compiled_);
}

std::optional<Regex::Match> Regex::find(std::string_view text) const {
  re2::StringPiece groups[2];
  const int wanted = group_count() > 0 ? 2 : 1;
  if (!compiled_->Match(piece(text), 0, text.size(), re2::RE2::UNANCHORED, groups, wanted)) return std::nullopt;
  if (groups[1].data() == nullptr) return Match{};
  return Match{std::string_view(groups[1].data(), groups[1].size())};
}

}  // namespace nsys_explain
