#include "nsys_explain/ingest/export_advice.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace nsys_explain::ingest {
namespace {

/// Length of the well-formed UTF-8 sequence at the start of `text` (RFC 3629), 0 if there is none.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const auto continues = [&](std::size_t i, unsigned low = 0x80, unsigned high = 0xBF) {
    return byte(i) >= low && byte(i) <= high;
  };
  const unsigned lead = byte(0);
  if (text.empty()) return 0;
  if (lead < 0x80) return 1;
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

bool is_printable_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const auto first = static_cast<unsigned char>(text.front());
    if (length == 0 || first < 0x20 || first == 0x7F) return false;
    text.remove_prefix(length);
  }
  return true;
}

/// bash's $'...': everything outside printable ASCII as \xHH.
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
      result += fmt::format("\\{:03o}", byte);
    } else {
      result += letter;
    }
  }
  return result + "'";
}

bool nsys_is_on_path() {
  const char* path = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe): nobody changes the environment
  std::string_view rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const std::size_t end = rest.find(':');
    const std::string program = std::string(rest.substr(0, end)) + "/nsys";
    struct stat status {};
    if (::stat(program.c_str(), &status) == 0 && S_ISREG(status.st_mode) && ::access(program.c_str(), X_OK) == 0) {
      return true;
    }
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  return false;
}

bool exists(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0;
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

std::string export_advice(const std::string& path) {
  std::string report = path;
  std::string overwrite;
  constexpr std::string_view sqlite = ".sqlite";
  if (report.ends_with(sqlite)) {
    const std::string stem = report.substr(0, report.size() - sqlite.size());
    report = stem + (!exists(stem + ".nsys-rep") && exists(stem + ".qdrep") ? ".qdrep" : ".nsys-rep");
    overwrite = "--force-overwrite=true ";  // without it nsys keeps the export that is there
  }
  if (report.starts_with('-')) report.insert(0, "./");
  return fmt::format("run `nsys export --type sqlite --include-blobs=true --include-json=true {}{}`{}", overwrite,
                     shell_quoted(report),
                     nsys_is_on_path() ? "" : " where Nsight Systems is installed (nsys is not on the PATH here)");
}

}  // namespace nsys_explain::ingest
