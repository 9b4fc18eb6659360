#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <vector>

#include "analysis/window/steps.hpp"
#include "model/hash.hpp"
#include "nsys_explain/model/collective.hpp"
#include "nsys_explain/model/work.hpp"

/// A trace rank's way through its collectives: segments of work between blocking collectives. Whether a segment was
/// long is told by peers, ranks with the same role at the same position in the same step; a difference of two times of
/// one trace is involved on each side, so no error of the clocks enters.
namespace nsys_explain::analysis {

/// What the members of an instance together know about one of them. Small, since there is one of each arrival.
/// Trivially copyable.
struct Outcome {
  Nanoseconds wait_ns = 0;
  Nanoseconds lateness_ns = 0;  ///< own enter - earliest enter; 0 where nothing may be claimed
  std::uint32_t partners = 0;   ///< of the digest of the instance's members: they differ among sends and receives
  std::int32_t sequence = 0;    ///< of the instance within its communicator
  std::int32_t last_trace_rank = -1;
  std::int32_t communicator = -1;
  std::int32_t step = -1;  ///< of the job, that most members were in by their own count; -1: none tells
  bool matched : 1 = false;
  bool blocking : 1 = true;   ///< for most members
  bool complete : 1 = false;  ///< all captured members of the communicator took part
  bool tied : 1 = true;       ///< everybody was still there when the last one entered: nobody left it behind
  bool split_told : 1 =
      false;                   ///< into wait and transfer: it took longer than three standard uncertainties of the skew
  bool slow_link : 1 = false;  ///< transfers among these members are slower than those of equal groups (links.hpp)
  std::array<std::uint8_t, 3> reserved = {};  ///< no padding bytes travel uninitialised
};

/// Digest of the members of an instance with one more, in the order of trace ranks; of none: 0.
std::uint64_t digest_of_partners(std::uint64_t others, std::int32_t trace_rank);

/// A communicator that a trace rank is a member of.
struct TimelineCommunicator {
  std::uint64_t key = 0;  ///< Arrival::communicator
  std::int32_t size = 0;
  /// Those captured, ascending; they must outlive the timeline: every rank of a job has a timeline, and every timeline
  /// a communicator of the whole job.
  std::span<const std::int32_t> trace_ranks;
};

/// One arrival on the way. No larger than the Arrival that it is made of, so
/// that the next timeline lies where the arrivals of the one before did: memory that nobody has used is dear.
struct TimelineArrival {
  TraceTime enter;
  TraceTime exit;
  std::uint64_t symbol = 0;        ///< kind of operation: equal for ranks of one role
  std::uint32_t communicator = 0;  ///< index into RankTimeline::communicators
  std::int32_t step = -1;          ///< the rank's own, of the job after count_by_job; -1: in none
  std::int32_t occurrence = 0;     ///< of the symbol within the step
  /// Arrivals in the step that are of its kind: of its symbol, without sizes of its operation. Where a record was lost,
  /// those after it lie elsewhere than they seem.
  std::int32_t occurrences = 0;
  std::int32_t synchronised = -1;  ///< index of the latest arrival before it that tied this rank to the other members
  Operation operation = Operation::unknown;
  bool blocking : 1 = true;
  /// Of this rank, whatever most members did: where they wait for it, having nothing else to do, it may still compute,
  /// and its lateness goes on.
  bool beside_compute : 1 = false;
  bool matched : 1 = false;
  bool since_step : 1 = false;   ///< its work counts from the start of the first step: nothing ended before it
  bool compared : 1 = false;     ///< there are peers, or other steps, to compare its work with
  bool has_peers : 1 = false;    ///< there are peers
  bool same_moment : 1 = false;  ///< as the one that was ready before it: one work led to both
  bool whole_step : 1 = false;   ///< its step was captured from start to end
  /// From the latest blocking exit, or the enter before this moment if later, to this enter, with the compute that went
  /// on beside the former; one that had queued is taken to enter when it was ready. no_time: not known.
  Nanoseconds work_ns = no_time;
  /// Of its work, known without peers to be too much: kernels that take longer than on other GPUs, or are more than a
  /// pipeline stage's part of the layers; an idle GPU whose host is late more often than those of other ranks.
  Nanoseconds surplus_ns = 0;
  Nanoseconds excess_work_ns = 0;  ///< beyond what is usual for peers; may be negative; 0 where there are none
  Nanoseconds excess_wait_ns = 0;  ///< likewise, of what compute waited
};

static_assert(sizeof(TimelineArrival) <= sizeof(TraceArrival));

/// What a rank took longer than is usual for its peers, up to some point of its way.
struct Excess {
  Nanoseconds work_ns = 0;
  Nanoseconds waiting_ns = 0;  ///< in those that were blocking

