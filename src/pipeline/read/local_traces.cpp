#include "pipeline/read/local_traces.hpp"

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "analysis/links/links.hpp"
#include "analysis/tables/tables.hpp"
#include "analysis/trace/launches.hpp"
#include "analysis/trace/work_profile.hpp"
#include "analysis/window/window.hpp"
#include "clock/level_zero.hpp"
#include "ingest/export_report.hpp"
#include "ingest/input_file.hpp"
#include "nsys_explain/ingest/ingest.hpp"
#include "nsys_explain/model/algorithms.hpp"
#include "nsys_explain/model/launch_index.hpp"
#include "pipeline/read/arrival_counts.hpp"
#include "pipeline/read/inspector_logs.hpp"
#include "pipeline/read/process_view.hpp"
#include "pipeline/read/rank_tables.hpp"
#include "pipeline/read/trace_records.hpp"
#include "pipeline/tool_rank/threads.hpp"

namespace nsys_explain::pipeline {
namespace {

using PartsTables = std::map<std::pair<std::uint64_t, std::int32_t>, Table>;  // by process and device

/// Lets go of NCCL's calls in the process as soon as arrivals are known: they take as much as the arrivals.
void analyse_process(const Trace& trace, ProcessTrace& process, const collectives::KernelClasses& classes,
                     const UserOptions& options, int threads, std::vector<analysis::SharedGpu>& shared_gpus,
                     PartsTables& parts, LocalTrace& local) {
  auto memberships = collectives::communicator_memberships(process);
  auto names = collectives::communicator_names(trace, process);
  const ProcessView view(trace, process, classes);
  std::vector<collectives::DeviceArrivals> arrivals;
  KnownOfDevice first;  // most processes have one device
  const auto know_first = [&] {
    if (process.devices.empty()) return;
    const analysis::RankEvents events = view.recorded(0);
    first = {analysis::collect_launches(events), analysis::messages_table(events)};
  };
  run_in_parallel({[&] { arrivals = view.arrivals(); }, know_first}, threads);
  release(process.nccl_calls);
  names.merge(collectives::names_of_call_communicators(arrivals));
  InspectorFindings inspector;
  if (!options.inspector_directory.empty())
    inspector = take_inspector_keys(options.inspector_directory, trace, process, arrivals, memberships);
  ArrivalCounts counts;
  for (std::size_t d = 0; d < process.devices.size(); ++d) {
    LocalRank rank;
    rank.key = {trace.session.path, process.global_pid, process.devices[d].device_id};
    const analysis::RankEvents recorded = view.recorded(d, arrivals[d].arrivals);
    const analysis::RankEvents events = view.with_calls(d, arrivals[d].arrivals);
    std::vector<Table> tables = make_rank_tables(
        recorded, events, options.analysis, threads, std::exchange(first, {}),
        {[&] { rank.budget = analysis::compute_budget(events.device, events.communication_kinds, events.holes); },
         [&] {
           rank.steps = analysis::find_steps(events);
           if (options.analysis.window.steady) rank.steps_with_more = analysis::steps_with_more(events, rank.steps);
         },
         [&] { rank.profiles = PackedRows(analysis::profile_work(events, arrivals[d].arrivals)); },
         [&] { rank.pieces = PackedRows(analysis::fold_activity(events, arrivals[d].arrivals)); },
         [&] { rank.exposed = PackedRows(analysis::exposed_stretches(events, arrivals[d].arrivals)); }});
    rank.kernel_names = analysis::names_of_kernels(events, rank.steps);
    analysis::mark_blocking(events, arrivals[d].arrivals);
    for (TraceArrival& arrival : arrivals[d].arrivals) arrival.step = rank.steps.index_of(arrival.enter.ns);
    tables.push_back(analysis::layers_table(events, rank.steps));
    if (!arrivals[d].fused.empty()) tables.push_back(collectives::fused_operations_table(arrivals[d].fused));
    tables.insert(tables.end(), inspector.tables.begin(), inspector.tables.end());
    if (const auto of_rank = parts.find({process.global_pid, rank.key.device_id}); of_rank != parts.end())
      tables.push_back(std::move(of_rank->second));
    for (analysis::SharedGpu& gpu : shared_gpus) {
      if (gpu.device_id != rank.key.device_id || gpu.table.columns.empty()) continue;
      tables.push_back(std::exchange(gpu.table, {}));  // at the first of its trace ranks
    }
    rank.tables = PackedTables(std::move(tables));
    counts.add(arrivals[d]);
    rank.arrivals = std::move(arrivals[d].arrivals);
    rank.memberships = memberships;
    rank.communicator_names = names;
    local.ranks.push_back(std::move(rank));
  }
  for (Warning& warning : inspector.warnings) local.facts.warnings.push_back(std::move(warning));
  warn_about_arrivals(counts, local.facts.warnings);
}

/// Reports come here only where the user asked for their export.
Trace read_events(const std::string& path, const ingest::ScanOptions& options, KeptExports& exports) {
  if (!ingest::needs_export(path)) return ingest::read_trace(path, options);
  const std::shared_ptr<const MadeExport> exported = exports.of(path);
  Trace trace = ingest::read_trace(exported->made.path, options);
  trace.warnings.insert(trace.warnings.end(), exported->made.warnings.begin(), exported->made.warnings.end());
  return trace;
}

/// The device that tells the steps of its process: the one with most kernels.
const DeviceTrace* main_device(const ProcessTrace& process) {
  const auto most =
      std::max_element(process.devices.begin(), process.devices.end(),
                       [](const DeviceTrace& a, const DeviceTrace& b) { return a.kernels.size() < b.kernels.size(); });
  return most == process.devices.end() ? nullptr : &*most;
}

/// Leaves in the trace the steady steps: those that all tool ranks have agreed on, else those that each process shows.
PartsTables select_steady_steps(Trace& trace, const collectives::KernelClasses& classes,
                                const analysis::ProcessWindows* agreed, LocalTrace& local) {
  PartsTables parts;
  for (const ProcessTrace& process : trace.processes) {
    const DeviceTrace* const main = main_device(process);
    if (main == nullptr) continue;
    const ProcessView view(trace, process, classes);
    const analysis::RecordedSteps steps =
        analysis::record_steps(view.with_calls(static_cast<std::size_t>(main - process.devices.data())));
    Interval window = analysis::steady_window(steps);
    if (agreed != nullptr) {
      if (const auto of_all = agreed->find(process.global_pid); of_all != agreed->end()) window = of_all->second;
    }
    for (std::size_t d = 0; d < process.devices.size(); ++d)
      parts[{process.global_pid, process.devices[d].device_id}] =
          analysis::run_parts_table(view.with_calls(d), steps, window);
    local.windows[process.global_pid] = window;
    local.recorded_steps[process.global_pid] = steps;
  }
  analysis::clip_to_launched(trace, local.windows);
  return parts;
}

/// Leaves in the trace one run of each process that holds several.
void select_runs(Trace& trace, const std::vector<ingest::ProcessFacts>& processes) {
  analysis::ProcessWindows windows;
  for (const ingest::ProcessFacts& process : processes) {
    const auto& [pauses, analysed] = process.runs;
    windows[process.global_pid] = {analysed == 0 ? analysis::open_begin_ns : pauses[analysed - 1],
                                   analysed == pauses.size() ? analysis::open_end_ns : pauses[analysed]};
  }
  analysis::clip_to_launched(trace, windows);
}

/// The steps of a process by the order of its kernels, and a word that ranges would have told better.
std::vector<Interval> steps_by_order(const Trace& trace, const ProcessTrace& process,
                                     const collectives::KernelClasses& classes, std::vector<Warning>& warnings) {
  const DeviceTrace* const main = main_device(process);
  if (main == nullptr) return {};
  const LaunchIndex launches(process.api_calls);
  const analysis::RecordedSteps recorded =
      analysis::record_steps({trace, process, *main, launches, classes.communication_kinds(*main), {}});
  if (recorded.source == analysis::StepSource::none) {
    warnings.push_back(
        {Severity::info, WarningSource::analysis, 1,
         "a process has no steps, neither NVTX ranges nor kernels that recur evenly, so --steps and --skip-warmup leave all of it; use --filter-time, or annotate steps as 'step 12'"});
    return {};
  }
  std::vector<Interval> steps;
  for (std::size_t i = 0; i < recorded.begin_ns.size(); ++i)
    steps.push_back(
        {recorded.begin_ns[i], i + 1 < recorded.begin_ns.size() ? recorded.begin_ns[i + 1] : recorded.end_ns});
  return steps;
}

/// Leaves in the trace what the user wants to look at.
void select_window(Trace& trace, const collectives::KernelClasses& classes, const analysis::AnalysisOptions& options,
                   Nanoseconds epoch_utc_ns, std::vector<Warning>& warnings) {
  if (!options.window.any()) return;
  const Nanoseconds epoch_in_trace_ns = -clock::session_start(trace.session, epoch_utc_ns).ns;
  const analysis::ProcessWindows windows = analysis::clip_to_window(
      trace, options.window, epoch_in_trace_ns, analysis::PhaseNames(options.phase_rules),
      [&](const ProcessTrace& process) { return steps_by_order(trace, process, classes, warnings); });
  for (const ProcessTrace& process : trace.processes) {
    if (process.devices.empty() || windows.contains(process.global_pid)) continue;
    warnings.push_back(
        {Severity::data_loss, WarningSource::analysis, 1,
         "a process that uses a GPU has none of the NVTX ranges that make up the window: its trace ranks show no activity; annotate every rank alike"});
  }
}

bool has_losses(const std::vector<Warning>& warnings) {
  return std::any_of(warnings.begin(), warnings.end(), [](const Warning& w) { return w.severity != Severity::info; });
}

/// What the user should know about the input as a whole: the worst of the warnings.
void judge_input(TraceFacts& facts) {
  facts.input.status = InputStatus::ok;
  for (const Warning& warning : facts.warnings) {
    if (warning.severity == Severity::info) continue;
    facts.input.status = InputStatus::degraded;
    facts.input.message = warning.message;
    if (warning.severity == Severity::error) break;
  }
}

/// Who is a rank, who stands beside them, and what tells of which job they are: by the whole recording.
void identify_processes(const Trace& trace, const collectives::KernelClasses& classes,
                        const ingest::RankOverrides& overrides, TraceFacts& facts) {
  std::vector<std::int64_t> kernels;
  std::vector<bool> takes_part;
  for (const ProcessTrace& process : trace.processes) {
    std::int64_t& count = kernels.emplace_back(0);
    for (const DeviceTrace& device : process.devices) {
      const std::vector<bool> communicates = classes.communication_kinds(device);
      for (const Kernel kernel : device.kernels) count += communicates[kernel.kind] ? 1 : 0;
    }
    takes_part.push_back(count > 0 || !process.nccl_calls.empty() || !process.mpi_calls.empty());
  }
  ingest::RanksAndHelpers told =
      ingest::tell_helpers(trace, ingest::identify_trace_ranks(trace, overrides), takes_part);
  facts.identities = std::move(told.ranks);
  facts.helpers = std::move(told.helpers);
  for (Warning& warning : told.warnings) facts.warnings.push_back(std::move(warning));
  facts.processes = ingest::facts_of_processes(trace, kernels);
  facts.hosts = ingest::identify_host_processes(trace, overrides);
}

LocalTrace read_local_trace(const ingest::AssignedTrace& assigned, const ReadSettings& settings,
                            const ingest::ScanOptions& scan_options) {
  LocalTrace local;
  local.facts.input.path = assigned.name;
  try {
    ingest::ScanOptions learning = scan_options;
    learning.learnt_zones = &local.zones;
    Trace trace = read_events(assigned.path, learning, settings.exports);
    if (has_losses(trace.warnings)) local.zones.clear();
    trace.session.path = assigned.name;
    local.facts.session = trace.session;
    local.facts.extent = ingest::session_extent(trace);
    local.facts.warnings = std::move(trace.warnings);
    for (Warning& warning : ingest::side_device_warnings(trace)) local.facts.warnings.push_back(std::move(warning));
    local.facts.content = ingest::content_of(trace);
    const collectives::KernelClasses classes(trace, settings.options.communication_kernels);
    identify_processes(trace, classes, settings.options.ranks, local.facts);
    select_window(trace, classes, settings.options.analysis, settings.epoch_utc_ns, local.facts.warnings);
    PartsTables parts;
    if (settings.options.analysis.window.steady) {
      select_runs(trace, local.facts.processes);
      parts = select_steady_steps(trace, classes, agreed_windows(settings, assigned.name), local);
    }
    std::vector<analysis::SharedGpu> shared_gpus = analysis::shared_gpus(trace);
    for (const auto& host : local.facts.hosts) local.hosts.push_back(read_host_process(trace, host.key));
    for (ProcessTrace& process : trace.processes)
      analyse_process(trace, process, classes, settings.options, scan_options.threads, shared_gpus, parts, local);
    local.facts.analysed = true;
    judge_input(local.facts);
  } catch (const std::bad_alloc&) {
    local = {};
    local.facts.input = {assigned.name, InputStatus::failed,
                         "not enough memory to hold its events, so it is left out: use more tool ranks on more nodes"};
  } catch (const std::exception& error) {
    local = {};
    local.facts.input = {assigned.name, InputStatus::failed, error.what()};
  }
  return local;
}

/// An input that was to be read by a run that was cut off, and that nothing is left of.
LocalTrace lost_trace(const ingest::AssignedTrace& assigned, TraceAccess access) {
  LocalTrace lost;
  lost.facts.input = {
      assigned.name, InputStatus::failed,
      access == TraceAccess::never
          ? "the run ended before it was read, so its ranks are missing"
          : "it is in no shard, and the file is not there or has changed, so its ranks are missing; name all shard directories of the run, or merge on the host that holds the file"};
  return lost;
}

/// From its record where there is one, else from the file.
LocalTrace obtain_local_trace(const ingest::AssignedTrace& assigned, const ReadSettings& settings,
                              const ingest::ScanOptions& scan_options) {
  std::optional<LocalTrace> recorded = settings.records.load(assigned, settings);
  const bool can_read = settings.access == TraceAccess::always ||
                        (settings.access == TraceAccess::when_unchanged && ingest::is_as_found(assigned));
  // What made it fail may be over.
  if (recorded && (recorded->facts.analysed || !can_read)) {
    settings.records.save(assigned, settings, *recorded, true);
    return *std::move(recorded);
  }
  if (!can_read) return lost_trace(assigned, settings.access);
  LocalTrace trace = read_local_trace(assigned, settings, scan_options);
  settings.records.save(assigned, settings, trace, false);
  return trace;
}

std::int64_t limit_that_does(std::span<const ingest::AssignedTrace> waiting, std::vector<ReadingCost> costs,
                             const ReadSettings& settings) {
  for (std::size_t i = 0; i < costs.size(); ++i) costs[i].arrivals = ingest::estimate_arrivals(waiting[i].path);
  return settings.memory.limit_for(costs, settings.tool_ranks);
}

}  // namespace

const analysis::ProcessWindows* agreed_windows(const ReadSettings& settings, const std::string& input) {
  if (settings.agreed == nullptr) return nullptr;
  const auto found = settings.agreed->find(input);
  return found == settings.agreed->end() ? nullptr : &found->second;
}

Session read_local_session(const ingest::AssignedTrace& assigned, const std::string& nsys) {
  try {
    if (!ingest::needs_export(assigned.path)) return ingest::read_session(assigned.path);
    const ingest::ScratchDirectory scratch;  // once more when it is read: two exports need no room at the same time
    return ingest::read_session(ingest::export_input(assigned.path, scratch.path().string(), nsys).path);
  } catch (const std::exception&) {
    return {};  // said when the trace is read
  }
}

std::int64_t memory_limit_for(const std::vector<ingest::AssignedTrace>& assigned, const ReadSettings& settings) {
  const Room room = settings.memory.room();
  std::vector<ReadingCost> costs;
  for (const ingest::AssignedTrace& one : assigned) costs.push_back(cost_of(one, settings.memory));
  const bool is_enough =
      settings.memory.can_write() && std::all_of(costs.begin(), costs.end(), [&](const ReadingCost& cost) {
        return next_round({&cost, 1}, settings.threads, room).traces > 0;
      });
  return is_enough ? 0 : limit_that_does(assigned, std::move(costs), settings);
}

void check_memory_for(const std::vector<ingest::AssignedTrace>& assigned, const ReadSettings& settings,
                      std::int64_t enough) {
  const Room room = settings.memory.room();
  for (const ingest::AssignedTrace& one : assigned) {
    const ReadingCost cost = cost_of(one, settings.memory);
    if (next_round({&cost, 1}, settings.threads, room).traces == 0 || !settings.memory.can_write())
      settings.memory.refuse(one, cost, enough);
  }
}

std::vector<LocalTrace> read_local_traces(const std::vector<ingest::AssignedTrace>& assigned,
                                          const ReadSettings& settings, Progress& progress) {
  std::vector<std::size_t> order;  // small ones first: they are read side by side
  for (const bool small : {true, false}) {
    for (std::size_t i = 0; i < assigned.size(); ++i) {
      if (is_small(assigned[i]) == small) order.push_back(i);
    }
  }
  std::vector<ReadingCost> costs;
  for (const std::size_t i : order) costs.push_back(cost_of(assigned[i], settings.memory));
  std::vector<LocalTrace> traces(assigned.size());
  for (std::size_t first = 0; first < order.size();) {
    const ReadingRound round = next_round(std::span(costs).subspan(first), settings.threads, settings.memory.room());
    if (round.traces == 0) {
      std::vector<ingest::AssignedTrace> waiting;
      for (std::size_t i = first; i < order.size(); ++i) waiting.push_back(assigned[order[i]]);
      settings.memory.refuse(
          waiting.front(), costs[first],
          limit_that_does(waiting, {costs.begin() + static_cast<std::ptrdiff_t>(first), costs.end()}, settings));
    }
    const MemoryBudget::EventPlace place(settings.memory, round.in_files, assigned[order[first]].name);
    for_each_in_parallel(round.traces, settings.threads, [&](std::size_t i) {
      const std::size_t input = order[first + i];
      const auto on_rows = [&](std::int64_t rows) { progress.add_rows(rows); };
      traces[input] = obtain_local_trace(assigned[input], settings, {settings.reader, round.threads_each, on_rows});
      progress.finish_file(assigned[input].bytes);
    });
    first += round.traces;
  }
  return traces;
}

void release_timelines(std::vector<LocalTrace>& local_traces) {
  for (LocalTrace& trace : local_traces) {
    for (LocalRank& rank : trace.ranks) {
      release(rank.timeline);
      rank.profiles.release();
    }
  }
}

void read_again(const ingest::AssignedTrace& assigned, const ReadSettings& settings,
                const analysis::ProcessWindows& windows, const ingest::FilePart& part,
                const std::function<void(const TraceRankKey&, const analysis::RankEvents&)>& visit) {
  if (settings.access == TraceAccess::never || !ingest::is_as_found(assigned)) {
    throw ingest::TraceError("is not there, or not as it was when it was read");
  }
  // Needed to tell what happened: where there is little room, as sparingly as can be.
  const ReadingCost cost = cost_of(assigned, settings.memory);
  ReadingRound round = next_round({&cost, 1}, settings.threads, settings.memory.room());
  if (round.traces == 0) round = {1, 1, true};
  const MemoryBudget::EventPlace place(settings.memory, round.in_files, assigned.name);
  // A new export may have other pages, of a file with a log beside it the fingerprint does not tell all, and ranges
  // that make up a window may lie anywhere.
  const bool has_same_pages =
      ingest::needs_export(assigned.path) ? settings.exports.holds(assigned.path) : !ingest::has_sidecar(assigned.path);
  const bool by_part = has_same_pages && !settings.options.analysis.window.any();
  const ingest::FilePart some = by_part ? part : ingest::FilePart{};
  Trace trace = read_events(assigned.path, {settings.reader, round.threads_each, {}, some, nullptr}, settings.exports);
  const collectives::KernelClasses classes(trace, settings.options.communication_kernels);
  select_window(trace, classes, settings.options.analysis, settings.epoch_utc_ns, trace.warnings);
  analysis::clip_to_launched(trace, windows);
  for (const ProcessTrace& process : trace.processes) {
    const ProcessView view(trace, process, classes);
    for (std::size_t d = 0; d < process.devices.size(); ++d)
      visit({assigned.name, process.global_pid, process.devices[d].device_id}, view.with_calls(d));
  }
}

}  // namespace nsys_explain::pipeline
