#pragma once

#include <cstddef>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "report/report.hpp"

/// `nsys-explain-mpi show`: looks into a store without any other program.
namespace nsys_explain::pipeline {

enum class ShowFormat { text, json, csv };

struct ShowRequest {
  std::string store_path;
  /// Empty: what the store holds. "ranks", "collectives", "findings", or any table; "rank" N; "instance" N.
  std::vector<std::string> subject;
  ShowFormat format = ShowFormat::text;
  std::size_t limit = 50;  ///< rows per table; 0: all
  bool colour = false;
  std::optional<report::TimeUnit> time_unit;  ///< empty: each time in the unit that suits it, in JSON and CSV ns
};

/// Prints what was asked for. Returns an ExitCode (job.hpp); problems go to `problems`. Throws nothing.
int show(const ShowRequest& request, std::ostream& out, std::ostream& problems);

}  // namespace nsys_explain::pipeline
