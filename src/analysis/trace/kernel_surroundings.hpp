#pragma once

#include <algorithm>
#include <memory_resource>
#include <utility>

#include "model/hash.hpp"
#include "nsys_explain/model/algorithms.hpp"
#include "nsys_explain/model/trace.hpp"

namespace nsys_explain::analysis {

/// Numbers of things that are thousands as a rule and may be more: two bytes each, four from the first on that does not
/// fit.
class SmallNumbers {
 public:
  void reserve(std::size_t count) { narrow_.reserve(count); }
  void push_back(std::uint32_t number) {
    if (wide_.empty()) {
      if (number <= std::numeric_limits<std::uint16_t>::max())
        return narrow_.push_back(static_cast<std::uint16_t>(number));
      wide_.reserve(narrow_.capacity());
      wide_.assign(narrow_.begin(), narrow_.end());
      release(narrow_);
    }
    wide_.push_back(number);
  }
  std::size_t size() const { return narrow_.size() + wide_.size(); }
  std::uint32_t operator[](std::size_t i) const { return wide_.empty() ? narrow_[i] : wide_[i]; }

 private:
  std::pmr::vector<std::uint16_t> narrow_;  ///< empty once `wide_` is not
  std::pmr::vector<std::uint32_t> wide_;
};

// Which NVTX ranges lie around the launches of kernels.

/// Numbers pairs of numbers, from 0 in the order in which they are met.
class PairNumbers {
 public:
  struct Number {
    std::uint32_t number;
    bool is_new;
  };
  Number of(std::uint32_t a, std::uint32_t b) {
    const std::uint64_t key = std::uint64_t{a} << 32 | b;
    Recent& recent = recent_[key * golden_ratio >> 52];  // most are like one that came shortly before
    if (recent.key == key && recent.number != none) return {recent.number, false};
    const auto [entry, is_new] = numbers_.try_emplace(key, static_cast<std::uint32_t>(numbers_.size()));
    recent = {key, entry->second};
    return {entry->second, is_new};
  }

 private:
  static constexpr std::uint32_t none = 0xFFFFFFFF;
  struct Recent {
    std::uint64_t key = 0;
    std::uint32_t number = none;
  };
  std::unordered_map<std::uint64_t, std::uint32_t> numbers_;
  std::vector<Recent> recent_ = std::vector<Recent>(4096);
};

/// Groups of the ranges around a point, outer ones first, as one number: that of the ranges but the innermost, and the
/// innermost one's group, tell it.
class RangePaths {
 public:
  static constexpr std::uint32_t outside = 0xFFFFFFFF;  ///< no ranges

  /// The path with one more range inside.
  std::uint32_t within(std::uint32_t path, std::uint32_t group) {
    const auto [number, is_new] = numbers_.of(path, group);
    if (is_new) steps_.push_back({path, group});
    return number;
  }
  std::vector<std::uint32_t> groups(std::uint32_t path) const {
    std::vector<std::uint32_t> found;
    for (; path != outside; path = steps_[path].first) found.push_back(steps_[path].second);
    std::reverse(found.begin(), found.end());
    return found;
  }

 private:
  PairNumbers numbers_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> steps_;  ///< by number: path around, group
};

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

  /// Number of the surroundings of a kernel with that name in ranges of that path.
  std::uint32_t number_of(StringIndex kernel, std::uint32_t path, const RangePaths& paths) {
    const auto [number, is_new] = numbers_.of(path, kernel);
    if (is_new) {
      all.emplace_back();
      for (const std::uint32_t group : paths.groups(path)) all.back().pairs.push_back(pair_number(group, kernel));
    }
    return number;
  }

 private:
  std::uint32_t pair_number(std::uint32_t group, StringIndex kernel) {
    const auto [number, is_new] = pair_numbers_.of(group, kernel);
    if (is_new) pairs.push_back({group, kernel});
    return number;
  }

  PairNumbers numbers_, pair_numbers_;
};

}  // namespace nsys_explain::analysis
