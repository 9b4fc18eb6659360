#include "analysis/tables/tables.hpp"

#include "analysis/statistics/statistics.hpp"
#include "analysis/trace/work_profile.hpp"
#include "model/schema/gpu.hpp"
#include "nsys_explain/model/intervals.hpp"

namespace nsys_explain::analysis {
namespace {

constexpr std::int64_t memory_time_spans = 256;

/// Operation, kind of source, kind of destination.
using TransferKey = std::tuple<std::string, std::int16_t, std::int16_t>;

struct Transfers {
  std::vector<std::int64_t> durations_ns, sizes;
};

double gigabytes_per_second(std::int64_t bytes, Nanoseconds duration_ns) {
  return duration_ns > 0 ? static_cast<double>(bytes) / static_cast<double>(duration_ns) : 0;
}

std::map<TransferKey, Transfers> transfers_of(const DeviceTrace& device) {
  std::map<std::tuple<bool, std::int16_t, std::int16_t, std::int16_t>, Transfers> by_kinds;
  for (const MemoryOperation& m : device.memory_operations) {
    Transfers& transfers = by_kinds[{m.is_set, m.copy_kind, m.source_kind, m.destination_kind}];
    transfers.durations_ns.push_back(m.end_ns - m.start_ns);
    transfers.sizes.push_back(m.bytes);
  }
  std::map<TransferKey, Transfers> result;
  for (auto& [kinds, transfers] : by_kinds) {
    const auto& [is_set, copy_kind, source, destination] = kinds;
    MemoryOperation operation;
    operation.is_set = is_set;
    operation.copy_kind = copy_kind;
    result[{operation_label(operation), source, destination}] = std::move(transfers);
  }
  return result;
}

/// Rows by falling total, then name.
Table statistics_by_operation(const std::map<std::string, std::vector<std::int64_t>>& values, TableSchema schema,
                              std::string_view unit) {
  std::vector<std::pair<std::string, Statistics>> rows;
  std::int64_t total = 0;
  for (const auto& [operation, samples] : values) {
    std::vector<std::int64_t> copy = samples;
    rows.emplace_back(operation, summarise(copy));
    total += rows.back().second.total;
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.second.total > b.second.total; });
  schema.columns = {{"operation", ColumnKind::text, "", "as nsys names it"},
                    {"share_percent", ColumnKind::real, "%", "of the sum of all rows"}};
  for (ColumnSchema& column : statistics_columns(unit)) schema.columns.push_back(std::move(column));
  Table table = make_table(std::move(schema));
  RowWriter row(table);
  for (const auto& [operation, statistics] : rows) {
    row << operation << percent(statistics.total, total);
    write_statistics(row, statistics);
  }
  return table;
}

Table transfers_table(const std::map<TransferKey, Transfers>& transfers) {
  Table table = make_table(schema::memory_transfers);
  RowWriter row(table);
  for (const auto& [key, part] : transfers) {
    std::int64_t bytes = 0, total_ns = 0;
    for (const std::int64_t size : part.sizes) bytes += size;
    for (const std::int64_t duration_ns : part.durations_ns) total_ns += duration_ns;
    row << std::get<0>(key) << memory_kind_name(std::get<1>(key)) << memory_kind_name(std::get<2>(key))
        << static_cast<std::int64_t>(part.sizes.size()) << bytes << total_ns << gigabytes_per_second(bytes, total_ns);
  }
  return table;
}

enum class CopyDirection : std::uint8_t { host_to_device, device_to_host, on_device, peer, set, other };
constexpr std::size_t direction_count = 6;
constexpr std::array<std::string_view, direction_count> direction_names{
    "host_to_device", "device_to_host", "on_device", "peer", "set", "other"};

CopyDirection direction_of(const MemoryOperation& operation) {
  if (operation.is_set) return CopyDirection::set;
  switch (operation.copy_kind) {
    case 1:
    case 3:
    case 11:
      return CopyDirection::host_to_device;
    case 2:
    case 4:
    case 12:
      return CopyDirection::device_to_host;
    case 5:
    case 6:
    case 7:
    case 8:
      return CopyDirection::on_device;
    case 10:
    case 13:
      return CopyDirection::peer;
    default:
      return CopyDirection::other;
  }
}

Table copy_engines_table(const RankEvents& events) {
  std::array<std::vector<Interval>, direction_count> times;
  std::array<std::int64_t, direction_count> bytes{};
  std::array<std::int64_t, direction_count> counts{};
  for (const MemoryOperation& m : events.device.memory_operations) {
    const auto d = static_cast<std::size_t>(direction_of(m));
    times[d].push_back({m.start_ns, m.end_ns});
    bytes[d] += m.bytes;
    ++counts[d];
  }
  std::vector<Interval> copying;  // directions after each other
  std::array<Nanoseconds, direction_count> busy_ns{}, overlapped_ns{};
  std::vector<std::size_t> direction;
  for (std::size_t d = 0; d < direction_count; ++d) {
    const std::vector<Interval> merged = merge_intervals(std::move(times[d]));
    busy_ns[d] = total_length(merged);
    copying.insert(copying.end(), merged.begin(), merged.end());
    direction.resize(copying.size(), d);
  }
  const std::vector<Nanoseconds> overlaps_ns = compute_within(events, copying);
  for (std::size_t i = 0; i < copying.size(); ++i) overlapped_ns[direction[i]] += overlaps_ns[i];
  Table table = make_table({"copy_engines",
                            "Copies and sets by direction: when any of them ran, and how much of that compute hid",
                            {{"direction", ColumnKind::text, "", ""},
                             {"count", ColumnKind::integer, "", "operations"},
                             {"bytes", ColumnKind::integer, "bytes", "sum"},
                             {"busy_ns", ColumnKind::integer, "ns", "union of their times"},
                             {"overlapped_ns", ColumnKind::integer, "ns", "of busy_ns, while compute kernels ran"},
                             {"throughput_gbs", ColumnKind::real, "GB/s", "bytes over busy_ns"}}});
  RowWriter row(table);
  for (std::size_t d = 0; d < direction_count; ++d) {
    if (counts[d] == 0) continue;
    row << direction_names[d] << counts[d] << bytes[d] << busy_ns[d] << overlapped_ns[d]
        << gigabytes_per_second(bytes[d], busy_ns[d]);
  }
  return table;
}

/// Use of one kind of memory.
struct MemoryUse {
  std::int64_t in_use = 0, peak = 0;
  std::int64_t allocations = 0, releases = 0, allocated = 0;
  Nanoseconds peak_ns = no_time;
};

}  // namespace

