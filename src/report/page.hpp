#pragma once

#include <nlohmann/json.hpp>

#include "nsys_explain/model/report_detail.hpp"
#include "report/report.hpp"

/// What report.html is made of.
namespace nsys_explain::report {

// The page around the data of report.html, made from src/report/html at build time. Empty where the tool was built
// without npm.

std::string_view page_before_data();
std::string_view page_after_data();

/// Texts of the page are cut there: a mangled name can have thousands of characters.
std::string shortened(const std::string& text);

/// The moments as the page reads them: names once for all, and of each trace rank a row per track and lane, whose
/// starts count from the start before (the first from the window's), so that an event takes some 16 characters.
nlohmann::ordered_json moments_json(const std::vector<Moment>& moments);

/// What the pictures of report.html stand on: tables of the report by the same names, summed over trace ranks, or cut
/// to the columns, trace ranks or most telling rows that a picture shows. Their size is bounded by the number of trace
/// ranks, not by what happened on them.
std::vector<Table> page_views(const JobReport& report, const std::map<std::string, LongTable>& long_tables);

/// The trace ranks that stand beside each other in its pictures: all of up to a thousand; else those that are followed,
/// and others evenly among the rest.
std::set<std::int64_t> charted_ranks(const JobReport& report);

}  // namespace nsys_explain::report
