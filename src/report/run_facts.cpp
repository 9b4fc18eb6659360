#include "report/run_facts.hpp"

namespace nsys_explain::report {

namespace {

Json value(const RunFactSummary::Value& v, std::size_t all) {
  return {{"value", v.value}, {"trace_ranks", v.trace_ranks.size() == all ? Json(nullptr) : Json(v.trace_ranks)}};
}

Json fact(const RunFactSummary& f, std::size_t all) {
  return {{"fact", f.name}, {"values", array_of(f.values, [&](const auto& v) { return value(v, all); })}};
}

}  // namespace

Json run_facts_json(const JobReport& report) {
  return array_of(report.run_facts, [&](const RunFactSummary& f) { return fact(f, report.trace_ranks.size()); });
}

}  // namespace nsys_explain::report
