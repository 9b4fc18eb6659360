#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/causes/attributed_time.hpp"
#include "nsys_explain/model/job_report.hpp"

/// What findings about idle time, copies and calls leave to those about who is late.
namespace nsys_explain::analysis {

/// What straggler findings report already of something: by how much the late have more of it than is usual.
struct LatePart {
  LateRanks ranks;
  Nanoseconds time_ns = 0;

  /// For a title, and for its evidence.
  std::string_view beside() const;
  void add_to(std::vector<std::string>& evidence) const;
};

/// Windows of all trace ranks, and of all processes: each counts once, with its longest trace rank.
struct Windows {
  Nanoseconds ranks_ns = 0, processes_ns = 0;
  std::size_t processes = 0;
};

Windows windows_of(const JobReport& report);

/// "1, 2, 5 and 3 more".
std::string rank_list(const std::vector<std::int32_t>& ranks);

}  // namespace nsys_explain::analysis
