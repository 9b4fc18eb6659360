#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "nsys_explain/model/collective.hpp"
#include "nsys_explain/model/table.hpp"

/// How fast collectives move data once every member is there: wait-free bandwidths by group, operation and size.
namespace nsys_explain::analysis {

/// Counts by logarithmic bins: a quantile is good to 0.6% and, unlike one over values, can be put together from the
/// histograms of many tool ranks in any order.
class BandwidthHistogram {
 public:
  void add(double bytes_per_ns, std::int64_t count = 1);
  void merge(const BandwidthHistogram& other);
  std::int64_t count() const;
  /// The lowest bin with at least `share` of the counts at or below it, as its middle; 0 where it is empty.
  double quantile(double share) const;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(counts_);
  }

 private:
  static constexpr double bins_per_octave = 64;
  std::map<std::int32_t, std::int64_t> counts_;
};

/// Transfers of one group of trace ranks with one operation and nearly one size.
struct TransferGroup {
  std::int32_t communicator = 0;  ///< index into the run's list
  Operation operation = Operation::unknown;
  std::int32_t size_class = 0;            ///< floor(8 log2 bytes): sizes of one class differ by 9% at most
  std::vector<std::int32_t> trace_ranks;  ///< the members: all of the communicator, or the two of a send and receive
  std::int64_t instances = 0;
  std::int64_t bytes = 0;            ///< message sizes, summed
  Nanoseconds transfer_ns = 0;       ///< summed over instances
  Nanoseconds uncertainty_ns = 0;    ///< the largest standard uncertainty of a transfer that the clock leaves
  BandwidthHistogram bus_bandwidth;  ///< GB/s

  template <class Archive>
  void serialize(Archive& archive) {
    archive(communicator, operation, size_class, trace_ranks, instances, bytes, transfer_ns, uncertainty_ns,
            bus_bandwidth);
  }
};

inline constexpr std::int32_t size_classes_per_octave = 8;

/// Groups of a block whose waits were computed, in the order of their keys (communicator, operation, size class, trace
/// ranks). Left out: instances whose size is not known, that are not complete (sends and receives excepted, which are
/// between some members only), that nothing is claimed of, or whose transfer is shorter than three standard
/// uncertainties of the clock.
std::vector<TransferGroup> transfer_groups(std::span<const MatchedBlock> blocks);

/// Groups of all tool ranks with equal keys made one; in the order of their keys.
std::vector<TransferGroup> merge_transfer_groups(std::vector<TransferGroup> groups);

/// What groups must have in common to be expected to be equally fast, besides operation and size.
struct GroupShape {
  std::int32_t members = 0;
  std::int32_t nodes = 0;  ///< that the members lie on
  std::int32_t most_on_one_node = 0;
  auto operator<=>(const GroupShape&) const = default;  // NOLINT(modernize-use-nullptr): clang-tidy 14 sees a 0 in it
};

/// `node_of` by trace rank; trace ranks without an entry lie on a node of their own.
using NodeOfRank = std::map<std::int32_t, std::int32_t>;
GroupShape shape_of(std::span<const std::int32_t> trace_ranks, const NodeOfRank& node_of);

/// Table `bandwidth`: a row per communicator, operation and power of two of the size; `names` by communicator.
/// Expected: what the median of the communicators with the same operation, size and shape reaches; an outlier stays
/// below 0.8 of it, with at least three communicators to compare.
Table bandwidth_table(std::span<const TransferGroup> groups, std::span<const std::string> names,
                      const NodeOfRank& node_of);

}  // namespace nsys_explain::analysis
