#include "analysis/tables/tables.hpp"

#include <algorithm>

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
  for (std::size_t at = text.find(mark); at != std::string_view::npos; at = text.find(mark, at + 1))
    if (at == 0 || !is_word_character(text[at - 1])) return true;
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

}  // namespace

Table run_facts_table(const RankEvents& events) {
  Table table = make_table(schema::run_facts);
  RowWriter row(table);
  for (const RunFact& fact : events.trace.facts) row << std::string_view(fact.name) << std::string_view(fact.value);
  for (const RunFact& fact : events.device.gpu_facts)
    row << std::string_view(fact.name) << std::string_view(fact.value);
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

}  // namespace nsys_explain::analysis
