#include "pipeline/match/member_tables.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>

#include <fmt/format.h>

namespace nsys_explain::pipeline {
namespace {

using collectives::MemberGaps;
using collectives::Mismatch;
using collectives::PlannedCommunicator;

/// Sums over the units of all communicators, on every tool rank.
struct Sums {
  std::vector<std::vector<MemberGaps>> gaps;  ///< by communicator and member
  std::vector<std::int64_t> operations;       ///< by communicator
};

/// Collective.
Sums sum_comparisons(const exchange::Communicator& communicator, const CrossRank& cross) {
  std::vector<std::size_t> first(cross.communicators.size() + 1, 0);  // of a communicator's numbers in one long vector
  for (std::size_t c = 0; c < cross.communicators.size(); ++c) {
    first[c + 1] = first[c] + 1 + 3 * cross.communicators[c].trace_ranks.size();
  }
  std::vector<std::int64_t> flat(first.back(), 0);
  for (std::size_t b = 0; b < cross.comparisons.size(); ++b) {
    std::size_t at = first[static_cast<std::size_t>(cross.units[cross.owned[b]].communicator)];
    flat[at++] += cross.comparisons[b].operations;
    for (const MemberGaps& member : cross.comparisons[b].members) {
      flat[at++] += member.missing;
      flat[at++] += member.outside_window;
      flat[at++] += member.alone;
    }
  }
  flat = communicator.sum(flat);
  Sums sums;
  for (std::size_t c = 0; c < cross.communicators.size(); ++c) {
    std::size_t at = first[c];
    sums.operations.push_back(flat[at++]);
    std::vector<MemberGaps>& gaps = sums.gaps.emplace_back(cross.communicators[c].trace_ranks.size());
    for (MemberGaps& member : gaps) {
      member.missing = flat[at++];
      member.outside_window = flat[at++];
      member.alone = flat[at++];
    }
  }
  return sums;
}

/// As many as the warning about ranks without traces looks for (ingest/rank_messages.cpp): a wrong size can be huge.
constexpr std::int32_t most_absent = 10'000;

void write_members(const PlannedCommunicator& planned, const std::vector<MemberGaps>& gaps, std::int64_t operations,
                   RowWriter& row) {
  std::set<std::int32_t> seen;
  for (std::size_t m = 0; m < planned.trace_ranks.size(); ++m) {
    row << std::string_view(planned.name) << std::int64_t{planned.ranks[m]} << std::int64_t{planned.trace_ranks[m]}
        << planned.lengths[m] << gaps[m].missing << gaps[m].outside_window << gaps[m].alone;
    seen.insert(planned.ranks[m]);
  }
  const bool all_known = !seen.contains(-1);
  auto absent = std::min(planned.size - static_cast<std::int32_t>(planned.trace_ranks.size()), most_absent);
  for (std::int32_t rank = 0; absent > 0 && rank < planned.size; ++rank) {
    if (all_known && seen.contains(rank)) continue;
    row << std::string_view(planned.name) << std::int64_t{all_known ? rank : -1} << std::int64_t{-1} << std::int64_t{0}
        << std::int64_t{0} << operations << std::int64_t{0};
    --absent;
  }
}

/// Collective: the earliest of each communicator.
std::map<std::int32_t, Mismatch> first_mismatches(const exchange::Communicator& communicator, const CrossRank& cross) {
  std::vector<Mismatch> mine;
  for (const collectives::MemberComparison& comparison : cross.comparisons) {
    if (comparison.first) mine.push_back(*comparison.first);
  }
  std::map<std::int32_t, Mismatch> first;
  for (const Mismatch& mismatch : communicator.all_gather(std::span<const Mismatch>(mine)).values) {
    const auto [entry, is_new] = first.try_emplace(mismatch.communicator, mismatch);
    const auto earlier = [](const Mismatch& m) { return std::tie(m.at_ns, m.trace_rank, m.position); };
    if (!is_new && earlier(mismatch) < earlier(entry->second)) entry->second = mismatch;
  }
  return first;
}

}  // namespace

Table communicator_members_table() {
  constexpr auto integer = ColumnKind::integer, text = ColumnKind::text;
  return make_table(
      {"communicator_members",
       "One row per member of a communicator: what it lacks of the operations that others have",
       {{"communicator", text, "", "NCCL's communicator hash, or inferred-N"},
        {"communicator_rank", integer, "", "NCCL's rank in the communicator; -1: not known"},
        {"trace_rank", integer, "",
         "rank of the profiled job; -1: a member without a trace (of a communicator 10,000 at most)"},
        {"arrivals", integer, "", "operations it has, matched or not"},
        {"missing", integer, "",
         "operations of others between its first and its last: lost by the trace, not done, or not matched"},
        {"outside_window", integer, "", "operations of others before its first or after its last: not captured"},
        {"alone", integer, "", "operations of its own that no other member has"}}});
}

Table communicator_mismatches_table() {
  constexpr auto integer = ColumnKind::integer, text = ColumnKind::text;
  return make_table(
      {"communicator_mismatches",
       "The first operation of a communicator at which its members part; no row where they never do",
       {{"communicator", text, "", "NCCL's communicator hash, or inferred-N"},
        {"at_ns", ColumnKind::time, "ns", "job time of the latest enter of those that have the operation"},
        {"difference", text, "",
         "missing, extra (most others lack it), operation, bytes, root, or unmatched (alike, but nothing shows that it is the same)"},
        {"differing_members", integer, "", "how many differ from the rest"},
        {"trace_rank", integer, "", "the first of them"},
        {"position", integer, "", "operations of the communicator that it had entered before"},
        {"operation", text, "", "what it does; none: nothing"},
        {"call_bytes", integer, "bytes", "NCCL's per-call size; -1: not known, or nothing done"},
        {"peer_trace_rank", integer, "", "the first of those it differs from"},
        {"peer_position", integer, "", "operations of the communicator that one had entered before"},
        {"peer_operation", text, "", "what that one does; none: nothing"},
        {"peer_call_bytes", integer, "bytes", "likewise"}}});
}

std::vector<Table> member_tables(const exchange::Communicator& communicator, const CrossRank& cross) {
  const Sums sums = sum_comparisons(communicator, cross);
  std::vector<Table> tables{communicator_members_table(), communicator_mismatches_table()};
  RowWriter member(tables[0]), mismatch(tables[1]);
  for (std::size_t c = 0; c < cross.communicators.size(); ++c) {
    write_members(cross.communicators[c], sums.gaps[c], sums.operations[c], member);
  }
  const auto done = [](Operation operation, bool nothing) { return nothing ? "none" : operation_name(operation); };
  for (const auto& [c, first] : first_mismatches(communicator, cross)) {
    mismatch << std::string_view(cross.communicators[static_cast<std::size_t>(c)].name) << first.at_ns
             << collectives::difference_name(first.difference) << std::int64_t{first.differing}
             << std::int64_t{first.trace_rank} << std::int64_t{first.position}
             << done(first.own_operation, first.difference == collectives::Difference::missing) << first.own_call_bytes
             << std::int64_t{first.peer_trace_rank} << std::int64_t{first.peer_position}
             << done(first.operation, first.difference == collectives::Difference::extra) << first.call_bytes;
  }
  return tables;
}

std::vector<Warning> mismatch_warnings(const std::vector<Table>& tables) {
  std::vector<Warning> warnings;
  std::int64_t missing = 0;
  for (const std::int64_t m : column<std::int64_t>(*find_table(tables, "communicator_members"), "missing"))
    missing += m;
  if (missing > 0) {
    warnings.push_back(
        {Severity::data_loss, WarningSource::analysis, missing,
         "arrivals are missing in the middle of what their trace ranks captured: the trace lost them, or the ranks did not take part; table communicator_members names the ranks, communicator_mismatches the first operation"});
  }
  std::int64_t different = 0;
  for (const std::string& what : column<std::string>(*find_table(tables, "communicator_mismatches"), "difference")) {
    different += what == "operation" || what == "bytes" || what == "root" ? 1 : 0;
  }
  if (different > 0) {
    warnings.push_back(
        {Severity::error, WarningSource::analysis, different,
         "communicators whose members do different things at one time (operation, bytes or root): NCCL forbids it, results are wrong or the job hangs; see table communicator_mismatches for ranks and positions"});
  }
  return warnings;
}

}  // namespace nsys_explain::pipeline
