#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "collectives/inference.hpp"

/// What streams did one after another, where calls name the communicators of most operations (see name_orphans).
namespace nsys_explain::collectives {

struct StreamRecord {
  Nanoseconds enter_ns = 0;  ///< on the finest common clock there is
  Nanoseconds exit_ns = 0;
  const SampledOperation* operation = nullptr;
  std::uint64_t communicator = 0;       ///< 0: not known
  std::vector<std::uint64_t> possible;  ///< where it is not: communicators it may be of, ascending
  std::uint64_t expected = 0;           ///< where it is not: the one of which the program does one here; 0: not known

  bool is_named() const { return communicator != 0; }
  bool may_be_of(std::uint64_t key) const {
    return is_named() ? communicator == key : std::binary_search(possible.begin(), possible.end(), key);
  }
};

/// What all members of one operation share, whether its call was recorded or not (see may_be_one).
std::uint64_t kind_of(const SampledOperation& operation);

/// One trace rank.
struct RankRecords {
  std::int32_t component = 0;
  Nanoseconds first_enter_ns = 0, last_exit_ns = 0;
  std::map<std::uint8_t, std::vector<StreamRecord>> streams;  ///< by enter
  std::map<std::uint64_t, std::uint8_t> stream_of;            ///< of a communicator; any_stream: of several

  bool covers(Nanoseconds t_ns) const { return first_enter_ns <= t_ns && t_ns <= last_exit_ns; }
};

/// A communicator that calls name.
struct NamedCommunicator {
  std::vector<std::size_t> members;  ///< indices into JobRecords::ranks, ascending
  std::set<std::uint64_t> kinds;     ///< of operations that its members did
  bool exchanges_in_pairs = false;   ///< some of its sends and receives meet one other member only
};

struct JobRecords {
  std::vector<RankRecords> ranks;  ///< by trace rank
  std::map<std::uint64_t, NamedCommunicator> communicators;

  /// What a member of a communicator did in its stream at a time; none if nothing was recorded.
  StreamRecord* running(std::size_t rank, std::uint64_t communicator, Nanoseconds t_ns);
};

/// Operations whose calls name a communicator are named, the others may be of those of the same kind on their stream.
/// Points into `samples`.
JobRecords make_records(std::span<const SampledOperation> samples, const RoughClocks& clocks);

}  // namespace nsys_explain::collectives
