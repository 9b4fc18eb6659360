#pragma once

#include <string>
#include <string_view>
#include <utility>

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

}  // namespace nsys_explain::serve
