#include "analysis/causes/causes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "analysis/links/links.hpp"
#include "analysis/statistics/statistics.hpp"
#include "model/schema/gpu.hpp"
#include "nsys_explain/model/names.hpp"

namespace nsys_explain::analysis {
namespace {

bool covers(const Straggler& straggler, std::int64_t trace_rank) {
  return std::binary_search(straggler.trace_ranks.begin(), straggler.trace_ranks.end(), trace_rank);
}

bool has_slow_gpus(const JobReport& report, const JobDelays& delays, const Straggler& straggler) {
  for (std::size_t r = 0; r < report.ranks.size(); ++r)
    if (covers(straggler, report.ranks[r].trace_rank) && !delays.speed[r].slow) return false;
  return true;
}

/// Indices of the straggler's trace ranks, ascending.
std::vector<std::size_t> indices_of(const JobReport& report, const Straggler& straggler) {
  std::vector<std::size_t> ranks;
  for (std::size_t r = 0; r < report.ranks.size(); ++r)
    if (covers(straggler, report.ranks[r].trace_rank)) ranks.push_back(r);
  return ranks;
}

bool is_overfull_stage(const JobReport& report, const JobDelays& delays, const Straggler& straggler) {
  return find_overfull_stage(delays, indices_of(report, straggler)) != nullptr;
}

/// True where its transfers are slow by another place: for these it is not named, but for what else it is late by.
bool is_partner_of_slow_place(std::size_t rank, const JobDelays& delays) {
  const auto is_of = [&](const SlowPlace& slow) {
    return std::binary_search(slow.partners.begin(), slow.partners.end(), rank);
  };
  return std::any_of(delays.slow_places.begin(), delays.slow_places.end(), is_of) &&
         std::none_of(delays.slow_places.begin(), delays.slow_places.end(),
                      [&](const SlowPlace& slow) { return slow.has(rank); });
}

/// What the straggler's trace ranks took longer than their peers, over the run, and how much of it is slow transfers of
/// their own.
struct StragglerExcess {
  Nanoseconds all_ns = 0, transfers_ns = 0;

  StragglerExcess(const JobReport& report, const JobDelays& delays, const Straggler& straggler) {
    for (const std::size_t r : indices_of(report, straggler)) {
      all_ns += delays.excess_of(r);
      if (!is_partner_of_slow_place(r, delays)) transfers_ns += delays.slow_transfers_of(r);
    }
  }
};

void blame_the_link(const JobReport& report, const JobDelays& delays, Straggler& straggler) {
  const StragglerExcess excess(report, delays, straggler);
  const auto ms_each = [&](Nanoseconds sum) {
    return static_cast<double>(sum) * 1e-6 / static_cast<double>(straggler.trace_ranks.size());
  };
  straggler.cause = Cause::slow_link;
  std::string line = fmt::format(
      "transfers that compute waited for took {:.3f} ms longer than its peers' over the run (from the latest enter on, mean of its ranks), all else {:.3f} ms",
      ms_each(excess.transfers_ns), ms_each(excess.all_ns - excess.transfers_ns));
  if (const SlowLink* link = link_of(report, straggler)) {
    line += fmt::format(
        "; transfers through {} take {:.2f} times as long as equal ones elsewhere (finding slow-link, table slow_links)",
        describe(*link), link->slowdown);
  }
  straggler.evidence.insert(straggler.evidence.begin(), std::move(line));
}

/// The rows of the table gpu_samples that can be held against each other: NVML's and those of GPU metrics count
/// differently, so only one source is looked at, NVML where it saw the straggler.
std::vector<std::size_t> rows_of_one_source(const Table& samples, const Straggler& straggler) {
  const auto& ranks = column(samples, schema::trace_rank);
  const auto& sources = column(samples, schema::gpu_samples.source);
  std::string_view chosen = "gpu_metrics";
  for (std::size_t i = 0; i < ranks.size(); ++i)
    if (sources[i] == "nvml" && covers(straggler, ranks[i])) chosen = "nvml";
  std::vector<std::size_t> rows;
  for (std::size_t i = 0; i < ranks.size(); ++i)
    if (sources[i] == chosen) rows.push_back(i);
  return rows;
}

/// One quantity of these rows, here and on the other GPUs; what was not sampled is below 0.
struct Sampled {
  std::vector<double> here, elsewhere;

