#include "serve/request_checks.hpp"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "serve/refusal.hpp"

namespace nsys_explain::serve {
namespace {

bool is_number(std::string_view text, int most) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number >= 0 && number <= most;
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

}  // namespace nsys_explain::serve
