#include "report/comparison_text.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "report/report.hpp"
#include "report/text.hpp"

namespace nsys_explain::report {
namespace {

constexpr double nanoseconds_per_second = 1e9;

/// Of the time now against the base: more is slower. Never "-0.00%": what rounds to nothing has no sign.
std::string percent_change(double ratio) {
  if (ratio >= 10) return fmt::format("{:.3g} times", ratio);  // nobody reads +3314.59%
  const double hundredths = std::round(1e4 * (ratio - 1));
  return fmt::format("{:+.2f}%", hundredths == 0 ? 0.0 : hundredths / 100);
}

}  // namespace

std::string time_of(const std::optional<double>& value_ns) {
  if (!value_ns) return "-";
  const double size = std::abs(*value_ns);
  // Times per token are often a few nanoseconds.
  return size > 0 && size < 100 ? fmt::format("{:.3g} ns", *value_ns) : format_duration(std::llround(*value_ns));
}

std::string change_text(const Change& change) {
  const auto ratio = change.ratio();
  if (ratio) return percent_change(*ratio);
  if (change.base && change.current) return *change.current > 0 ? "from nothing" : "-";
  return change.current ? "new" : "gone";
}

namespace {

std::string interval_text(const Change& change) {
  if (!change.estimate) return "not known";
  return fmt::format("{} to {}", percent_change(change.estimate->low), percent_change(change.estimate->high));
}

/// "worse", "better", "within noise", or nothing where it cannot be judged.
std::string judgement(const Change& change) {
  if (!change.significant) return change.estimate ? "within noise" : "";
  const bool larger = change.ratio().value_or(1) > 1;
  return larger == change.larger_is_worse ? "worse" : "better";
}

}  // namespace

std::string headline_text(const Comparison& comparison) {
  if (comparison.side_by_side)
    return fmt::format("{} side by side", counted(static_cast<std::int64_t>(comparison.runs.size()), "run"));
  const Change& headline = comparison.headline;
  const std::string what = (headline.topic == "window"         ? "the "
                            : headline.topic == "output token" ? "an "
                                                               : "a ") +
                           headline.topic;
  if (comparison.is_one_run)
    return fmt::format("Nothing changed: both reports hold the same run, {} takes {}", what, time_of(headline.current));
  std::string times = fmt::format("{} takes {} instead of {}", what, time_of(headline.current), time_of(headline.base));
  if (headline.ratio())
    times += fmt::format(" ({}, {})", percent_change(*headline.ratio()),
                         headline.estimate ? "99% interval " + interval_text(headline) : "its noise is not known");
  switch (comparison.verdict) {
    case ComparisonVerdict::same:
      return fmt::format("No change beyond the noise: {}", times);
    case ComparisonVerdict::better:
      return fmt::format("Faster: {}", times);
    case ComparisonVerdict::worse:
      return fmt::format("Slower: {}", times);
    case ComparisonVerdict::unknown:
      break;
  }
  return fmt::format("Cannot be judged: {}", times);
}

namespace {

/// The change of a figure of the mean trace rank; null where not both runs have it.
const Change* rank_change(const Comparison& comparison, std::string_view figure) {
  for (const Change& change : comparison.changes)
    if (change.topic == "rank time" && change.figure == figure && change.base && change.current) return &change;
  return nullptr;
}

double difference(const Change& change) {
  return *change.current - *change.base;
}

std::string instead_text(std::string_view what, const Change& change) {
  const std::string relative = change.ratio() ? fmt::format(" ({})", percent_change(*change.ratio())) : std::string();
  return fmt::format("{} {} instead of {}{}", what, time_of(change.current), time_of(change.base), relative);
}

/// "by 30.1%": how much one figure of a change is above the other.
std::string by_percent(double ratio) {
  return fmt::format("{:.1f}%", 100 * std::abs(ratio - 1));
}

std::string kernel_text(double time_ratio, const Change* compute) {
  constexpr double noticeable = 0.005;
  std::string text = std::abs(time_ratio - 1) < noticeable
                         ? std::string("kernels of equal name take as long as before (within 0.5%)")
                         : fmt::format("kernels of equal name take {} {}", by_percent(time_ratio),
                                       time_ratio > 1 ? "longer" : "less time");
  if (compute == nullptr || !compute->ratio()) return text;
  const double work = *compute->ratio() / time_ratio;
  return text + (std::abs(work - 1) < noticeable
                     ? std::string(", and there is as much work for them")
                     : fmt::format(", and there is {} {} work for them", by_percent(work), work > 1 ? "more" : "less"));
}

/// "trace rank 5 (node001): kernels take 8.60 ms instead of 6.61 ms (+30.11%) for the same work".
std::string place_text(const ChangedPlace& place) {
  std::string times = fmt::format("{} instead of {}", time_of(place.part_current_ns), time_of(place.part_base_ns));
  if (place.part_base_ns > 0) times += fmt::format(" ({})", percent_change(place.part_current_ns / place.part_base_ns));
  switch (place.part) {
    case ChangedPart::kernel_speed:
      return fmt::format("{}: kernels take {} for the same work", place.place, times);
    case ChangedPart::kernel_work:
      return fmt::format("{}: work for kernels of {}", place.place, times);
    case ChangedPart::copies:
      return fmt::format("{}: copies take {}", place.place, times);
    case ChangedPart::idle:
      return fmt::format("{}: the GPU is idle for {}", place.place, times);
    case ChangedPart::graphs:
      break;
  }
  return fmt::format("{}: CUDA graphs take {}", place.place, times);
}

}  // namespace

std::string places_text(const Comparison& comparison) {
  constexpr std::size_t most_told = 3;
  const std::vector<ChangedPlace>& places = comparison.changed_places;
  std::string text;
  for (std::size_t i = 0; i < std::min(places.size(), most_told); ++i)
    text += (i > 0 ? "; " : "What changed, per step: ") + place_text(places[i]);
  if (places.size() > most_told) text += fmt::format("; and {} more places", places.size() - most_told);
  return text.empty() ? text : text + '.';
}

namespace {

/// What a finding is about: its kind; where it names somebody, all that its first sentence says of them but numbers,
/// which differ from run to run: who, and why.
std::string subject_of(const RunFinding& finding) {
  const bool names_who = finding.id.ends_with("straggler") || finding.id == "slow-link";
  if (!names_who) return finding.id;
  std::string subject = finding.id + ' ' + finding.title.substr(0, finding.title.find(". "));
  const std::size_t who = std::min(subject.find(')'), subject.size());
  subject.erase(std::remove_if(subject.begin() + static_cast<std::ptrdiff_t>(who), subject.end(),
                               [](char c) { return (c >= '0' && c <= '9') || c == '.'; }),
                subject.end());
  return subject;
}

/// "New finding: A."; of several "New findings: A; B; and 2 more."; of none nothing.
std::string listed(std::string_view what, const std::vector<const RunFinding*>& findings) {
  constexpr std::size_t most = 3;
  if (findings.empty()) return "";
  std::string text;
  for (std::size_t i = 0; i < std::min(findings.size(), most); ++i) text += (i > 0 ? "; " : "") + findings[i]->title;
  if (findings.size() > most) text += fmt::format("; and {} more", findings.size() - most);
  return fmt::format("{}{}: {}.", what, findings.size() > 1 ? "s" : "", text);
}

}  // namespace

std::string new_finding_text(const Comparison& comparison) {
  if (comparison.is_one_run) return {};
  const auto matters = [](const RunFinding& finding) {
    return finding.severity == "high" || finding.severity == "medium";
  };
  const auto only_in = [&](const RunProfile& run, const RunProfile& other) {
    const auto is_new = [&](const RunFinding& finding) {
      return matters(finding) && std::none_of(other.findings.begin(), other.findings.end(), [&](const RunFinding& one) {
               return subject_of(one) == subject_of(finding);
             });
    };
    std::vector<const RunFinding*> found;
    for (const RunFinding& finding : run.findings)
      if (is_new(finding)) found.push_back(&finding);
    return found;
  };
  const std::string came = listed("New finding", only_in(comparison.current(), comparison.base()));
  const std::string went = listed("Gone finding", only_in(comparison.base(), comparison.current()));
  return came + (came.empty() || went.empty() ? "" : " ") + went;
}

std::string parts_text(const Comparison& comparison) {
  constexpr double worth_a_word = 0.005;  // of the window, step or token
  constexpr std::pair<const char*, const char*> parts[] = {{"compute_ns", "compute"},
                                                           {"exposed_communication_ns", "exposed communication"},
                                                           {"copy_ns", "copies"},
                                                           {"idle_ns", "idle"}};
  const Change* whole = rank_change(comparison, "window_ns");
  if (whole == nullptr || comparison.is_one_run) return {};
  const auto matters = [&](const Change* change) {
    return change != nullptr && std::abs(difference(*change)) > worth_a_word * *whole->base;
  };
  std::vector<std::pair<const Change*, const char*>> changed;
  for (const auto& [figure, name] : parts)
    if (const Change* change = rank_change(comparison, figure); matters(change)) changed.emplace_back(change, name);
  std::stable_sort(changed.begin(), changed.end(), [](const auto& a, const auto& b) {
    return std::abs(difference(*a.first)) > std::abs(difference(*b.first));
  });
  std::string text = fmt::format("On average, per {} and rank: ", basis_name(comparison.basis));
  if (changed.empty()) text += "no part of the time changed by more than 0.5% of the whole";
  for (std::size_t i = 0; i < changed.size(); ++i)
    text += (i > 0 ? ", " : "") + instead_text(changed[i].second, *changed[i].first);
  if (const Change* wait = rank_change(comparison, "wait_ns"); matters(wait))
    text += "; of communication, " + instead_text("waiting for late members", *wait);
  if (comparison.kernel_time_ratio && comparison.changed_places.empty())
    text += "; " + kernel_text(*comparison.kernel_time_ratio, rank_change(comparison, "compute_ns"));
  return text + ".";
}

std::vector<std::string> explanation_texts(const Comparison& comparison) {
  std::vector<std::string> texts = {places_text(comparison), new_finding_text(comparison), parts_text(comparison)};
  std::erase_if(texts, [](const std::string& text) { return text.empty(); });
  return texts;
}

std::vector<std::string> category_names(const Comparison& comparison) {
  std::map<std::string, double> sums;
  for (const RunProfile& run : comparison.runs)
    for (const MeanTime& one : run.categories) sums[one.name] += one.mean_ns / comparison.amount(run);
  std::vector<std::string> names;
  for (const auto& [name, sum] : sums) names.push_back(name);
  std::stable_sort(names.begin(), names.end(),
                   [&](const std::string& a, const std::string& b) { return sums[a] > sums[b]; });
  return names;
}

double category_time(const Comparison& comparison, const RunProfile& run, const std::string& category) {
  for (const MeanTime& one : run.categories)
    if (one.name == category) return one.mean_ns / comparison.amount(run);
  return 0;
}

std::string trend_text(const Trend& trend) {
  switch (trend.direction) {
    case TrendDirection::none:
      return "within chance";
    case TrendDirection::too_few_runs:
      return "too few runs to tell";
    case TrendDirection::rising:
    case TrendDirection::falling:
      break;
  }
  return std::string(trend_direction_name(trend.direction));
}

namespace {

ComparisonSection runs_section(const Comparison& comparison) {
  const bool with_tokens = comparison.basis == ComparisonBasis::token;
  const bool with_throughput = std::any_of(comparison.runs.begin(), comparison.runs.end(),
                                           [](const RunProfile& run) { return run.tokens_per_second.has_value(); });
  ComparisonSection table{.title = "Runs", .titles = {"run", "ranks", "steps", "step", "window", "GPU busy"}};
  if (with_tokens) table.titles.emplace_back("GPU time per token");
  if (with_throughput) table.titles.insert(table.titles.end(), {"measured per token", "of it on the GPU"});
  for (const RunProfile& run : comparison.runs) {
    const double busy = run.busy_ns();
    table.rows.push_back({run.name, format_count(run.trace_ranks), run.steps > 0 ? format_count(run.steps) : "-",
                          time_of(run.step_ns), time_of(run.mean_ns("window_ns")), time_of(busy)});
    std::vector<std::string>& row = table.rows.back();
    if (with_tokens) row.push_back(time_of(busy / *run.tokens));
    if (!with_throughput) continue;
    const bool known = run.tokens && run.tokens_per_second;
    row.push_back(run.tokens_per_second ? time_of(nanoseconds_per_second / *run.tokens_per_second) : "-");
    row.push_back(
        known ? fmt::format("{:.1f}%", 100 * busy / *run.tokens * *run.tokens_per_second / nanoseconds_per_second)
              : "-");
  }
  return table;
}

ComparisonSection categories_section(const Comparison& comparison) {
  ComparisonSection table{.title = fmt::format("GPU time by category, per {}", basis_name(comparison.basis)),
                          .note = "Mean over ranks; no moment counted twice.",
                          .titles = {"category"},
                          .run_columns = comparison.runs.size(),
                          .picture = ComparisonSection::Picture::categories};
  for (const RunProfile& run : comparison.runs) table.titles.push_back(run.name);
  for (const std::string& category : category_names(comparison)) {
    table.rows.push_back({category});
    for (const RunProfile& run : comparison.runs) {
      const double time = category_time(comparison, run, category);
      table.rows.back().push_back(time > 0 ? time_of(time) : "-");
    }
  }
  if (table.rows.empty()) return table;
  const auto outside = [&](const RunProfile& run) { return run.outside_gpu_ns.value_or(0) / comparison.amount(run); };
  const bool is_any_known = std::any_of(comparison.runs.begin(), comparison.runs.end(),
                                        [](const RunProfile& run) { return run.outside_gpu_ns.has_value(); });
  if (is_any_known) {
    table.rows.push_back({"CPU (no GPU work)"});
    for (const RunProfile& run : comparison.runs)
      table.rows.back().push_back(run.outside_gpu_ns ? time_of(outside(run)) : "-");
  }
  table.rows.push_back({"total"});
  for (const RunProfile& run : comparison.runs)
    table.rows.back().push_back(time_of(run.busy_ns() / comparison.amount(run) + outside(run)));
  return table;
}

ComparisonSection trend_section(const Comparison& comparison) {
  ComparisonSection table{
      .title = fmt::format("Trend, per {}", basis_name(comparison.basis)),
      .note =
          "Change per run: median over all pairs of runs. A trend is an order of the runs that chance makes in less than 1% of histories, over all figures together.",
      .titles = {"figure"},
      .run_columns = comparison.runs.size(),
      .picture = ComparisonSection::Picture::trends};
  for (const RunProfile& run : comparison.runs) table.titles.push_back(run.name);
  table.titles.insert(table.titles.end(), {"change per run", "trend"});
  for (const Trend& trend : comparison.trends) {
    std::vector<std::string> row{trend.topic == "category" ? "category " + trend.figure : trend.figure};
    for (const auto& value : trend.values_ns) row.push_back(time_of(value));
    row.push_back(trend.change_per_run ? percent_change(1 + *trend.change_per_run) : "-");
    row.push_back(trend_text(trend));
    table.rows.push_back(std::move(row));
  }
  return table;
}

/// "[high] trace rank 3 makes the others wait ...", without what is only said for information.
ComparisonSection findings_section(std::string_view when, const RunProfile& run) {
  ComparisonSection section{.title = fmt::format("{}: what the report found", when)};
  for (const RunFinding& finding : run.findings)
    if (finding.severity != "info") section.items.push_back(fmt::format("[{}] {}", finding.severity, finding.title));
  return section;
}

}  // namespace

std::vector<ComparisonSection> comparison_sections(const Comparison& comparison) {
  std::vector<ComparisonSection> sections;
  if (!comparison.side_by_side) {
    for (const auto& [when, run] : {std::pair("Before", &comparison.base()), {"Now", &comparison.current()}})
      if (!run->findings.empty()) sections.push_back(findings_section(when, *run));  // older stores are without them
  }
  sections.push_back(runs_section(comparison));
  if (ComparisonSection categories = categories_section(comparison); !categories.rows.empty())
    sections.push_back(std::move(categories));
  if (!comparison.trends.empty()) sections.push_back(trend_section(comparison));
  std::string topic;
  for (const Change& change : comparison.changes) {
    if (topic != change.topic)
      sections.push_back({.title = "By " + change.topic,
                          .titles = {"name", "figure", "before", "now", "change", "99% interval", ""},
                          .most = 20});
    topic = change.topic;
    sections.back().rows.push_back({change.name, change.figure, time_of(change.base), time_of(change.current),
                                    change_text(change), interval_text(change), judgement(change)});
  }
  return sections;
}

}  // namespace nsys_explain::report