  Sampled(const Table& samples, const std::vector<std::size_t>& rows, const schema::Real& quantity,
          const Straggler& straggler) {
    const auto& ranks = column(samples, schema::trace_rank);
    const auto& values = column(samples, quantity);
    for (const std::size_t i : rows)
      if (values[i] >= 0) (covers(straggler, ranks[i]) ? here : elsewhere).push_back(values[i]);
  }
  std::string text(const char* what, const char* unit) const {
    std::string words = fmt::format("{} {:.0f} {}", what, median(here), unit);
    if (!elsewhere.empty()) words += fmt::format(" (the other GPUs {:.0f})", median(elsewhere));
    return words;
  }
};

void add_samples(const JobReport& report, Straggler& straggler) {
  const Table* samples = find_table(report.tables, schema::gpu_samples);
  if (samples == nullptr) return;
  const std::vector<std::size_t> rows = rows_of_one_source(*samples, straggler);
  struct Quantity {
    schema::Real column;
    const char *what, *unit;
  };
  std::vector<std::string> parts;
  for (const auto& [quantity, what, unit] : {Quantity{schema::gpu_samples.median_sm_clock_mhz, "SM clock", "MHz"},
                                             {schema::gpu_samples.median_power_w, "power", "W"},
                                             {schema::gpu_samples.median_temperature_c, "temperature", "C"}}) {
    if (const Sampled sampled(*samples, rows, quantity, straggler); !sampled.here.empty())
      parts.push_back(sampled.text(what, unit));
  }
  if (parts.empty()) return;
  std::int64_t throttled = 0, all = 0;
  const auto& ranks = column(*samples, schema::trace_rank);
  for (const std::size_t i : rows) {
    if (!covers(straggler, ranks[i])) continue;
    throttled += column(*samples, schema::gpu_samples.throttled_samples)[i];
    all += column(*samples, schema::gpu_samples.samples)[i];
  }
  straggler.evidence.push_back(fmt::format("medians while it worked (gpu_samples): {}; throttled in {} of {} samples",
                                           fmt::join(parts, ", "), throttled, all));
}

bool is_hardware(Level level) {
  return level == Level::node || level == Level::rail || level == Level::rack;
}

/// Where the same trace ranks are a piece of hardware and a place in the layout, more work is the layout's doing, and
/// anything else more likely the hardware's.
void choose_name(bool overfull_stage, Straggler& straggler) {
  const bool by_layout = straggler.cause == Cause::extra_work || straggler.cause == Cause::uneven_work;
  const auto better = std::find_if(straggler.also.begin(), straggler.also.end(),
                                   [&](const PlaceName& place) { return is_hardware(place.level) != by_layout; });
  const bool fits = is_hardware(straggler.level) != by_layout;
  if ((straggler.level != Level::gpu || overfull_stage) && !fits && better != straggler.also.end()) {
    std::swap(straggler.level, better->level);
    std::swap(straggler.place, better->name);
  }
  if (straggler.also.empty()) return;
  std::vector<std::string> names;
  for (const PlaceName& place : straggler.also) names.push_back(place_text(place));
  straggler.evidence.push_back(fmt::format("the same ranks are {}", fmt::join(names, " and ")));
}

/// What slow GPUs lost by their speed over the run.
Nanoseconds lost_by_speed(const JobReport& report, const JobDelays& delays, const Straggler& straggler) {
  double lost_ns = 0;
  for (const std::size_t r : indices_of(report, straggler))
    lost_ns += static_cast<double>(report.ranks[r].budget.compute_ns) * (1 - 1 / delays.speed[r].ratio);
  return static_cast<Nanoseconds>(lost_ns);
}

/// What they took longer than their peers over the run, beyond what a rank that is not late typically did: where
/// records were lost, everybody now and then seems to do more than the others, and where pauses go round, so it does.
Nanoseconds excess_beyond_usual(const JobReport& report, const JobDelays& delays, const Straggler& straggler) {
  std::vector<Nanoseconds> others;
  for (std::size_t r = 0; r < report.ranks.size(); ++r)
    if (!covers(straggler, report.ranks[r].trace_rank)) others.push_back(delays.excess_of(r));
  const Nanoseconds usual_ns = others.empty() ? 0 : std::max<Nanoseconds>(0, lower_median(others));
  return StragglerExcess(report, delays, straggler).all_ns - usual_ns * std::ssize(straggler.trace_ranks);
}

/// The collectives that tell the cause are the worst ones: before them lie kernels that seem to have run on one side
/// only, where records were lost, and the pauses that everybody has now and then. Kernels that both sides ran tell how
/// slow the GPUs are: if that is most of what they took longer, it is the cause.
void blame_speed(const JobReport& report, const JobDelays& delays, Straggler& straggler) {
  if (straggler.cause == Cause::slow_kernel || !has_slow_gpus(report, delays, straggler)) return;
  const Nanoseconds lost_ns = lost_by_speed(report, delays, straggler);
  const Nanoseconds all_ns = excess_beyond_usual(report, delays, straggler);
  if (lost_ns <= 0 || 2 * lost_ns < all_ns) return;
  straggler.cause = Cause::slow_kernel;
  straggler.part = WorkPart::compute;
  straggler.evidence.insert(
      straggler.evidence.begin(),
      fmt::format(
          "kernels of equal name, grid and block took {:.3f} ms longer over the run than its peers' (table gpu_speed), all of its work {:.3f} ms: slower kernels make it late as a rule, whatever precedes its longest delays",
          static_cast<double>(lost_ns) * 1e-6, static_cast<double>(all_ns) * 1e-6));
}

/// Likewise of more and larger work: where what its kernels took longer over the run is most of what it took longer,
/// they are the cause, whatever pauses precede its longest delays. Where they took no longer, they are none: who is
/// named costs 1% of the elapsed time.
void judge_kernels(const JobReport& report, const JobDelays& delays, const ComputeDifference* compute,
                   Straggler& straggler) {
  constexpr double smallest_excess = 0.005;  // of its peers' kernel time: less is not slower
  if (compute == nullptr || !compute->of_run) return;
  const double longer_ns = compute->own_ns - compute->peers_ns;
  const bool are_longer = longer_ns >= smallest_excess * compute->peers_ns;
  if (is_on_gpu(straggler.cause)) {
    if (!are_longer && !has_slow_gpus(report, delays, straggler)) straggler.cause = Cause::unknown;
    return;
  }
  const Nanoseconds all_ns = excess_beyond_usual(report, delays, straggler);
  if (!are_longer || 2 * longer_ns < static_cast<double>(all_ns) || compute->cause() == Cause::unknown) return;
  straggler.cause = compute->cause();
  straggler.part = WorkPart::compute;
  straggler.host_was_in.clear();
  straggler.evidence.insert(
      straggler.evidence.begin(),
      fmt::format("its kernels took {:.3f} ms longer over the run than its peers', all of its work {:.3f} ms",
                  longer_ns * 1e-6, static_cast<double>(all_ns) * 1e-6));
}

void complete_unknown_cause(const JobReport& report, const JobDelays& delays, Straggler& straggler) {
  if (straggler.cause == Cause::unknown && is_overfull_stage(report, delays, straggler)) {
    straggler.cause = Cause::extra_work;
    straggler.part = WorkPart::compute;
  }
  if (straggler.cause == Cause::unknown && has_slow_gpus(report, delays, straggler)) {
    straggler.cause = Cause::slow_kernel;
    straggler.part = WorkPart::compute;
  }
  if (straggler.cause == Cause::slow_kernel) add_samples(report, straggler);
}

}  // namespace

bool late_by_transfers(const JobReport& report, const JobDelays& delays, const Straggler& straggler) {
  const StragglerExcess excess(report, delays, straggler);
  return excess.transfers_ns > 0 && 2 * excess.transfers_ns > excess.all_ns;
}

void complete_cause(const JobReport& report, const JobDelays& delays, const ComputeDifference* compute,
                    Straggler& straggler) {
  if (late_by_transfers(report, delays, straggler)) {
    blame_the_link(report, delays, straggler);
  } else {
    blame_speed(report, delays, straggler);
    judge_kernels(report, delays, compute, straggler);
    complete_unknown_cause(report, delays, straggler);
  }
  if (compute != nullptr && is_on_gpu(straggler.cause)) {
    const std::vector<std::string> lines = describe(*compute);
    const auto behind_first = straggler.evidence.begin() + (straggler.evidence.empty() ? 0 : 1);
    straggler.evidence.insert(behind_first, lines.begin(), lines.end());
  }
  choose_name(is_overfull_stage(report, delays, straggler), straggler);
}

namespace {

/// Of each rank beyond the median of its role, in one bin.
std::vector<std::int64_t> beyond_role(const JobDelays& delays, const std::vector<std::int64_t>& values,
                                      std::size_t bin) {
  std::map<std::uint64_t, std::vector<std::int64_t>> of_role;
  for (std::size_t r = 0; r < delays.role.size(); ++r) of_role[delays.role[r]].push_back(values[r * delays.bins + bin]);
  std::map<std::uint64_t, std::int64_t> usual;
  for (auto& [role, of_ranks] : of_role) usual[role] = lower_median(of_ranks);
  std::vector<std::int64_t> beyond;
  for (std::size_t r = 0; r < delays.role.size(); ++r)
    beyond.push_back(values[r * delays.bins + bin] - usual[delays.role[r]]);
  return beyond;
}

}  // namespace

RotatingCause rotating_cause(const JobDelays& delays) {
  if (delays.kernels_ns.empty()) return {};
  double all = 0, longer = 0, larger = 0;
  for (std::size_t b = 0; b < delays.bins; ++b) {
    const std::vector<std::int64_t> longer_ns = beyond_role(delays, delays.kernels_ns, b);
    const std::vector<std::int64_t> larger_ns = beyond_role(delays, delays.usual_kernels_ns, b);
    for (std::size_t r = 0; r < delays.role.size(); ++r) {
      const auto caused = static_cast<double>(delays.caused_wait_ns[r * delays.bins + b]);
      const auto excess = static_cast<double>(delays.excess_work_ns[r * delays.bins + b]);
      all += caused;
      if (excess <= 0) continue;
      longer += caused * std::clamp(static_cast<double>(longer_ns[r]) / excess, 0.0, 1.0);
      larger += caused * std::clamp(static_cast<double>(larger_ns[r]) / excess, 0.0, 1.0);
    }
  }
  if (all <= 0 || 2 * std::max(longer, larger) < all) return {};
  return 2 * larger >= all ? RotatingCause{Cause::uneven_work, larger / all}
                           : RotatingCause{Cause::slow_kernel, longer / all};
}

}  // namespace nsys_explain::analysis
