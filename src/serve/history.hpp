#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/report_answers.hpp"

/// Which reports are listed, and in which order: the same for pages, programs and assistants.
namespace nsys_explain::serve {

struct HistoryQuery {
  std::string find;             ///< in name or verdict, without regard to case; empty: all
  std::string job;              ///< only runs of this job; empty: all
  std::string order = "-date";  ///< name, date, saving, severity or step; with '-' the largest, gravest or latest first
  std::size_t limit = 100, offset = 0;
};

/// From `find`, `job`, `order`, `limit` (at most 10,000) and `offset`. Throws Refusal where one means nothing.
HistoryQuery parse_history_query(const std::vector<std::pair<std::string, std::string>>& parameters);

struct History {
  std::vector<Json> summaries;  ///< of this page
  std::size_t matching = 0;     ///< in all
};

/// Equal ones come by name. Those that cannot be read come last.
History history_of(std::vector<Json> summaries, const HistoryQuery& query);

/// What runs of one job have in common: the name without the dates, times and numbers at its end.
/// "llama/2026-11-26T10-00" and "llama/2026-11-27" are runs of "llama", "job42" of "job".
std::string job_of(std::string_view name);

}  // namespace nsys_explain::serve
