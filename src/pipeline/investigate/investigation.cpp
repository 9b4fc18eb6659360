#include "pipeline/investigate/investigation.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <tuple>

#include <fmt/format.h>

#include "analysis/causes/causes.hpp"
#include "analysis/trace/divergence.hpp"
#include "model/schema/gpu.hpp"
#include "pipeline/investigate/case_proposals.hpp"
#include "pipeline/investigate/straggler_cases.hpp"
#include "pipeline/tool_rank/pack.hpp"

namespace nsys_explain::pipeline {
namespace {

/// Cases of one straggler whose events are read again.
constexpr std::size_t compared_cases = 3;

/// One trace rank's work before one collective, to be read again.
struct Request {
  std::size_t straggler = 0;  ///< index into the collected cases
  std::size_t one = 0;        ///< its case
  bool of_peer = false;
  std::int32_t trace_rank = -1;
  TraceTime enter;
};

struct Reply {
  std::uint64_t request = 0;
  std::vector<analysis::WorkEvent> events;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(request, events);
  }
};

/// The cases that speak for what profiles alone make the likeliest cause: others have their names in other events, and
/// cases in which the straggler is only behind have nothing to compare.
std::vector<std::size_t> telling_cases(const CasesOfStraggler& of) {
  const Cause cause = analysis::decide_cause(of.cases, nullptr, nullptr, of.late_in).cause;
  std::vector<std::size_t> telling, of_cause;
  for (std::size_t c = 0; c < of.cases.size(); ++c) {
    const analysis::CaseVerdict verdict = analysis::judge_case(of.cases[c], std::nullopt);
    if (!verdict.counts) continue;
    telling.push_back(c);
    if (verdict.cause == cause) of_cause.push_back(c);
  }
  // "Unknown" may also mean that they do not agree.
  const bool agree = cause != Cause::unknown || 2 * of_cause.size() > telling.size();
  return agree && !of_cause.empty() ? of_cause : telling;
}

/// The peer that most telling cases are compared with (ties: the lower trace rank), and its weightiest cases. One peer
/// means one more trace to read.
std::vector<Request> plan_requests(const std::vector<CasesOfStraggler>& all) {
  std::vector<Request> requests;
  for (std::size_t s = 0; s < all.size(); ++s) {
    std::map<std::int32_t, std::size_t> cases_of_peer;
    const std::vector<std::size_t> telling = telling_cases(all[s]);
    for (const std::size_t c : telling) ++cases_of_peer[all[s].cases[c].peer.trace_rank];
    if (cases_of_peer.empty()) continue;
    const std::int32_t peer = std::max_element(cases_of_peer.begin(), cases_of_peer.end(), [](auto& a, auto& b) {
                                return a.second < b.second;
                              })->first;
    std::vector<std::size_t> order;
    for (const std::size_t c : telling) {
      if (all[s].cases[c].peer.trace_rank == peer) order.push_back(c);
    }
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return all[s].cases[a].caused_wait_ns > all[s].cases[b].caused_wait_ns;
    });
    order.resize(std::min(order.size(), compared_cases));
    for (const std::size_t c : order) {
      const analysis::StragglerCase& one = all[s].cases[c];
      requests.push_back({s, c, false, all[s].trace_rank, one.straggler.profile.enter});
      requests.push_back({s, c, true, peer, one.peer.profile.enter});
    }
  }
  return requests;
}

struct Answers {
  std::vector<Reply> replies;
  std::vector<std::string> unread;  ///< names of inputs that could not be read again

  template <class Archive>
  void serialize(Archive& archive) {
    archive(replies, unread);
  }
};

