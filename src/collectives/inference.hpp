#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "collectives/alignment.hpp"
#include "collectives/extraction.hpp"
#include "nsys_explain/model/collective.hpp"
#include "nsys_explain/model/time.hpp"

/// Communicators of a job whose export does not name them. What the traces do show: all members of a synchronising
/// operation leave it at nearly one instant, however far apart they entered. So lanes (streams that communicate) of
/// different trace ranks carry one communicator if their exits agree far better than their enters, again and again.
///
///   samples of all lanes --RoughClocks--> one rough clock per group of sessions --group_lanes--> lane -> communicator
///
/// Samples are small and the same on every tool rank; what is expensive, comparing two trace ranks, can be spread.
namespace nsys_explain::collectives {

/// One operation of a lane. Trivially copyable.
struct SampledOperation {
  Nanoseconds enter_ns = 0;  ///< session time
  Nanoseconds exit_ns = 0;
  std::uint64_t symbol = 0;  ///< arrival_symbol
  std::int32_t trace_rank = -1;
  std::int32_t session = -1;
  std::uint64_t lane = 0;  ///< Arrival::communicator: where payload tells it, its hash
  /// What only operations of the same members share, as far as calls tell: the lane, for an exchange of two also which.
  std::uint64_t parties = 0;
  std::int32_t index = -1;  ///< Arrival::index
  Operation operation = Operation::unknown;
  bool is_orphan = false;  ///< its call, which might have named its communicator, was not recorded when it was due
  std::uint8_t stream = any_stream;  ///< Arrival::stream
  bool meets_several = false;        ///< sends and receives with more than one peer, as its call tells
};

/// Numbers of one trace rank in the communicators that calls name, as far as they are known
/// (PlannedCommunicator::ranks).
using OwnNumbers = std::map<std::uint64_t, std::int32_t>;

/// The operations of each lane of one trace rank nearest to `centre_ns`, at most `per_lane` of each, in enter order.
std::vector<SampledOperation> sample_lanes(std::span<const Arrival> arrivals, const OwnNumbers& own_numbers,
                                           std::int32_t session, Nanoseconds centre_ns, std::size_t per_lane);

/// reference time = t + offset_ns + slope * (t - centre), one line per session.
struct RoughLine {
  double offset_ns = 0;
  double slope = 0;
};

/// Two sides whose clocks may be related by what they communicated. Trivially copyable.
struct Comparison {
  std::int32_t reference = -1;
  std::int32_t member = -1;
  /// True: components, by all communicators that calls name on both sides. False: trace ranks (positions in their
  /// order), by lanes of which nothing is known.
  bool by_communicators = false;
};

/// What a comparison told. Trivially copyable.
struct SessionRelation {
  std::int32_t session = -1;    ///< whose times the line maps ...
  std::int32_t reference = -1;  ///< ... to those of this one
  double offset_ns = 0;
  double slope = 0;
  double sharp_share = 0;  ///< of the operations compared, those that end within microseconds of one another
};

/// What the files say about a session's clock before anything is compared: sessions of one unit share a clock.
struct SessionTie {
  std::int32_t unit = -1;     ///< -1: shares its clock with no other
  Nanoseconds offset_ns = 0;  ///< session time - time of the unit
};

/// Rough clocks of sessions, from samples of what their trace ranks communicated: good to tens of microseconds over the
/// sampled time. Sessions that share a host's clock are taken together, unless what they communicated contradicts it.
/// What is left is compared in rounds, and only until it is related: first components that share communicators, by all
/// operations of those; then trace ranks by their unnamed lanes, near ones first, a dozen per component at most. Each
/// round is a forest over the components, so that no relation is searched twice; which comparisons it holds does not
/// depend on who makes them.
class RoughClocks {
 public:
  /// `samples` of all trace ranks, in any order; centre_ns as for sample_lanes; one tie per session.
  RoughClocks(std::span<const SampledOperation> samples, std::span<const SessionTie> ties, Nanoseconds centre_ns);

  /// What to compare next; empty: finished.
  std::vector<Comparison> next_round();
  /// Nothing where no shift of their operations fits well enough to be believed.
  std::optional<SessionRelation> compare(const Comparison& comparison) const;
  /// Relations found in the round, in any order; the sharpest count.
  void accept(std::vector<SessionRelation> relations);

  /// Only sessions of one component can be compared. A component bears the number of one of its sessions, and its
  /// common time is that one's.
  std::int32_t component_of(std::int32_t session) const;
  Nanoseconds to_common(std::int32_t session, Nanoseconds t_ns) const;
  Nanoseconds centre_ns() const { return centre_ns_; }

 private:
  /// In the program, and in the program without exchanges, as stages of a pipeline have those at other times; 0: not
  /// known.
  using Places = std::array<std::uint64_t, 2>;
  /// What the program does before, and after; 0: not known.
  using Sides = std::array<std::uint64_t, 2>;
  struct Rank {
    std::int32_t trace_rank = -1;
    std::int32_t session = -1;
    std::vector<SampledOperation> operations;  ///< by exit
    std::vector<Places> places;                ///< of these
    std::vector<Sides> sides;                  ///< of these
  };
  using PartyComponents = std::map<std::uint64_t, std::map<std::int32_t, std::size_t>>;

