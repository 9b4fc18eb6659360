#include "slabs.hpp"

#include <algorithm>
#include <iterator>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "nsys_explain/exchange/agree.hpp"
#include "nsys_explain/report/report.hpp"
#include "pack.hpp"

namespace nsys_explain::pipeline {
namespace {

constexpr auto rows_per_slab = static_cast<std::int64_t>(store::slab_rows);
constexpr std::string_view phase = "writing results";

/// Collective: the slab of this tool rank among those that begin at `first`; nothing behind the end of the table. The
/// last rank gets the first of them: where there are fewer than ranks, rank 0 has enough to do.
std::vector<RowRun> take_slab(const exchange::Communicator& communicator, std::int64_t first, std::int64_t end,
                              const TakeRows& take) {
  std::vector<RowRun> mine;
  std::vector<std::vector<char>> outgoing(static_cast<std::size_t>(communicator.size()));
  exchange::run_agreed(communicator, phase, [&] {
    for (int r = communicator.size() - 1; r >= 0 && first < end; --r, first += rows_per_slab) {
      std::vector<RowRun> runs = take(first, std::min(first + rows_per_slab, end));
      if (r == communicator.rank()) {
        mine = std::move(runs);
      } else if (!runs.empty()) {
        const std::string bytes = pack(runs);
        outgoing[static_cast<std::size_t>(r)].assign(bytes.begin(), bytes.end());
      }
    }
  });
  const exchange::Gathered<char> received = communicator.all_to_all(std::move(outgoing));
  exchange::run_agreed(communicator, phase, [&] {
    for (int r = 0; r < communicator.size(); ++r) {
      const std::span<const char> part = received.of(r);
      if (part.empty()) continue;
      auto runs = unpack<std::vector<RowRun>>(std::string_view(part.data(), part.size()));
      std::move(runs.begin(), runs.end(), std::back_inserter(mine));
    }
  });
  std::sort(mine.begin(), mine.end(), [](const RowRun& a, const RowRun& b) { return a.first < b.first; });
  return mine;
}

/// `runs`: at least one.
Slab encode(std::vector<RowRun> runs, const TableExtent& extent, bool with_csv) {
  Table rows = std::move(runs.front().rows);
  for (RowRun& run : std::span(runs).subspan(1)) move_rows(run.rows, 0, run.rows.row_count(), rows);
  return {store::encode_rows(rows, extent, 0, rows.row_count()), with_csv ? report::csv_rows(rows) : std::string()};
}

}  // namespace

void write_by_slabs(const exchange::Communicator& communicator, const TableExtent& extent, bool with_csv,
                    const TakeRows& take, const std::function<void(const Slab&)>& write) {
  const auto end = static_cast<std::int64_t>(extent.rows);
  for (std::int64_t first = 0; first < end; first += communicator.size() * rows_per_slab) {
    std::vector<RowRun> runs = take_slab(communicator, first, end, take);
    Slab mine;
    std::string bytes;
    exchange::run_agreed(communicator, phase, [&] {
      if (runs.empty()) return;
      mine = encode(std::move(runs), extent, with_csv);
      if (!communicator.is_root()) bytes = pack(mine);
    });
    const exchange::Gathered<char> gathered = communicator.gather(std::span<const char>(bytes));
    exchange::run_agreed(communicator, phase, [&] {
      if (!communicator.is_root()) return;
      for (int r = communicator.size() - 1; r > 0; --r) {
        const std::span<const char> part = gathered.of(r);
        if (!part.empty()) write(unpack<Slab>(std::string_view(part.data(), part.size())));
      }
      if (mine.rows.rows > 0) write(mine);
    });
  }
}

void move_rows(Table& from, std::size_t first, std::size_t count, Table& to, std::size_t at) {
  for (std::size_t c = 0; c < from.columns.size(); ++c) {
    std::visit(
        [&](auto& values) {
          auto& all = std::get<std::decay_t<decltype(values)>>(to.columns[at + c]);
          const auto begin = values.begin() + static_cast<std::ptrdiff_t>(first);
          all.insert(all.end(), std::make_move_iterator(begin),
                     std::make_move_iterator(begin + static_cast<std::ptrdiff_t>(count)));
        },
        from.columns[c]);
  }
}

}  // namespace nsys_explain::pipeline
