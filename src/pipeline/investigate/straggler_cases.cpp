#include "pipeline/investigate/straggler_cases.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "clock/job_time.hpp"
#include "clock/level_zero.hpp"
#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain::pipeline {
namespace {

/// A straggler is compared with this many members of an instance at most: those whose work is nearest to the median.
constexpr std::size_t most_peers = 16;

struct Member {
  Nanoseconds enter_ns = 0;  ///< job time
  Nanoseconds work_ns = 0;
  std::int32_t trace_rank = -1;
  std::int32_t reserved = 0;
};

/// Instead of a straggler: proposed because of what others waited, whoever caused it.
constexpr std::int32_t nobody = -1;

/// A place in the program that ranks of one role share: see WorkSample.
struct ProgramPlace {
  std::uint64_t role = 0;
  analysis::PlaceInStep in_step;
  std::int32_t step = -1;

  bool known() const { return in_step.occurrences > 0; }  ///< else the members of the instance are the peers
};

/// One instance proposed as a case. Trivially copyable.
struct Proposal {
  std::int32_t straggler = nobody;  ///< index into the list of those who are late
  std::int32_t span = 0;
  std::int64_t instance = 0;
  Nanoseconds last_enter_ns = 0;
  Nanoseconds caused_wait_ns = 0;
  Nanoseconds own_lateness_ns = 0;
  Nanoseconds longer_ns = 0;  ///< of it, in the work that is compared: not what goes back to before an earlier arrival
  std::array<Member, 1 + most_peers> members{};  ///< the straggler first
  std::int32_t member_count = 0;
  std::int32_t alike = 0;  ///< 1: the others have the straggler's role
  ProgramPlace place;
};

bool better(const Proposal& a, const Proposal& b) {
  return std::tuple(-a.caused_wait_ns, a.instance) < std::tuple(-b.caused_wait_ns, b.instance);
}

/// Path::role of a trace rank.
using RoleOfRank = std::function<std::uint64_t(std::int32_t)>;

/// The best proposal of each straggler, kind (by who waited in an instance, or by work at a place of the program) and
/// span, and the best of all.
class Shortlist {
 public:
  void offer(const Proposal& proposal) {
    if (proposal.straggler == nobody) {
      worst_.push_back(proposal);
      std::sort(worst_.begin(), worst_.end(), better);
      worst_.resize(std::min(worst_.size(), most_long_waits));
      return;
    }
    const auto [entry, is_new] = best_.try_emplace(key_of(proposal), proposal);
    if (!is_new && better(proposal, entry->second)) entry->second = proposal;
  }
  bool would_take(const Proposal& proposal) const {
    if (proposal.straggler == nobody) return worst_.size() < most_long_waits || better(proposal, worst_.back());
    const auto entry = best_.find(key_of(proposal));
    return entry == best_.end() || better(proposal, entry->second);
  }
  /// By straggler, kind and span; then the worst of the run.
  std::vector<Proposal> proposals() const {
    std::vector<Proposal> all;
    for (const auto& [key, proposal] : best_) all.push_back(proposal);
    all.insert(all.end(), worst_.begin(), worst_.end());
    return all;
  }

 private:
  using Key = std::tuple<std::int32_t, bool, std::int32_t>;
  static Key key_of(const Proposal& proposal) { return {proposal.straggler, proposal.place.known(), proposal.span}; }

