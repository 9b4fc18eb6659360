#pragma once

#include <cstdint>
#include <vector>

namespace nsys_explain::analysis {

struct JobGraph;

/// A member of a collective whose record was lost, between two rows of kernels of its trace rank.
struct LostMember {
  std::uint32_t instance = 0;
  std::uint32_t before = 0, after = 0;  ///< pieces: what it entered after, and what waited for it

  friend bool operator<(const LostMember& a, const LostMember& b) {
    return a.instance != b.instance ? a.instance < b.instance : a.before < b.before;
  }
};

/// By instance. A trace rank that takes part in a communicator and lacks an instance of it is found again where its GPU
/// paused until the others left, and nothing that was recorded tells why:
///
///     rank 0   [work....][all-reduce ][work      both begin at once what follows: rank 1 was there, too, and entered
///     rank 1   [work........]   ?     [work      when its work before was over
///
/// Without it rank 1 would seem to go on by itself, and hold up the others at the next collective.
std::vector<LostMember> find_lost_members(const JobGraph& graph);

}  // namespace nsys_explain::analysis
