#include "analysis/questions/question.hpp"

#include <algorithm>

#include "analysis/findings/finding_parts.hpp"
#include "analysis/tables/tables.hpp"
#include "model/schema/host.hpp"

namespace nsys_explain::analysis::questions {
namespace {

/// Facts that should be the same for all ranks of a job, and what is told where they are not: its evidence is what a
/// difference means.
struct Sameness {
  Finding finding;
  std::vector<std::string_view> facts;
};

const std::vector<Sameness>& samenesses() {
  static const std::vector<Sameness> all = {
      {{.id = "mixed-gpus",
        .severity = FindingSeverity::medium,
        .title = "the job's ranks run on different GPUs",
        .evidence = {"in a job that synchronises, the slowest kind sets the pace of all"},
        .recommendation = "ask the scheduler for one kind of GPU, or give the slower ones less work"},
       {"gpu", "gpu_chip", "compute_capability", "multiprocessors", "sm_clock_limit", "gpu_memory",
        "gpu_memory_bandwidth"}},
      {{.id = "mixed-software",
        .severity = FindingSeverity::low,
        .title = "the job's ranks run on different drivers or systems",
        .evidence = {"releases differ in speed and in what they support, which looks like slow hardware"},
        .recommendation =
            "install the same driver and system everywhere, or test whether the slow ranks are those that differ"},
       {"driver", "cuda_driver", "os", "linux_kernel", "network_driver"}},
      {{.id = "mixed-hosts",
        .severity = FindingSeverity::low,
        .title = "the job's ranks run on hosts with different CPUs",
        .evidence = {"a slower host launches later: see whether its ranks starve their GPUs"},
        .recommendation = "compare launch times (table launches) between the hosts"},
       {"cpu", "cpu_cores"}},
      {{.id = "mixed-captures",
        .severity = FindingSeverity::low,
        .title = "the ranks were not captured alike",
        .evidence = {"what one capture records and another does not looks like a difference between the ranks"},
        .recommendation = "capture all ranks with the same nsys and options"},
       {"nsys", "traced", "cuda_graphs"}}};
  return all;
}

std::string evidence_of(const RunFactSummary& fact) {
  constexpr std::size_t most_values = 4;
  std::string text = fmt::format("{}:", fact.name);
  for (std::size_t v = 0; v < std::min(fact.values.size(), most_values); ++v) {
    const RunFactSummary::Value& value = fact.values[v];
    const std::string who =
        v == 0 && value.trace_ranks.size() > 1
            ? fmt::format("{} ranks", value.trace_ranks.size())
            : fmt::format("rank{} {}", value.trace_ranks.size() == 1 ? "" : "s", rank_list(value.trace_ranks));
    text += fmt::format("{} {} ({})", v > 0 ? "," : "", value.value, who);
  }
  if (fact.values.size() > most_values) text += fmt::format(", and {} more", fact.values.size() - most_values);
  return text;
}

/// Facts that should be the same for every rank of one job and are not. A trace rank whose export does not tell a fact
/// does not differ in it.
void find_mixed_facts(const JobReport& report, std::vector<Finding>& findings) {
  for (const auto& [of_all, facts] : samenesses()) {
    Finding finding = of_all;
    for (const RunFactSummary& fact : report.run_facts)
      if (fact.values.size() > 1 && std::find(facts.begin(), facts.end(), fact.name) != facts.end())
        finding.evidence.push_back(evidence_of(fact));
    std::rotate(finding.evidence.begin(), finding.evidence.begin() + 1, finding.evidence.end());
    if (finding.evidence.size() > 1) findings.push_back(std::move(finding));
  }
}

}  // namespace

Question run_facts() {
  return {.shown = {.table = schema::run_facts.table_name(),
                    .findings = {"mixed-gpus", "mixed-software", "mixed-hosts", "mixed-captures"},
                    .view = "facts"},
          .rows = run_facts_table,
          .of_hosts = true,
          .find = find_mixed_facts};
}

}  // namespace nsys_explain::analysis::questions
