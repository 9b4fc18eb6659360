#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "nsys_explain/model/trace.hpp"

/// Which NVTX ranges lie around the launches of kernels.
namespace nsys_explain::analysis {

/// A range group and a kernel launched in its ranges.
struct KernelPair {
  std::uint32_t group = 0;
  StringIndex kernel = 0;
  std::int64_t last_range = -1;  ///< position in the thread's order, so that instances count once
  std::int64_t ranges = 0;
};

/// What surrounds a launch: the groups of the ranges around it. Kernels are millions, and each counts for every range
/// around it; their surroundings are few thousand, so that statistics of pairs are put together from those of
/// surroundings.
struct Surroundings {
  std::vector<std::uint32_t> pairs;  ///< by number; one twice where ranges of a group lie within each other
  bool is_covered = false;           ///< by a range that is not NCCL's
  std::int64_t count = 0, total_ns = 0;
  Nanoseconds min_ns = std::numeric_limits<Nanoseconds>::max(), max_ns = std::numeric_limits<Nanoseconds>::min();

  void add(Nanoseconds duration_ns) {
    ++count;
    total_ns += duration_ns;
    min_ns = std::min(min_ns, duration_ns);
    max_ns = std::max(max_ns, duration_ns);
  }
};

/// The surroundings of kernels, and the pairs that they make up, numbered in the order in which they are met.
class KernelSurroundings {
 public:
  std::vector<Surroundings> all;
  std::vector<KernelPair> pairs;

  /// Number of the surroundings of a kernel with that name in ranges of these groups, outer ones first.
  std::uint32_t number_of(StringIndex kernel, const std::vector<std::uint32_t>& groups) {
    std::uint64_t hash = kernel;
    for (const std::uint32_t group : groups) hash = (std::rotl(hash, 27) ^ group) * 0x9E3779B97F4A7C15ULL;
    Key& recent = recent_[hash >> 54];  // most launches are like one that came shortly before
    if (recent.number != none && recent.kernel == kernel && recent.groups == groups) return recent.number;
    const auto [entry, is_new] = number_of_.try_emplace({kernel, groups}, static_cast<std::uint32_t>(all.size()));
    if (is_new) {
      all.emplace_back();
      for (const std::uint32_t group : groups) all.back().pairs.push_back(pair_number(group, kernel));
    }
    recent = {kernel, groups, entry->second};
    return entry->second;
  }

 private:
  static constexpr std::uint32_t none = 0xFFFFFFFF;
  struct Key {
    StringIndex kernel = 0;
    std::vector<std::uint32_t> groups;
    std::uint32_t number = none;
  };
  std::uint32_t pair_number(std::uint32_t group, StringIndex kernel) {
    const auto [entry, is_new] = pair_number_.try_emplace({group, kernel}, static_cast<std::uint32_t>(pairs.size()));
    if (is_new) pairs.push_back({group, kernel});
    return entry->second;
  }

  std::map<std::pair<StringIndex, std::vector<std::uint32_t>>, std::uint32_t> number_of_;
  std::map<std::pair<std::uint32_t, StringIndex>, std::uint32_t> pair_number_;
  std::vector<Key> recent_ = std::vector<Key>(1024);
};

}  // namespace nsys_explain::analysis
