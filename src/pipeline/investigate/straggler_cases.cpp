#include "pipeline/investigate/straggler_cases.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "analysis/causes/causes.hpp"
#include "model/schema/job.hpp"
#include "nsys_explain/model/job_report.hpp"
#include "nsys_explain/model/names.hpp"
#include "pipeline/investigate/case_proposals.hpp"

namespace nsys_explain::pipeline {

namespace {

/// The profile of the arrival that entered at `enter`.
std::optional<WorkProfile> find_profile(const LocalRank& rank, JobTime enter) {
  const std::vector<WorkProfile> profiles = rank.profiles.rows();
  const auto found = std::partition_point(
      profiles.begin(), profiles.end(), [&](const WorkProfile& profile) { return rank.clock(profile.enter) < enter; });
  return found != profiles.end() && rank.clock(found->enter) == enter ? std::optional(*found) : std::nullopt;
}

/// The profile of the arrival at a program position, with its work; none where the rank does not get there.
std::optional<std::pair<WorkProfile, Nanoseconds>> find_profile(const LocalRank& rank,
                                                                const ProgramPosition& position) {
  if (rank.timeline.role != position.role) return std::nullopt;
  for (std::size_t i = 0; i < rank.timeline.arrivals.size(); ++i) {
    const analysis::TimelineArrival& arrival = rank.timeline.arrivals[i];
    if (arrival.step == position.step && analysis::position_in_step(arrival) == position.in_step)
      return std::pair(rank.profiles.rows()[i], arrival.work_ns);
  }
  return std::nullopt;
}

/// The straggler and up to `most_peers` of its peers elsewhere, evenly spread.
std::vector<std::int32_t> members_at_position(const Straggler& straggler, const JobRanks& job,
                                              const RoleOfRank& role_of) {
  const std::vector<std::int32_t> peers = peers_elsewhere(straggler, job, role_of);
  std::vector<std::int32_t> members{straggler.trace_rank};
  const std::size_t kept = std::min(peers.size(), most_peers);
  for (std::size_t k = 0; k < kept; ++k) members.push_back(peers[k * peers.size() / kept]);
  return members;
}

/// A member of a proposal, with its profile, on its way to everybody.
struct Answer {
  std::int32_t proposal = 0;
  std::int32_t trace_rank = -1;
  Nanoseconds work_ns = 0;
  WorkProfile profile;
};

/// What the local ranks know of one proposal.
void answer(std::int32_t number, const Proposal& proposal, const std::map<std::int32_t, const LocalRank*>& local_ranks,
            std::span<const std::int32_t> at_position, std::vector<Answer>& answers) {
  for (const std::int32_t trace_rank : at_position) {
    const auto rank = local_ranks.find(trace_rank);
    if (rank == local_ranks.end()) continue;
    const auto found = find_profile(*rank->second, proposal.position);
    if (found && found->second != no_time) answers.push_back({number, trace_rank, found->second, found->first});
  }
  if (!at_position.empty()) return;
  for (const Member& member : std::span(proposal.members).first(static_cast<std::size_t>(proposal.member_count))) {
    const auto rank = local_ranks.find(member.trace_rank);
    if (rank == local_ranks.end()) continue;
    const std::optional<WorkProfile> profile = find_profile(*rank->second, member.enter);
    if (profile) answers.push_back({number, member.trace_rank, member.work_ns, *profile});
  }
}

/// Collective: the profiles of the members of every proposal, from those who hold them.
std::vector<std::vector<analysis::CaseMember>> ask_for_profiles(
    const exchange::Communicator& communicator, const JobRanks& job, const std::vector<LocalTrace>& local_traces,
    const RoleOfRank& role_of, std::span<Straggler* const> late, const std::vector<Proposal>& proposals) {
  std::map<std::int32_t, const LocalRank*> local_ranks;
  for (const LocalTrace& trace : local_traces) {
    for (const LocalRank& rank : trace.ranks) local_ranks[rank.trace_rank] = &rank;
  }
  std::vector<Answer> answers;
  for (std::size_t p = 0; p < proposals.size(); ++p) {
    const Proposal& proposal = proposals[p];
    std::vector<std::int32_t> at_position;
    if (proposal.position.known()) {
      at_position =
          members_at_position(proposal.straggler == nobody ? alone(proposal.members[0].trace_rank)
                                                           : *late[static_cast<std::size_t>(proposal.straggler)],
                              job, role_of);
    }
    answer(static_cast<std::int32_t>(p), proposal, local_ranks, at_position, answers);
  }
  std::vector<std::vector<analysis::CaseMember>> members(proposals.size());
  for (const Answer& one : communicator.all_gather(std::span<const Answer>(answers)).values)
    members[static_cast<std::size_t>(one.proposal)].push_back({one.trace_rank, one.work_ns, one.profile});
  return members;
}

/// None where the straggler's own profile, or any to compare it with, is not known.
std::optional<analysis::StragglerCase> make_case(const Proposal& proposal,
                                                 std::span<const analysis::CaseMember> members) {
  const auto culprit = std::find_if(members.begin(), members.end(), [&](const analysis::CaseMember& member) {
    return member.trace_rank == proposal.members[0].trace_rank;
  });
  if (culprit == members.end()) return std::nullopt;
  analysis::StragglerCase one;
  one.instance = proposal.instance;
  one.last_enter = proposal.last_enter;
  one.caused_wait_ns = proposal.caused_wait_ns;
  one.own_lateness_ns = proposal.own_lateness_ns;
  one.straggler = *culprit;
  one.alike = proposal.alike != 0;
  if (!analysis::choose_peer(members, one)) return std::nullopt;
  return one;
}

/// The cases of one straggler, by who waited in an instance and by work at program positions.
class BothKinds {
 public:
  void add(const Proposal& proposal, const analysis::StragglerCase& one) {
    Kind& kind = proposal.position.known() ? by_position_ : by_instance_;
    kind.cases.push_back(one);
    if (proposal.position.known() || proposal.alike != 0) kind.longer_ns += proposal.longer_ns;
  }

