#include "serve/requests.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include <fcntl.h>
#include <fmt/format.h>

#include "model/text.hpp"
#include "serve/refusal.hpp"
#include "serve/report_tree.hpp"

namespace nsys_explain::serve {
std::string beginning_of(std::string_view text, std::size_t longest) {
  if (text.size() <= longest) return std::string(text);
  std::size_t end = longest;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return std::string(text.substr(0, end)) + "...";
}

Refusal refusal_of(int status, std::string_view sentence) {
  const std::size_t advice = sentence.rfind("; ");
  const std::string_view rest = sentence.substr(0, advice);
  const std::size_t reason = rest.find(", so ");
  const auto part = [](std::string_view text, std::size_t at, std::size_t skipped) {
    return at == std::string_view::npos ? std::string() : std::string(text.substr(at + skipped));
  };
  return {status, std::string(rest.substr(0, reason)), part(rest, reason, 2), part(sentence, advice, 2)};
}

std::string error_json(const Refusal& refusal) {
  const nlohmann::ordered_json error = {
      {"error", {{"problem", refusal.problem()}, {"why", refusal.why()}, {"what_to_do", refusal.what_to_do()}}}};
  return error.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n';
}

namespace {

bool is_number(std::string_view text, int most) {
  const auto number = integer_of<int>(text);
  return number && *number >= 0 && *number <= most;
}

char small(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

/// Names of hosts have no case (RFC 9110, 4.2.3).
bool is_same_name(std::string_view one, std::string_view other) {
  return std::equal(one.begin(), one.end(), other.begin(), other.end(),
                    [](char a, char b) { return small(a) == small(b); });
}

/// Four numbers, the first 127.
bool is_loopback_v4(std::string_view address) {
  int parts = 0;
  bool is_first_right = false;
  while (true) {
    const std::size_t end = std::min(address.find('.'), address.size());
    if (!is_number(address.substr(0, end), 255)) return false;
    if (parts++ == 0) is_first_right = address.substr(0, end) == "127";
    if (end == address.size()) return parts == 4 && is_first_right;
    address.remove_prefix(end + 1);
  }
}

}  // namespace

std::pair<std::string, int> parse_address(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  std::string address = text.substr(0, std::min(colon, text.size()));
  const std::string port = colon == std::string::npos ? "" : text.substr(colon + 1);
  const bool is_long = address.size() > 2 && address.front() == '[' && address.back() == ']';
  if (is_long) address = address.substr(1, address.size() - 2);
  if (address.empty() || !is_number(port, 65'535) || (!is_long && address.find(':') != std::string::npos)) {
    throw Refusal(2, fmt::format("'{}' is no address to listen at", text), "so nobody could ask",
                  "say e.g. 127.0.0.1:8750 or [::1]:8750");
  }
  return {address, std::stoi(port)};
}

bool is_loopback(std::string_view address) {
  return is_same_name(address, "localhost") || address == "::1" || is_loopback_v4(address);
}

bool is_loopback_host(std::string_view host) {
  if (host.starts_with('[')) {
    const std::size_t end = host.find(']');
    return end != std::string_view::npos && is_loopback(host.substr(1, end - 1)) &&
           (end + 1 == host.size() || (host[end + 1] == ':' && is_number(host.substr(end + 2), 65'535)));
  }
  const std::size_t colon = host.find(':');
  return is_loopback(host.substr(0, colon)) &&
         (colon == std::string_view::npos || is_number(host.substr(colon + 1), 65'535));
}

bool is_own_origin(std::string_view origin, std::string_view host, std::string_view fetch_site) {
  if (fetch_site == "cross-site" || fetch_site == "same-site") return false;
  if (origin.empty()) return true;
  const std::size_t name = origin.find("://");
  return name != std::string_view::npos && !host.empty() && is_same_name(origin.substr(name + 3), host);
}

std::string plain_media_type(std::string_view content_type) {
  std::string plain;
  bool is_value = false, is_quoted = false;
  for (const char c : content_type) {
    plain += is_value ? c : small(c);
    if (c == '"') is_quoted = !is_quoted;
    if (!is_quoted && (c == '=' || c == ';')) is_value = c == '=';
  }
  return plain;
}

bool is_json_type(std::string_view content_type) {
  std::string_view type = content_type.substr(0, content_type.find(';'));
  while (type.ends_with(' ')) type.remove_suffix(1);
  return type == "application/json";
}

namespace {

constexpr std::size_t most_parts = 64;  ///< far above what any of our own links has

Refusal unreadable(std::string_view what) {
  return {400, fmt::format("the address holds {}", what), "so nobody can tell what is asked for",
          "escape each name in it as %XX; /openapi.json lists the addresses"};
}

int hex_value(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  return -1;
}

std::string unescaped(std::string_view text, bool plus_is_space) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      const int high = i + 2 < text.size() ? hex_value(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? hex_value(text[i + 2]) : -1;
      if (high < 0 || low < 0) throw unreadable("a broken escape");
      c = static_cast<char>(high * 16 + low);
      i += 2;
    } else if (c == '+' && plus_is_space) {
      c = ' ';
    }
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) throw unreadable("a control character");
    plain += c;
  }
  return plain;
}

/// Calls `part` with each of what lies between separators.
template <class Part>
void split(std::string_view text, char separator, const Part& part) {
  std::size_t parts = 0;
  while (true) {
    if (++parts > most_parts) throw unreadable("too many parts");
    const std::size_t end = text.find(separator);
    part(text.substr(0, end));
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
}

}  // namespace

std::string Target::parameter(std::string_view name) const {
  const auto found =
      std::find_if(parameters.rbegin(), parameters.rend(), [&](const auto& p) { return p.first == name; });
  return found == parameters.rend() ? std::string() : found->second;
}

Target parse_target(std::string_view text) {
  if (!text.starts_with('/')) throw unreadable("no path");
  Target target;
  text = text.substr(0, text.find('#'));
  const std::size_t question = text.find('?');
  const std::string_view path = text.substr(1, question == std::string_view::npos ? question : question - 1);
  if (!path.empty())
    split(path, '/', [&](std::string_view part) { target.segments.push_back(unescaped(part, false)); });
  // A slash at the end means the same.
  if (!target.segments.empty() && target.segments.back().empty()) target.segments.pop_back();
  if (question == std::string_view::npos) return target;
  split(text.substr(question + 1), '&', [&](std::string_view part) {
    if (part.empty()) return;
    const std::size_t equals = part.find('=');
    const std::string_view value = equals == std::string_view::npos ? "" : part.substr(equals + 1);
    target.parameters.emplace_back(unescaped(part.substr(0, equals), true), unescaped(value, true));
  });
  return target;
}

std::string escaped(std::string_view text) {
  constexpr std::string_view plain = "-._~";
  std::string out;
  for (const char c : text) {
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    out += is_letter || plain.find(c) != std::string_view::npos ? std::string(1, c)
                                                                : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

std::string html_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

namespace {

constexpr std::size_t shortest_token = 16;
constexpr std::int64_t most_token_bytes = 1'000;

bool is_equal(std::string_view given, std::string_view token) {
  unsigned difference = given.size() == token.size() ? 0 : 1;
  for (std::size_t i = 0; i < given.size(); ++i)
    difference |= static_cast<unsigned char>(given[i]) ^ static_cast<unsigned char>(token[i % token.size()]);
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
  if (token.size() < shortest_token || !is_plain)
    throw refuse(fmt::format("holds no token of {} characters or more without spaces", shortest_token));
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
