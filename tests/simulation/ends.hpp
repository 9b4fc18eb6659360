#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nsys_explain/model/collective.hpp"

/// How members of a collective leave after its planned end. The figures are data (ends.json), measured or assumed; the
/// analysis shares none of them.
namespace nsys_explain::synth {

/// Of an operation, calls of fewer bytes and groups of at least so many members.
struct EndsClass {
  Operation operation = Operation::all_reduce;
  std::int64_t bytes_below = 0;
  std::int32_t members = 2;
  bool by_tree = false;  ///< NCCL's algorithm, which the kernel's name tells

  // Measured. Quantiles at EndsLaw::shares. A member's delay is its own bias, which lasts, and its place in the spread
  // of the instance, whose order is random (in a pair, who receives is last); the first member leaves at the planned
  // end.
  std::vector<double> bias_us;
  std::vector<double> spread_us;  ///< first to last member, without biases
  std::vector<double> between;    ///< place of an inner member in the spread, 0 to 1; empty: evenly
  double nobody_waits = 0;        ///< share of one-way sends that end without their receive

  // Assumed. Each member's delay by itself; used where spread_us is empty.
  double bias_low_us = 0, bias_high_us = 0;  ///< lasting, uniform
  double half_normal_median_us = 0;          ///< beyond it
  // Instead of both, where the median is above 0: median x exp(bias_sigma x lasting normal + sigma x normal).
  double log_normal_median_us = 0, bias_sigma = 0, sigma = 0, most_us = 0;
};

struct EndsLaw {
  std::string name;
  std::string source;          ///< what was measured; "assumed, not measured"
  std::vector<double> shares;  ///< of the quantiles, 0 to 1
  std::vector<EndsClass> classes;
};

/// The law of this name in ends.json, or, of a path ("/" or ".json" in it), the first of another such file.
/// Throws PlanError.
EndsLaw ends_law(const std::string& name_or_file);

struct EndsMember {
  std::int32_t rank = 0;
  bool sends = false, receives = false;
};

struct EndsInstance {
  std::uint64_t seed = 0;
  Operation operation = Operation::all_reduce;
  std::int64_t bytes = 0;
  std::uint32_t channel = 0;
  std::int64_t position = 0;  ///< in the channel
};

/// Nanoseconds after the planned end at which each member leaves.
std::vector<double> end_delays_ns(const EndsLaw& law, const EndsInstance& instance,
                                  const std::vector<EndsMember>& members);

/// Whether some calls go by a tree.
bool has_trees(const EndsLaw& law);

/// Whether calls of this kind do.
bool goes_by_tree(const EndsLaw& law, Operation operation, std::int64_t bytes, std::size_t members);

/// Whether no sender of so many bytes waits for its receiver.
bool no_sender_waits(const EndsLaw& law, std::int64_t bytes);

/// Whether the sender of this one-way pair leaves without waiting for its receiver.
bool leaves_at_once(const EndsLaw& law, const EndsInstance& instance, const std::vector<EndsMember>& members);

}  // namespace nsys_explain::synth
