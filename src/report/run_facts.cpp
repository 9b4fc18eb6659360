#include "report/run_facts.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "report/markdown_parts.hpp"
#include "report/markdown_table.hpp"
#include "report/text.hpp"

namespace nsys_explain::report {

namespace {

constexpr std::size_t value_width = 60;

Json value(const RunFactSummary::Value& v, std::size_t all) {
  return {{"value", v.value}, {"trace_ranks", v.trace_ranks.size() == all ? Json(nullptr) : Json(v.trace_ranks)}};
}

Json fact(const RunFactSummary& f, std::size_t all) {
  return {{"fact", f.name}, {"values", array_of(f.values, [&](const auto& v) { return value(v, all); })}};
}

std::string ranks_of(const RunFactSummary::Value& v, std::size_t all) {
  constexpr std::size_t most_named = 8;
  if (v.trace_ranks.size() == all) return "all";
  if (v.trace_ranks.size() > most_named) return fmt::format("{} of {}", v.trace_ranks.size(), all);
  return fmt::format("{}", fmt::join(v.trace_ranks, ", "));
}

}  // namespace

Json run_facts_json(const JobReport& report) {
  return array_of(report.run_facts, [&](const RunFactSummary& f) { return fact(f, report.trace_ranks.size()); });
}

std::string run_facts_section(const JobReport& report) {
  constexpr std::size_t most_values = 4;
  if (report.run_facts.empty()) return {};
  MarkdownTable table;
  table.columns = {{"fact", MarkdownTable::Align::left},
                   {"value", MarkdownTable::Align::left},
                   {"trace ranks", MarkdownTable::Align::left}};
  for (const RunFactSummary& fact : report.run_facts) {
    const std::size_t shown = std::min(fact.values.size(), most_values);
    for (std::size_t v = 0; v < shown; ++v) {
      const std::string name = fact.values.size() > 1 ? fact.name + " (differs)" : fact.name;
      table.rows.push_back({v == 0 ? name : "", markdown_code(fact.values[v].value, value_width),
                            ranks_of(fact.values[v], report.trace_ranks.size())});
    }
    if (shown < fact.values.size())
      table.rows.push_back({"", fmt::format("and {} more", fact.values.size() - shown), ""});
  }
  return heading("What it ran on",
                 "As the exports tell it; a fact that an export lacks is missing for its trace ranks. Nothing of the "
                 "environment or the command line is taken. Frameworks are known by their kernels, threads and NVTX "
                 "domains. All rows: table `run_facts` of store.h5.") +
         table.to_string();
}

}  // namespace nsys_explain::report
