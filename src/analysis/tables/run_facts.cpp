#include "analysis/tables/run_facts.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "model/schema/host.hpp"

namespace nsys_explain::analysis {
namespace {

enum class FrameworkPlace : std::uint8_t { kernel, process, domain };

struct FrameworkMark {
  FrameworkPlace place;
  std::string_view mark;
  std::string_view framework;
};

constexpr auto framework_marks = std::to_array<FrameworkMark>({
#include "analysis/tables/frameworks.inc"
});

bool is_word_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/// The mark begins a word: "flash::" is not in "my_flash::".
bool has_word(std::string_view text, std::string_view mark) {
  for (std::size_t at = text.find(mark); at != std::string_view::npos; at = text.find(mark, at + 1)) {
    if (at == 0 || !is_word_character(text[at - 1])) return true;
  }
  return false;
}

/// Texts that `index` gives of the events, each once.
template <class Events, class Index>
std::vector<std::string_view> texts_of(const Events& events, const std::vector<std::string>& strings,
                                       const Index& index) {
  std::vector<bool> seen(strings.size(), false);
  std::vector<std::string_view> texts;
  for (const auto& event : events) {
    const StringIndex text = index(event);
    if (!seen[text]) texts.push_back(strings[text]);
    seen[text] = true;
  }
  return texts;
}

/// In the order of the table of marks.
std::vector<std::string_view> frameworks_of(const RankEvents& events) {
  const auto& strings = events.trace.strings;
  const auto kernels =
      texts_of(events.device.kernel_kinds, strings, [](const KernelKind& k) { return k.demangled_name; });
  const auto domains = texts_of(events.process.nvtx_ranges, strings, [](const NvtxRange& r) { return r.domain; });
  const auto is_there = [&](const FrameworkMark& m) {
    switch (m.place) {
      case FrameworkPlace::kernel:
        return std::any_of(kernels.begin(), kernels.end(), [&](auto name) { return has_word(name, m.mark); });
      case FrameworkPlace::process:
        return std::string_view(events.process.name).substr(events.process.name.rfind('/') + 1) == m.mark;
      case FrameworkPlace::domain:
        return std::find(domains.begin(), domains.end(), m.mark) != domains.end();
    }
    return false;
  };
  std::vector<std::string_view> found;
  for (const FrameworkMark& mark : framework_marks) {
    const bool is_known = std::find(found.begin(), found.end(), mark.framework) != found.end();
    if (!is_known && is_there(mark)) found.push_back(mark.framework);
  }
  return found;
}

/// Facts that should be the same for all ranks of a job, by what a difference means.
struct Sameness {
  const char* id;
  FindingSeverity severity;
  const char* title;
  std::vector<std::string_view> facts;
  const char* meaning;
  const char* recommendation;
};

const std::vector<Sameness>& samenesses() {
  static const std::vector<Sameness> all = {
      {"mixed-gpus",
       FindingSeverity::medium,
       "the job's ranks run on different GPUs",
       {"gpu", "gpu_chip", "compute_capability", "multiprocessors", "sm_clock_limit", "gpu_memory",
        "gpu_memory_bandwidth"},
       "in a job that synchronises, the slowest kind sets the pace of all",
       "ask the scheduler for one kind of GPU, or give the slower ones less work"},
      {"mixed-software",
       FindingSeverity::low,
       "the job's ranks run on different drivers or systems",
       {"driver", "cuda_driver", "os", "linux_kernel", "network_driver"},
       "releases differ in speed and in what they support, which looks like slow hardware",
       "install the same driver and system everywhere, or test whether the slow ranks are those that differ"},
      {"mixed-hosts",
       FindingSeverity::low,
       "the job's ranks run on hosts with different CPUs",
       {"cpu", "cpu_cores"},
       "a slower host launches later: see whether its ranks starve their GPUs",
       "compare launch times (table launches) between the hosts"},
      {"mixed-captures",
       FindingSeverity::low,
       "the ranks were not captured alike",
       {"nsys", "traced", "cuda_graphs"},
       "what one capture records and another does not looks like a difference between the ranks",
       "capture all ranks with the same nsys and options"}};
  return all;
}

std::string rank_names(const std::vector<std::int32_t>& ranks) {
  constexpr std::size_t most_named = 8;
  if (ranks.size() <= most_named) return fmt::format("{}", fmt::join(ranks, ", "));
  return fmt::format("{} and {} more", fmt::join(ranks.begin(), ranks.begin() + most_named, ", "),
                     ranks.size() - most_named);
}

std::string evidence_of(const RunFactSummary& fact) {
  constexpr std::size_t most_values = 4;
  std::string text = fmt::format("{}:", fact.name);
  for (std::size_t v = 0; v < std::min(fact.values.size(), most_values); ++v) {
    const RunFactSummary::Value& value = fact.values[v];
    const std::string who =
        v == 0 && value.trace_ranks.size() > 1
            ? fmt::format("{} ranks", value.trace_ranks.size())
            : fmt::format("rank{} {}", value.trace_ranks.size() == 1 ? "" : "s", rank_names(value.trace_ranks));
    text += fmt::format("{} {} ({})", v > 0 ? "," : "", value.value, who);
  }
  if (fact.values.size() > most_values) text += fmt::format(", and {} more", fact.values.size() - most_values);
  return text;
}

}  // namespace

Table run_facts_table(const RankEvents& events) {
  Table table = make_table(schema::run_facts);
  RowWriter row(table);
  for (const RunFact& fact : events.trace.facts) row << std::string_view(fact.name) << std::string_view(fact.value);
  for (const RunFact& fact : events.device.gpu_facts) {
    row << std::string_view(fact.name) << std::string_view(fact.value);
  }
  const std::vector<std::string_view> frameworks = frameworks_of(events);
  if (!frameworks.empty()) row << "framework" << std::string_view(fmt::format("{}", fmt::join(frameworks, ", ")));
  return table;
}

std::vector<RunFactSummary> summarise_run_facts(const std::vector<Table>& joined) {
  std::vector<RunFactSummary> facts;
  const Table* table = find_table(joined, schema::run_facts);
  if (table == nullptr) return facts;
  const auto& ranks = column(*table, schema::trace_rank);
  const auto& names = column(*table, schema::run_facts.fact);
  const auto& values = column(*table, schema::run_facts.value);
  std::map<std::string_view, std::map<std::string_view, std::vector<std::int32_t>>> ranks_of;
  std::vector<std::string_view> order;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto [entry, is_new] = ranks_of.try_emplace(names[i]);
    if (is_new) order.push_back(names[i]);
    entry->second[values[i]].push_back(static_cast<std::int32_t>(ranks[i]));
  }
  for (const std::string_view name : order) {
    RunFactSummary fact{std::string(name), {}};
    for (auto& [value, of_value] : ranks_of[name]) fact.values.push_back({std::string(value), std::move(of_value)});
    std::sort(fact.values.begin(), fact.values.end(), [](const auto& a, const auto& b) {
      return a.trace_ranks.size() != b.trace_ranks.size() ? a.trace_ranks.size() > b.trace_ranks.size()
                                                          : a.trace_ranks < b.trace_ranks;
    });
    facts.push_back(std::move(fact));
  }
  return facts;
}

void add_run_fact_findings(const JobReport& report, std::vector<Finding>& findings) {
  for (const Sameness& sameness : samenesses()) {
    Finding finding{sameness.id, sameness.severity, sameness.title, {}, sameness.recommendation};
    for (const RunFactSummary& fact : report.run_facts) {
      const bool belongs = std::find(sameness.facts.begin(), sameness.facts.end(), fact.name) != sameness.facts.end();
      if (belongs && fact.values.size() > 1) finding.evidence.push_back(evidence_of(fact));
    }
    if (finding.evidence.empty()) continue;
    finding.evidence.push_back(sameness.meaning);
    findings.push_back(std::move(finding));
  }
}

}  // namespace nsys_explain::analysis
