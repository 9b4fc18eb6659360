#pragma once

#include <string>
#include <string_view>

#include "nsys_explain/model/job_report.hpp"

/// Why somebody is late, in words, and what to do about it.
namespace nsys_explain::analysis {

/// What to do where work depends on data.
inline constexpr std::string_view advice_for_uneven_work =
    "balance the work: sequence lengths per rank (bucketing, packing, sorting by length), padding, tokens per expert (capacity factor, load-balancing loss, experts per rank)";

/// Of one GPU, or of places that share no more than their part of the program. `host_was_in`: Straggler::host_was_in.
std::string advice_for_one(Cause cause, WorkPart part, const std::string& host_was_in);

/// What GPUs of a node or rack share comes first. Who shares its GPU has no clocks of its own.
std::string advice(const JobReport& report, const Straggler& late);

/// Why, as what follows the subject of a sentence: "sits idle because its host launches late (in collate_batch)".
std::string tell_cause(Cause cause, WorkPart part, std::string_view host_was_in);

/// Likewise, with how much slower a GPU is and in which steps: "runs 1.3 times slower than its peers".
std::string tell_cause(const JobReport& report, const Straggler& late);

}  // namespace nsys_explain::analysis