  void place_operations();
  void tie_sessions(std::span<const SessionTie> ties);
  void relate(const SessionRelation& relation);
  PartyComponents components_of_parties() const;
  bool contradicts(std::int32_t session, std::int32_t reference, double offset_ns) const;
  std::vector<std::uint64_t> shared_parties(std::int32_t component_a, std::int32_t component_b) const;
  std::vector<Comparison> by_communicators();
  std::vector<Comparison> by_lanes();
  MemberSequence pooled(std::int32_t component, std::span<const std::uint64_t> parties) const;
  std::optional<SessionRelation> compare_components(const Comparison& comparison) const;
  std::optional<SessionRelation> compare_ranks(const Comparison& comparison) const;

  std::vector<Rank> ranks_;                         ///< by trace_rank
  std::vector<std::int32_t> component_;             ///< per session
  std::vector<RoughLine> line_;                     ///< per session, to its component's reference
  std::set<std::array<std::int64_t, 4>> compared_;  ///< two components and how many sessions they had
  std::vector<std::size_t> strides_;                ///< still to come, nearest last
  std::vector<Comparison> of_stride_;               ///< of the last stride taken, still to come
  std::size_t comparisons_left_ = 0;                ///< of trace ranks
  Nanoseconds centre_ns_ = 0;
};

/// What a lane turned out to carry.
struct LaneRole {
  std::uint64_t key = 0;     ///< of the inferred communicator
  bool takes_turns = false;  ///< several communicators share it, or nobody was found to share it whole
  bool meets_several =
      false;  ///< its sends and receives are all-to-alls: they end together with those of several others
};

/// (trace rank, lane) -> what it carries. Lanes that agree with no other get a key of their own. Empty where nothing
/// could be told at all.
using LaneRoles = std::map<std::pair<std::int32_t, std::uint64_t>, LaneRole>;

/// Brings lanes together whose synchronising operations end together. Lanes that carry several communicators in turns
/// stay alone and are marked so (share_out_turns), and so do those of operations of which other calls on the trace rank
/// name the communicator (name_orphans). A pure
/// function of the set of samples.
LaneRoles group_lanes(std::span<const SampledOperation> samples, const RoughClocks& clocks);

/// The same for lanes that are one communicator each, wherever it runs: from first_category_lane on. Names tell lanes
/// of different trace ranks apart, as far as both ranks use them; they bring none together. Keys from first_named_key
/// on, for every such lane.
LaneRoles group_category_lanes(std::span<const SampledOperation> samples, const RoughClocks& clocks,
                               const GivenNames& names);

/// The communicator of one operation on a lane that several share.
struct OperationKey {
  std::int32_t trace_rank = -1;
  std::int32_t index = -1;     ///< Arrival::index
  std::uint64_t key = 0;       ///< of an inferred communicator, or NCCL's hash
  bool meets_several = false;  ///< if it is made of sends and receives, they are an all-to-all
};

/// Tells communicators that take turns on a stream apart, operation by operation. All members of a synchronising
/// operation leave it at once, others at that moment only by chance; so of operations alike (of one symbol and about
/// one transfer time, which stands for the size) those that nearly all leave together with the same lanes show a
/// communicator, if its members all see the same. An operation then is of the communicator whose members leave with it,
/// and of none if those of two do that are at odds: no key then. Where operations alike are of several communicators,
/// their place in the program, which all trace ranks run, tells those apart, and what is claimed at a place must agree.
/// All-gathers and broadcasts by whom members and receivers wait for. Keys from
/// `first_key` on; sorted by (trace rank, index). `operations`: of lanes that take turns. A pure function of their set.
std::vector<OperationKey> share_out_turns(std::span<const SampledOperation> operations, const RoughClocks& clocks,
                                          std::uint64_t first_key);

/// Whether calls name communicators, but not those of all operations.
bool has_orphans(std::span<const SampledOperation> samples);

/// Operations whose own calls were not recorded, on trace ranks where other calls name communicators. A stream runs one
/// operation at a time, and all members are in one when the first leaves: so an operation is of the communicator of
/// which others are in one then, and of none whose members did something else or leave at another time. Where several
/// are left, what the program does there decides, if others agree; a name is taken back where anybody contradicts it.
/// Operations that stay without a name are left out. Sorted by (trace rank, index).
std::vector<OperationKey> name_orphans(std::span<const SampledOperation> samples, const RoughClocks& clocks);

/// Gives the arrivals of one trace rank the keys of their operations, and numbers their positions anew.
void apply_operation_keys(std::span<Arrival> arrivals, std::span<const OperationKey> keys);

/// Gives the arrivals of one trace rank the keys of their lanes, and numbers their positions anew.
void apply_lane_roles(std::span<Arrival> arrivals, const LaneRoles& roles);

/// The samples and names as they are once arrivals have the keys of their lanes.
void apply_lane_roles(std::span<SampledOperation> samples, const LaneRoles& roles);
GivenNames apply_lane_roles(const GivenNames& names, const LaneRoles& roles);

}  // namespace nsys_explain::collectives
