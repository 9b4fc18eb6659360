#include "model/text.hpp"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include <re2/re2.h>

#include "nsys_explain/model/utf8.hpp"

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
    for (const std::string_view mark : {", op_id = ", ", seq = ", ", sizes = ["})
      if (label.substr(at).starts_with(mark)) return label.substr(0, at);
  }
  return label;
}

namespace {

bool is_printable_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const auto first = static_cast<unsigned char>(text.front());
    if (length == 0 || first < 0x20 || first == 0x7F) return false;
    text.remove_prefix(length);
  }
  return true;
}

/// bash's $'...': everything outside printable ASCII as three octal digits.
std::string ansi_c_quoted(std::string_view name) {
  std::string result = "$'";
  for (const char letter : name) {
    const auto byte = static_cast<unsigned char>(letter);
    if (letter == '\'' || letter == '\\') {
      result += '\\';
      result += letter;
    } else if (letter == '\n') {
      result += "\\n";
    } else if (byte < 0x20 || byte >= 0x7F) {
      // Three octal digits: unlike \xHH, they cannot swallow a digit that follows.
      result += '\\';
      for (const int shift : {6, 3, 0}) result += static_cast<char>('0' + (byte >> shift & 7));
    } else {
      result += letter;
    }
  }
  return result + "'";
}

}  // namespace

std::string shell_quoted(std::string_view name) {
  constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
  if (!name.empty() && name.find_first_not_of(plain) == std::string_view::npos) return std::string(name);
  if (!is_printable_utf8(name)) return ansi_c_quoted(name);
  std::string result = "'";
  for (const char letter : name) {
    if (letter == '\'') {
      result += "'\\''";
    } else {
      result += letter;
    }
  }
  return result + "'";
}

Rename::Rename(std::string_view expression, std::string_view replacement) : replacement_(replacement) {
  re2::RE2::Options options;
  options.set_log_errors(false);
  compiled_ = std::make_shared<const re2::RE2>(re2::StringPiece(expression.data(), expression.size()), options);
  if (!compiled_->ok()) throw std::invalid_argument(compiled_->error());
  std::string error;
  if (!compiled_->CheckRewriteString(replacement_, &error)) throw std::invalid_argument(error);
}

std::string Rename::of(std::string_view name) const {
  std::string renamed(name);
  re2::RE2::GlobalReplace(&renamed, *compiled_, replacement_);
  return renamed;
}

std::size_t utf8_length(std::string_view text) {
  const auto continues = [&](std::size_t i, unsigned low = 0x80, unsigned high = 0xBF) {
    if (i >= text.size()) return false;
    const unsigned byte = static_cast<unsigned char>(text[i]);
    return byte >= low && byte <= high;
  };
  if (text.empty()) return 0;
  const unsigned lead = static_cast<unsigned char>(text.front());
  if (lead < 0x80) return lead == 0 ? 0 : 1;
  if (lead >= 0xC2 && lead <= 0xDF) return continues(1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    // The second byte excludes overlong forms and surrogates.
    const bool second = continues(1, lead == 0xE0 ? 0xA0 : 0x80, lead == 0xED ? 0x9F : 0xBF);
    return second && continues(2) ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const bool second = continues(1, lead == 0xF0 ? 0x90 : 0x80, lead == 0xF4 ? 0x8F : 0xBF);
    return second && continues(2) && continues(3) ? 4 : 0;
  }
  return 0;
}

bool repair_utf8(std::string_view text, std::string& repaired) {
  std::size_t done = 0;
  while (done < text.size()) {
    const std::size_t length = utf8_length(text.substr(done));
    if (length == 0) break;
    done += length;
  }
  if (done == text.size()) return false;
  std::string result(text.substr(0, done));
  while (done < text.size()) {
    const std::size_t length = utf8_length(text.substr(done));
    result += length == 0 ? replacement_character : text.substr(done, length);
    done += std::max<std::size_t>(length, 1);
  }
  repaired = std::move(result);
  return true;
}

std::string valid_utf8(std::string_view text) {
  std::string repaired;
  return repair_utf8(text, repaired) ? repaired : std::string(text);
}

}  // namespace nsys_explain
