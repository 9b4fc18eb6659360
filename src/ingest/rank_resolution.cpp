#include "ingest/rank_resolution.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include <fmt/format.h>

#include "ingest/export_report.hpp"
#include "ingest/file_names.hpp"
#include "ingest/metadata.hpp"

namespace nsys_explain::ingest {
namespace {

using Identities = std::vector<TraceRankIdentity>;
using Choice = std::optional<RankClaim>;

/// One source of numbers for the whole run: variables and communicators of different sizes are different sources.
struct Source {
  RankSource kind = RankSource::file_order;
  std::size_t order = 0;
  std::string detail;

  friend bool operator<(const Source& a, const Source& b) {
    return std::tie(a.kind, a.order, a.detail) < std::tie(b.kind, b.order, b.detail);
  }
  friend bool operator==(const Source&, const Source&) = default;
};

Source source_of(const RankClaim& claim) {
  Source source{claim.source, 0, ""};
  if (claim.source == RankSource::environment || claim.source == RankSource::nccl_payload) source.detail = claim.detail;
  if (claim.source == RankSource::environment) {
    const std::vector<std::string>& by_trust = rank_variables();
    source.order =
        static_cast<std::size_t>(std::find(by_trust.begin(), by_trust.end(), claim.detail) - by_trust.begin());
  }
  return source;
}

bool better_claim(const RankClaim& a, const RankClaim& b) {
  return std::tuple(source_of(a), a.rank, a.detail) < std::tuple(source_of(b), b.rank, b.detail);
}

/// Sorts by path (digits as numbers), then by device where the devices of a file all differ, else by process.
void sort_in_file_order(Identities& identities) {
  std::map<std::string, std::multiset<std::int32_t>> devices;
  for (const auto& identity : identities) devices[identity.key.path].insert(identity.key.device_id);
  std::map<std::string, bool> devices_differ;
  for (const auto& [path, ids] : devices)
    devices_differ[path] = std::set<std::int32_t>(ids.begin(), ids.end()).size() == ids.size();
  std::sort(identities.begin(), identities.end(), [&](const TraceRankIdentity& a, const TraceRankIdentity& b) {
    if (a.key.path != b.key.path) return natural_less(a.key.path, b.key.path);
    if (devices_differ.at(a.key.path)) return a.key.device_id < b.key.device_id;
    // The GPU only decides between keys that should have been unique.
    return std::tie(a.key.global_pid, a.key.device_id, a.host, a.gpu_uuid) <
           std::tie(b.key.global_pid, b.key.device_id, b.host, b.gpu_uuid);
  });
}

/// A number in a file name can only be a rank where every file holds one trace rank.
void add_file_name_claims(Identities& identities) {
  std::vector<std::string> paths;
  for (const auto& identity : identities) paths.push_back(identity.key.path);
  if (std::set<std::string>(paths.begin(), paths.end()).size() < paths.size()) return;
  const auto ranks = file_name_ranks(paths);
  if (!ranks) return;
  for (std::size_t i = 0; i < identities.size(); ++i)
    identities[i].claims.push_back({RankSource::file_name, (*ranks)[i], "file name"});
}

/// The first claim of this kind, once claims are sorted by trust.
const RankClaim* claim_of(const TraceRankIdentity& identity, RankSource kind) {
  for (const auto& claim : identity.claims)
    if (claim.source == kind) return &claim;
  return nullptr;
}

bool all_have_one(const std::vector<Choice>& choices) {
  return std::all_of(choices.begin(), choices.end(), [](const Choice& choice) { return choice.has_value(); });
}

bool all_differ(const std::vector<Choice>& choices) {
  std::set<std::int32_t> numbers;
  return std::all_of(choices.begin(), choices.end(),
                     [&](const Choice& choice) { return !choice || numbers.insert(choice->rank).second; });
}

/// NCCL's numbers, where another source shows them to be those of a sub-communicator, are no claims about the job.
void drop_subgroup_claims(Identities& identities, std::vector<Warning>& warnings) {
  for (const RankSource reference : {RankSource::mpi_ranks, RankSource::environment}) {
    std::vector<Choice> references;
    std::int64_t below = 0, above = 0;
    for (const auto& identity : identities) {
      const RankClaim* nccl = claim_of(identity, RankSource::nccl_payload);
      const RankClaim* other = claim_of(identity, reference);
      references.push_back(other != nullptr ? Choice(*other) : Choice());
      if (nccl == nullptr || other == nullptr) continue;
      below += nccl->rank < other->rank ? 1 : 0;
      above += nccl->rank > other->rank ? 1 : 0;
    }
    if (below == 0 || above > 0 || !all_differ(references)) continue;
    for (auto& identity : identities)
      std::erase_if(identity.claims, [](const RankClaim& claim) { return claim.source == RankSource::nccl_payload; });
    warnings.push_back(subgroup_warning(below, reference));
    return;
  }
}

std::vector<Choice> best_claims(const Identities& identities) {
  std::vector<Choice> choices;
  for (const auto& identity : identities)
    choices.push_back(identity.claims.empty() ? Choice() : Choice(identity.claims.front()));
  return choices;
}

/// Ranks in communicators of different sizes do not count the same thing.
bool communicators_agree(const std::vector<Choice>& choices) {
  std::set<std::string> sizes;
  for (const auto& choice : choices)
    if (choice && choice->source == RankSource::nccl_payload) sizes.insert(choice->detail);
  return sizes.size() <= 1;
}

/// The best source that numbers every trace rank that the user did not, without conflict.
std::optional<std::vector<Choice>> single_source(const Identities& identities) {
  std::set<Source> sources;
  for (const auto& identity : identities) {
    for (const auto& claim : identity.claims)
      if (claim.source != RankSource::user) sources.insert(source_of(claim));
  }
  for (const Source& source : sources) {
    std::vector<Choice> choices;
    for (const auto& identity : identities) {
      const auto claim = std::find_if(identity.claims.begin(), identity.claims.end(), [&](const RankClaim& c) {
        return c.source == RankSource::user || source_of(c) == source;
      });
      choices.push_back(claim == identity.claims.end() ? Choice() : Choice(*claim));
    }
    if (all_have_one(choices) && all_differ(choices)) return choices;
  }
  return std::nullopt;
}

/// Of several that claim one number only the one with the better source keeps it, then the first in file order.
void keep_first_claimants(std::vector<Choice>& choices) {
  std::map<std::int32_t, std::size_t> keeper;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (!choices[i]) continue;
    const auto [known, is_new] = keeper.try_emplace(choices[i]->rank, i);
    if (!is_new && source_of(*choices[i]) < source_of(*choices[known->second])) known->second = i;
  }
  for (std::size_t i = 0; i < choices.size(); ++i)
    if (choices[i] && keeper.at(choices[i]->rank) != i) choices[i].reset();
}

std::size_t count_chosen(const std::vector<Choice>& choices) {
  return static_cast<std::size_t>(
      std::count_if(choices.begin(), choices.end(), [](const Choice& choice) { return choice.has_value(); }));
}

/// Numbers those without a choice in order, from `first` on, leaving out numbers in use.
void number_the_rest(std::vector<Choice>& choices, std::int32_t first) {
  std::set<std::int32_t> used;
  for (const auto& choice : choices)
    if (choice) used.insert(choice->rank);
  std::int32_t next = first;
  for (auto& choice : choices) {
    if (choice) continue;
    while (used.contains(next)) ++next;
    choice = RankClaim{RankSource::file_order, next++, "file order"};
  }
}

/// The steps of resolve_trace_ranks. `identities` in file order, claims by trust.
std::vector<Choice> choose(const Identities& identities, std::vector<Warning>& warnings) {
  std::vector<Choice> best = best_claims(identities);
  if (all_have_one(best) && all_differ(best) && communicators_agree(best)) return best;
  for (auto& warning : conflict_warnings(identities, best)) warnings.push_back(std::move(warning));
  if (auto choices = single_source(identities)) {
    warnings.push_back(fallback_warning(*choices));
    return *choices;
  }
  std::vector<Choice> kept = best;
  keep_first_claimants(kept);
  std::int32_t largest = -1;
  for (const auto& choice : kept) largest = choice ? std::max(largest, choice->rank) : largest;
  const bool fits = largest <= std::numeric_limits<std::int32_t>::max() - static_cast<std::int32_t>(best.size());
  if (2 * count_chosen(kept) > kept.size() && communicators_agree(best) && fits) {
    number_the_rest(kept, largest + 1);
    warnings.push_back(rest_warning(identities, kept));
    return kept;
  }
  std::vector<Choice> ordered = best;
  for (auto& choice : ordered)
    if (choice && choice->source != RankSource::user) choice.reset();
  keep_first_claimants(ordered);
  number_the_rest(ordered, 0);
  warnings.push_back(file_order_warning(identities, ordered));
  return ordered;
}

}  // namespace