std::vector<Table> memory_operation_tables(const RankEvents& events) {
  const std::map<TransferKey, Transfers> transfers = transfers_of(events.device);
  std::map<std::string, std::vector<std::int64_t>> durations, sizes;
  for (const auto& [key, part] : transfers) {
    auto& all_durations = durations[std::get<0>(key)];
    all_durations.insert(all_durations.end(), part.durations_ns.begin(), part.durations_ns.end());
    auto& all_sizes = sizes[std::get<0>(key)];
    all_sizes.insert(all_sizes.end(), part.sizes.begin(), part.sizes.end());
  }
  std::vector<Table> tables;
  tables.push_back(
      statistics_by_operation(durations, {"memory_time", "Durations of copies and sets, most time first", {}}, "ns"));
  tables.push_back(
      statistics_by_operation(sizes, {"memory_size", "Sizes of copies and sets, most bytes first", {}}, "bytes"));
  tables.push_back(transfers_table(transfers));
  tables.push_back(copy_engines_table(events));
  return tables;
}

std::vector<Table> gpu_memory_tables(const RankEvents& events) {
  std::vector<const MemoryEvent*> mine;
  for (const MemoryEvent& event : events.process.memory_events)
    if (event.device_id == events.device.device_id) mine.push_back(&event);
  std::vector<Table> tables;
  tables.push_back(make_table(schema::gpu_memory));
  tables.push_back(make_table(schema::gpu_memory_summary));
  if (mine.empty()) return tables;

  const Nanoseconds begin_ns = mine.front()->time_ns;
  const Nanoseconds span_ns = (mine.back()->time_ns - begin_ns) / memory_time_spans + 1;
  std::map<std::int16_t, MemoryUse> use;
  RowWriter over_time(tables[0]), summary(tables[1]);
  for (std::size_t i = 0; i < mine.size();) {
    const Nanoseconds span = (mine[i]->time_ns - begin_ns) / span_ns;
    std::map<std::int16_t, std::int64_t> peak_in_span;
    for (const auto& [kind, state] : use) peak_in_span[kind] = state.in_use;
    for (; i < mine.size() && (mine[i]->time_ns - begin_ns) / span_ns == span; ++i) {
      const MemoryEvent& event = *mine[i];
      MemoryUse& state = use[event.memory_kind];
      state.in_use += event.is_release ? -event.bytes : event.bytes;
      ++(event.is_release ? state.releases : state.allocations);
      if (!event.is_release) state.allocated += event.bytes;
      if (state.peak_ns == no_time || state.in_use > state.peak) {
        state.peak = state.in_use;
        state.peak_ns = event.time_ns;
      }
      std::int64_t& peak = peak_in_span.try_emplace(event.memory_kind, 0).first->second;
      peak = std::max(peak, state.in_use);
    }
    for (const auto& [kind, state] : use)
      over_time << begin_ns + span * span_ns << memory_kind_name(kind) << state.in_use << peak_in_span[kind];
  }
  for (const auto& [kind, state] : use) {
    summary << memory_kind_name(kind) << state.allocations << state.releases << state.allocated << state.peak
            << state.peak_ns << state.in_use;
  }
  return tables;
}

}  // namespace nsys_explain::analysis
