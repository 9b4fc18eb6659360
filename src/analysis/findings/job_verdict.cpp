#include "analysis/findings/findings.hpp"

#include <algorithm>
#include <cctype>
#include <iterator>

#include <fmt/ranges.h>

#include "analysis/findings/finding_parts.hpp"

namespace nsys_explain::analysis {
namespace {

/// In how much of the analysed time the lateness of every trace rank could have been seen.
struct JudgedShare {
  double share = 1;   ///< 0 to 1
  std::string lacks;  ///< what it lacks most, as a clause; empty where it lacks nothing
};

/// From this share on a report may say that nobody is late.
inline constexpr double enough_is_judged = 0.9;

/// Arrivals that are in an instance, and those that all instances would have with all their members.
struct ArrivalShare {
  std::int64_t matched = 0, all = 0;
};

ArrivalShare count_arrivals(const JobReport& report) {
  ArrivalShare count;
  for (const CommunicatorSummary& one : report.communicators) {
    const auto seen = static_cast<std::int64_t>(one.trace_ranks.size());
    const std::int64_t size = std::max<std::int64_t>(one.size, seen);
    // Of a partial instance at least one member lacks its arrival.
    count.matched += one.complete * seen + one.partial * std::min(seen, size - 1);
    count.all += one.instances * size;
  }
  count.all += report.unmatched_arrivals + report.withheld_arrivals;
  return count;
}

/// Of several trace ranks; empty for one, which nobody waits for.
///
///     share = (1 - opaque graphs / window) * arrivals that were matched / arrivals of all members
///             * instances that clocks can judge / instances
///
/// Without a matched collective it is 0. Example: 8 members, of which 2 were captured, half of their time in opaque
/// graphs: 0.5 * 2 / 8 = 0.125.
std::optional<JudgedShare> judge_share(const JobReport& report) {
  if (report.ranks.size() < 2) return std::nullopt;
  if (report.instances == 0) return JudgedShare{0, "no collective was matched across ranks"};
  Nanoseconds window_ns = 0, opaque_ns = 0;
  for (const RankSummary& rank : report.ranks) {
    window_ns += rank.budget.window_ns;
    opaque_ns += rank.budget.opaque_graph_ns;
  }
  const ArrivalShare arrivals = count_arrivals(report);
  const double visible = 1 - share(opaque_ns, window_ns);
  const double matched = arrivals.all > 0 ? share(arrivals.matched, arrivals.all) : 1;
  const double comparable = 1 - share(report.unjudged, report.instances);
  JudgedShare judged{visible * matched * comparable, ""};
  const double least = std::min({visible, matched, comparable});
  if (least == 1) return judged;
  if (least == visible) {
    judged.lacks =
        fmt::format("{:.0f}% of GPU time lies inside CUDA graphs recorded as one interval", 100 * (1 - visible));
  } else if (least == matched) {
    judged.lacks = fmt::format("{} of {} arrivals of members at collectives are not recorded or not matched",
                               arrivals.all - arrivals.matched, arrivals.all);
  } else {
    judged.lacks =
        fmt::format("for {} of {} matched collectives the clocks cannot be compared or the times are impossible",
                    report.unjudged, report.instances);
  }
  return judged;
}

std::string capitalised(std::string text) {
  if (!text.empty()) text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

std::string counted(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string with_space(const std::string& sentence) {
  return sentence.empty() ? "" : ' ' + sentence;
}

/// What tells that the job is not whole. The verdict begins with it.
bool is_about_missing(const Finding& finding) {
  return finding.id == "partial-report" || finding.id == "missing-ranks";
}

/// That there are other jobs, of which nothing here tells; empty where there are none.
std::string tell_other_jobs(const JobReport& report) {
  const auto others = std::ssize(report.other_jobs);
  if (others == 0) return "";
  return fmt::format("The inputs hold {} jobs: {} cannot be judged here. ", others + 1,
                     others == 1 ? "the other one" : "the others");
}

bool is_of_other_job(const JobReport& report, const InputReport& input) {
  return std::any_of(report.other_jobs.begin(), report.other_jobs.end(), [&](const OtherJob& job) {
    return std::find(job.paths.begin(), job.paths.end(), input.path) != job.paths.end();
  });
}

/// What the analysis lacks; empty where it lacks nothing.
std::string what_is_missing(const JobReport& report) {
  const auto failed = std::count_if(report.inputs.begin(), report.inputs.end(), [&](const InputReport& input) {
    return input.status == InputStatus::failed && !is_of_other_job(report, input);
  });
  const bool is_partial = std::any_of(report.findings.begin(), report.findings.end(),
                                      [](const Finding& finding) { return finding.id == "partial-report"; });
  std::string text;  // a partial report says itself how many inputs it lacks
  if (failed > 0 && !is_partial)
    text = fmt::format("{} of {} failed. ", failed, counted(std::ssize(report.inputs), "input"));
  for (const Finding& finding : report.findings)
    if (is_about_missing(finding)) text += capitalised(finding.title) + ". ";
  return text;
}

/// What the verdict tells.
std::vector<Finding>::const_iterator lead(const std::vector<Finding>& findings) {
  const auto first = std::find_if(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.severity <= FindingSeverity::medium && !is_about_missing(finding);
  });
  return first != findings.end() ? first : std::find_if(findings.begin(), findings.end(), names_who_is_late);
}

/// True where the report could tell who is late, names nobody, and this finding blames nobody either.
bool tells_that_nobody_is_late(const JobReport& report, const Finding& finding) {
  constexpr std::array delays = {std::string_view("rotating-delay"), std::string_view("long-waits"),
                                 std::string_view("unknown-communication")};
  const std::optional<JudgedShare> judged = judge_share(report);
  return (!judged || judged->share >= enough_is_judged) && waiting_is_known(report) && report.stragglers.empty() &&
         report.suspects.empty() && finding.trace_ranks.empty() && !names_who_is_late(finding) &&
         std::find(delays.begin(), delays.end(), finding.id) == delays.end();
}

/// Who came last in most of the collectives that can be judged; empty where nobody did.
std::string tell_who_came_last(const JobReport& report) {
  constexpr std::int64_t enough = 8;  // of two ranks one is last in so many by chance once in 128 runs
  for (const RankSummary& rank : report.ranks) {
    if (rank.arrivals >= enough && 3 * rank.last_arrivals > 2 * rank.arrivals)
      return fmt::format(" Rank {} came last in {} of {} collectives that were recorded.", rank.trace_rank,
                         rank.last_arrivals, rank.arrivals);
  }
  return "";
}

/// That too little was seen to say that nobody is late; empty where enough was, or somebody is named.
std::string tell_unjudged(const JobReport& report) {
  const std::optional<JudgedShare> judged = judge_share(report);
  if (!judged || judged->share >= enough_is_judged || !report.stragglers.empty() || !report.suspects.empty()) return "";
  return fmt::format("Whether a rank is late cannot be seen for {:.0f}% of the time: {}.{} ", 100 * (1 - judged->share),
                     judged->lacks, tell_who_came_last(report));
}

/// That nobody is late, and who takes longer without a cost.
std::string tell_nobody(const JobReport& report, std::string_view late) {
  const std::string longer = describe_late_without_cost(report);
  return longer.empty() ? fmt::format("No rank is {}", late)
                        : fmt::format("No rank is late at a cost beyond what steps vary by, though {}", longer);
}

/// Its title as a sentence.
std::string tell(const JobReport& report, const Finding& finding) {
  if (tells_that_nobody_is_late(report, finding))
    return tell_nobody(report, "late") + ". " + capitalised(finding.title) + '.';
  // These say themselves that nobody can tell who is late.
  if (names_who_is_late(finding) || finding.id == "unknown-communication") return capitalised(finding.title) + '.';
  std::string unjudged = tell_unjudged(report);
  if (finding.id != "opaque-graphs" || unjudged.empty()) return unjudged + capitalised(finding.title) + '.';
  unjudged.pop_back();
  return unjudged;
}

/// Of a job without GPU work: the first input that was read; null where none was, or nothing is said of it.
const InputReport* first_told(const JobReport& report) {
  const auto read = std::find_if(report.inputs.begin(), report.inputs.end(),
                                 [](const InputReport& input) { return input.status != InputStatus::failed; });
  return read == report.inputs.end() || read->message.empty() ? nullptr : &*read;
}

/// Messages say what is wrong, and after the last semicolon what to do.
std::size_t advice_begins(std::string_view message) {
  return std::min(message.rfind("; "), message.size());
}

/// Why there is no GPU work, and what inputs hold instead.
std::string tell_what_inputs_hold(const JobReport& report) {
  const InputReport* const input = first_told(report);
  if (input == nullptr) return "No input holds GPU work.";
  const std::string message = input->message.substr(0, advice_begins(input->message));
  if (report.inputs.size() == 1) return capitalised(message) + '.';
  return fmt::format("None of {} holds GPU work; of the first: {}.", counted(std::ssize(report.inputs), "input"),
                     message);
}

std::string advice_of_inputs(const JobReport& report) {
  const InputReport* const input = first_told(report);
  const std::size_t begin = input == nullptr ? 0 : advice_begins(input->message);
  return input == nullptr || begin == input->message.size() ? "" : input->message.substr(begin + 2);
}

/// The heaviest compute kernel, where a faster one may save 5%; else empty.
std::string next_five_percent(const JobReport& report) {
  constexpr double aim = 0.05;
  const std::optional<HeaviestKernel> kernel = heaviest_kernel(report);
  // Of a kernel that takes the share s, k times the speed saves s (1 - 1/k), at most.
  if (!kernel || kernel->share <= 1.25 * aim) return "";
  return fmt::format(
      "for the next 5%: kernel {} takes {:.1f}% of all GPU time; {:.2g} times as fast, it saves up to 5%",
      short_kernel_name(kernel->name), 100 * kernel->share, 1 / (1 - aim / kernel->share));
}

/// "A step takes 33.9 ms: 75.7% compute, 23.5% communication without compute, ..."; empty where no steps are known.
std::string tell_step(const JobReport& report) {
  Budget sum;
  for (const RankSummary& rank : report.ranks) {
    sum.window_ns += rank.budget.window_ns;
    sum.compute_ns += rank.budget.compute_ns;
    sum.exposed_communication_ns += rank.budget.exposed_communication_ns;
    sum.copy_ns += rank.budget.copy_ns;
    sum.opaque_graph_ns += rank.budget.opaque_graph_ns;
    sum.idle_ns += rank.budget.idle_ns;
  }
  if (report.step_time.median_ns <= 0 || sum.window_ns <= 0) return "";
  std::vector<std::string> parts;
  for (const auto& [part_ns, name] :
       {std::pair(sum.compute_ns, "compute"), std::pair(sum.exposed_communication_ns, "communication without compute"),
        std::pair(sum.copy_ns, "copies"), std::pair(sum.opaque_graph_ns, "CUDA graphs recorded as one interval"),
        std::pair(sum.idle_ns, "idle")})
    if (const double part = share(part_ns, sum.window_ns); part >= 0.0005)
      parts.push_back(fmt::format("{:.1f}% {}", 100 * part, name));
  return fmt::format("A step takes {}: {}.", duration_text(report.step_time.median_ns), fmt::join(parts, ", "));
}

/// Of one trace rank, which cannot be compared with others: where its time went.
std::string tell_budget(const JobReport& report) {
  if (const std::string step = tell_step(report); !step.empty()) return "Nothing stands out on the one GPU. " + step;
  const Budget& budget = report.ranks.front().budget;
  std::vector<std::string> parts;
  const auto add = [&](Nanoseconds part_ns, std::string_view name) {
    if (part_ns > 0) parts.push_back(fmt::format("{:.1f}% are {}", 100 * share(part_ns, budget.window_ns), name));
  };
  add(budget.compute_ns, "compute");
  add(budget.exposed_communication_ns, "communication without compute");
  add(budget.copy_ns, "copies");
  add(budget.opaque_graph_ns, "CUDA graphs recorded as one interval");
  add(budget.idle_ns, "idle");
  return fmt::format("Nothing stands out on the one GPU: of {} {}.", duration_text(budget.window_ns),
                     fmt::join(parts, ", "));
}

/// Where no finding matters.
std::string tell_that_nobody_is_late(const JobReport& report, bool is_whole) {
  if (report.ranks.empty()) return tell_what_inputs_hold(report);
  if (report.unjudged * 2 > report.instances) {
    return fmt::format(
        "Lateness cannot be judged: for {} of {} matched collectives the clocks cannot be compared or the times are impossible.",
        report.unjudged, report.instances);
  }
  if (std::string unjudged = tell_unjudged(report); report.instances > 0 && !unjudged.empty()) {
    unjudged.pop_back();
    return unjudged;
  }
  if (report.instances > 0)
    return (is_whole ? tell_nobody(report, "late") + '.' : "No rank of those that were read is late.") +
           with_space(tell_step(report));
  if (report.ranks.size() == 1) return tell_budget(report);
  const bool communicates = std::any_of(report.ranks.begin(), report.ranks.end(), [](const RankSummary& rank) {
    return rank.budget.communication_ns > 0 || rank.budget.opaque_graph_ns > 0;
  });
  return communicates ? "Lateness cannot be judged: no collective was matched across ranks."
                      : "No communication between the ranks was recorded: nobody can be late for another.";
}

}  // namespace

JobVerdict judge(const JobReport& report) {
  JobVerdict verdict;
  verdict.text = what_is_missing(report);
  verdict.complete = verdict.text.empty();
  verdict.text.insert(0, tell_other_jobs(report));
  if (const std::optional<JudgedShare> judged = judge_share(report)) verdict.judged_share = judged->share;
  for (const Finding& finding : report.findings) verdict.severity = std::min(verdict.severity, finding.severity);
  auto first = lead(report.findings);
  if (first != report.findings.end()) {
    verdict.text += tell(report, *first);
    if (names_who_is_late(*first)) verdict.text += tell_all_mended(report);
  } else if (!report.findings.empty() && is_about_missing(report.findings.front())) {
    first = report.findings.begin();
    verdict.text.pop_back();
  } else {
    verdict.text += tell_that_nobody_is_late(report, verdict.complete);
    verdict.next = report.ranks.empty() ? advice_of_inputs(report) : next_five_percent(report);
    return verdict;
  }
  verdict.finding = first->id;
  verdict.next = first->recommendation;
  verdict.mended = first->mended;
  return verdict;
}

}  // namespace nsys_explain::analysis
