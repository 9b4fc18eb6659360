#include "analysis/waits/bandwidth.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <tuple>

#include "analysis/waits/waits.hpp"
#include "model/schema/links.hpp"

namespace nsys_explain::analysis {
namespace {

constexpr double outlier_share = 0.8;
constexpr std::size_t fewest_peers = 3;

auto key_of(const TransferGroup& group) {
  return std::tie(group.communicator, group.operation, group.size_class, group.trace_ranks);
}

bool before(const TransferGroup& a, const TransferGroup& b) {
  return key_of(a) < key_of(b);
}

void merge_into(TransferGroup& group, const TransferGroup& other) {
  group.instances += other.instances;
  group.bytes += other.bytes;
  group.transfer_ns += other.transfer_ns;
  group.uncertainty_ns = std::max(group.uncertainty_ns, other.uncertainty_ns);
  group.bus_bandwidth.merge(other.bus_bandwidth);
}

bool tells_bandwidth(const Instance& instance) {
  const bool whole = instance.complete || instance.operation == Operation::send_recv;
  return whole && instance.comparable && instance.feasible && instance.message_bytes > 0 &&
         instance.transfer_ns > resolution_factor * std::max<std::int64_t>(instance.skew_uncertainty_ns, 0);
}

std::int32_t size_class_of(const Instance& instance) {
  return static_cast<std::int32_t>(
      std::floor(size_classes_per_octave * std::log2(static_cast<double>(instance.message_bytes))));
}

/// The group of an instance, without any instance.
TransferGroup empty_group(const MatchedBlock& block, const Instance& instance, std::int32_t size_class) {
  TransferGroup group;
  group.communicator = block.communicator;
  group.operation = instance.operation;
  group.size_class = size_class;
  for (const InstanceArrival& member : members_of(block, instance)) group.trace_ranks.push_back(member.trace_rank);
  return group;
}

bool is_group_of(const TransferGroup& group, const MatchedBlock& block, const Instance& instance,
                 std::int32_t size_class) {
  const std::span<const InstanceArrival> members = members_of(block, instance);
  return group.communicator == block.communicator && group.operation == instance.operation &&
         group.size_class == size_class &&
         std::equal(
             members.begin(), members.end(), group.trace_ranks.begin(), group.trace_ranks.end(),
             [](const InstanceArrival& member, std::int32_t trace_rank) { return member.trace_rank == trace_rank; });
}

void add(const Instance& instance, TransferGroup& group) {
  ++group.instances;
  group.bytes += instance.message_bytes;
  group.transfer_ns += instance.transfer_ns;
  group.uncertainty_ns = std::max<Nanoseconds>(group.uncertainty_ns, instance.skew_uncertainty_ns);
  group.bus_bandwidth.add(static_cast<double>(instance.message_bytes) *
                          bus_bandwidth_factor(instance.operation, instance.arrivals) /
                          static_cast<double>(instance.transfer_ns));
}

/// The group of one row of the table.
struct SizedGroup {
  TransferGroup sum;
  GroupShape shape;
  double median_gbs = 0;
};

std::vector<SizedGroup> rows_of(std::span<const TransferGroup> groups, const NodeOfRank& node_of) {
  std::map<std::tuple<std::int32_t, Operation, std::int32_t>, SizedGroup> rows;
  for (const TransferGroup& group : groups) {
    const std::int32_t octave = group.size_class / size_classes_per_octave;
    const auto [row, is_new] =
        rows.try_emplace({group.communicator, group.operation, octave}, SizedGroup{group, {}, 0});
    if (!is_new) {
      merge_into(row->second.sum, group);
      std::vector<std::int32_t> members;
      std::set_union(row->second.sum.trace_ranks.begin(), row->second.sum.trace_ranks.end(), group.trace_ranks.begin(),
                     group.trace_ranks.end(), std::back_inserter(members));
      row->second.sum.trace_ranks = std::move(members);
    }
  }
  std::vector<SizedGroup> result;
  for (auto& [key, row] : rows) {
    row.sum.size_class = std::get<2>(key);
    row.shape = shape_of(row.sum.trace_ranks, node_of);
    row.median_gbs = row.sum.bus_bandwidth.quantile(0.5);
    result.push_back(std::move(row));
  }
  return result;
}

}  // namespace

void BandwidthHistogram::add(double bytes_per_ns, std::int64_t count) {
  counts_[static_cast<std::int32_t>(std::floor(bins_per_octave * std::log2(bytes_per_ns)))] += count;
}

void BandwidthHistogram::merge(const BandwidthHistogram& other) {
  for (const auto& [bin, count] : other.counts_) counts_[bin] += count;
}

std::int64_t BandwidthHistogram::count() const {
  std::int64_t sum = 0;
  for (const auto& [bin, count] : counts_) sum += count;
  return sum;
}

double BandwidthHistogram::quantile(double share) const {
  const double wanted = share * static_cast<double>(count());
  std::int64_t below = 0;
  for (const auto& [bin, count] : counts_) {
    below += count;
    if (static_cast<double>(below) >= wanted) return std::exp2((bin + 0.5) / bins_per_octave);
  }
  return 0;
}

std::vector<TransferGroup> merge_transfer_groups(std::vector<TransferGroup> groups) {
  std::sort(groups.begin(), groups.end(), before);
  std::vector<TransferGroup> merged;
  for (TransferGroup& group : groups) {
    if (!merged.empty() && key_of(merged.back()) == key_of(group)) {
      merge_into(merged.back(), group);
    } else {
      merged.push_back(std::move(group));
    }
  }
  return merged;
}

std::vector<TransferGroup> transfer_groups(std::span<const MatchedBlock> blocks) {
  std::vector<TransferGroup> groups;
  std::map<std::tuple<std::int32_t, Operation, std::int32_t, std::vector<std::int32_t>>, std::size_t> place;
  std::array<std::size_t, 4> latest{};  // programs go round among a few
  for (const MatchedBlock& block : blocks) {
    for (const Instance& instance : block.instances) {
      if (!tells_bandwidth(instance)) continue;
      const std::int32_t size_class = size_class_of(instance);
      const auto known = std::find_if(latest.begin(), latest.end(), [&](std::size_t g) {
        return g < groups.size() && is_group_of(groups[g], block, instance, size_class);
      });
      if (known != latest.end()) {
        add(instance, groups[*known]);
        continue;
      }
      TransferGroup group = empty_group(block, instance, size_class);
      const auto [found, is_new] = place.try_emplace(key_of(group), groups.size());
      if (is_new) groups.push_back(std::move(group));
      add(instance, groups[found->second]);
      std::rotate(latest.begin(), latest.end() - 1, latest.end());
      latest.front() = found->second;
    }
  }
  std::sort(groups.begin(), groups.end(), before);
  return groups;
}

GroupShape shape_of(std::span<const std::int32_t> trace_ranks, const NodeOfRank& node_of) {
  GroupShape shape;
  std::map<std::int32_t, std::int32_t> on_node;
  for (const std::int32_t rank : trace_ranks) {
    ++shape.members;
    const auto node = node_of.find(rank);
    std::int32_t& count = on_node[node == node_of.end() ? -1 - rank : node->second];
    shape.most_on_one_node = std::max(shape.most_on_one_node, ++count);
  }
  shape.nodes = static_cast<std::int32_t>(on_node.size());
  return shape;
}

Table bandwidth_table(std::span<const TransferGroup> groups, std::span<const std::string> names,
                      const NodeOfRank& node_of) {
  Table table = make_table(schema::bandwidth);
  const std::vector<SizedGroup> rows = rows_of(groups, node_of);
  std::map<std::tuple<Operation, std::int32_t, GroupShape>, std::vector<double>> peers;
  for (const SizedGroup& row : rows) {
    peers[{row.sum.operation, row.sum.size_class, row.shape}].push_back(row.median_gbs);
  }
  for (auto& [key, medians] : peers) std::sort(medians.begin(), medians.end());
  RowWriter writer(table);
  for (const SizedGroup& row : rows) {
    const std::vector<double>& medians = peers[{row.sum.operation, row.sum.size_class, row.shape}];
    const bool compared = medians.size() >= fewest_peers;
    const double expected = compared ? medians[medians.size() / 2] : std::numeric_limits<double>::quiet_NaN();
    const double factor = bus_bandwidth_factor(row.sum.operation, row.shape.members);
    writer << std::string_view(names[static_cast<std::size_t>(row.sum.communicator)])
           << operation_name(row.sum.operation) << (std::int64_t{1} << row.sum.size_class)
           << std::int64_t{row.shape.members} << std::int64_t{row.shape.nodes} << row.sum.instances << row.sum.bytes
           << row.sum.transfer_ns << row.median_gbs / factor << row.median_gbs << row.sum.bus_bandwidth.quantile(0.1)
           << row.sum.bus_bandwidth.quantile(0.9) << expected
           << (compared && row.median_gbs < outlier_share * expected);
  }
  return table;
}

}  // namespace nsys_explain::analysis
