#include "ingest/export_advice.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "nsys_explain/model/utf8.hpp"

namespace nsys_explain::ingest {
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
  std::string_view instead = ", or add --export";
  constexpr std::string_view sqlite = ".sqlite";
  if (report.ends_with(sqlite)) {
    const std::string stem = report.substr(0, report.size() - sqlite.size());
    report = stem + (!exists(stem + ".nsys-rep") && exists(stem + ".qdrep") ? ".qdrep" : ".nsys-rep");
    overwrite = "--force-overwrite=true ";  // without it nsys keeps the export that is there
    instead = "";                           // an export that exists is what the tool reads
  }
  if (report.starts_with('-')) report.insert(0, "./");
  return fmt::format("run `nsys export --type sqlite --include-blobs=true --include-json=true {}{}`{}", overwrite,
                     shell_quoted(report),
                     nsys_is_on_path() ? instead : " where Nsight Systems is installed (nsys is not on the PATH here)");
}

}  // namespace nsys_explain::ingest