  friend bool operator==(const Excess&, const Excess&) = default;
};

struct RankTimeline {
  std::int32_t trace_rank = -1;
  std::uint64_t kind = 0;  ///< part of the role that is known from the start
  std::uint64_t role = 0;  ///< equal for ranks whose steps consist of the same operations on communicators alike
  /// Without sizes communicators are inferred, and which one an arrival is of may be known on some ranks only.
  bool sizes_known = true;
  Nanoseconds first_step_ns = no_time;  ///< start of the first step, if its own: work can be measured from there
  std::vector<TimelineCommunicator> communicators;  ///< by key
  std::vector<TimelineArrival> arrivals;            ///< by Arrival::index
  std::vector<Outcome> outcomes;                    ///< parallel to arrivals: of those that are matched
  std::vector<std::int32_t> job_steps;              ///< of each of the rank's own steps; -1: none
  std::vector<std::uint32_t> by_step;               ///< indices of arrivals: by step, then index
  std::vector<std::uint32_t> by_readiness;          ///< indices of arrivals: one that queued was ready before its enter
  std::vector<Nanoseconds> excess_transfers_ns;     ///< by arrival, of slow links; empty where no outcome has one
  /// Before each arrival, and one entry more. Work counts to when it was ready, that of one moment together.
  std::vector<Excess> before;
  std::vector<Nanoseconds> transfers_before_ns;   ///< likewise, excess transfers; empty where there are none
  std::map<std::int32_t, Nanoseconds> caused_ns;  ///< what others waited, by the arrival before which it came about
};

/// `arrivals` are in order of Arrival::index, `steps` in trace time; `communicators` holds each of theirs, by key.
/// Where payload does not tell most message sizes, two things stand for them in the role: what each lane carries in a
/// step, and `kernel_names` (names_of_kernels of the rank), since stages of a pipeline may look alike in all they
/// communicate.
RankTimeline make_timeline(std::span<const TraceArrival> arrivals, std::vector<TimelineCommunicator> communicators,
                           const Steps& steps, std::uint64_t kernel_names);

/// Digest of which compute kernels a rank runs, by base name: neither how many, nor how large, nor how long. Of a run
/// with steps those that are in at least half of them: what a rank alone does now and then, such as an evaluation, is
/// no other program.
std::uint64_t names_of_kernels(const RankEvents& events, const Steps& steps);

/// How the steps of a rank are counted by the job.
struct CountedSteps {
  std::size_t own = 0;               ///< how many the rank has
  std::int32_t first = not_counted;  ///< the job's step that its first one is; not_counted: nothing tells
};

/// Once all outcomes are known, before measure(): numbers the steps of the arrivals as the job does. All members of an
/// instance are in one step, whatever each of them takes for the beginning of a step.
void count_by_job(RankTimeline& timeline, const CountedSteps& counted);

/// Once all outcomes are known: measures the work between arrivals and finds the role. `profiles` are those of the
/// arrivals, by index.
void measure(RankTimeline& timeline, std::span<const WorkProfile> profiles);

/// Stages of a pipeline differ in what they wait for, whatever they communicate: the first and the last exchange as
/// much, and are no peers. `stage` is the number or name of the timeline's own, in any order; after measure().
void tell_stages_apart(RankTimeline& timeline, std::string_view stage);

/// Where an arrival within a step lies in the program: equal for ranks of one role that did as much of its kind in the
/// step.
struct PositionInStep {
  std::uint64_t symbol = 0;
  std::int32_t occurrence = 0, occurrences = 0;

