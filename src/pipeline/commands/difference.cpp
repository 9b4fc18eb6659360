#include "pipeline/commands/difference.hpp"

#include <limits>
#include <ostream>
#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "analysis/compare/table_difference.hpp"
#include "pipeline/run/job.hpp"
#include "pipeline/run/own_process.hpp"
#include "report/report.hpp"
#include "report/table_text.hpp"
#include "store/store_reader.hpp"

namespace nsys_explain::pipeline {
namespace {

Rename parse_rename(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    throw std::invalid_argument(fmt::format(
        "--rename '{}' is not PATTERN=REPLACEMENT, so names cannot be made alike by it; write e.g. '_sm[0-9]+=_sm'",
        text));
  try {
    return Rename(text.substr(0, equals), text.substr(equals + 1));
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(fmt::format(
        "--rename '{}' is no rule ({}), so names cannot be made alike by it; correct it", text, error.what()));
  }
}

Table read_table(const std::string& path, const std::string& name) {
  const store::StoreReader store(path);
  if (!store.has_table(name))
    throw std::invalid_argument(fmt::format("{} has no table '{}', so there is nothing to compare; its tables are: {}",
                                            path, name, fmt::join(store.table_names(), ", ")));
  return store.read(name);
}

}  // namespace

int difference(const DiffRequest& request, std::ostream& out, std::ostream& problems) {
  try {
    analysis::DifferenceRequest wanted;
    wanted.by = request.by;
    wanted.values = request.columns;
    for (const std::string& text : request.renames) wanted.renames.push_back(parse_rename(text));
    const Table all = analysis::table_difference(read_table(request.before_path, request.table),
                                                 read_table(request.after_path, request.table), wanted);
    const std::size_t limit = request.limit == 0 ? std::numeric_limits<std::size_t>::max() : request.limit;
    const Table shown = report::first_rows(all, limit);
    switch (request.format) {
      case ShowFormat::json:
        out << report::table_json(shown);
        break;
      case ShowFormat::csv:
        out << report::csv_header(shown.schema) << report::csv_rows(shown);
        break;
      case ShowFormat::text:
        out << report::table_text(shown, {request.colour, 60});
        if (all.row_count() > limit)
          out << fmt::format("... and {} more; --limit 0 shows all\n", all.row_count() - limit);
        break;
    }
    return all_analysed;
  } catch (const std::invalid_argument& error) {
    problems << "nsys-explain-mpi diff: " << error.what() << '\n';
    return wrong_usage;
  } catch (const std::exception& error) {
    problems << "nsys-explain-mpi diff: " << sentence_of(error) << '\n';
    return nothing_analysed;
  }
}

}  // namespace nsys_explain::pipeline
