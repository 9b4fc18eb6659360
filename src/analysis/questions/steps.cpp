#include "analysis/questions/question.hpp"

#include <algorithm>
#include <cstdlib>

#include "analysis/findings/finding_parts.hpp"
#include "model/schema/job.hpp"
#include "model/text.hpp"

namespace nsys_explain::analysis::questions {
namespace {

/// True where somebody is late from this step on, or was until it, give or take one.
bool is_told(const JobReport& report, std::int64_t step) {
  const std::vector<const Straggler*> late = attributed_stragglers(report);
  const auto is_near = [&](std::optional<std::int64_t> other) { return other && std::abs(*other - step) <= 1; };
  return std::any_of(late.begin(), late.end(), [&](const Straggler* one) {
    return one->pattern == Pattern::transient &&
           (is_near(one->first_step) || (one->last_step && is_near(*one->last_step + 1)));
  });
}

/// What all steps take, by the medians from change to change.
Nanoseconds all_steps_ns(const JobReport& report) {
  std::int64_t first = report.delay.first_step;
  Nanoseconds all_ns = 0;
  for (const StepTimeChange& change : report.step_time.change_points) {
    all_ns += (change.step - first) * change.before_ns;
    first = change.step;
  }
  return all_ns +
         (report.delay.first_step + report.delay.steps - first) * report.step_time.change_points.back().after_ns;
}

double ms(Nanoseconds time_ns) {
  return 1e3 * seconds(time_ns);
}

/// All steps take longer from one on, and nobody who is late from then on explains it.
void find_step_time_change(const JobReport& report, std::vector<Finding>& findings) {
  const std::vector<StepTimeChange>& changes = report.step_time.change_points;
  const std::int64_t end = report.delay.first_step + report.delay.steps;
  const StepTimeChange* worst = nullptr;
  double most_saved = 0;
  for (std::size_t c = 0; c < changes.size(); ++c) {
    const StepTimeChange& change = changes[c];
    if (change.after_ns <= change.before_ns || is_told(report, change.step)) continue;
    const std::int64_t until = c + 1 < changes.size() ? changes[c + 1].step : end;
    const double saved =
        share(static_cast<double>((change.after_ns - change.before_ns) * (until - change.step)), all_steps_ns(report));
    if (saved <= most_saved) continue;
    worst = &change;
    most_saved = saved;
  }
  if (worst == nullptr) return;
  std::vector<std::string> evidence;
  for (const StepTimeChange& change : changes)
    evidence.push_back(fmt::format("step {}: {:.3f} ms before, {:.3f} ms from there on (medians); {}", change.step,
                                   ms(change.before_ns), ms(change.after_ns), p_value_equation(change.p_value)));
  evidence.push_back(
      fmt::format("half of all steps lie within {:.3f} ms; no rank is late from that step on by itself (table steps)",
                  ms(report.step_time.spread_ns)));
  findings.push_back(
      {.id = "step-time-change",
       .severity = severity_of(most_saved, saved_time),
       .title = fmt::format("steps take {:.2f} times as long from step {} on: {:.3f} ms instead of {:.3f} ms",
                            static_cast<double>(worst->after_ns) / static_cast<double>(worst->before_ns), worst->step,
                            ms(worst->after_ns), ms(worst->before_ns)),
       .evidence = std::move(evidence),
       .recommendation =
           "look for what changed for all at that time: clocks of the GPUs under a power or temperature limit (nvidia-smi -q -d POWER,TEMPERATURE,PERFORMANCE), another job on the network or the file system, longer sequences; compare both parts by --steps",
       .cost_ns = static_cast<Nanoseconds>(most_saved * static_cast<double>(windows_of(report).ranks_ns))});
}

}  // namespace

Question steps() {
  return {.shown = {.table = schema::steps.table_name(), .findings = {"step-time-change"}, .view = "steps"},
          .find = find_step_time_change};
}

}  // namespace nsys_explain::analysis::questions