Resolution resolve_trace_ranks(std::vector<TraceRankIdentity> identities, std::optional<std::int32_t> world_size) {
  Resolution resolution;
  sort_in_file_order(identities);
  add_file_name_claims(identities);
  for (auto& identity : identities) {
    std::erase_if(identity.claims, [](const RankClaim& claim) { return claim.rank < 0; });
    std::sort(identity.claims.begin(), identity.claims.end(), better_claim);
  }
  drop_subgroup_claims(identities, resolution.warnings);
  const std::vector<Choice> choices = choose(identities, resolution.warnings);
  for (auto& warning : disagreement_warnings(identities, choices)) resolution.warnings.push_back(std::move(warning));
  for (auto& warning : mixture_warnings(choices)) resolution.warnings.push_back(std::move(warning));
  for (auto& warning : coverage_warnings(choices, world_size)) resolution.warnings.push_back(std::move(warning));
  for (std::size_t i = 0; i < identities.size(); ++i) {
    identities[i].trace_rank = choices[i]->rank;
    identities[i].rank_source = choices[i]->source;
  }
  std::sort(identities.begin(), identities.end(),
            [](const TraceRankIdentity& a, const TraceRankIdentity& b) { return a.trace_rank < b.trace_rank; });
  resolution.trace_ranks = std::move(identities);
  return resolution;
}

