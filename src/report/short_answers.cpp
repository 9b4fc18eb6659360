#include "report/short_answers.hpp"

#include <numeric>

#include <fmt/format.h>

#include "model/schema/job.hpp"
#include "nsys_explain/model/names.hpp"
#include "report/overview.hpp"
#include "report/text.hpp"

namespace nsys_explain::report {

namespace {

std::string when(const JobReport& report) {
  const Straggler* const named = late_in_verdict(report);
  if (named == nullptr) return {};
  const Straggler& late = *named;
  if (!late.first_step || !late.last_step)
    return fmt::format("When: {}, from {} to {} of job time.", pattern_name(late.pattern),
                       format_duration(late.first_ns), format_duration(late.last_ns));
  if (*late.first_step == *late.last_step) return fmt::format("When: in step {} alone.", *late.first_step);
  const std::string every = late.period_steps ? fmt::format(", every {} steps", *late.period_steps) : "";
  return fmt::format("When: {}{}, from step {} to step {}.", pattern_name(late.pattern), every, *late.first_step,
                     *late.last_step);
}

/// Of 28 steps it can be proved that the last quarter differs: 2 / C(28, 7), at some 100 places, is below the 0.001 of
/// ChangeCriteria (analysis/statistics/change_points.hpp).
constexpr std::int64_t enough_steps = 28;

std::string over_time(const JobReport& report) {
  const StepTime& steps = report.step_time;
  if (!steps.change_points.empty()) {
    const StepTimeChange& change = steps.change_points.front();
    return fmt::format("Over time: from step {} on a step takes {}, {} before (medians).", change.step,
                       format_duration(change.after_ns), format_duration(change.before_ns));
  }
  if (steps.steps < enough_steps) return {};
  return fmt::format("Over time: in {} steps no lasting change above 5% stands out.", format_count(steps.steps));
}

/// What nothing tells, and what lies in graphs recorded as one interval, may be transfers, too.
std::string network(const JobReport& report) {
  if (report.ranks.size() < 2 || report.instances == 0) return {};
  if (!report.slow_links.empty()) return "Network: a link is slower than equal ones (finding slow-link).";
  const Table* const budget = find_table(report.tables, schema::step_budget);
  if (budget == nullptr || budget->row_count() == 0) return {};
  const auto sum = [&](const schema::Integer& of) {
    const auto& values = column(*budget, of);
    return std::accumulate(values.begin(), values.end(), std::int64_t{0});
  };
  const std::int64_t window_ns = sum(schema::step_budget.window_ns), known_ns = sum(schema::step_budget.transfer_ns);
  const std::int64_t at_most_ns =
      known_ns + sum(schema::step_budget.inconclusive_ns) + sum(schema::step_budget.opaque_graph_ns);
  const std::string least = format_share(known_ns, window_ns), most = format_share(at_most_ns, window_ns);
  return fmt::format("Network: compute waits for transfers in {} of the time.",
                     least == most ? least : fmt::format("{} to {}", least, most));
}

}  // namespace

std::vector<std::string> short_answers(const JobReport& report) {
  std::vector<std::string> answers;
  for (std::string answer : {when(report), over_time(report), network(report)})
    if (!answer.empty()) answers.push_back(std::move(answer));
  return answers;
}

}  // namespace nsys_explain::report