  std::map<Key, Proposal> best_;
  std::vector<Proposal> worst_;  ///< worst first
};

std::int32_t span_of(Nanoseconds time_ns, Nanoseconds first_ns, Nanoseconds last_ns) {
  const double length = static_cast<double>(last_ns - first_ns) + 1;
  const double share = static_cast<double>(time_ns - first_ns) / length;
  return static_cast<std::int32_t>(std::clamp(share, 0.0, 0.999999) * static_cast<double>(case_spans));
}

/// Trace ranks, ascending.
using TraceRanks = std::span<const std::int32_t>;

/// The straggler, then the members whose work is nearest to the median: of its role, if there are any. Who shares its
/// place, and so its trouble, is no measure.
void add_members(std::span<const InstanceArrival> arrivals, std::int32_t straggler, TraceRanks place,
                 const RoleOfRank& role_of, Proposal& proposal) {
  std::vector<Member> peers, alike;
  for (const InstanceArrival& arrival : arrivals) {
    const Member member{arrival.enter_ns, arrival.work_ns, arrival.trace_rank, 0};
    if (arrival.trace_rank == straggler) {
      proposal.members[0] = member;
    } else if (arrival.work_ns != no_time && !std::binary_search(place.begin(), place.end(), arrival.trace_rank)) {
      peers.push_back(member);
      if (role_of(arrival.trace_rank) == role_of(straggler)) alike.push_back(member);
    }
  }
  proposal.alike = alike.empty() ? 0 : 1;
  if (!alike.empty()) peers = std::move(alike);
  std::sort(peers.begin(), peers.end(), [](const Member& a, const Member& b) {
    return std::tie(a.work_ns, a.trace_rank) < std::tie(b.work_ns, b.trace_rank);
  });
  const std::size_t kept = std::min(peers.size(), most_peers);
  const auto first = peers.begin() + static_cast<std::ptrdiff_t>((peers.size() - kept) / 2);
  std::copy_n(first, kept, proposal.members.begin() + 1);
  proposal.member_count = static_cast<std::int32_t>(1 + kept);
}

/// Offers an instance as a case against its last arriver.
void propose_instance(const MatchedBlock& block, const Instance& instance, TraceRanks place, const RoleOfRank& role_of,
                      Proposal proposal, Shortlist& shortlist) {
  proposal.last_enter_ns = instance.last_enter_ns;
  proposal.caused_wait_ns = instance.caused_wait_ns;
  if (!shortlist.would_take(proposal)) return;
  const std::span<const InstanceArrival> arrivals = members_of(block, instance);
  for (const InstanceArrival& arrival : arrivals) {
    if (arrival.trace_rank == instance.last_trace_rank) proposal.own_lateness_ns = arrival.own_lateness_ns;
  }
  add_members(arrivals, instance.last_trace_rank, place, role_of, proposal);
  if (proposal.members[0].work_ns == no_time || proposal.member_count < 2) return;
  const Nanoseconds median_ns = proposal.members[static_cast<std::size_t>(proposal.member_count) / 2].work_ns;
  proposal.longer_ns = std::clamp<Nanoseconds>(proposal.members[0].work_ns - median_ns, 0, proposal.own_lateness_ns);
  shortlist.offer(proposal);
}

/// The trace ranks of the straggler's role that do not share its place.
std::vector<std::int32_t> peers_elsewhere(const Straggler& straggler, const JobRanks& job, const RoleOfRank& role_of) {
  std::vector<std::int32_t> peers;
  const TraceRanks place = straggler.trace_ranks;
  for (const std::int32_t trace_rank : job.numbers)
    if (role_of(trace_rank) == role_of(straggler.trace_rank) &&
        !std::binary_search(place.begin(), place.end(), trace_rank))
      peers.push_back(trace_rank);
  return peers;
}

Straggler alone(std::int32_t trace_rank) {
  Straggler one;
  one.trace_rank = trace_rank;
  one.trace_ranks = {trace_rank};
  return one;
}

/// Stragglers by their trace rank.
struct StragglerNumbers {
  std::multimap<std::int32_t, std::int32_t> by_work;  ///< with peers elsewhere
  std::map<std::int32_t, std::int32_t> by_instance;   ///< but for places of several trace ranks with peers elsewhere
};

StragglerNumbers number_stragglers(std::span<Straggler* const> late, const JobRanks& job, const RoleOfRank& role_of) {
  StragglerNumbers numbers;
  for (std::size_t s = 0; s < std::min(late.size(), most_stragglers); ++s) {
    const Straggler& straggler = *late[s];
    const bool peers = !peers_elsewhere(straggler, job, role_of).empty();
    if (peers) numbers.by_work.emplace(straggler.trace_rank, static_cast<std::int32_t>(s));
    if (!peers || straggler.trace_ranks.size() == 1)
      numbers.by_instance.emplace(straggler.trace_rank, static_cast<std::int32_t>(s));
  }
  return numbers;
}

/// Cases by work: the other members of what a place delayed are often of the place, too, and what made a trace rank
/// late may lie before an earlier collective, in which nobody waited for it, or which nothing matches. So the arrivals
/// of the (costliest) trace rank whose work was longest, beyond that of ranks of its role at the same place of the
/// program; where such an arrival is not matched, the next one that is names the case.
void propose_longest_work(const ClockReport& clock, const LocalRank& rank, const Straggler& straggler,
                          std::span<const std::int64_t> first_instance, Proposal proposal, Shortlist& shortlist) {
  if (rank.path.arrivals.empty()) return;
  const auto job_time = [&](const analysis::PathArrival& arrival) {
    return clock::to_job_time(clock.sessions[rank.session], clock.pivot_ns, arrival.enter_ns);
  };
  const bool was_last = straggler.first_ns != no_time;  // by its own work
  const Nanoseconds first_ns = was_last ? straggler.first_ns : job_time(rank.path.arrivals.front());
  const Nanoseconds last_ns = was_last ? straggler.last_ns : job_time(rank.path.arrivals.back());
  const analysis::Outcome* next = nullptr;  // of the latest matched arrival that was passed, from the end on
  for (std::size_t i = rank.path.arrivals.size(); i-- > 0;) {
    const analysis::PathArrival& arrival = rank.path.arrivals[i];
    if (arrival.matched) next = &rank.path.outcomes[i];
    if (!arrival.compared || next == nullptr || !arrival.whole_step || arrival.excess_work_ns <= 0) continue;
    proposal.instance = first_instance[static_cast<std::size_t>(next->communicator)] + next->sequence;
    proposal.last_enter_ns = job_time(arrival);
    proposal.span = span_of(proposal.last_enter_ns, first_ns, last_ns);
    proposal.caused_wait_ns = proposal.own_lateness_ns = proposal.longer_ns = arrival.excess_work_ns;
    proposal.members[0] = {proposal.last_enter_ns, arrival.work_ns, rank.trace_rank, 0};
    proposal.member_count = 1;
    proposal.alike = 1;
    proposal.place = {rank.path.role, analysis::place_in_step(arrival), arrival.step};
    if (shortlist.would_take(proposal)) shortlist.offer(proposal);
  }
}

/// Cases by delay, whoever is late: the arrivals before which most of what others waited came about. What they waited
/// may lie in collectives of several groups, and after others in which nobody waited.
void propose_delays(const ClockReport& clock, const LocalRank& rank, std::span<const std::int64_t> first_instance,
                    Shortlist& shortlist) {
  const analysis::Path& path = rank.path;
  for (const auto& [index, caused_ns] : path.caused_ns) {
    const auto at = static_cast<std::size_t>(index);
    const analysis::PathArrival& arrival = path.arrivals[at];
    const auto met = std::find_if(path.arrivals.begin() + index, path.arrivals.end(),
                                  [](const analysis::PathArrival& later) { return later.matched; });
    Proposal proposal;
    proposal.caused_wait_ns = caused_ns;
    if (met == path.arrivals.end() || !arrival.has_peers || !shortlist.would_take(proposal)) continue;
    const analysis::Outcome& outcome = path.outcomes[static_cast<std::size_t>(met - path.arrivals.begin())];
    proposal.instance = first_instance[static_cast<std::size_t>(outcome.communicator)] + outcome.sequence;
    proposal.last_enter_ns = clock::to_job_time(clock.sessions[rank.session], clock.pivot_ns, arrival.enter_ns);
    proposal.own_lateness_ns = proposal.longer_ns = std::max<Nanoseconds>(0, arrival.excess_work_ns);
    proposal.members[0] = {proposal.last_enter_ns, arrival.work_ns, rank.trace_rank, 0};
    proposal.member_count = 1;
    proposal.alike = 1;
    proposal.place = {path.role, analysis::place_in_step(arrival), arrival.step};
    shortlist.offer(proposal);
  }
}

Shortlist propose(const ClockReport& clock, const JobRanks& job, const CrossRank& cross,
                  const std::vector<LocalTrace>& local_traces, const RoleOfRank& role_of, const JobReport& report,
                  std::span<Straggler* const> late) {
  const StragglerNumbers numbers = number_stragglers(late, job, role_of);
  const std::vector<std::int64_t> first_instance = first_instances(report);
  Shortlist shortlist;
  const auto is_compared_by_step = [&](std::int32_t trace_rank) {
    return report.delay.steps > 0 && !peers_elsewhere(alone(trace_rank), job, role_of).empty();
  };
  for (const LocalTrace& trace : local_traces) {
    for (const LocalRank& rank : trace.ranks) {
      if (is_compared_by_step(rank.trace_rank)) propose_delays(clock, rank, first_instance, shortlist);
      const auto [first, end] = numbers.by_work.equal_range(rank.trace_rank);
      for (auto found = first; found != end; ++found) {
        Proposal proposal;
        proposal.straggler = found->second;
        propose_longest_work(clock, rank, *late[static_cast<std::size_t>(found->second)], first_instance, proposal,
                             shortlist);
      }
    }
  }
  for (const MatchedBlock& block : cross.blocks) {
    for (const Instance& instance : block.instances) {
      if (!instance.resolved || instance.caused_wait_ns <= 0) continue;
      Proposal proposal;
      proposal.instance = first_instance[static_cast<std::size_t>(block.communicator)] + instance.sequence;
      if (!is_compared_by_step(instance.last_trace_rank))
        propose_instance(block, instance, {}, role_of, proposal, shortlist);
      const auto found = numbers.by_instance.find(instance.last_trace_rank);
      if (found == numbers.by_instance.end()) continue;
      const Straggler& straggler = *late[static_cast<std::size_t>(found->second)];
      proposal.straggler = found->second;
      if (straggler.first_ns != no_time)  // else never last by its own work
        proposal.span = span_of(instance.last_enter_ns, straggler.first_ns, straggler.last_ns);
      propose_instance(block, instance, straggler.trace_ranks, role_of, proposal, shortlist);
    }
  }
  return shortlist;
}

/// The profile of the arrival that entered at `enter_ns` job time.
const WorkProfile* find_profile(const LocalRank& rank, const ClockReport& clock, const JobRanks& job,
                                Nanoseconds enter_ns) {
  const Nanoseconds start_ns = clock::session_start_ns(job.sessions[rank.session], job.epoch_utc_ns);
  const auto job_time = [&](const WorkProfile& profile) {
    return clock::to_job_time(clock.sessions[rank.session], clock.pivot_ns, profile.enter_ns + start_ns);
  };
  const auto found = std::partition_point(rank.profiles.begin(), rank.profiles.end(),
                                          [&](const WorkProfile& profile) { return job_time(profile) < enter_ns; });
  return found != rank.profiles.end() && job_time(*found) == enter_ns ? &*found : nullptr;
}

/// The profile of the arrival at a place of the program, with its work; null where the rank does not get there.
std::pair<const WorkProfile*, Nanoseconds> find_profile(const LocalRank& rank, const ProgramPlace& place) {
  if (rank.path.role != place.role) return {nullptr, no_time};
  for (std::size_t i = 0; i < rank.path.arrivals.size(); ++i) {
    const analysis::PathArrival& arrival = rank.path.arrivals[i];
    if (arrival.step == place.step && analysis::place_in_step(arrival) == place.in_step)
      return {&rank.profiles[i], arrival.work_ns};
  }
  return {nullptr, no_time};
}

/// The straggler and up to `most_peers` of its peers elsewhere, evenly spread.
std::vector<std::int32_t> members_at_place(const Straggler& straggler, const JobRanks& job, const RoleOfRank& role_of) {
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
void answer(std::int32_t number, const Proposal& proposal, const ClockReport& clock, const JobRanks& job,
            const std::map<std::int32_t, const LocalRank*>& local_ranks, std::span<const std::int32_t> at_place,
            std::vector<Answer>& answers) {
  for (const std::int32_t trace_rank : at_place) {
    const auto rank = local_ranks.find(trace_rank);
    if (rank == local_ranks.end()) continue;
    const auto [profile, work_ns] = find_profile(*rank->second, proposal.place);
    if (profile != nullptr && work_ns != no_time) answers.push_back({number, trace_rank, work_ns, *profile});
  }
  if (!at_place.empty()) return;
  for (const Member& member : std::span(proposal.members).first(static_cast<std::size_t>(proposal.member_count))) {
    const auto rank = local_ranks.find(member.trace_rank);
    if (rank == local_ranks.end()) continue;
    const WorkProfile* profile = find_profile(*rank->second, clock, job, member.enter_ns);
    if (profile != nullptr) answers.push_back({number, member.trace_rank, member.work_ns, *profile});
  }
}

/// Collective: the profiles of the members of every proposal, from those who hold them.
std::vector<std::vector<analysis::CaseMember>> ask_for_profiles(const exchange::Communicator& communicator,
                                                                const ClockReport& clock, const JobRanks& job,
                                                                const std::vector<LocalTrace>& local_traces,
                                                                const RoleOfRank& role_of,
                                                                std::span<Straggler* const> late,
                                                                const std::vector<Proposal>& proposals) {
  std::map<std::int32_t, const LocalRank*> local_ranks;
  for (const LocalTrace& trace : local_traces) {
    for (const LocalRank& rank : trace.ranks) local_ranks[rank.trace_rank] = &rank;
  }
  std::vector<Answer> answers;
  for (std::size_t p = 0; p < proposals.size(); ++p) {
    const Proposal& proposal = proposals[p];
    std::vector<std::int32_t> at_place;
    if (proposal.place.known()) {
      at_place = members_at_place(proposal.straggler == nobody ? alone(proposal.members[0].trace_rank)
                                                               : *late[static_cast<std::size_t>(proposal.straggler)],
                                  job, role_of);
    }
    answer(static_cast<std::int32_t>(p), proposal, clock, job, local_ranks, at_place, answers);
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
  one.last_enter_ns = proposal.last_enter_ns;
  one.caused_wait_ns = proposal.caused_wait_ns;
  one.own_lateness_ns = proposal.own_lateness_ns;
  one.straggler = *culprit;
  one.alike = proposal.alike != 0;
  if (!analysis::choose_peer(members, one)) return std::nullopt;
  return one;
}

/// The cases of one straggler, by who waited in an instance and by work at places of the program.
class BothKinds {
 public:
  void add(const Proposal& proposal, const analysis::StragglerCase& one) {
    Kind& kind = proposal.place.known() ? by_place_ : by_instance_;
    kind.cases.push_back(one);
    if (proposal.place.known() || proposal.alike != 0) kind.longer_ns += proposal.longer_ns;
  }

  /// Those by instances, unless work shows clearly more of the straggler's own lateness. An instance in which nobody
  /// waits for it may hold most (the others left early, as from a broadcast, and wait in the next one), and one whose
  /// other members have other roles tells nothing; but one in which its peers wait for it is the better story. Not
  /// where that story leaves out what made it late, and the other kind has it: work that lies before an earlier
  /// collective looks longer here only because the peers' had begun before theirs was over.
  std::vector<analysis::StragglerCase> choose() && {
    for (Kind* const kind : {&by_instance_, &by_place_}) analysis::pool_kernel_noise(kind->cases);
    Kind *first = &by_instance_, *second = &by_place_;
    if (2 * by_place_.longer_ns > 3 * by_instance_.longer_ns) std::swap(first, second);
    const double of_first = analysis::share_that_counts(first->cases);
    const bool tells = of_first >= analysis::least_that_counts;
    return std::move((tells || analysis::share_that_counts(second->cases) <= of_first ? first : second)->cases);
  }

 private:
  struct Kind {
    std::vector<analysis::StragglerCase> cases;
    Nanoseconds longer_ns = 0;
  };
  Kind by_instance_, by_place_;
};

}  // namespace

CollectedCases collect_cases(const exchange::Communicator& communicator, const ClockReport& clock, const JobRanks& job,
                             const CrossRank& cross, const std::vector<LocalTrace>& local_traces,
                             const std::vector<std::uint64_t>& roles, const JobReport& report,
                             std::span<Straggler* const> late) {
  const auto role_of = [&](std::int32_t trace_rank) { return roles[job.index_of(trace_rank)]; };
  const std::vector<Proposal> mine = propose(clock, job, cross, local_traces, role_of, report, late).proposals();
  Shortlist shortlist;
  for (const Proposal& proposal : communicator.all_gather(std::span<const Proposal>(mine)).values) {
    shortlist.offer(proposal);
  }
  const std::vector<Proposal> proposals = shortlist.proposals();
  const auto members = ask_for_profiles(communicator, clock, job, local_traces, role_of, late, proposals);

  CollectedCases result;
  std::vector<BothKinds> of_straggler(std::min(late.size(), most_stragglers));
  for (std::size_t p = 0; p < proposals.size(); ++p) {
    const Proposal& proposal = proposals[p];
    const std::optional<analysis::StragglerCase> one = make_case(proposal, members[p]);
    if (!one) continue;
    if (proposal.straggler == nobody) {
      result.long_waits.push_back({one->straggler.trace_rank, {*one}});
    } else {
      of_straggler[static_cast<std::size_t>(proposal.straggler)].add(proposal, *one);
    }
  }
  for (std::size_t s = 0; s < of_straggler.size(); ++s)
    result.stragglers.push_back({late[s]->trace_rank, std::move(of_straggler[s]).choose()});
  return result;
}

}  // namespace nsys_explain::pipeline