/// The requests that this tool rank can answer, by input: each input is read once.
Answers answer_requests(const std::vector<Request>& requests, const Inquiry& inquiry) {
  std::map<std::int32_t, TraceRankKey> local;
  for (const LocalTrace& trace : inquiry.local_traces) {
    for (const LocalRank& rank : trace.ranks) local[rank.trace_rank] = rank.key;
  }
  std::map<std::string, std::vector<std::size_t>> requests_of_input;
  for (std::size_t r = 0; r < requests.size(); ++r) {
    const auto rank = local.find(requests[r].trace_rank);
    if (rank != local.end()) requests_of_input[rank->second.path].push_back(r);
  }
  Answers answers;
  for (const auto& entry : requests_of_input) {
    const std::string& name = entry.first;
    const std::vector<std::size_t>& numbers = entry.second;
    const auto input = std::find_if(inquiry.inputs.begin(), inquiry.inputs.end(),
                                    [&](const ingest::AssignedTrace& assigned) { return assigned.name == name; });
    try {
      read_again(*input, inquiry.reading, windows_of(inquiry, name), {},
                 [&](const TraceRankKey& key, const analysis::RankEvents& events) {
                   for (const std::size_t r : numbers) {
                     if (!(local.at(requests[r].trace_rank) == key)) continue;
                     answers.replies.push_back({r, analysis::work_events(events, requests[r].enter)});
                   }
                 });
    } catch (const std::exception&) {
      answers.unread.push_back(name);
    }
  }
  return answers;
}

/// What each straggler's work differs in, name by name; empty where its or its peer's trace could not be read again.
std::vector<std::optional<analysis::Divergence>> compare_events(const exchange::Communicator& communicator,
                                                                const Inquiry& inquiry,
                                                                const std::vector<CasesOfStraggler>& all,
                                                                std::vector<Warning>& warnings) {
  std::vector<std::optional<analysis::Divergence>> divergences(all.size());
  const std::vector<Request> requests = plan_requests(all);
  if (requests.empty()) return divergences;
  std::map<std::uint64_t, std::vector<analysis::WorkEvent>> events;
  for (Answers& part : all_gather_packed(communicator, answer_requests(requests, inquiry))) {
    for (Reply& reply : part.replies) events[reply.request] = std::move(reply.events);
    for (const std::string& name : part.unread) {
      warnings.push_back(
          {Severity::data_loss, WarningSource::analysis, 1,
           fmt::format(
               "{} could not be read a second time, so causes rest on the profiles of its work, without names of kernels and calls; run where the file can be read",
               name)});
    }
  }
  for (std::size_t r = 0; r + 1 < requests.size(); r += 2) {
    const auto straggler = events.find(r), peer = events.find(r + 1);
    if (straggler == events.end() || peer == events.end()) continue;
    std::optional<analysis::Divergence>& sum = divergences[requests[r].straggler];
    analysis::Divergence divergence = analysis::diverge(straggler->second, peer->second);
    if (sum) {
      analysis::merge(*sum, divergence);
    } else {
      sum = std::move(divergence);
    }
  }
  return divergences;
}

/// Those who share its place or not, without all who are late where that leaves somebody.
std::vector<std::int32_t> compared_with(const Straggler& straggler, const JobRanks& job, const RoleOfRank& role_of,
                                        std::span<Straggler* const> late) {
  const std::vector<std::int32_t> peers = peers_elsewhere(straggler, job, role_of);
  std::vector<std::int32_t> healthy;
  for (const std::int32_t peer : peers) {
    const bool is_late = std::any_of(late.begin(), late.end(), [&](const Straggler* other) {
      return std::binary_search(other->trace_ranks.begin(), other->trace_ranks.end(), peer);
    });
    if (!is_late) healthy.push_back(peer);
  }
  return healthy.empty() ? peers : healthy;
}

/// Of the whole window where it is late throughout; else of the collectives that were looked into, as long as their
/// kernels are of enough kinds to tell a slow GPU from larger work.
std::optional<analysis::ComputeDifference> compute_difference(const Inquiry& inquiry, const Table* kernels,
                                                              const Straggler& straggler,
                                                              std::span<Straggler* const> late,
                                                              const std::optional<analysis::Divergence>& divergence) {
  constexpr std::int64_t enough_families = 3;
  std::optional<analysis::ComputeDifference> of_cases;
  if (divergence) of_cases = analysis::compare_compute(*divergence);
  const bool throughout = straggler.pattern == Pattern::persistent || straggler.pattern == Pattern::unknown;
  if (kernels == nullptr || (!throughout && of_cases && of_cases->families >= enough_families)) return of_cases;
  const auto role_of = [&](std::int32_t rank) { return inquiry.delays.role[inquiry.job.index_of(rank)]; };
  std::vector<std::int32_t> alike;
  for (const std::int32_t rank : straggler.trace_ranks)
    if (role_of(rank) == role_of(straggler.trace_rank)) alike.push_back(rank);
  return analysis::compare_compute(*kernels, alike, compared_with(straggler, inquiry.job, role_of, late));
}

