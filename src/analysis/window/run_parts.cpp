#include "analysis/window/window.hpp"

#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "analysis/trace/rank_events.hpp"
#include "model/hash.hpp"
#include "model/schema/job.hpp"
#include "nsys_explain/model/algorithms.hpp"

namespace nsys_explain::analysis {

namespace {

/// Calls `use(Interval)` for the stretches in which the device was busy, one after another: it may have millions.
template <class Use>
void for_each_busy_stretch(const DeviceTrace& device, const Use& use) {
  std::optional<Interval> stretch;
  for_each_gpu_activity(device, [&](const GpuActivity& activity) {
    if (stretch && activity.start_ns <= stretch->end_ns) {
      stretch->end_ns = std::max(stretch->end_ns, activity.end_ns);
      return;
    }
    if (stretch) use(*stretch);
    stretch = Interval{activity.start_ns, activity.end_ns};
  });
  if (stretch) use(*stretch);
}

struct BusyExtent {
  Interval time;
  Nanoseconds work_ns = 0;
};

/// From the first to the last activity; empty without any.
std::optional<BusyExtent> busy_extent(const DeviceTrace& device) {
  std::optional<BusyExtent> extent;
  for_each_busy_stretch(device, [&](const Interval& stretch) {
    if (!extent) extent = BusyExtent{stretch, 0};
    extent->time.end_ns = stretch.end_ns;
    extent->work_ns += stretch.end_ns - stretch.start_ns;
  });
  return extent;
}

/// Cuts off what little comes before, or after, a pause that is long beside the rest.
RecordedSteps record_activity(const DeviceTrace& device) {
  // A pause is long, and what is cut off is little, by the same measure: a tenth.
  constexpr std::int64_t parts = 10;
  RecordedSteps recorded;
  const std::optional<BusyExtent> whole = busy_extent(device);
  if (!whole) return recorded;
  recorded.begin_ns = {open_begin_ns};
  recorded.end_ns = open_end_ns;
  recorded.cut_off_ns = open_begin_ns;
  Nanoseconds begin_ns = whole->time.start_ns, before_ns = no_time, work_ns = 0;  // of the stretches so far
  for_each_busy_stretch(device, [&](const Interval& stretch) {
    if (before_ns != no_time && recorded.end_ns == open_end_ns) {
      const Nanoseconds pause_ns = stretch.start_ns - before_ns;
      if (parts * work_ns <= whole->work_ns && parts * pause_ns > whole->time.end_ns - stretch.start_ns) {
        recorded.begin_ns = {begin_ns = stretch.start_ns};
        recorded.cut_off_ns = before_ns;
      } else if (parts * (whole->work_ns - work_ns) <= whole->work_ns && parts * pause_ns > before_ns - begin_ns) {
        recorded.end_ns = stretch.start_ns;
      }
    }
    before_ns = stretch.end_ns;
    work_ns += stretch.end_ns - stretch.start_ns;
  });
  return recorded;
}

/// Sets what was communicated in which order, and when each step's was over.
void record_communication(const RankEvents& events, RecordedSteps& recorded) {
  if (recorded.source != StepSource::none) recorded.last_exit_ns.assign(recorded.begin_ns.size(), no_time);
  struct Launched {
    Nanoseconds launched_ns, exit_ns;
    StringIndex name;
  };
  std::vector<Launched> launched;
  for_each_launched_kernel(events, [&](const Kernel& kernel, Nanoseconds launched_ns) {
    if (!events.is_communication(kernel)) return;
    launched.push_back({launched_ns, kernel.end_ns, events.device.kind_of(kernel).short_name});
  });
  std::stable_sort(launched.begin(), launched.end(),
                   [](const Launched& a, const Launched& b) { return a.launched_ns < b.launched_ns; });
  for (const Launched& one : launched) {
    recorded.communication_ns.push_back(one.launched_ns);
    recorded.communication_hash = fnv1a(events.trace.strings[one.name], recorded.communication_hash);
    if (recorded.source == StepSource::none || one.launched_ns < recorded.begin_ns.front()) continue;
    const auto after = std::upper_bound(recorded.begin_ns.begin(), recorded.begin_ns.end(), one.launched_ns);
    Nanoseconds& last_exit_ns = recorded.last_exit_ns[static_cast<std::size_t>(after - recorded.begin_ns.begin()) - 1];
    last_exit_ns = std::max(last_exit_ns, one.exit_ns);
  }
}

std::int64_t steps_between(const RecordedSteps& steps, Nanoseconds from_ns, Nanoseconds until_ns) {
  if (steps.source == StepSource::none) return 0;
  return std::count_if(steps.begin_ns.begin(), steps.begin_ns.end(),
                       [&](Nanoseconds begin_ns) { return begin_ns >= from_ns && begin_ns < until_ns; });
}

}  // namespace

namespace {

/// Of each step, what was not recorded left out.
std::vector<Nanoseconds> lengths_of(const RankEvents& events, const Steps& steps) {
  std::vector<Nanoseconds> lengths_ns;
  for (std::size_t i = 0; i < steps.start_ns.size(); ++i) {
    const Interval step{steps.start_ns[i], i + 1 < steps.start_ns.size() ? steps.start_ns[i + 1] : steps.end_ns};
    lengths_ns.push_back(step.end_ns - step.start_ns);
    for (const Interval& hole : events.holes) lengths_ns.back() -= within(step, hole.start_ns, hole.end_ns);
  }
  return lengths_ns;
}

std::vector<float> in_usual_lengths(std::span<const Nanoseconds> lengths_ns) {
  const Nanoseconds usual_ns = usual_length(lengths_ns);
  std::vector<float> multiples;
  for (const Nanoseconds one_ns : lengths_ns)
    multiples.push_back(static_cast<float>(one_ns) / static_cast<float>(usual_ns));
  return multiples;
}

}  // namespace

RecordedSteps record_steps(const RankEvents& events) {
  HostSteps host;
  const Steps steps = find_steps(events, &host);
  RecordedSteps recorded;
  if (steps.start_ns.empty()) {
    recorded = record_activity(events.device);
    record_communication(events, recorded);
    return recorded;
  }
  recorded.source = steps.source;
  recorded.numbered = steps.numbered;
  recorded.first_number = steps.first_number;
  recorded.begin_ns = std::move(host.begin_ns);
  recorded.end_ns = host.end_ns;
  recorded.own_length = in_usual_lengths(own_lengths(events, steps));
  recorded.length = in_usual_lengths(lengths_of(events, steps));
  std::vector<Nanoseconds> lengths;
  for (std::size_t i = 1; i < recorded.begin_ns.size(); ++i)
    lengths.push_back(recorded.begin_ns[i] - recorded.begin_ns[i - 1]);
  if (!lengths.empty()) recorded.usual_ns = lower_median(lengths);
  record_communication(events, recorded);
  return recorded;
}

std::size_t slow_first_steps(std::span<const float> own_length) {
  const std::size_t most =
      std::min(own_length.size() / 3, static_cast<std::size_t>(std::sqrt(static_cast<double>(own_length.size()))));
  double worth = 0, least = 0;
  std::size_t slow = 0;
  for (std::size_t i = 0; i < most; ++i) {
    worth += 2 - std::max<double>(1, own_length[i]);
    if (worth >= least) continue;
    least = worth;
    slow = i + 1;
  }
  return slow > 0 && own_length[slow] > 2 ? 0 : slow;
}

bool is_waited_in(std::span<const float> length, std::size_t step) {
  return step + 1 < length.size() && length[step] > 2;
}

Interval steady_window(const RecordedSteps& steps) {
  if (steps.begin_ns.empty()) return {open_begin_ns, open_end_ns};
  if (steps.source == StepSource::none) return {steps.begin_ns.front(), steps.end_ns};
  const std::size_t slow = slow_first_steps(steps.own_length);
  const std::size_t first = slow + (slow > 0 && is_waited_in(steps.length, slow) ? 1 : 0);
  return {steps.begin_ns[std::min(first, steps.begin_ns.size() - 1)], steps.end_ns};
}

Table run_parts_table(const RankEvents& events, const RecordedSteps& steps, const Interval& window) {
  Table table = schema::make_table(schema::run_parts);
  const std::optional<BusyExtent> whole = busy_extent(events.device);
  if (!whole) return table;
  const bool has_steps = steps.source != StepSource::none;
  const Nanoseconds first_step_ns = has_steps ? std::min(steps.begin_ns.front(), window.start_ns) : window.start_ns;
  struct Part {
    std::string_view name;
    Interval time;
    bool is_analysed;
    Nanoseconds busy_ns = 0;
  };
  const bool has_slow_steps = slow_first_steps(steps.own_length) > 0 || is_waited_in(steps.length, 0);
  std::vector<Part> parts{
      {"start_up", {open_begin_ns, first_step_ns}, false},
      {has_slow_steps ? "slow_first_steps" : "unshared_steps", {first_step_ns, window.start_ns}, false},
      {has_steps ? "steps" : "activity", window, true},
      {"after", {window.end_ns, open_end_ns}, false}};
  for (const Interval& hole : events.holes) {
    const Interval here{std::max(hole.start_ns, window.start_ns), std::min(hole.end_ns, window.end_ns)};
    if (here.start_ns < here.end_ns) parts.push_back({"not_recorded", here, false});
  }
  for_each_busy_stretch(events.device, [&](const Interval& stretch) {
    for (Part& part : parts) {
      const Interval here{std::max(stretch.start_ns, part.time.start_ns), std::min(stretch.end_ns, part.time.end_ns)};
      if (here.start_ns < here.end_ns) part.busy_ns += here.end_ns - here.start_ns;
    }
  });
  RowWriter rows(table);
  for (const Part& part : parts) {
    const Interval time{std::max(part.time.start_ns, whole->time.start_ns),
                        std::min(part.time.end_ns, whole->time.end_ns)};
    if (time.start_ns >= time.end_ns) continue;
    rows << part.name << time.start_ns << time.end_ns - time.start_ns
         << steps_between(steps, part.time.start_ns, part.time.end_ns) << part.busy_ns << part.is_analysed;
  }
  return table;
}

namespace {

/// Empty without any.
std::string describe_apart(const Steps& job, std::span<const std::int32_t> steps_apart) {
  if (steps_apart.empty()) return "";
  Nanoseconds apart_ns = 0;
  for (const std::int32_t step : steps_apart) {
    const auto i = static_cast<std::size_t>(step);
    apart_ns += (i + 1 < job.start_ns.size() ? job.start_ns[i + 1] : job.end_ns) - job.start_ns[i];
  }
  return fmt::format(
      "Not in the mean step: {} step{} in which all ranks do more than a step, or that were not recorded as a whole ({:.3g} s).",
      steps_apart.size(), steps_apart.size() == 1 ? "" : "s", static_cast<double>(apart_ns) * 1e-9);
}

std::string describe_parts(const std::vector<Table>& joined) {
  const Table* const table = schema::find_table(joined, schema::run_parts);
  if (table == nullptr) return "";
  const auto& parts = schema::column(*table, schema::run_parts.part);
  const auto& durations = schema::column(*table, schema::run_parts.duration_ns);
  const auto& counts = schema::column(*table, schema::run_parts.steps);
  const auto& analysed = schema::column(*table, schema::run_parts.analysed);
  struct Part {
    std::vector<Nanoseconds> durations_ns;
    std::int64_t most_steps = 0;
  };
  std::map<std::string, Part> found;
  std::vector<Nanoseconds> analysed_ns;
  for (std::size_t row = 0; row < durations.size(); ++row) {
    if (analysed[row] != 0) {
      analysed_ns.push_back(durations[row]);
    } else {
      Part& part = found[std::string(parts[row])];
      part.durations_ns.push_back(durations[row]);
      part.most_steps = std::max(part.most_steps, counts[row]);
    }
  }
  if (analysed_ns.empty()) return "";
  const Nanoseconds all_ns = lower_median(analysed_ns);
  const bool has_steps = std::any_of(parts.begin(), parts.end(), [](std::string_view part) { return part == "steps"; });
  std::vector<std::string> told;
  const auto tell = [&](const char* name, std::string_view where) {
    const auto part = found.find(name);
    if (part == found.end()) return;
    const Nanoseconds duration_ns = lower_median(part->second.durations_ns);
    if (100 * duration_ns < all_ns) return;
    const std::string duration = fmt::format("{:.3g} s", static_cast<double>(duration_ns) * 1e-9);
    const std::int64_t steps = part->second.most_steps;
    const auto count = [&](std::string_view which) {
      return fmt::format("{} {}step{}", steps, which, steps == 1 ? "" : "s");
    };
    if (part->first == "slow_first_steps") {
      told.push_back(fmt::format("{} ({})", count("slow first "), duration));
    } else if (part->first == "unshared_steps" || steps > 0) {
      const bool are_first = part->first == "unshared_steps";
      told.push_back(fmt::format("{} that not all recorded ({})", count(are_first ? "first " : "last "), duration));
    } else {
      told.push_back(fmt::format("{} {}", duration, where));
    }
  };
  tell("start_up", has_steps ? "before the first step" : "of little GPU work at the beginning");
  tell("slow_first_steps", "");
  if (!found.contains("slow_first_steps")) tell("unshared_steps", "");  // who began last waits for nobody
  tell("not_recorded", "between two captures");
  tell("after", has_steps ? "after the last step" : "of little GPU work at the end");
  if (told.empty()) return "";
  return fmt::format("Not analysed: {} (--whole-run takes all).", fmt::join(told, ", "));
}

}  // namespace

std::string describe_left_out(const std::vector<Table>& joined, const Steps& job,
                              std::span<const std::int32_t> steps_apart) {
  const std::string parts = describe_parts(joined), apart = describe_apart(job, steps_apart);
  return parts + (parts.empty() || apart.empty() ? "" : " ") + apart;
}

std::vector<Nanoseconds> own_lengths(const RankEvents& events, const Steps& steps) {
  std::vector<Nanoseconds> own_ns = lengths_of(events, steps);
  if (own_ns.empty()) return own_ns;
  std::size_t step = 0;
  for_each_gpu_part(events.device, events.communication_kinds, [&](GpuPart part, const Interval& interval) {
    if (part != GpuPart::communication) return;
    for (Interval left = interval; left.start_ns < left.end_ns;) {
      while (step + 1 < own_ns.size() && steps.start_ns[step + 1] <= left.start_ns) ++step;
      const bool is_last = step + 1 == own_ns.size();
      const Nanoseconds end_ns = is_last ? left.end_ns : std::min(left.end_ns, steps.start_ns[step + 1]);
      if (left.start_ns >= steps.start_ns[step]) own_ns[step] -= end_ns - left.start_ns;
      left.start_ns = end_ns;
    }
  });
  return own_ns;
}

Nanoseconds usual_length(std::span<const Nanoseconds> own_ns) {
  if (own_ns.empty()) return 1;
  std::vector<Nanoseconds> last(own_ns.begin() + static_cast<std::ptrdiff_t>(own_ns.size() / 3), own_ns.end());
  return std::max<Nanoseconds>(1, lower_median(last));
}

std::vector<std::int32_t> steps_with_more(const RankEvents& events, const Steps& steps) {
  const std::vector<Nanoseconds> own_ns = own_lengths(events, steps);
  const Nanoseconds usual_ns = usual_length(own_ns);
  std::vector<std::int64_t> activities(own_ns.size(), 0);
  for_each_gpu_activity(events.device, [&](const GpuActivity& activity) {
    if (const std::int32_t step = steps.index_of(activity.start_ns); step >= 0)
      ++activities[static_cast<std::size_t>(step)];
  });
  std::int64_t most = 0;
  for (std::size_t i = 0; i < own_ns.size(); ++i)
    if (!is_long(own_ns[i], usual_ns)) most = std::max(most, activities[i]);
  const auto has_hole = [&](std::size_t i) {
    const bool is_last = i + 1 == steps.start_ns.size();
    return meets_any(events.holes, {steps.start_ns[i], is_last ? steps.end_ns : steps.start_ns[i + 1]});
  };
  std::vector<std::int32_t> with_more;
  for (std::size_t i = 0; i < own_ns.size(); ++i)
    if (has_hole(i) || (is_long(own_ns[i], usual_ns) && activities[i] > most))
      with_more.push_back(static_cast<std::int32_t>(i));
  return with_more;
}

}  // namespace nsys_explain::analysis
