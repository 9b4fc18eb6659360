#include "analysis/tables/side_files.hpp"

#include <algorithm>
#include <cmath>

#include "analysis/tables/tables.hpp"
#include "model/schema/gpu.hpp"

namespace nsys_explain::analysis {
namespace {

using enum ColumnKind;

double per_second(double amount, Nanoseconds time_ns) {
  return time_ns > 0 ? amount / static_cast<double>(time_ns) * 1e9 : 0;
}

double percent_of(double part, double whole) {
  return whole > 0 ? 100 * part / whole : 0;
}

struct KernelTime {
  std::int64_t count = 0;
  Nanoseconds total_ns = 0;
  void add(const KernelTime& other) {
    count += other.count;
    total_ns += other.total_ns;
  }
};

/// By kernel kind of the device.
using KindTimes = std::vector<KernelTime>;

KindTimes sum_by_kind(const DeviceTrace& device) {
  KindTimes times(device.kernel_kinds.size());
  for (const Kernel& kernel : device.kernels) times[kernel.kind].add({1, kernel.end_ns - kernel.start_ns});
  return times;
}

Table occupancy_table(const RankEvents& events, const KindTimes& times, const std::optional<GpuPeaks>& gpu) {
  Table table = make_table(
      {"kernel_occupancy",
       "Theoretical occupancy by kernel and launch configuration, most time first (at most 500 for each trace rank)",
       {{"kernel", text, "", "with its template and argument lists"},
        {"grid", text, "", "blocks in x, y, z"},
        {"block", text, "", "threads in x, y, z"},
        {"registers_per_thread", integer, "", ""},
        {"shared_bytes", integer, "bytes", "static and dynamic, per block"},
        {"count", integer, "", "executions"},
        {"total_ns", integer, "ns", "sum of durations"},
        {"occupancy_percent", real, "%", "of a multiprocessor's threads, at most"},
        {"blocks_per_multiprocessor", integer, "", "resident at once"},
        {"limit", text, "", "what allows no more: threads, blocks, registers or shared memory"},
        {"waves", real, "",
         "blocks over what all multiprocessors hold at once; just above a whole number wastes time"}}});
  if (!gpu) return table;
  using Shape = std::tuple<StringIndex, std::int32_t, std::int32_t, std::int32_t, std::int32_t, std::int32_t,
                           std::int32_t, std::int32_t, std::int32_t>;
  std::map<Shape, KernelTime> shapes;
  for (std::size_t kind = 0; kind < times.size(); ++kind) {
    if (times[kind].count == 0) continue;
    const KernelKind& k = events.device.kernel_kinds[kind];
    const std::int64_t shared_bytes = std::int64_t{k.static_shared_bytes} + k.dynamic_shared_bytes;
    shapes[{k.demangled_name, k.grid_x, k.grid_y, k.grid_z, k.block_x, k.block_y, k.block_z, k.registers_per_thread,
            static_cast<std::int32_t>(
                std::clamp<std::int64_t>(shared_bytes, 0, std::numeric_limits<std::int32_t>::max()))}]
        .add(times[kind]);
  }
  const auto& strings = events.trace.strings;
  std::vector<std::pair<Shape, KernelTime>> order(shapes.begin(), shapes.end());
  std::sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
    if (a.second.total_ns != b.second.total_ns) return a.second.total_ns > b.second.total_ns;
    const std::string &one = strings[std::get<0>(a.first)], &other = strings[std::get<0>(b.first)];
    return one != other ? one < other : a.first < b.first;
  });
  if (order.size() > most_shapes) order.resize(most_shapes);
  RowWriter row(table);
  for (const auto& [shape, time] : order) {
    const auto [name, gx, gy, gz, bx, by, bz, registers, shared] = shape;
    const double threads = static_cast<double>(bx) * by * bz;  // of a damaged row, more than an int holds
    const auto occupancy =
        theoretical_occupancy(*gpu, static_cast<int>(std::clamp(threads, 0.0, 1e9)), registers, shared);
    if (!occupancy) continue;
    const double blocks = static_cast<double>(gx) * gy * gz;
    const double resident = static_cast<double>(occupancy->blocks) * gpu->multiprocessors;
    row << std::string_view(strings[name])
        << std::string_view(std::to_string(gx) + ' ' + std::to_string(gy) + ' ' + std::to_string(gz))
        << std::string_view(std::to_string(bx) + ' ' + std::to_string(by) + ' ' + std::to_string(bz))
        << std::int64_t{registers} << std::int64_t{shared} << time.count << time.total_ns << occupancy->percent
        << std::int64_t{occupancy->blocks} << occupancy->limit << (resident > 0 ? blocks / resident : 0.0);
  }
  return table;
}

