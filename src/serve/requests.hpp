#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// What a client asks for, and whether it may.
namespace nsys_explain::serve {

/// "127.0.0.1:8750" or "[::1]:8750". Throws Refusal.
std::pair<std::string, int> parse_address(const std::string& text);

/// Whether only this host can reach it.
bool is_loopback(std::string_view address);

/// Whether a header `Host` names this host by itself: another name leads here only where somebody else's name server
/// says so (DNS rebinding).
bool is_loopback_host(std::string_view host);

/// Whether a request that changes something was sent by no page, or by one of this service.
bool is_own_origin(std::string_view origin, std::string_view host, std::string_view fetch_site);

/// A media type with its parameters: names in small letters, values as they are (RFC 9110, 8.3.1).
std::string plain_media_type(std::string_view content_type);

/// Of a plain one.
bool is_json_type(std::string_view content_type);

/// What a request asks for: "/api/v1/reports/a%2Fb/tables?limit=3" is the segments api, v1, reports, a/b, tables and
/// the parameter limit.
struct Target {
  std::vector<std::string> segments;
  std::vector<std::pair<std::string, std::string>> parameters;  ///< in their order; a name may come several times

  /// The last one of that name; empty where there is none.
  std::string parameter(std::string_view name) const;
};

/// Throws Refusal where the text is no target: a broken escape, a control character, too many parts.
Target parse_target(std::string_view text);

/// One segment or value, with all but letters, digits and "-._~" as escapes.
std::string escaped(std::string_view text);

/// Text for HTML, in an element or in a quoted attribute.
std::string html_text(std::string_view text);

/// The token in a file that others cannot read. Throws Refusal.
std::string read_token(const std::string& path);

/// Whether a header `Authorization` carries the token: "Bearer TOKEN", or as the password of "Basic". Takes as long
/// for any token of a length.
bool is_authorised(std::string_view header, std::string_view token);

}  // namespace nsys_explain::serve
