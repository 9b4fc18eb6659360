#include "ingest/export_input.hpp"

#include "ingest/export_report.hpp"
#include "ingest/kineto/export_kineto.hpp"

namespace nsys_explain::ingest {

bool needs_export(std::string_view path) {
  return is_report_name(path) || is_kineto_name(path);
}

ExportedInput export_input(const std::string& input, const std::string& directory, const std::string& nsys) {
  if (is_report_name(input)) return {export_report(input, directory, nsys), {}};
  ExportedInput result{directory + "/export.sqlite", {}};
  result.warnings = export_kineto(input, result.path);
  return result;
}

}  // namespace nsys_explain::ingest
