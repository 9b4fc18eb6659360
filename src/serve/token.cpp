#include "serve/token.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include "serve/refusal.hpp"
#include "serve/report_tree.hpp"

namespace nsys_explain::serve {
namespace {

constexpr std::size_t shortest_token = 16;
constexpr std::int64_t most_token_bytes = 1'000;

bool is_equal(std::string_view given, std::string_view token) {
  unsigned difference = given.size() == token.size() ? 0 : 1;
  for (std::size_t i = 0; i < given.size(); ++i) {
    difference |= static_cast<unsigned char>(given[i]) ^ static_cast<unsigned char>(token[i % token.size()]);
  }
  return difference == 0;
}

std::optional<std::string> base64_decoded(std::string_view text) {
  constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  unsigned bits = 0;
  int count = 0;
  while (!text.empty() && text.back() == '=') text.remove_suffix(1);
  for (const char c : text) {
    const std::size_t value = letters.find(c);
    if (value == std::string_view::npos) return std::nullopt;
    bits = (bits << 6) | static_cast<unsigned>(value);
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes += static_cast<char>((bits >> count) & 0xff);
    }
  }
  return bytes;
}

/// What follows the scheme, whatever its case; nothing where it is another.
std::optional<std::string_view> after_scheme(std::string_view header, std::string_view scheme) {
  if (header.size() <= scheme.size() || header[scheme.size()] != ' ') return std::nullopt;
  const bool is_same = std::equal(scheme.begin(), scheme.end(), header.begin(),
                                  [](char a, char b) { return a == (b >= 'A' && b <= 'Z' ? b - 'A' + 'a' : b); });
  return is_same ? std::optional(header.substr(scheme.size() + 1)) : std::nullopt;
}

}  // namespace

std::string read_token(const std::string& path) {
  const auto refuse = [&](const std::string& problem) {
    return Refusal(2, fmt::format("the token file {} {}", path, problem), "so the service would be open to others",
                   "make one with: (umask 077; openssl rand -hex 32 > FILE)");
  };
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!file || ::fstat(file.number(), &status) != 0)
    throw refuse(fmt::format("cannot be read: {}", std::strerror(errno)));
  if (!S_ISREG(status.st_mode) || status.st_size > most_token_bytes) throw refuse("is no file with a token");
  // The group may read it: so do systemd's credentials.
  if ((status.st_mode & (S_IWGRP | S_IRWXO)) != 0) throw refuse("can be read or changed by others");
  std::string token = read_all(file.number(), most_token_bytes);
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r')) token.pop_back();
  const bool is_plain = std::all_of(token.begin(), token.end(), [](char c) { return c > ' ' && c < 0x7f; });
  if (token.size() < shortest_token || !is_plain) {
    throw refuse(fmt::format("holds no token of {} characters or more without spaces", shortest_token));
  }
  return token;
}

bool is_authorised(std::string_view header, std::string_view token) {
  if (const auto bearer = after_scheme(header, "bearer")) return is_equal(*bearer, token);
  if (const auto basic = after_scheme(header, "basic")) {
    const auto pair = base64_decoded(*basic);
    const std::size_t colon = pair ? pair->find(':') : std::string::npos;
    return colon != std::string::npos && is_equal(std::string_view(*pair).substr(colon + 1), token);
  }
  return false;
}

}  // namespace nsys_explain::serve
