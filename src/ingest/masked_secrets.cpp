#include "ingest/masked_secrets.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

#include <fmt/format.h>

#include "nsys_explain/model/regex.hpp"

namespace nsys_explain::ingest {
namespace {

/// Which of the values that a form finds stay.
enum class Stays : std::uint8_t { none, numbers, plain, without_digits };

/// How secrets are written. The first group of the expression is the secret.
struct Form {
  Regex expression;
  Stays stays;
};

struct Forms {
  std::vector<Form> all;
  Regex any;  ///< whether one of them may be in a text
};

Forms make_forms() {
  const std::string password = "passw(?:or)?d|passwd|passphrase|pwd";
  const std::string token =
      "token|secret|(?:api|access|secret|private|account)[_-]?key(?:[_-]?id)?|credentials?|auth|authorization|jwt|cookie|signature";
  const std::string is = R"(\\*["']?\s*(?:=>?|:)\s*)";
  const std::string quoted = R"(\\*"[^"]*"?|\\*'[^']*'?)";  // up to the end of the quotes, or of the text
  const std::string value = fmt::format("({}|{})", quoted, R"([^\s"',;&:=][^\s"',;&]*)");
  const std::vector<std::pair<std::string, Stays>> expressions = {
      {fmt::format("(?i)(?:{}){}({}|{})", password, is, quoted, R"([^\s"',;&:=](?:,?[^\s"',;&])*)"), Stays::none},
      {fmt::format(R"((?i)(?:{}){}(?:(?:bearer|basic|digest|token)\s+)?{})", token, is, value), Stays::numbers},
      {fmt::format(R"((?i)--[a-z0-9_-]*(?:{}|{})\s+({}|{}))", password, token, quoted, R"([^\s"'-][^\s"']*)"),
       Stays::none},
      {R"((?i)bearer\s+([a-z0-9+/_.~=-]{8,}))", Stays::none},
      {R"(://([^\s/@]+)@)", Stays::none},
      {R"((-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*))", Stays::none},
      // Of Hugging Face, GitHub, npm, AWS, Google; of GitHub, GitLab, OpenAI and others, Slack, NVIDIA, PyPI, Docker.
      {R"((?:^|[^A-Za-z0-9])((?:hf_|gh[opsur]_|npm_|AKIA|ASIA|AIza)[A-Za-z0-9]{16,}))", Stays::without_digits},
      {R"((?:^|[^A-Za-z0-9])((?:github_pat_|glpat-|sk-|xox[abeprs]-|nvapi-|pypi-|dckr_pat_)[A-Za-z0-9_-]{16,}))",
       Stays::without_digits},
      {R"((?:^|[^A-Za-z0-9])(eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_.-]+))", Stays::none},  // JSON Web Tokens
      {fmt::format("(?:^|[^A-Za-z0-9_])[A-Z][A-Z0-9_]+={}", value), Stays::plain},
  };
  std::vector<Form> forms;
  std::string any;
  for (const auto& [expression, stays] : expressions) {
    forms.push_back({Regex(expression), stays});
    any += fmt::format("{}(?:{})", any.empty() ? "" : "|", expression);
  }
  return {std::move(forms), Regex(any)};
}

const Forms& forms() {
  static const Forms all = make_forms();
  return all;
}

/// Also a list, a fraction, a shape, a time.
bool is_number(std::string_view value) {
  return value.find_first_not_of("0123456789.,:/x%+-") == std::string_view::npos && value.front() != 'x';
}

bool has_digit(std::string_view value) {
  return value.find_first_of("0123456789") != std::string_view::npos;
}

/// No token is as short, and hardly one is a word.
bool is_plain(std::string_view value) {
  constexpr std::size_t shortest_token = 8, longest_word = 16;
  const bool is_word = std::all_of(value.begin(), value.end(),
                                   [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; });
  return is_number(value) || value.size() < shortest_token || (is_word && value.size() <= longest_word);
}

std::string_view unquoted(std::string_view value) {
  while (!value.empty() && std::string_view("\\\"'").find(value.front()) != std::string_view::npos)
    value.remove_prefix(1);
  while (!value.empty() && std::string_view("\\\"'").find(value.back()) != std::string_view::npos)
    value.remove_suffix(1);
  return value;
}

/// `value` has no quotes.
bool is_secret(std::string_view value, Stays stays) {
  switch (stays) {
    case Stays::numbers:
      return !is_number(value);
    case Stays::plain:
      return !is_plain(value);
    case Stays::without_digits:
      return has_digit(value);
    case Stays::none:
      break;
  }
  return true;
}

/// Returns whether the text has any.
bool mask_form(const Form& form, std::string& text) {
  std::string masked;
  bool has_any = false;
  std::string_view rest = text;
  while (const auto match = form.expression.find(rest)) {
    const std::string_view value = *match->first_group;
    const auto before = static_cast<std::size_t>(value.data() - rest.data());
    const std::string_view bare = unquoted(value);
    const bool is_one = !bare.empty() && bare != secret_mask && is_secret(bare, form.stays);
    has_any = has_any || is_one;
    masked += rest.substr(0, before);
    masked += is_one ? secret_mask : value;
    rest.remove_prefix(before + value.size());
  }
  masked += rest;
  if (has_any) text = std::move(masked);
  return has_any;
}

}  // namespace

bool mask_secrets(std::string_view text, std::string& masked) {
  if (!forms().any.occurs_in(text)) return false;
  std::string result(text);
  bool has_any = false;
  for (const Form& form : forms().all) has_any = mask_form(form, result) || has_any;
  if (has_any) masked = std::move(result);
  return has_any;
}

std::string without_secrets(std::string text) {
  std::string masked;
  return mask_secrets(text, masked) ? masked : std::move(text);
}

}  // namespace nsys_explain::ingest
