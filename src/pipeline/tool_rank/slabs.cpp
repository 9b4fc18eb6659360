#include "pipeline/tool_rank/slabs.hpp"

#include <algorithm>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include <cereal/types/utility.hpp>

#include "exchange/agree.hpp"
#include "nsys_explain/model/algorithms.hpp"
#include "pipeline/tool_rank/pack.hpp"
#include "report/report.hpp"

namespace nsys_explain::pipeline {
namespace {

constexpr auto rows_per_slab = static_cast<std::int64_t>(store::slab_rows);
constexpr std::string_view slab_phase = "writing results";

/// Rows [first, end) of a table.
struct SlabPlace {
  std::size_t table = 0;
  std::int64_t first = 0, end = 0;
};

/// Runs of one table on their way to another tool rank: many, whose schema is the same.
struct Runs {
  TableSchema schema;
  std::vector<std::pair<std::int64_t, std::vector<ColumnData>>> columns;  ///< of each run, after its first row

  template <class Archive>
  void serialize(Archive& archive) {
    archive(schema, columns);
  }
};

/// `runs`: at least one.
std::string pack_runs(std::vector<RowRun> runs) {
  Runs all{runs.front().rows.schema, {}};
  for (RowRun& run : runs) all.columns.emplace_back(run.first, std::move(run.rows.columns));
  return pack(all);
}

/// All slabs, in the order in which they are written.
std::vector<SlabPlace> plan_slabs(std::span<const DealtTable> tables) {
  std::vector<SlabPlace> slabs;
  for (std::size_t t = 0; t < tables.size(); ++t) {
    const auto end = static_cast<std::int64_t>(tables[t].extent.rows);
    for (std::int64_t first = 0; first < end; first += rows_per_slab)
      slabs.push_back({t, first, std::min(first + rows_per_slab, end)});
  }
  return slabs;
}

/// Who encodes which slab of a round. The last rank gets the first of them: where there are fewer than ranks, rank 0
/// has enough to do.
int encoder_of(const exchange::Communicator& communicator, std::size_t slab_of_round) {
  return communicator.size() - 1 - static_cast<int>(slab_of_round);
}

/// Collective: the rows of this tool rank's slab of a round; nothing where it has none.
std::vector<RowRun> take_slab(const exchange::Communicator& communicator, std::span<const SlabPlace> round,
                              std::span<const DealtTable> tables) {
  std::vector<RowRun> mine;
  std::vector<std::vector<char>> outgoing(static_cast<std::size_t>(communicator.size()));
  exchange::run_agreed(communicator, slab_phase, [&] {
    for (std::size_t s = 0; s < round.size(); ++s) {
      std::vector<RowRun> runs = tables[round[s].table].take(round[s].first, round[s].end);
      const int encoder = encoder_of(communicator, s);
      if (encoder == communicator.rank()) {
        mine = std::move(runs);
      } else if (!runs.empty()) {
        const std::string bytes = pack_runs(std::move(runs));
        outgoing[static_cast<std::size_t>(encoder)].assign(bytes.begin(), bytes.end());
      }
    }
  });
  const exchange::Gathered<char> received = communicator.all_to_all(std::move(outgoing));
  exchange::run_agreed(communicator, slab_phase, [&] {
    for (int r = 0; r < communicator.size(); ++r) {
      const std::span<const char> part = received.of(r);
      if (part.empty()) continue;
      auto runs = unpack<Runs>(std::string_view(part.data(), part.size()));
      for (auto& [first, columns] : runs.columns) mine.push_back({first, {runs.schema, std::move(columns)}});
    }
  });
  std::sort(mine.begin(), mine.end(), [](const RowRun& a, const RowRun& b) { return a.first < b.first; });
  return mine;
}

/// `runs`: at least one.
Slab encode(std::vector<RowRun> runs, const TableExtent& extent, bool with_csv) {
  Table rows = std::move(runs.front().rows);
  for (const RowRun& run : std::span(runs).subspan(1)) append_run(run.rows, 0, run.rows.row_count(), rows);
  return {store::encode_rows(rows, extent, 0, rows.row_count()), with_csv ? report::csv_rows(rows) : std::string()};
}

}  // namespace

void write_by_slabs(const exchange::Communicator& communicator, std::span<const DealtTable> tables, bool with_csv) {
  const std::vector<SlabPlace> slabs = plan_slabs(tables);
  const auto ranks = static_cast<std::size_t>(communicator.size());
  for (std::size_t first = 0; first < slabs.size(); first += ranks) {
    const auto round = std::span(slabs).subspan(first, std::min(ranks, slabs.size() - first));
    std::vector<RowRun> runs = take_slab(communicator, round, tables);
    Slab mine;
    std::string bytes;
    exchange::run_agreed(communicator, slab_phase, [&] {
      if (runs.empty()) return;
      const auto own = static_cast<std::size_t>(communicator.size() - 1 - communicator.rank());  // as encoder_of() says
      mine = encode(std::move(runs), tables[round[own].table].extent, with_csv);
      if (!communicator.is_root()) bytes = pack(mine);
    });
    const exchange::Gathered<char> gathered = communicator.gather(std::span<const char>(bytes));
    exchange::run_agreed(communicator, slab_phase, [&] {
      if (!communicator.is_root()) return;
      for (std::size_t s = 0; s < round.size(); ++s) {
        const int encoder = encoder_of(communicator, s);
        const std::span<const char> part = gathered.of(encoder);
        const auto& write = tables[round[s].table].write;
        if (encoder == communicator.rank()) {
          write(mine);
        } else {
          write(unpack<Slab>(std::string_view(part.data(), part.size())));
        }
      }
    });
  }
}

void append_run(const Table& from, std::size_t first, std::size_t count, Table& to, std::size_t at) {
  for (std::size_t c = 0; c < from.columns.size(); ++c) {
    std::visit(
        [&]<class Values>(const Values& values) {
          auto& all = std::get<Values>(to.columns[at + c]);
          if constexpr (std::is_same_v<Values, TextColumn>) {
            all.append(values, first, count);
          } else {
            reserve_sparingly(all, count);
            const auto begin = values.begin() + static_cast<std::ptrdiff_t>(first);
            all.insert(all.end(), begin, begin + static_cast<std::ptrdiff_t>(count));
          }
        },
        from.columns[c]);
  }
}

}  // namespace nsys_explain::pipeline
