#pragma once

#include "analysis/trace/rank_events.hpp"
#include "nsys_explain/model/job_report.hpp"
#include "nsys_explain/model/shown_table.hpp"

/// A question is one file here: NAME.cpp defines `Question questions::NAME()`. Its table, how people see it, and what
/// is wrong about it stand together; the build lists all files of this folder.
namespace nsys_explain::analysis {

struct Question {
  ShownTable shown;
  /// The table of one trace rank; null where an analysis that makes several makes it, too.
  Table (*rows)(const RankEvents&) = nullptr;
  bool of_hosts = false;  ///< of a process without GPU work, too
  /// Adds what is wrong about the job. Reads everything of the report but `findings` and the tables that sum it up.
  /// Null: nothing can be.
  void (*find)(const JobReport&, std::vector<Finding>&) = nullptr;
};

/// All of them, by name.
const std::vector<Question>& all_questions();

}  // namespace nsys_explain::analysis
