#include "analysis/questions/question.hpp"

#include "analysis/tables/tables.hpp"
#include "analysis/trace/host_activity.hpp"
#include "model/schema/host.hpp"

namespace nsys_explain::analysis::questions {
namespace {

constexpr std::size_t functions_kept = 50;

struct SampledThread {
  std::int64_t samples = 0;
  std::set<std::int16_t> cores;
  std::map<std::string, std::int64_t> by_function;

  /// Most frequent first.
  std::vector<std::pair<std::string, std::int64_t>> functions() const {
    std::vector<std::pair<std::string, std::int64_t>> all(by_function.begin(), by_function.end());
    std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
    all.resize(std::min(all.size(), functions_kept));
    return all;
  }
};

Table cpu_functions_table(const RankEvents& events) {
  Table table = make_table(schema::cpu_functions);
  const std::vector<CpuSample>& samples = events.process.cpu_samples;
  if (samples.empty() || !speaks_for_process(events.process, events.device)) return table;
  std::map<std::uint32_t, SampledThread> threads;
  for (const CpuSample& sample : samples) {
    SampledThread& thread = threads[sample.thread_id];
    ++thread.samples;
    if (sample.cpu >= 0) thread.cores.insert(sample.cpu);
    ++thread.by_function[function_name(events.trace, sample)];
  }
  const Nanoseconds period_ns = sampling_period_ns(samples);
  const std::set<std::uint32_t> launching = launching_threads(events);
  RowWriter row(table);
  for (const auto& [thread_id, thread] : threads)
    for (const auto& [function, count] : thread.functions())
      row << std::int64_t{thread_id} << std::int64_t{launching.contains(thread_id) ? 1 : 0} << function << count
          << count * period_ns << 100 * static_cast<double>(count) / static_cast<double>(thread.samples)
          << std::ssize(thread.cores);
  return table;
}

}  // namespace

Question cpu_functions() {
  const auto& table = schema::cpu_functions;
  return {
      .shown =
          {.table = table.table_name(),
           .findings = {"launch-starved", "gpu-idle"},
           .list = "cpu_functions",
           .folding = {.columns = {{"name", table.function, FoldedColumn::By::key},
                                   {"count", table.samples},
                                   {"total_ns", table.time_ns}},
                       .order = "total_ns",
                       .only_where = table.launches},
           .title = "Functions of the launching threads",
           .derivation =
               "Where CPU samples found the threads that launch, over all processes; a sample counts for its period.",
           .cells = {{.heading = "function", .column = "name", .is_code = true},
                     {"time", "total_ns"},
                     {"samples", "count"}},
           .lines = 5,
           .rest = "table `cpu_functions` of store.h5"},
      .rows = cpu_functions_table,
      .of_hosts = true};
}

}  // namespace nsys_explain::analysis::questions
