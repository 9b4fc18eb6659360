#include "analysis/findings/missing_findings.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace nsys_explain::analysis {
namespace {

std::int64_t absent_members(const CommunicatorSummary& communicator) {
  return communicator.size - static_cast<std::int64_t>(communicator.trace_ranks.size());
}

struct MissingRanks {
  std::int64_t count = 0;
  std::int64_t of = 0;                ///< all ranks of the job; 0: not known
  std::vector<std::int32_t> numbers;  ///< empty: not known
};

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
  if (most_absent == 0 && largest <= std::ssize(ranks)) return missing;
  const bool numbered = !ranks.empty() && std::none_of(ranks.begin(), ranks.end(), [](const TraceRankIdentity& rank) {
    return rank.rank_source == RankSource::file_order;
  });
  const std::int64_t all = std::max<std::int64_t>(largest, numbered ? ranks.back().trace_rank + 1 : 0);
  if (all <= std::ssize(ranks)) {
    missing.count = most_absent;
    return missing;
  }
  missing.of = all;
  missing.count = all - std::ssize(ranks);
  for (std::int32_t number = 0; numbered && number < all; ++number)
    if (std::none_of(ranks.begin(), ranks.end(), [&](const auto& rank) { return rank.trace_rank == number; }))
      missing.numbers.push_back(number);
  return missing;
}

/// "1 of 8 ranks (rank 5)", "at least 2 ranks".
std::string name_missing(const MissingRanks& missing) {
  constexpr std::size_t most_named = 8;
  const char* const plural = missing.count == 1 ? "" : "s";
  if (missing.of == 0) return fmt::format("at least {} rank{}", missing.count, plural);
  std::string text = fmt::format("{} of {} ranks", missing.count, missing.of);
  if (!missing.numbers.empty() && missing.numbers.size() <= most_named)
    text += fmt::format(" (rank{} {})", plural, fmt::join(missing.numbers, ", "));
  return text;
}

}  // namespace

bool waiting_is_known(const JobReport& report) {
  return report.instances > 0 && 2 * report.complete >= report.instances && 2 * report.unjudged <= report.instances;
}

std::optional<Finding> find_missing_ranks(const JobReport& report, bool somebody_is_late) {
  if (report.trace_ranks.empty()) return std::nullopt;  // no input holds GPU work: more inputs would not help
  const MissingRanks missing = missing_ranks(report);
  if (missing.count == 0) return std::nullopt;
  Finding finding;
  finding.id = "missing-ranks";
  finding.severity = somebody_is_late || report.complete > 0 ? FindingSeverity::medium : FindingSeverity::high;
  const std::string lacking = report.complete == 0
                                  ? fmt::format("all {}", report.partial)
                                  : fmt::format("{} of {}", report.partial, report.complete + report.partial);
  finding.title = fmt::format("{} {} no trace: {} collectives lack {}, so {}", name_missing(missing),
                              missing.count == 1 ? "has" : "have", lacking, missing.count == 1 ? "it" : "them",
                              somebody_is_late       ? "who is later still may be missing here"
                              : report.complete == 0 ? "who is late cannot be told"
                                                     : "who is late in these cannot be told");
  finding.evidence.emplace_back(
      report.world_size > std::ssize(report.trace_ranks)
          ? fmt::format("the traces tell of a job of {} ranks (size of its largest communicator, else WORLD_SIZE)",
                        report.world_size)
          : "rows: communicators with fewer trace ranks than their size");
  for (const InputReport& input : report.inputs)
    if (input.status == InputStatus::failed)
      finding.evidence.push_back(fmt::format("{} failed: {}", input.path, input.message));
  finding.recommendation = "capture and give the traces of all ranks; --require-ranks N lets a run with fewer fail";
  return finding;
}

}  // namespace nsys_explain::analysis