  /// Those by instances, unless work shows clearly more of the straggler's own lateness. An instance in which nobody
  /// waits for it may hold most (the others left early, as from a broadcast, and wait in the next one), and one whose
  /// other members have other roles tells nothing; but one in which its peers wait for it is the better story. Not
  /// where that story leaves out what made it late, and the other kind has it: work that lies before an earlier
  /// collective looks longer here only because the peers' had begun before theirs was over.
  std::vector<analysis::StragglerCase> choose(analysis::LateIn late_in) && {
    for (Kind* const kind : {&by_instance_, &by_position_}) analysis::pool_kernel_noise(kind->cases);
    Kind *first = &by_instance_, *second = &by_position_;
    if (2 * by_position_.longer_ns > 3 * by_instance_.longer_ns) std::swap(first, second);
    const double of_first = analysis::share_that_counts(first->cases, late_in);
    const bool tells = of_first >= analysis::least_that_counts;
    return std::move(
        (tells || analysis::share_that_counts(second->cases, late_in) <= of_first ? first : second)->cases);
  }

 private:
  struct Kind {
    std::vector<analysis::StragglerCase> cases;
    Nanoseconds longer_ns = 0;
  };
  Kind by_instance_, by_position_;
};

}  // namespace

CollectedCases collect_cases(const exchange::Communicator& communicator, const JobRanks& job, const CrossRank& cross,
                             const std::vector<LocalTrace>& local_traces, const std::vector<std::uint64_t>& roles,
                             const JobReport& report, std::span<Straggler* const> late) {
  const auto role_of = [&](std::int32_t trace_rank) { return roles[job.index_of(trace_rank)]; };
  const std::vector<Proposal> mine = propose(job, cross, local_traces, role_of, report, late).proposals();
  Shortlist shortlist;
  for (const Proposal& proposal : communicator.all_gather(std::span<const Proposal>(mine)).values) {
    shortlist.offer(proposal);
  }
  const std::vector<Proposal> proposals = shortlist.proposals();
  const auto members = ask_for_profiles(communicator, job, local_traces, role_of, late, proposals);

  CollectedCases result;
  std::vector<BothKinds> of_straggler(std::min(late.size(), most_stragglers));
  for (std::size_t p = 0; p < proposals.size(); ++p) {
    const Proposal& proposal = proposals[p];
    const std::optional<analysis::StragglerCase> one = make_case(proposal, members[p]);
    if (!one) continue;
    if (proposal.straggler == nobody) {
      result.long_waits.push_back({one->straggler.trace_rank, {*one}, analysis::LateIn::whole_run});
    } else {
      of_straggler[static_cast<std::size_t>(proposal.straggler)].add(proposal, *one);
    }
  }
  for (std::size_t s = 0; s < of_straggler.size(); ++s) {
    const bool throughout = late[s]->pattern == Pattern::persistent || late[s]->pattern == Pattern::unknown;
    const analysis::LateIn late_in = throughout ? analysis::LateIn::whole_run : analysis::LateIn::some_steps;
    result.stragglers.push_back({late[s]->trace_rank, std::move(of_straggler[s]).choose(late_in), late_in});
  }
  return result;
}

namespace {

using enum ColumnKind;

TableSchema cases_schema(const schema::Cases& declaration) {
  TableSchema schema = declaration.table_schema();
  for (const char* who : {"", "peer_"}) {
    const char* whose = *who == '\0' ? "the last arriver" : "the peer";
    const auto add = [&](std::string column, std::string unit, std::string meaning) {
      schema.columns.push_back({who + std::move(column), integer, std::move(unit), std::move(meaning)});
    };
    add("work_ns", "ns", fmt::format("{}: from the latest communication exit to the enter", whose));
    add("kernels", "", fmt::format("{}: compute kernels launched since the previous collective", whose));
    add("kernel_ns", "ns", fmt::format("{}: sum of their durations", whose));
    add("synchronisations", "", fmt::format("{}: synchronising calls meanwhile", whose));
    add("allocations", "", fmt::format("{}: allocating and freeing calls meanwhile", whose));
    for (const WorkPartMeaning& part : work_parts()) {
      add(fmt::format("{}_ns", part.name), "ns", fmt::format("{}: time of the work in which {}", whose, part.meaning));
    }
  }
  return schema;
}

void write_member(RowWriter& row, const analysis::CaseMember& member) {
  const WorkProfile& profile = member.profile;
  row << member.work_ns << std::int64_t{profile.kernels} << std::int64_t{profile.kernel_ns}
      << std::int64_t{profile.synchronisations} << std::int64_t{profile.allocations};
  for (const std::uint32_t part_ns : profile.parts_ns) row << std::int64_t{part_ns};
}

void write_cases(Table& table, const CasesOfStraggler& of, std::optional<Cause> compute) {
  RowWriter row(table);
  for (const analysis::StragglerCase& one : of.cases) {
    const analysis::CaseVerdict verdict = analysis::judge_case(one, compute);
    row << std::int64_t{of.trace_rank} << one.instance << one.last_enter.ns << one.caused_wait_ns << one.own_lateness_ns
        << std::int64_t{one.peer.trace_rank} << (verdict.counts ? cause_name(verdict.cause) : "none")
        << (verdict.counts ? work_parts()[static_cast<std::size_t>(verdict.part)].name : "none") << one.same_kernels;
    write_member(row, one.straggler);
    write_member(row, one.peer);
  }
}

}  // namespace

CaseTables::CaseTables()
    : cases_(make_table(cases_schema(schema::straggler_cases))),
      differences_(make_table(schema::straggler_differences)),
      long_waits_(make_table(cases_schema(schema::long_waits))) {}

void CaseTables::add_cases(const CasesOfStraggler& of, std::optional<Cause> compute) {
  write_cases(cases_, of, compute);
}

void CaseTables::add_long_wait(const CasesOfStraggler& of, std::optional<Cause> compute) {
  write_cases(long_waits_, of, compute);
}

void CaseTables::add_differences(std::int32_t straggler, const analysis::Divergence& divergence) {
  RowWriter row(differences_);
  for (const analysis::WorkDifference& difference : divergence.differences) {
    row << std::int64_t{straggler} << analysis::work_event_kind_name(difference.kind)
        << std::string_view(difference.name) << std::string_view(difference.shape) << std::string_view(difference.range)
        << difference.straggler_count << difference.peer_count << difference.straggler_ns << difference.peer_ns
        << difference.difference_ns();
  }
}

}  // namespace nsys_explain::pipeline
