#include "ingest/rank_resolution.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "model/text.hpp"

namespace nsys_explain::ingest {
namespace {

using Identities = std::vector<TraceRankIdentity>;
using Choices = std::vector<std::optional<RankClaim>>;

constexpr const char* what_to_do = "give the ranks with --rank-map or --rank-regex";

Warning analysis_warning(Severity severity, std::size_t count, std::string message) {
  return {severity, WarningSource::analysis, static_cast<std::int64_t>(count), std::move(message)};
}

std::string kind_name(RankSource source) {
  return std::string(
      name_in_order(source, {"the user's rank map or regex", "the MPI ranks in the trace", "NCCL's payloads",
                             "the environment", "the file names", "the order of the files"}));
}

std::string source_name(const RankClaim& claim) {
  const bool has_detail = claim.source == RankSource::environment || claim.source == RankSource::nccl_payload;
  const std::string kind = kind_name(claim.source);
  return has_detail && !claim.detail.empty() ? fmt::format("{} ({})", kind, claim.detail) : kind;
}

std::string name_of(const TraceRankIdentity& identity) {
  return fmt::format("{} process {} device {}", shell_quoted(identity.key.path), identity.process_id,
                     identity.key.device_id);
}

std::string trace_ranks(std::size_t count) {
  return fmt::format("{} trace rank{}", count, count == 1 ? "" : "s");
}

/// "0, 2-5 and 117 more": at most eight runs.
std::string ranges(const std::vector<std::int32_t>& numbers) {
  constexpr std::size_t most = 8;
  std::string text;
  std::size_t runs = 0, at = 0;
  while (at < numbers.size() && runs < most) {
    std::size_t end = at + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    if (runs++ > 0) text += ", ";
    text += end == at + 1 ? fmt::format("{}", numbers[at]) : fmt::format("{}-{}", numbers[at], numbers[end - 1]);
    at = end;
  }
  return at == numbers.size() ? text : fmt::format("{} and {} more", text, numbers.size() - at);
}

/// Numbers claimed by several, with their claimants.
std::map<std::int32_t, std::vector<std::size_t>> contested_numbers(const Choices& claims) {
  std::map<std::int32_t, std::vector<std::size_t>> claimants;
  for (std::size_t i = 0; i < claims.size(); ++i)
    if (claims[i]) claimants[claims[i]->rank].push_back(i);
  std::erase_if(claimants, [](const auto& entry) { return entry.second.size() < 2; });
  return claimants;
}

Warning contested_warning(const Identities& identities, const Choices& claims,
                          const std::map<std::int32_t, std::vector<std::size_t>>& contested) {
  constexpr std::size_t most = 3;
  const auto& [rank, claimants] = *contested.begin();
  std::string names;
  for (std::size_t i = 0; i < std::min(most, claimants.size()); ++i) {
    names += fmt::format("{}{} by {}", i == 0 ? "" : ", ", name_of(identities[claimants[i]]),
                         source_name(*claims[claimants[i]]));
  }
  if (claimants.size() > most) names += fmt::format(" and {} more", claimants.size() - most);
  const TraceRankIdentity& first = identities[claimants[0]];
  const TraceRankIdentity& second = identities[claimants[1]];
  const bool same_process = !first.host.empty() && first.host == second.host && first.process_id == second.process_id &&
                            first.key.device_id == second.key.device_id && first.key.path != second.key.path;
  const bool by_user = claims[claimants[0]]->source == RankSource::user;
  std::string advice = what_to_do;
  if (by_user) advice = "give every trace rank its own number (PATTERN PID DEVICE RANK tells those of one file apart)";
  if (same_process) advice = "these look like two captures of one process: give one of them at a time";
  return analysis_warning(
      Severity::data_loss, contested.size(),
      fmt::format("rank {} is given to {} ({}){}: they cannot all be right, and numbers decide who is blamed; {}", rank,
                  trace_ranks(claimants.size()), names,
                  contested.size() == 1 ? "" : fmt::format(", and so are {} more numbers", contested.size() - 1),
                  advice));
}

}  // namespace

Warning subgroup_warning(std::int64_t below, RankSource reference) {
  return analysis_warning(
      Severity::info, static_cast<std::size_t>(below),
      fmt::format(
          "NCCL's payloads number {} lower than {}: the largest communicator in the traces is not the whole job, so its ranks are not used as trace ranks; nothing to do",
          trace_ranks(static_cast<std::size_t>(below)), kind_name(reference)));
}

std::vector<Warning> conflict_warnings(const Identities& identities, const Choices& best_claims) {
  std::vector<Warning> warnings;
  const auto contested = contested_numbers(best_claims);
  if (!contested.empty()) warnings.push_back(contested_warning(identities, best_claims, contested));

  std::set<std::string> sizes;
  std::size_t silent = 0, first_silent = 0;
  for (std::size_t i = 0; i < identities.size(); ++i) {
    const auto& claim = best_claims[i];
    if (claim && claim->source == RankSource::nccl_payload) sizes.insert(claim->detail);
    if (claim) continue;
    if (++silent == 1) first_silent = i;
  }
  if (sizes.size() > 1) {
    warnings.push_back(analysis_warning(
        Severity::data_loss, sizes.size(),
        fmt::format(
            "NCCL's payloads tell ranks in communicators of different sizes ({}, {}): such ranks do not number one job; {}",
            *sizes.begin(), *std::next(sizes.begin()), what_to_do)));
  }
  if (silent > 0 && silent < identities.size()) {
    warnings.push_back(analysis_warning(
        Severity::data_loss, silent,
        fmt::format(
            "nothing tells the rank of {} of {} trace ranks (first: {}): their numbers may not be those of the job; {}",
            silent, identities.size(), name_of(identities[first_silent]), what_to_do)));
  }
  return warnings;
}

Warning fallback_warning(const Choices& choices) {
  std::string name;
  for (const auto& choice : choices)
    if (name.empty() || choice->source != RankSource::user) name = source_name(*choice);
  return analysis_warning(
      Severity::info, choices.size(),
      fmt::format(
          "{} number all trace ranks without conflict, so trace ranks are numbered by that; if the numbers are wrong, {}",
          name, what_to_do));
}

Warning rest_warning(const Identities& identities, const Choices& choices) {
  std::vector<std::int32_t> numbers;
  std::size_t first = 0;
  for (std::size_t i = 0; i < identities.size(); ++i) {
    if (choices[i]->source != RankSource::file_order) continue;
    if (numbers.empty()) first = i;
    numbers.push_back(choices[i]->rank);
  }
  return analysis_warning(
      Severity::data_loss, numbers.size(),
      fmt::format("{} got numbers after the largest known rank ({}; first: {}): these are not the ranks of the job; {}",
                  trace_ranks(numbers.size()), ranges(numbers), name_of(identities[first]), what_to_do));
}

Warning file_order_warning(const Identities& identities, const Choices& choices) {
  std::size_t count = 0;
  for (const auto& choice : choices) count += choice->source == RankSource::file_order ? 1 : 0;
  if (identities.size() == 1) {
    return analysis_warning(
        Severity::info, 1,
        fmt::format("nothing tells the rank of the only trace rank: it is called 0; {} if the number matters",
                    what_to_do));
  }
  return analysis_warning(
      Severity::data_loss, count,
      fmt::format(
          "NOTHING RELIABLE TELLS THE RANKS: {} are numbered in file order, so every trace rank in this report may be another rank of the job; {}, or put rank_%q{{SLURM_PROCID}} into the output name when profiling",
          trace_ranks(count), what_to_do));
}

std::vector<Warning> disagreement_warnings(const Identities& identities, const Choices& choices) {
  struct Disagreement {
    std::size_t count = 0, first = 0;
    std::int32_t rank = 0;
    Severity severity = Severity::info;
  };
  std::map<std::pair<std::string, std::string>, Disagreement> disagreements;  // (chosen source, other source)
  for (std::size_t i = 0; i < identities.size(); ++i) {
    const RankClaim& chosen = *choices[i];
    if (chosen.source == RankSource::file_order) continue;  // said once, by file_order_warning or rest_warning
    for (const auto& claim : identities[i].claims) {
      if (claim.rank == chosen.rank) continue;
      // A user who overrides knows; a file name is the weakest hint.
      const bool harmless = chosen.source == RankSource::user || claim.source == RankSource::file_name;
      const Disagreement fresh{0, i, claim.rank, harmless ? Severity::info : Severity::data_loss};
      ++disagreements.try_emplace({source_name(chosen), source_name(claim)}, fresh).first->second.count;
    }
  }
  std::vector<Warning> warnings;
  warnings.reserve(disagreements.size());
  for (const auto& [sources, found] : disagreements) {
    warnings.push_back(analysis_warning(
        found.severity, found.count,
        fmt::format(
            "{} and {} disagree on the rank of {} (first: {}: {} against {}): one of them is wrong, and {} is followed; if that is the wrong one, {}",
            sources.first, sources.second, trace_ranks(found.count), name_of(identities[found.first]),
            choices[found.first]->rank, found.rank, sources.first, what_to_do)));
  }
  return warnings;
}

std::vector<Warning> mixture_warnings(const Choices& choices) {
  std::map<RankSource, std::size_t> counts;
  for (const auto& choice : choices) ++counts[choice->source];
  if (counts.size() < 2) return {};
  std::string parts;
  for (const auto& [source, count] : counts)
    parts += fmt::format("{}{} from {}", parts.empty() ? "" : ", ", count, kind_name(source));
  return {analysis_warning(
      Severity::info, counts.size(),
      fmt::format(
          "the numbers of the trace ranks come from several sources ({}): a mixture is weaker than one source; check rank_source in report.json",
          parts))};
}

std::vector<Warning> coverage_warnings(const Choices& choices, std::optional<std::int32_t> world_size) {
  std::set<std::int32_t> present;
  bool any_by_order = false;
  for (const auto& choice : choices) {
    present.insert(choice->rank);
    any_by_order = any_by_order || choice->source == RankSource::file_order;
  }
  if (present.empty()) return {};
  constexpr const char* consequence =
      "their part in collectives is unknown, and one of them may be the cause of waits; profile all ranks if you can";
  if (any_by_order) {
    if (!world_size || static_cast<std::size_t>(*world_size) <= present.size()) return {};
    const std::size_t missing = static_cast<std::size_t>(*world_size) - present.size();
    return {analysis_warning(
        Severity::data_loss, missing,
        fmt::format("{} of {} ranks of the job were not captured: {}", missing, *world_size, consequence))};
  }
  const std::int64_t end = std::max<std::int64_t>(world_size.value_or(0), std::int64_t{*present.rbegin()} + 1);
  const std::size_t missing = static_cast<std::size_t>(end) - present.size();
  if (missing == 0) return {};
  std::vector<std::int32_t> absent;  // only as many as are shown: a wrong number can be huge
  for (std::int64_t rank = 0; rank < end && absent.size() < std::min<std::size_t>(missing, 10'000); ++rank)
    if (!present.contains(static_cast<std::int32_t>(rank))) absent.push_back(static_cast<std::int32_t>(rank));
  return {analysis_warning(Severity::data_loss, missing,
                           fmt::format("{} of at least {} ranks of the job were not captured ({}{}): {}", missing, end,
                                       ranges(absent), absent.size() < missing ? ", ..." : "", consequence))};
}

}  // namespace nsys_explain::ingest