  friend bool operator==(const PositionInStep&, const PositionInStep&) = default;
  friend bool operator<(const PositionInStep& a, const PositionInStep& b) {
    return std::tie(a.symbol, a.occurrence, a.occurrences) < std::tie(b.symbol, b.occurrence, b.occurrences);
  }
};
PositionInStep position_in_step(const TimelineArrival& arrival);

/// One segment of work, and the wait that followed, on its way to those of its peers. Trivially copyable.
struct WorkSample {
  /// Digest of role, symbol (in steps with how often it occurs there), step, and occurrence in the step, or sequence
  /// where there are no steps: equal where samples are compared.
  std::uint64_t position = 0;
  /// Without surplus: where all peers share one trouble, such as the slow GPUs of a whole pipeline stage, it shows.
  Nanoseconds work_ns = 0;
  Nanoseconds wait_ns = 0;      ///< without the surplus: whoever waited would have waited so much longer; no_time:
                                ///< not known of an arrival that is not matched
  Nanoseconds transfer_ns = 0;  ///< that compute waited for, from the latest enter on
};

/// What is usual at the position of one sample; no_time where it has no peer there. Trivially copyable.
struct UsualWork {
  Nanoseconds work_ns = no_time;
  Nanoseconds wait_ns = no_time;
  Nanoseconds transfer_ns = no_time;
};

/// The sample of an arrival, where peers can be compared with it. Within steps also one that is not matched: which of
/// two of them work lies before is a matter of what waited where.
std::optional<WorkSample> work_sample(const RankTimeline& timeline, std::size_t arrival);

/// Where the work before an arrival is compared with that of peers, or of the same trace rank in other steps; 0:
/// nowhere.
std::uint64_t position_among_peers(const RankTimeline& timeline, std::size_t arrival);
std::uint64_t step_among_peers(const RankTimeline& timeline, std::size_t arrival);
std::uint64_t position_among_steps(const RankTimeline& timeline, std::size_t arrival);

/// Medians (the lower one of two) over the samples of equal position. Any order; parallel to the input. Of transfers
/// only where somebody asks for them, because a link is slow: else 0.
std::vector<UsualWork> usual_work(std::span<const WorkSample> samples, bool with_transfers);

/// Sets the excess of an arrival of the timeline, where it has peers.
void take_usual(RankTimeline& timeline, std::size_t arrival, const UsualWork& usual);

/// Once what is usual is known of all samples of the timeline. A rank that has no peer at a position is compared with
/// itself in other steps; that cannot show what lasts, so it is compared without its surplus.
void finish_excess(RankTimeline& timeline);

/// Excess transfers over slow links that compute waited for, between two arrivals, the second not included. After
/// finish_excess.
Nanoseconds excess_transfers_between(const RankTimeline& timeline, std::size_t begin, std::size_t end);

/// The first arrival in which a delay that an arrival shows can have come about.
std::size_t first_since_tied(const TimelineArrival& arrival);

/// How late an arrival makes others: it explains no more of a claim than that. After finish_excess.
struct Delay {
  Nanoseconds own_ns = 0;  ///< work and slow transfers beyond those of its peers since it was tied to those who wait
  Nanoseconds inherited_ns = 0;  ///< waiting beyond theirs
};
Delay delay_of(const RankTimeline& timeline, std::int32_t index);

/// The arrival before which most of how late one is came about: the one with most work beyond peers since then.
std::int32_t origin_of(const RankTimeline& timeline, std::int32_t index);

/// The part of its own in how late an arrival makes others; no_time where it was not compared.
Nanoseconds own_lateness_of(const RankTimeline& timeline, std::size_t arrival);

/// What an arrival adds to the time that its rank took longer than its peers: the work before it, and its transfer
/// where that goes over a slow link. After finish_excess.
Nanoseconds excess_at(const RankTimeline& timeline, std::size_t arrival);

// Parts of a timeline's making, one file each; used by rank_timeline.cpp alone.

inline std::uint64_t mix_into(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * golden_ratio;
  return hash ^ (hash >> 29);
}

/// Work is told apart arrival by arrival, blocking or not: peers then agree on what lies between two positions even
/// where one had to wait at a position and another did not. Two of one moment have the same work, whichever is first.
void measure_work(RankTimeline& timeline, std::span<const WorkProfile> profiles);

/// Where arrivals lie in their steps, and which steps were captured from start to end.
void find_positions(RankTimeline& timeline);

/// After find_positions.
void find_role(RankTimeline& timeline);

}  // namespace nsys_explain::analysis
