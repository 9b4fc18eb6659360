#include "analysis/findings/finding_parts.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "analysis/findings/finding_sizes.hpp"
#include "nsys_explain/model/names.hpp"

namespace nsys_explain::analysis {
namespace {

/// "(-21.8%, 95% interval 21.7 to 21.9%)"; where nothing tells an interval "(-72.6%)".
std::string share_text(const WhatIf& what_if) {
  std::string text = fmt::format("(-{:.1f}%", 100 * what_if.saved_share);
  if (what_if.low_share && what_if.high_share)
    text += fmt::format(", 95% interval {:.1f} to {:.1f}%", 100 * *what_if.low_share, 100 * *what_if.high_share);
  return text + ')';
}

/// What the replay changes, as the subject of a sentence.
std::string_view change_of(const WhatIf& what_if) {
  if (what_if.subject == "communication_hidden") return "Hiding them all";
  return what_if.subject == "work_balanced" ? "Balancing it" : "Fixing it";
}

}  // namespace

std::string saving_text(const WhatIf& what_if) {
  std::string text(change_of(what_if));
  if (saves_nothing(what_if)) return text + " saves nothing";
  if (!what_if.after.empty())
    text += fmt::format(" alone saves nothing yet; once {} {} fixed, it", trace_ranks_text(what_if.after),
                        what_if.after.size() == 1 ? "is" : "are");
  if (what_if.pauses == 1)
    return text + fmt::format(" saves one pause of {} {}", duration_text(what_if.pauses_ns), share_text(what_if));
  if (what_if.pauses > 1)
    return text + fmt::format(" saves {} pauses of {} in all {}", what_if.pauses, duration_text(what_if.pauses_ns),
                              share_text(what_if));
  if (what_if.step_ns_before == 0) return text + fmt::format(" shortens the run {}", share_text(what_if));
  const TimeUnit unit = unit_of(what_if.step_ns_before);
  return text + fmt::format(" shortens a step from {} to {} {} {}", in_unit(what_if.step_ns_before, unit),
                            in_unit(what_if.step_ns_after, unit), unit.name, share_text(what_if));
}

bool saves_nothing(const WhatIf& what_if) {
  return what_if.saved_share < 0.0005;
}

std::string trace_ranks_text(std::span<const std::int32_t> trace_ranks) {
  return fmt::format("rank{} {}", trace_ranks.size() == 1 ? "" : "s", fmt::join(trace_ranks, ", "));
}

std::string tell_all_mended(const JobReport& report) {
  const auto all = std::find_if(report.what_if.begin(), report.what_if.end(),
                                [](const WhatIf& what_if) { return what_if.subject == "all"; });
  if (report.stragglers.size() < 2 || all == report.what_if.end() || all->step_ns_before == 0) return "";
  if (saves_nothing(*all)) return "";
  const std::size_t count = report.stragglers.size();
  return fmt::format(" Fixing {} ({}) shortens it to {} {}.", count == 2 ? "both" : fmt::format("all {}", count),
                     trace_ranks_text(all->trace_ranks), duration_text(all->step_ns_after), share_text(*all));
}

bool names_who_is_late(const Finding& finding) {
  return finding.id.ends_with("straggler") || finding.id == "slow-link" ||
         (finding.id == "long-waits" && !finding.trace_ranks.empty());
}

std::string place_of(const JobReport& report, std::int32_t trace_rank) {
  const auto rank = std::find_if(report.trace_ranks.begin(), report.trace_ranks.end(),
                                 [&](const auto& identity) { return identity.trace_rank == trace_rank; });
  if (rank == report.trace_ranks.end()) return "";
  return fmt::format("GPU {} on {}", rank->key.device_id, rank->host.empty() ? "an unknown host" : rank->host);
}

std::string place_of(const JobReport& report, const Straggler& late) {
  return late.level == Level::gpu ? place_of(report, late.trace_rank) : place_text({late.level, late.place});
}

std::string name_and_place(const JobReport& report, const Straggler& late) {
  const std::string place = place_of(report, late);
  if (late.level != Level::gpu || place.empty()) return culprit_name(late);
  return fmt::format("{} ({})", place, culprit_name(late));
}

std::string short_kernel_name(std::string_view name) {
  constexpr std::size_t longest = 60;
  return name.size() <= longest ? std::string(name) : fmt::format("{}...", name.substr(0, longest));
}

const WhatIf* what_if_mended(const JobReport& report, std::string_view finding,
                             const std::vector<std::int32_t>& trace_ranks) {
  const auto found = std::find_if(report.what_if.begin(), report.what_if.end(), [&](const WhatIf& what_if) {
    if (what_if.subject == "all" || what_if.subject == "communication_hidden" || what_if.subject == "work_balanced")
      return false;
    const bool of_a_suspect = what_if.finding.empty() && finding.ends_with("straggler");
    return (what_if.finding == finding || of_a_suspect) && (trace_ranks.empty() || what_if.trace_ranks == trace_ranks);
  });
  return found == report.what_if.end() ? nullptr : &*found;
}

const WhatIf* what_if_hidden(const JobReport& report) {
  const auto found = std::find_if(report.what_if.begin(), report.what_if.end(),
                                  [](const WhatIf& what_if) { return what_if.subject == "communication_hidden"; });
  return found == report.what_if.end() ? nullptr : &*found;
}

const WhatIf* what_if_balanced(const JobReport& report) {
  constexpr double beyond_chance = 0.03;  // in 15 fault-free recordings it is 0.018 at most (docs/accuracy.md)
  const auto found = std::find_if(report.what_if.begin(), report.what_if.end(),
                                  [](const WhatIf& one) { return one.subject == "work_balanced"; });
  return found == report.what_if.end() || found->saved_share < beyond_chance ? nullptr : &*found;
}

void tell_saving(const WhatIf& mended, Finding& finding) {
  finding.mended = mended;
  finding.severity = severity_of(mended.saved_share, saved_time);
  finding.title += ". " + saving_text(mended);
}

bool tell_saving(const JobReport& report, Finding& finding) {
  const WhatIf* const mended = what_if_mended(report, finding.id, finding.trace_ranks);
  if (mended != nullptr) tell_saving(*mended, finding);
  return mended != nullptr;
}

}  // namespace nsys_explain::analysis