/// Collective: why each of them computes longer, by index; tool rank 0 has the tables.
std::vector<std::optional<analysis::ComputeDifference>> compare_computes(
    const exchange::Communicator& communicator, const Inquiry& inquiry, const JobReport& report,
    std::span<Straggler* const> late, const std::vector<std::optional<analysis::Divergence>>& divergences) {
  std::vector<std::optional<analysis::ComputeDifference>> differences;
  if (communicator.is_root()) {
    const Table* const kernels = find_table(report.tables, schema::kernels_by_launch);
    for (std::size_t s = 0; s < divergences.size(); ++s) {
      if (s < std::min(late.size(), most_stragglers)) {
        differences.push_back(compute_difference(inquiry, kernels, *late[s], late, divergences[s]));
      } else {
        differences.push_back(divergences[s] ? analysis::compare_compute(*divergences[s]) : std::nullopt);
      }
    }
  }
  return all_gather_packed(communicator, differences).front();
}

}  // namespace

const analysis::ProcessWindows& windows_of(const Inquiry& inquiry, const std::string& input) {
  static const analysis::ProcessWindows none;
  for (const LocalTrace& trace : inquiry.local_traces)
    if (trace.facts.input.path == input) return trace.windows;
  return none;
}

void investigate_stragglers(const exchange::Communicator& communicator, const Inquiry& inquiry,
                            const analysis::SavedByRank& saved, JobReport& report) {
  const std::vector<Straggler*> late = everybody_late(report.stragglers, report.suspects);
  CollectedCases collected =
      collect_cases(communicator, inquiry.job, inquiry.cross, inquiry.local_traces, inquiry.delays.role, report, late);
  std::vector<analysis::StragglerCase> longest;
  for (const CasesOfStraggler& wait : collected.long_waits) longest.push_back(wait.cases.front());
  collected.long_waits.resize(analysis::waits_to_explain(report, longest, saved));

  // Both are read again at once: a trace may serve a straggler and a long wait.
  std::vector<CasesOfStraggler> all = std::move(collected.stragglers);
  const std::size_t stragglers = all.size();
  std::move(collected.long_waits.begin(), collected.long_waits.end(), std::back_inserter(all));
  const auto divergences = compare_events(communicator, inquiry, all, report.warnings);
  const auto computes = compare_computes(communicator, inquiry, report, late, divergences);
  CaseTables tables;
  for (std::size_t s = 0; s < all.size(); ++s) {
    const analysis::Divergence* divergence = divergences[s] ? &*divergences[s] : nullptr;
    const analysis::ComputeDifference* compute = computes[s] ? &*computes[s] : nullptr;
    if (divergence != nullptr) tables.add_differences(all[s].trace_rank, *divergence);
    if (s >= stragglers) {
      report.long_waits.push_back(analysis::explain_wait(all[s].cases.front(), divergence, compute));
      tables.add_long_wait(all[s], analysis::compute_cause(compute));
      continue;
    }
    Straggler& straggler = *late[s];
    analysis::CauseVerdict verdict;
    if (!analysis::late_by_transfers(report, inquiry.delays, straggler))
      verdict = analysis::decide_cause(all[s].cases, divergence, compute, all[s].late_in);
    straggler.cause = verdict.cause;
    straggler.part = verdict.part;
    straggler.host_was_in = std::move(verdict.host_was_in);
    straggler.evidence.insert(straggler.evidence.begin(), std::make_move_iterator(verdict.evidence.begin()),
                              std::make_move_iterator(verdict.evidence.end()));
    analysis::complete_cause(report, inquiry.delays, compute, straggler);
    tables.add_cases(all[s], analysis::compute_cause(compute));
  }
  for (Table& table : tables.release()) report.tables.push_back(std::move(table));
}

}  // namespace nsys_explain::pipeline
