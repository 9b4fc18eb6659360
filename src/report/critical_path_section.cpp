#include "report/critical_path_section.hpp"

#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "report/markdown_parts.hpp"
#include "report/markdown_table.hpp"
#include "report/report.hpp"
#include "report/text.hpp"

namespace nsys_explain::report {
namespace {

Nanoseconds length_of(const CriticalShare& share) {
  return std::accumulate(share.duration_ns.begin(), share.duration_ns.end(), Nanoseconds{0});
}

CriticalShare sum_of(const std::vector<CriticalShare>& shares) {
  CriticalShare sum;
  for (const CriticalShare& share : shares)
    for (std::size_t kind = 0; kind < critical_kind_count; ++kind) sum.duration_ns[kind] += share.duration_ns[kind];
  return sum;
}

std::vector<std::string> row_of(const std::string& name, const CriticalShare& share, Nanoseconds whole_ns) {
  std::vector<std::string> row{name};
  for (const Nanoseconds part_ns : share.duration_ns)
    row.push_back(part_ns == 0 ? "-" : format_share(part_ns, whole_ns));
  row.push_back(format_duration(length_of(share)));
  return row;
}

}  // namespace

std::string critical_path_section(const JobReport& report) {
  const std::vector<CriticalShare> shares = critical_shares(report.critical_path);
  if (shares.empty()) return {};
  std::string out =
      heading("Critical path",
              "What the end of the run waited for, from the last activity back to the first. What does not lie on it "
              "saves nothing "
              "when it gets shorter. Transfer: of a collective once its last member had entered. Launch: from a launch "
              "to the start "
              "on the GPU, and the gaps between kernels. Host: what the host did by itself until it launched.");
  MarkdownTable table;
  table.columns = {{"rank"}};
  for (std::size_t kind = 0; kind < critical_kind_count; ++kind)
    table.columns.push_back({std::string(critical_kind_name(static_cast<CriticalKind>(kind)))});
  table.columns.push_back({"in all"});
  const CriticalShare all = sum_of(shares);
  const std::vector<CriticalShare> shown =
      most_telling(shares, [](const CriticalShare& a, const CriticalShare& b) { return length_of(a) > length_of(b); });
  for (const CriticalShare& share : shown)
    table.rows.push_back(row_of(fmt::format("{}", share.trace_rank), share, length_of(all)));
  table.rows.push_back(row_of("all", all, length_of(all)));
  return out + table.to_string() +
         rest_note(shares.size(), shown.size(), "table `critical_path` of store.h5, which has them by step, too");
}

}  // namespace nsys_explain::report