/// Kernels of cuBLAS, cuBLASLt and CUTLASS that multiply matrices, by their short names.
bool is_gemm(const std::string& short_name) {
  for (const char* mark : {"gemm", "Gemm", "GEMM", "nvjet", "xmma", "gemv"})
    if (short_name.find(mark) != std::string::npos) return true;
  return false;
}

Table model_flops_table(const RankEvents& events, const KindTimes& times, const std::optional<GpuPeaks>& gpu,
                        const GemmLog& log) {
  Table table = make_table(schema::model_flops);
  if (log.empty()) return table;
  const auto own = log.find(events.process.process_id);
  if (own == log.end() && log.size() > 1) return table;  // of other processes
  const auto& types = own == log.end() ? log.begin()->second : own->second;
  KernelTime gemms;
  for (std::size_t kind = 0; kind < times.size(); ++kind)
    if (is_gemm(events.trace.strings[events.device.kernel_kinds[kind].short_name])) gemms.add(times[kind]);
  if (gemms.count == 0) return table;
  std::int64_t logged = 0;
  for (const auto& [type, of_type] : types) logged += of_type.calls;
  const double ratio = static_cast<double>(gemms.count) / static_cast<double>(logged);
  const bool scaled = std::abs(ratio - 1) > 0.05;
  const Nanoseconds window_ns = compute_budget(events.device, events.communication_kinds, events.holes).window_ns;
  RowWriter row(table);
  for (const auto& [type, of_type] : types) {
    const double flops = of_type.flops * (scaled ? ratio : 1);
    const double peak = gpu ? gpu->tflops(type) : 0;
    const double achieved = per_second(flops, gemms.total_ns) * 1e-12;
    row << std::string_view(type) << of_type.calls << gemms.count << scaled << flops << gemms.total_ns << window_ns
        << achieved << peak << percent_of(achieved, peak) << percent_of(per_second(flops, window_ns) * 1e-12, peak);
  }
  return table;
}

/// Nsight Compute shows a function with or without its arguments and template parameters.
bool is_kernel(const std::string& ncu_name, const std::string& demangled, const std::string& short_name) {
  if (ncu_name == demangled || ncu_name == short_name) return true;
  const std::string without_arguments = ncu_name.substr(0, ncu_name.rfind('('));
  return without_arguments == short_name || (!without_arguments.empty() && demangled.starts_with(without_arguments) &&
                                             demangled[without_arguments.size()] == '(');
}

/// Executions in the trace of a kernel that Nsight Compute profiled.
KernelTime time_of(const NcuKernel& profiled, const RankEvents& events, const KindTimes& times) {
  std::map<std::pair<StringIndex, StringIndex>, bool> matches;
  KernelTime time;
  for (std::size_t k = 0; k < times.size(); ++k) {
    const KernelKind& kind = events.device.kernel_kinds[k];
    const auto [entry, is_new] = matches.try_emplace({kind.demangled_name, kind.short_name});
    if (is_new) {
      entry->second =
          is_kernel(profiled.name, events.trace.strings[kind.demangled_name], events.trace.strings[kind.short_name]);
    }
    if (entry->second) time.add(times[k]);
  }
  return time;
}

Table roofline_table(const RankEvents& events, const KindTimes& times, const std::optional<GpuPeaks>& gpu,
                     const std::vector<NcuKernel>& ncu) {
  Table table = make_table(schema::roofline);
  RowWriter row(table);
  for (const NcuKernel& profiled : ncu) {
    const KernelTime time = time_of(profiled, events, times);
    if (time.count == 0) continue;
    const bool has_flops = profiled.flops >= 0, has_bytes = profiled.dram_bytes > 0;
    const auto count = static_cast<double>(time.count);
    const double intensity = has_flops && has_bytes ? profiled.flops / profiled.dram_bytes : -1;
    const double tflops = has_flops ? per_second(profiled.flops * count, time.total_ns) * 1e-12 : -1;
    const double gbs = has_bytes ? per_second(profiled.dram_bytes * count, time.total_ns) * 1e-9 : -1;
    const double peak_gbs = gpu ? gpu->bandwidth_gbs : 0;
    const double attainable = gpu && gpu->fp16_tflops > 0 && peak_gbs > 0 && intensity >= 0
                                  ? std::min(gpu->fp16_tflops, intensity * peak_gbs * 1e-3)
                                  : -1;
    constexpr double busy = 60;  // Nsight Compute's own line between a bound kernel and one that waits
    const bool told = profiled.sm_percent >= 0 && profiled.dram_percent >= 0;
    const std::string_view bound = !told                                                         ? "-"
                                   : std::max(profiled.sm_percent, profiled.dram_percent) < busy ? "latency"
                                   : profiled.dram_percent > profiled.sm_percent                 ? "memory"
                                                                                                 : "compute";
    row << std::string_view(profiled.name) << time.count << time.total_ns << profiled.flops << profiled.dram_bytes
        << intensity << tflops << attainable << gbs << peak_gbs << (has_bytes ? percent_of(gbs, peak_gbs) : -1.0)
        << bound << profiled.sm_percent << profiled.dram_percent << profiled.tensor_percent << profiled.l2_hit_percent
        << profiled.occupancy_percent << std::string_view(top_stall(profiled.stalls)) << profiled.bank_conflicts
        << profiled.sectors_per_load << profiled.sectors_per_store;
  }
  return table;
}

