#include "analysis/tables/contended_kernels.hpp"

#include <algorithm>
#include <vector>

#include "analysis/trace/contention.hpp"
#include "model/schema/gpu.hpp"

namespace nsys_explain::analysis {

Table contended_kernels_table(const RankEvents& events) {
  std::vector<ContendedKernels> rows = contended_kernels(events);
  std::erase_if(rows, [](const ContendedKernels& row) { return row.lost_ns() <= 0; });
  std::stable_sort(rows.begin(), rows.end(),
                   [](const ContendedKernels& a, const ContendedKernels& b) { return a.lost_ns() > b.lost_ns(); });
  Table table = make_table(schema::contended_kernels);
  RowWriter row(table);
  for (const ContendedKernels& one : rows) {
    row << std::string_view(events.trace.strings[one.name]) << one.alone << one.alone_ns << one.beside << one.beside_ns
        << one.time_beside_ns << one.lost_ns();
  }
  return table;
}

}  // namespace nsys_explain::analysis
