#pragma once

#include <string>
#include <vector>

#include "serve/answers.hpp"

/// The dashboard: pages made here, which need no script to be read.
namespace nsys_explain::serve {

/// All reports with verdict, saving, ranks and date; what may be started and what runs.
std::string list_page(const std::vector<Json>& summaries, bool takes_analyses);
/// One report: its verdict, its findings, its files.
std::string report_page(const Json& verdict, const Json& findings, const std::vector<std::string>& others);
/// Why there is no such page.
std::string problem_page(const Json& error);

extern const char* const style_sheet;
extern const char* const list_script;

}  // namespace nsys_explain::serve
