#include "nsys_explain/analysis/kernels.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <vector>

namespace nsys_explain::analysis {
namespace {

struct KernelSum {
  std::string_view name;
  std::int64_t count = 0;
  Nanoseconds total_ns = 0;
  Nanoseconds shortest_ns = 0, longest_ns = 0;
  bool communication = false;
};

}  // namespace

Table kernels_table(const RankEvents& events) {
  std::map<StringIndex, KernelSum> sums;
  for (const Kernel& kernel : events.device.kernels) {
    const Nanoseconds duration_ns = kernel.end_ns - kernel.start_ns;
    KernelSum& sum = sums[kernel.demangled_name];
    if (sum.count == 0) {
      sum = {
          events.trace.strings[kernel.demangled_name], 0, 0, duration_ns, duration_ns, events.is_communication(kernel)};
    }
    ++sum.count;
    sum.total_ns += duration_ns;
    sum.shortest_ns = std::min(sum.shortest_ns, duration_ns);
    sum.longest_ns = std::max(sum.longest_ns, duration_ns);
  }
  std::vector<KernelSum> order;
  order.reserve(sums.size());
  for (const auto& [name, sum] : sums) order.push_back(sum);
  std::sort(order.begin(), order.end(), [](const KernelSum& a, const KernelSum& b) {
    return a.total_ns != b.total_ns ? a.total_ns > b.total_ns : a.name < b.name;
  });
  Table table = make_table({"kernels",
                            "One row per trace rank and kernel name, most time first",
                            {{"name", ColumnKind::text, "", "kernel with its template and argument lists"},
                             {"communication", ColumnKind::integer, "", "1: it moves data between ranks"},
                             {"count", ColumnKind::integer, "", "executions"},
                             {"total_ns", ColumnKind::integer, "ns", "sum of durations"},
                             {"min_ns", ColumnKind::integer, "ns", "shortest duration"},
                             {"max_ns", ColumnKind::integer, "ns", "longest duration"}}});
  RowWriter rows(table);
  for (const KernelSum& sum : order) {
    rows << sum.name << sum.communication << sum.count << sum.total_ns << sum.shortest_ns << sum.longest_ns;
  }
  return table;
}

}  // namespace nsys_explain::analysis
