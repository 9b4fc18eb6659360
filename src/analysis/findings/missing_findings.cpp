#include "analysis/findings/findings.hpp"

#include <algorithm>

#include <fmt/ranges.h>

#include "analysis/findings/finding_parts.hpp"
#include "model/schema/gpu.hpp"

namespace nsys_explain::analysis {

// Libraries run no kernel for a group of one, but to send to oneself.
std::int64_t collectives_alone(const JobReport& report) {
  const Table* const kernels = find_table(report.tables, schema::kernels);
  const bool is_told = std::any_of(report.communicators.begin(), report.communicators.end(), [](const auto& one) {
    return one.evidence == Evidence::nccl_payload;  // by its size
  });
  if (kernels == nullptr || report.ranks.size() != 1 || is_told) return 0;
  const auto& communication = column(*kernels, schema::kernels.communication);
  std::int64_t collectives = 0;
  for (std::size_t i = 0; i < communication.size(); ++i) {
    const std::string name = column(*kernels, schema::kernels.name)[i];
    if (communication[i] != 0 && name.find("SendRecv") == std::string::npos)
      collectives += column(*kernels, schema::kernels.durations.count)[i];
  }
  return collectives;
}

namespace {

std::int64_t absent_members(const CommunicatorSummary& communicator) {
  return communicator.size - static_cast<std::int64_t>(communicator.trace_ranks.size());
}

bool is_member(const CommunicatorSummary& communicator, std::int32_t trace_rank) {
  return std::binary_search(communicator.trace_ranks.begin(), communicator.trace_ranks.end(), trace_rank);
}

/// Trace ranks that communicate, and that a communicator of as many members as there are trace ranks lacks, or that are
/// in no collective at all: no trace is missing, but what tells whom they belong to. Ascending.
std::vector<std::int32_t> unplaced_ranks(const JobReport& report) {
  std::vector<std::int32_t> unplaced;
  for (const RankSummary& rank : report.ranks) {
    bool is_placed = false, is_lacking = false;
    for (const CommunicatorSummary& communicator : report.communicators) {
      const bool has_it = is_member(communicator, rank.trace_rank);
      is_placed = is_placed || (has_it && communicator.instances > 0);
      is_lacking = is_lacking || (!has_it && communicator.size == std::ssize(report.ranks));
    }
    if (rank.budget.communication_ns > 0 && (!is_placed || is_lacking)) unplaced.push_back(rank.trace_rank);
  }
  return unplaced;
}

struct MissingRanks {
  std::int64_t count = 0;
  std::int64_t of = 0;                ///< all ranks of the job; 0: not known
  std::vector<std::int32_t> numbers;  ///< empty: not known, or too many to be named
};
constexpr std::int64_t most_missing_named = 8;

/// The size of the job, or of a communicator of the whole job, tells how many there are; gaps in numbers that do not
/// rest on the order of files tell which.
MissingRanks missing_ranks(const JobReport& report) {
  std::int64_t most_absent = 0, largest = report.world_size;
  for (const CommunicatorSummary& communicator : report.communicators) {
    most_absent = std::max(most_absent, absent_members(communicator));
    largest = std::max<std::int64_t>(largest, communicator.size);
  }
  MissingRanks missing;
  const auto& ranks = report.trace_ranks;
  if (most_absent == 0 && largest <= std::ssize(ranks)) {
    missing.count = collectives_alone(report) > 0 ? 1 : 0;
    return missing;
  }
  const bool numbered = !ranks.empty() && std::none_of(ranks.begin(), ranks.end(), [](const TraceRankIdentity& rank) {
    return rank.rank_source == RankSource::file_order;
  });
  const std::int64_t all = std::max<std::int64_t>(largest, numbered ? std::int64_t{ranks.back().trace_rank} + 1 : 0);
  if (all <= std::ssize(ranks)) {
    missing.count = most_absent;
    return missing;
  }
  missing.of = all;
  missing.count = all - std::ssize(ranks);
  if (!numbered || missing.count > most_missing_named)
    return missing;  // a wrong number, as a date in a file name, can be huge
  for (std::int32_t number = 0; number < all; ++number)
    if (std::none_of(ranks.begin(), ranks.end(), [&](const auto& rank) { return rank.trace_rank == number; }))
      missing.numbers.push_back(number);
  return missing;
}

/// "1 of 8 ranks (rank 5)", "at least 2 ranks".
std::string name_missing(const MissingRanks& missing) {
  const char* const plural = missing.count == 1 ? "" : "s";
  if (missing.of == 0) return fmt::format("at least {} rank{}", missing.count, plural);
  std::string text = fmt::format("{} of {} ranks", missing.count, missing.of);
  if (!missing.numbers.empty() && std::ssize(missing.numbers) <= most_missing_named)
    text += fmt::format(" (rank{} {})", plural, fmt::join(missing.numbers, ", "));
  return text;
}

/// "all 100 collectives lack it, so who is late cannot be seen".
std::string what_it_hides(const JobReport& report, std::string_view them, bool somebody_is_late) {
  const std::string_view what = somebody_is_late       ? "who is later still may be missing here"
                                : report.complete == 0 ? "who is late cannot be seen"
                                                       : "who is late in these cannot be seen";
  const std::int64_t alone = report.unmatched_arrivals + report.withheld_arrivals;
  if (report.instances == 0 && alone == 0) return std::string(what);
  const std::string lacking =
      report.instances == 0  ? fmt::format("all {} communication kernels", alone)
      : report.complete == 0 ? fmt::format("all {} collectives", report.partial)
                             : fmt::format("{} of {} collectives", report.partial, report.complete + report.partial);
  return fmt::format("{} lack {}, so {}", lacking, them, what);
}

/// Processes that call NCCL, of which nsys recorded no GPU work.
void tell_untraced(const JobReport& report, bool somebody_is_late, Finding& finding) {
  std::set<std::pair<std::string, std::uint64_t>> traced;
  for (const TraceRankIdentity& rank : report.trace_ranks) traced.emplace(rank.key.path, rank.key.global_pid);
  const std::int64_t untraced = report.untraced_processes;
  finding.title =
      fmt::format("{} of {} processes {} NCCL calls but no GPU work: nsys did not trace their CUDA, so {}", untraced,
                  untraced + std::ssize(traced), untraced == 1 ? "has" : "have",
                  somebody_is_late ? "who is later still may be missing here" : "who is late cannot be seen");
  finding.evidence.emplace_back("their NVTX ranges of NCCL are in the exports, their kernels and CUDA calls are not");
  for (const InputReport& input : report.inputs)
    if (input.status == InputStatus::degraded) finding.evidence.push_back(input.message);
  finding.recommendation =
      "let nsys trace the CUDA of all processes: give it --trace-fork-before-exec=true, start the workers by spawn rather than fork, or run each rank under a separate nsys";
}

/// Trace ranks of which nothing tells whose collectives are theirs.
void tell_unplaced(const JobReport& report, std::span<const std::int32_t> unplaced, bool somebody_is_late,
                   Finding& finding) {
  finding.title = fmt::format("nothing tells the communicator of {}: {}", trace_ranks_text(unplaced),
                              what_it_hides(report, unplaced.size() == 1 ? "it" : "them", somebody_is_late));
  for (const TraceRankIdentity& rank : report.trace_ranks) {
    if (!std::binary_search(unplaced.begin(), unplaced.end(), rank.trace_rank)) continue;
    const auto input = std::find_if(report.inputs.begin(), report.inputs.end(),
                                    [&](const InputReport& one) { return one.path == rank.key.path; });
    if (input != report.inputs.end() && !input->message.empty()) finding.evidence.push_back(input->message);
  }
  finding.evidence.emplace_back("rows: communicators with fewer ranks than their size");
  finding.recommendation =
      "export these reports again with all tables: nsys export --type sqlite --include-blobs=true --include-json=true REPORT.nsys-rep; if something is missing still, capture all ranks alike (-t cuda,nvtx)";
}

}  // namespace

bool waiting_is_known(const JobReport& report) {
  return report.instances > 0 && 2 * report.complete >= report.instances && 2 * report.unjudged <= report.instances;
}

std::optional<Finding> find_missing_ranks(const JobReport& report, bool somebody_is_late) {
  if (report.trace_ranks.empty()) return std::nullopt;  // no input holds GPU work: more inputs would not help
  const MissingRanks missing = missing_ranks(report);
  if (missing.count == 0 && report.untraced_processes == 0) return std::nullopt;
  Finding finding;
  finding.id = "missing-ranks";
  finding.severity = somebody_is_late || report.complete > 0 ? FindingSeverity::medium : FindingSeverity::high;
  if (report.untraced_processes > 0) {
    tell_untraced(report, somebody_is_late, finding);
    return finding;
  }
  const std::vector<std::int32_t> unplaced = unplaced_ranks(report);
  if (missing.of == 0 && report.instances > 0 && !unplaced.empty()) {
    tell_unplaced(report, unplaced, somebody_is_late, finding);
    return finding;
  }
  finding.title = fmt::format("{} {} no trace: {}", name_missing(missing), missing.count == 1 ? "has" : "have",
                              what_it_hides(report, missing.count == 1 ? "it" : "them", somebody_is_late));
  finding.evidence.emplace_back(
      report.world_size > std::ssize(report.trace_ranks)
          ? fmt::format("the traces tell of a job of {} ranks (size of its largest communicator, else WORLD_SIZE)",
                        report.world_size)
      : report.instances == 0 ? "its communication kernels run in groups of two members and more (table kernels)"
                              : "rows: communicators with fewer ranks than their size");
  for (const InputReport& input : report.inputs)
    if (input.status == InputStatus::failed)
      finding.evidence.push_back(fmt::format("{} failed: {}", input.path, input.message));
  finding.recommendation = "capture and give the traces of all ranks; --require-ranks N lets a run with fewer fail";
  return finding;
}

namespace {

/// What a GPU did in all; an opaque graph counts as work.
Nanoseconds busy_ns(const Budget& budget) {
  return budget.window_ns - budget.idle_ns;
}

}  // namespace

std::optional<HeaviestKernel> heaviest_kernel(const JobReport& report) {
  const Table* const kernels = find_table(report.tables, schema::kernels);
  if (kernels == nullptr) return std::nullopt;
  std::map<std::string, HeaviestKernel> by_name;
  for (std::size_t row = 0; row < kernels->row_count(); ++row) {
    if (column(*kernels, schema::kernels.communication)[row] != 0) continue;
    HeaviestKernel& kernel = by_name[std::string(column(*kernels, schema::kernels.name)[row])];
    kernel.total_ns += column(*kernels, schema::kernels.durations.total)[row];
    kernel.count += column(*kernels, schema::kernels.durations.count)[row];
  }
  const auto most = std::max_element(by_name.begin(), by_name.end(), [](const auto& a, const auto& b) {
    return a.second.total_ns < b.second.total_ns;
  });
  if (most == by_name.end()) return std::nullopt;
  most->second.name = most->first;
  most->second.share = share(most->second.total_ns, windows_of(report).ranks_ns);
  return most->second;
}

void judge_short_capture(const JobReport& report, std::vector<Finding>& findings) {
  // Loading a module or making a context alone takes milliseconds of the host.
  constexpr Nanoseconds least_work_ns = 1'000'000;
  if (report.ranks.empty()) return;
  const Budget& busiest = std::max_element(report.ranks.begin(), report.ranks.end(), [](const auto& a, const auto& b) {
                            return busy_ns(a.budget) < busy_ns(b.budget);
                          })->budget;
  if (busy_ns(busiest) >= least_work_ns) return;
  for (Finding& finding : findings) finding.severity = std::max(finding.severity, FindingSeverity::low);
  findings.insert(
      findings.begin(),
      {.id = "short-capture",
       .severity = FindingSeverity::medium,
       .title = fmt::format("the capture holds {} of GPU work in {}: it shows how the program starts, not how it runs",
                            duration_text(busy_ns(busiest)), duration_text(busiest.window_ns)),
       .evidence = {"rows: ranks (window_ns, idle_ns)"},
       .recommendation =
           "capture a later and longer part: several steps after warm-up (nsys profile --delay, or --capture-range=cudaProfilerApi)"});
}

}  // namespace nsys_explain::analysis
