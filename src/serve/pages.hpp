#pragma once

#include "serve/answers.hpp"
#include "serve/report_answers.hpp"

/// Pages and files of the service.
namespace nsys_explain::serve {

// The dashboard: pages made here, which need no script to be read.

/// Reports with verdict, saving, step, ranks and date, of one job with its steps over time; what may be started and
/// what runs.
std::string list_page(const History& history, const HistoryQuery& query, bool takes_analyses);
/// One report: its verdict, its findings, its files.
std::string report_page(const Json& verdict, const Json& findings, const std::vector<std::string>& others);
/// A comparison of two reports, with links to what each of them shows over time.
std::string comparison_page(std::string page, const std::string& before, const std::string& after);
/// Why there is no such page.
std::string problem_page(const Json& error);

extern const char* const style_sheet;
extern const char* const list_script;
extern const char* const drop_script;

/// The description of the programming interface.
std::string openapi_json();

}  // namespace nsys_explain::serve
