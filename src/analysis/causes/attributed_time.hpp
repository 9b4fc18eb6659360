#pragma once

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <map>
#include <string_view>
#include <vector>

#include "model/schema/declaration.hpp"
#include "nsys_explain/model/job_report.hpp"

/// What findings about those who are late tell, so that no other finding tells it again.
namespace nsys_explain::analysis {

/// Ascending.
using LateRanks = std::vector<std::int32_t>;

/// The stragglers and the suspects: each has a finding with its cause and what to do.
std::vector<const Straggler*> attributed_stragglers(const JobReport& report);

/// The trace ranks of those of them who are late by one of these causes.
LateRanks late_by(const JobReport& report, std::initializer_list<Cause> causes);

bool is_among(const LateRanks& late, std::int64_t trace_rank);

/// By trace rank, all of the report.
using TimeOfRank = std::map<std::int64_t, Nanoseconds>;

/// Sums of a column of times over the rows of a table of the report that count. Empty where there is no such table.
TimeOfRank time_of_ranks(const JobReport& report, const schema::Declaration& table, const schema::Integer& time,
                         const std::function<bool(const Table&, std::size_t row)>& counts);

/// By how much the late have more than is usual: than the (lower) median of all other trace ranks. 0 where there are no
/// others.
Nanoseconds surplus_of(const LateRanks& late, const TimeOfRank& time_ns);

}  // namespace nsys_explain::analysis
