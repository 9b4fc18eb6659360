#pragma once

#include <span>
#include <vector>

#include "nsys_explain/model/activity_summary.hpp"
#include "nsys_explain/model/job_report.hpp"
#include "nsys_explain/model/table.hpp"

namespace nsys_explain::analysis {

/// Adds the joined tables of all trace ranks up. `report` gives windows and identities of the trace ranks. Tables that
/// are not there leave their part empty.
ActivitySummary summarise_activity(const std::vector<Table>& tables, const JobReport& report);

/// Rows of the table gpu_speed; empty where it is not among the tables.
std::vector<GpuSpeed> gpu_speeds(const std::vector<Table>& tables);

/// Writes what is known better by now into these rows: p_value and slow, by trace
/// rank. Without such a table, nothing.
void correct_gpu_speeds(std::span<const GpuSpeed> speeds, std::vector<Table>& tables);

}  // namespace nsys_explain::analysis
