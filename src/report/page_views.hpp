#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "nsys_explain/model/job_report.hpp"
#include "nsys_explain/model/table.hpp"
#include "report/report.hpp"

namespace nsys_explain::report {

/// What the pictures of report.html stand on: tables of the report by the same names, summed over trace ranks, or cut
/// to the columns, trace ranks or most telling rows that a picture shows. Their size is bounded by the number of trace
/// ranks, not by what happened on them.
std::vector<Table> page_views(const JobReport& report, const std::map<std::string, LongTable>& long_tables);

/// The trace ranks that stand beside each other in its pictures: all of up to a thousand; else those that are followed,
/// and others evenly among the rest.
std::set<std::int64_t> charted_ranks(const JobReport& report);

}  // namespace nsys_explain::report
