#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "analysis/trace/rank_events.hpp"
#include "nsys_explain/model/table.hpp"
#include "unit/add_kernel.hpp"

/// One trace rank made by hand: events in any order of writing, sorted by `events()`.
namespace nsys_explain::analysis::testing {

class OneRank {
 public:
  OneRank() {
    trace_.strings.emplace_back();
    trace_.processes.resize(1);
    process().devices.resize(1);
  }
  ProcessTrace& process() { return trace_.processes[0]; }
  DeviceTrace& device() { return process().devices[0]; }

  StringIndex text(std::string_view value) {
    for (std::size_t i = 0; i < trace_.strings.size(); ++i) {
      if (trace_.strings[i] == value) return static_cast<StringIndex>(i);
    }
    trace_.strings.emplace_back(value);
    return static_cast<StringIndex>(trace_.strings.size() - 1);
  }
  KernelKind& kernel(std::string_view name, Nanoseconds start_ns, Nanoseconds end_ns, std::uint32_t correlation = 0,
                     std::uint32_t stream = 7) {
    KernelKind& kernel = nsys_explain::testing::add_kernel(device(), start_ns, end_ns, correlation);
    kernel.stream_id = stream;
    kernel.demangled_name = text(name);
    kernel.short_name = text(name.substr(0, name.find('<')));
    kernel.grid_x = kernel.grid_y = kernel.grid_z = kernel.block_x = kernel.block_y = kernel.block_z = 1;
    return kernel;
  }
  void copy(std::int16_t kind, Nanoseconds start_ns, Nanoseconds end_ns, std::int64_t bytes, std::int16_t source = -1,
            std::int16_t destination = -1, std::uint32_t correlation = 0, std::uint32_t stream = 8) {
    MemoryOperation copy;
    copy.start_ns = start_ns;
    copy.end_ns = end_ns;
    copy.bytes = bytes;
    copy.copy_kind = kind;
    copy.source_kind = source;
    copy.destination_kind = destination;
    copy.correlation_id = correlation;
    copy.stream_id = stream;
    device().memory_operations.push_back(copy);
  }
  void set(Nanoseconds start_ns, Nanoseconds end_ns, std::int64_t bytes, std::int16_t kind,
           std::uint32_t correlation = 0) {
    copy(-1, start_ns, end_ns, bytes, -1, kind, correlation);
    device().memory_operations.back().is_set = true;
  }
  void call(std::string_view name, Nanoseconds start_ns, Nanoseconds end_ns, std::uint32_t correlation = 0,
            std::uint32_t thread = 1, std::uint16_t version = 0) {
    process().api_calls.push_back({start_ns, end_ns, thread, correlation, text(name), 0, version});
  }

  /// Kernels whose name begins with "nccl" communicate.
  RankEvents events() {
    const auto by_start = [](const auto& a, const auto& b) {
      return std::pair(a.start_ns, a.end_ns) < std::pair(b.start_ns, b.end_ns);
    };
    device().kernels.sort(by_start);
    std::stable_sort(device().memory_operations.begin(), device().memory_operations.end(), by_start);
    std::stable_sort(device().graph_launches.begin(), device().graph_launches.end(), by_start);
    process().api_calls.sort(by_start);
    launches_.emplace(process().api_calls);
    return {trace_, process(), device(), *launches_, nsys_explain::testing::nccl_kinds(trace_, device())};
  }

 private:
  Trace trace_;
  std::optional<LaunchIndex> launches_;
};

using Integers = std::vector<std::int64_t>;
using Reals = std::vector<double>;
using Texts = TextColumn;

inline const Integers& integers(const Table& table, std::string_view name) {
  return column<std::int64_t>(table, name);
}
inline const Reals& reals(const Table& table, std::string_view name) {
  return column<double>(table, name);
}
inline const Texts& texts(const Table& table, std::string_view name) {
  return column<std::string>(table, name);
}
inline const Table& table_of(const std::vector<Table>& tables, std::string_view name) {
  const Table* table = find_table(tables, name);
  if (table == nullptr) throw std::out_of_range("no table " + std::string(name));
  return *table;
}

/// Joins tables of one name as the pipeline does: the trace rank in front.
inline Table join(const std::vector<Table>& of_ranks) {
  TableSchema schema = of_ranks.at(0).schema;
  schema.columns.push_front({"trace_rank", ColumnKind::integer, "", ""});
  Table joined = make_table(std::move(schema));
  for (std::size_t rank = 0; rank < of_ranks.size(); ++rank) {
    auto& ranks = std::get<Integers>(joined.columns[0]);
    ranks.insert(ranks.end(), of_ranks[rank].row_count(), static_cast<std::int64_t>(rank));
    for (std::size_t c = 0; c < of_ranks[rank].columns.size(); ++c) {
      std::visit(
          [&](const auto& values) {
            auto& all = std::get<std::decay_t<decltype(values)>>(joined.columns[c + 1]);
            for (const auto& value : values) all.push_back(value);
          },
          of_ranks[rank].columns[c]);
    }
  }
  return joined;
}

}  // namespace nsys_explain::analysis::testing