std::vector<TraceRankIdentity> number_host_processes(Identities processes, const Identities& trace_ranks) {
  const auto says_nothing = std::stable_partition(processes.begin(), processes.end(),
                                                  [](const auto& process) { return !process.claims.empty(); });
  Identities helpers;
  if (says_nothing != processes.begin()) helpers.assign(says_nothing, processes.end());
  processes.resize(processes.size() - helpers.size());
  sort_in_file_order(helpers);
  Identities numbered = resolve_trace_ranks(std::move(processes)).trace_ranks;
  std::move(helpers.begin(), helpers.end(), std::back_inserter(numbered));

  std::set<std::int32_t> used;
  for (const TraceRankIdentity& rank : trace_ranks) used.insert(rank.trace_rank);
  std::vector<TraceRankIdentity*> rest;
  for (TraceRankIdentity& process : numbered)
    if (process.rank_source == RankSource::file_order || !used.insert(process.trace_rank).second)
      rest.push_back(&process);
  const std::int64_t last = used.empty() ? -1 : *used.rbegin();
  const bool fits = last + std::ssize(rest) <= std::numeric_limits<std::int32_t>::max();
  std::int32_t next = fits ? static_cast<std::int32_t>(last + 1) : 0;
  for (TraceRankIdentity* process : rest) {
    while (used.contains(next)) ++next;
    process->trace_rank = next++;
    process->rank_source = RankSource::file_order;
  }
  std::sort(numbered.begin(), numbered.end(),
            [](const TraceRankIdentity& a, const TraceRankIdentity& b) { return a.trace_rank < b.trace_rank; });
  return numbered;
}

}  // namespace nsys_explain::ingest