/// Of the metrics' descriptions in Nsight Compute's guide ("Warp Scheduler States").
std::string_view meaning_of(std::string_view reason) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 18> meanings{
      {{"barrier", "other warps of the block at a barrier"},
       {"branch_resolving", "the target of a branch"},
       {"dispatch_stall", "the dispatcher"},
       {"drain", "its stores to memory, before it ends"},
       {"gmma", "a tensor core operation of the warp group"},
       {"imc_miss", "a miss in the cache for constants"},
       {"lg_throttle", "the queue for local and global memory, which is full"},
       {"long_scoreboard", "data from global, local, texture or surface memory"},
       {"math_pipe_throttle", "a busy arithmetic pipe"},
       {"membar", "a memory barrier"},
       {"mio_throttle", "the queue for shared memory and special functions, which is full"},
       {"misc", "something else"},
       {"no_instruction", "the next instruction: a jump, or a miss in the instruction cache"},
       {"not_selected", "its turn: another warp was ready, too"},
       {"short_scoreboard", "data from shared memory, or a special function"},
       {"sleeping", "the end of its sleep"},
       {"tex_throttle", "the queue for textures, which is full"},
       {"wait", "a fixed latency of its last instruction"}}};
  for (const auto& [known, meaning] : meanings)
    if (reason == known) return meaning;
  return {};
}

Table stalls_table(const RankEvents& events, const KindTimes& times, const std::vector<NcuKernel>& ncu) {
  Table table = make_table(schema::kernel_stalls);
  RowWriter row(table);
  for (const NcuKernel& profiled : ncu) {
    const KernelTime time = time_of(profiled, events, times);
    if (time.count == 0) continue;
    double sum = 0;
    for (const auto& [reason, value] : profiled.stalls) sum += value;
    std::vector<std::pair<std::string_view, double>> order(profiled.stalls.begin(), profiled.stalls.end());
    std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
    for (const auto& [reason, value] : order)
      row << std::string_view(profiled.name) << time.total_ns << reason << meaning_of(reason) << 100 * value / sum;
  }
  return table;
}

Table weight_table(const RankEvents& events, const KindTimes& times, const std::optional<GpuPeaks>& gpu,
                   const std::vector<WeightRule>& rules) {
  Table table = make_table({"weight_bandwidth",
                            "Bytes of weights over the time of the kernels that read them once each",
                            {{"pattern", text, "", "of --weights, on the kernel's name"},
                             {"bytes", real, "bytes", "of weights per launch"},
                             {"count", integer, "", "executions"},
                             {"total_ns", integer, "ns", "sum of durations"},
                             {"achieved_gbs", real, "GB/s", ""},
                             {"peak_gbs", real, "GB/s", "0: not known for this GPU (--gpu-peaks)"},
                             {"bandwidth_percent", real, "%", "achieved of peak"}}});
  RowWriter row(table);
  for (const WeightRule& rule : rules) {
    std::map<StringIndex, bool> matches;
    KernelTime time;
    for (std::size_t k = 0; k < times.size(); ++k) {
      const StringIndex name = events.device.kernel_kinds[k].demangled_name;
      const auto [entry, is_new] = matches.try_emplace(name);
      if (is_new) entry->second = rule.pattern.occurs_in(events.trace.strings[name]);
      if (entry->second) time.add(times[k]);
    }
    if (time.count == 0) continue;
    const double gbs = per_second(rule.bytes * static_cast<double>(time.count), time.total_ns) * 1e-9;
    const double peak = gpu ? gpu->bandwidth_gbs : 0;
    row << std::string_view(rule.pattern.text()) << rule.bytes << time.count << time.total_ns << gbs << peak
        << percent_of(gbs, peak);
  }
  return table;
}

}  // namespace

std::vector<Table> roofline_tables(const RankEvents& events, const RooflineEvidence& evidence) {
  const std::optional<GpuPeaks> gpu = evidence.peaks.find(events.device.gpu_name, events.device.gpu_limits);
  const KindTimes times = sum_by_kind(events.device);
  return {occupancy_table(events, times, gpu), model_flops_table(events, times, gpu, evidence.gemms),
          roofline_table(events, times, gpu, evidence.ncu), stalls_table(events, times, evidence.ncu),
          weight_table(events, times, gpu, evidence.weights)};
}

}  // namespace nsys_explain::analysis
