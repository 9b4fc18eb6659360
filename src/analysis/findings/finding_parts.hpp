#pragma once

#include <fmt/format.h>

#include "analysis/causes/causes.hpp"
#include "nsys_explain/model/time.hpp"

/// What several findings say.
namespace nsys_explain::analysis {

// How findings speak of sizes: the same words in all of them.

inline double seconds(Nanoseconds duration_ns) {
  return static_cast<double>(duration_ns) * 1e-9;
}

/// Time summed over GPUs, in a unit in which it is not all zeros: "2.558 GPU-seconds", "31.250 ms of GPU time".
inline std::string gpu_time(Nanoseconds duration_ns) {
  const auto ns = static_cast<double>(duration_ns);
  if (duration_ns >= 100'000'000) return fmt::format("{:.3f} GPU-seconds", ns * 1e-9);
  return duration_ns >= 100'000 ? fmt::format("{:.3f} ms of GPU time", ns * 1e-6)
                                : fmt::format("{:.3f} us of GPU time", ns * 1e-3);
}

/// A part of it beside the whole, in one unit: "0.049 of 0.599 GPU-seconds", "0.012 of 6.123 ms of GPU time".
inline std::string gpu_time_of(Nanoseconds part_ns, Nanoseconds whole_ns) {
  const bool in_seconds = part_ns >= 10'000'000;
  const double scale = in_seconds ? 1e-9 : 1e-6;
  return fmt::format("{:.3f} of {:.3f} {}", static_cast<double>(part_ns) * scale, static_cast<double>(whole_ns) * scale,
                     in_seconds ? "GPU-seconds" : "ms of GPU time");
}

struct TimeUnit {
  std::string_view name;
  double ns;
};

/// The largest in which the time is at least 1.
inline TimeUnit unit_of(Nanoseconds time_ns) {
  if (time_ns >= 1'000'000'000) return {"s", 1e9};
  return time_ns >= 1'000'000 ? TimeUnit{"ms", 1e6} : TimeUnit{"us", 1e3};
}

/// Three digits, all of what is above 1: "33.9", "8.14", "1250".
inline std::string in_unit(Nanoseconds time_ns, TimeUnit unit) {
  const double value = static_cast<double>(time_ns) / unit.ns;
  return fmt::format("{:.{}f}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0);
}

inline std::string duration_text(Nanoseconds time_ns) {
  const TimeUnit unit = unit_of(time_ns);
  return fmt::format("{} {}", in_unit(time_ns, unit), unit.name);
}

/// 0 where there is no whole.
template <class Part>
double share(Part part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

/// Shares from which on a finding is high or medium; below it is low. docs/reading-the-report.md has them as a table.
struct SeverityScale {
  double high, medium;
};

/// Of the elapsed time, by replay. Less than 1% is within the error that replays have in tests (docs/accuracy.md).
inline constexpr SeverityScale saved_time{0.05, 0.01};
/// Of the job's GPU time that others wait or transfers lose: nearly all of it is elapsed time.
inline constexpr SeverityScale lost_time{0.05, 0.0125};
/// Of the job's GPU time that equal stages would save: a model is not divided anew for little.
inline constexpr SeverityScale stage_time{0.10, 0.025};
/// Of the job's GPU time, of which mending may save any part.
inline constexpr SeverityScale spent_time{0.20, 0.05};

inline FindingSeverity severity_of(double part, SeverityScale scale = spent_time) {
  if (part >= scale.high) return FindingSeverity::high;
  return part >= scale.medium ? FindingSeverity::medium : FindingSeverity::low;
}

// What findings say alike: who and where, and what mending saves.

/// True of findings about who makes others wait, be it a link.
bool names_who_is_late(const Finding& finding);

/// What to do where the GPU is slow that a trace rank shares with others.
inline constexpr std::string_view advice_for_shared_gpu =
    "compare its share of the GPU with that of the others on it (CUDA_MPS_ACTIVE_THREAD_PERCENTAGE, the MIG slice, how many processes are on it), and see what else runs there (nvidia-smi); clocks and power are the same for all of them";

/// What to do where one GPU is.
inline constexpr std::string_view advice_for_slow_gpu =
    "compare clocks, temperature, power and ECC errors with its peers (nvidia-smi -q -d CLOCK,POWER,TEMPERATURE,PERFORMANCE,ECC); check that no other process uses it; if it stays slow, drain it";

/// What to do where all GPUs of a node are slow.
inline constexpr std::string_view advice_for_slow_node =
    "look at what its GPUs share: power supply and cooling, power limit and clocks that were set on the node (nvidia-smi -q -d CLOCK,POWER,TEMPERATURE,PERFORMANCE), BIOS power profile, other jobs on it (a noisy neighbour); if it stays slow, drain it and repeat the run";

/// "GPU 1 on node001"; empty where the report does not know the trace rank.
std::string place_of(const JobReport& report, std::int32_t trace_rank);

/// Of a GPU as above; "node node001" of a place.
std::string place_of(const JobReport& report, const Straggler& late);

/// "GPU 1 on node001 (rank 5)", "node node001 (all 4 ranks)".
std::string name_and_place(const JobReport& report, const Straggler& late);

/// "rank 5", "ranks 1, 2".
std::string trace_ranks_text(std::span<const std::int32_t> trace_ranks);

/// Of two stragglers and more, as a sentence with a space before it; else empty.
std::string tell_all_mended(const JobReport& report);

/// First characters of a kernel's name: a title must stay readable.
std::string short_kernel_name(std::string_view name);

/// The replay of the job without what the finding tells of these trace ranks; null where there is none.
const WhatIf* what_if_mended(const JobReport& report, std::string_view finding,
                             const std::vector<std::int32_t>& trace_ranks);

/// The replay of the job with the kernels of trace ranks that do alike shared out evenly; null where that saves no
/// more than it does by chance.
const WhatIf* what_if_balanced(const JobReport& report);

/// Less than one decimal of percent tells.
bool saves_nothing(const WhatIf& what_if);

/// The replay of the job without any transfer, waiting apart; null where there is none.
const WhatIf* what_if_hidden(const JobReport& report);

/// "Fixing it shortens a step from 33.9 to 26.6 ms (-21.8%, 95% interval 21.7 to 21.9%)"; of who is hidden behind rank
/// 3: "Fixing it alone saves nothing yet; once rank 3 is fixed, it shortens ..."; of what happened once: "Fixing it
/// saves one pause of 4.10 s (-72.6%)"; of what has no effect: "Fixing it saves nothing".
std::string saving_text(const WhatIf& what_if);

/// Ends the finding's title by what this replay saves, which makes it as severe.
void tell_saving(const WhatIf& mended, Finding& finding);

/// Ends the finding's title by what mending saves, which makes it as severe, where a replay tells:
/// "... Fixing it shortens a step from 33.9 to 26.5 ms (-22.0%, 95% interval 20.1 to 23.9%)". True where one does.
bool tell_saving(const JobReport& report, Finding& finding);

// Why somebody is late, in words, and what to do about it.

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

// What findings about idle time, copies and calls leave to those about who is late.

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
