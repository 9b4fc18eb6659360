#include "analysis/questions/question.hpp"

#include "analysis/findings/finding_parts.hpp"
#include "model/schema/gpu.hpp"

namespace nsys_explain::analysis::questions {
namespace {

/// Compute kernels alike (name, grid, block), alone and beside collectives (rank_events.hpp), what is lost most first.
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

/// Where that costs at least 1% of the GPU time.
void find_contention(const JobReport& report, std::vector<Finding>& findings) {
  constexpr double least_share = 0.01;
  const auto& t = schema::contended_kernels;
  const Table* const table = find_table(report.tables, t);
  if (table == nullptr) return;
  const auto& time_beside = column(*table, t.time_beside_ns);
  const auto& lost = column(*table, t.lost_ns);
  Nanoseconds beside_ns = 0, lost_ns = 0;
  for (std::size_t i = 0; i < lost.size(); ++i) {
    beside_ns += time_beside[i];
    lost_ns += lost[i];
  }
  const double part = share(lost_ns, windows_of(report).ranks_ns);
  if (part < least_share) return;
  const auto most = static_cast<std::size_t>(std::max_element(lost.begin(), lost.end()) - lost.begin());
  findings.push_back(
      {.id = "contention",
       .severity = severity_of(part),
       .title = fmt::format("compute beside collectives takes {:.2f} times as long as alone: {:.1f}% of GPU time",
                            static_cast<double>(beside_ns) / static_cast<double>(beside_ns - lost_ns), 100 * part),
       .evidence =
           {fmt::format(
                "{}: median {:.3f} ms alone ({} kernels), {:.3f} ms beside a collective ({} kernels of equal grid and block)",
                column(*table, t.name)[most], 1e3 * seconds(column(*table, t.alone_ns)[most]),
                column(*table, t.alone)[most], 1e3 * seconds(column(*table, t.beside_ns)[most]),
                column(*table, t.beside)[most]),
            fmt::format("lost: {} of {} beside collectives (table contended_kernels)", gpu_time(lost_ns),
                        gpu_time(beside_ns))},
       .recommendation =
           "let collectives hold fewer multiprocessors: NCCL_MAX_CTAS or NCCL_MAX_NCHANNELS, or NVLink SHARP and copy engines where the machine has them; look at late ranks first, because a collective that waits for one slows compute all that time; overlapping is worth it as long as a collective would take longer than what is lost",
       .cost_ns = lost_ns});
}

}  // namespace

Question contended_kernels() {
  return {.shown = {.table = schema::contended_kernels.table_name(), .findings = {"contention"}, .view = "kernels"},
          .rows = contended_kernels_table,
          .find = find_contention};
}

}  // namespace nsys_explain::analysis::questions
