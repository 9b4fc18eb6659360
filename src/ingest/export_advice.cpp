#include "ingest/export_advice.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "model/shell_quoted.hpp"

namespace nsys_explain::ingest {
namespace {

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
  return fmt::format(
      "run `nsys export --type sqlite --include-blobs=true --include-json=true {}{}`{}", overwrite,
      shell_quoted(report),
      nsys_is_on_path()
          ? instead
          : " where Nsight Systems is installed (nsys is not on the PATH here; --nsys-command PROGRAM takes another one)");
}

}  // namespace nsys_explain::ingest
