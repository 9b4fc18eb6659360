#include "analysis/tables/side_files.hpp"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

#include "analysis/statistics/delimited_text.hpp"

namespace nsys_explain::analysis {
namespace {

const std::vector<GpuPeaks>& built_in_peaks() {
  static const std::vector<GpuPeaks> table = {
#include "analysis/tables/gpu_peaks.inc"
  };
  return table;
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : text) {
    if (c == ' ' || c == '-' || c == '_' || c == '\t') {
      if (!word.empty()) words.push_back(std::move(word));
      word.clear();
    } else {
      word += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    }
  }
  if (!word.empty()) words.push_back(std::move(word));
  return words;
}

/// Every word of the entry is a word of the name, in any order: "A10" is no "A100".
bool fits(const std::string& entry, std::string_view gpu_name) {
  const std::vector<std::string> words = words_of(entry), name = words_of(gpu_name);
  return std::all_of(words.begin(), words.end(),
                     [&](const std::string& word) { return std::find(name.begin(), name.end(), word) != name.end(); });
}

const GpuPeaks* first_fit(const std::vector<GpuPeaks>& table, std::string_view gpu_name) {
  const auto entry =
      std::find_if(table.begin(), table.end(), [&](const GpuPeaks& p) { return fits(p.name, gpu_name); });
  return entry == table.end() ? nullptr : &*entry;
}

template <class Number>
void fill(Number& own, Number known) {
  if (own == 0) own = known;
}

/// What `peaks` leaves 0 comes from `known`.
void fill_from(GpuPeaks& peaks, const GpuPeaks& known) {
  fill(peaks.fp64_tflops, known.fp64_tflops);
  fill(peaks.fp32_tflops, known.fp32_tflops);
  fill(peaks.tf32_tflops, known.tf32_tflops);
  fill(peaks.fp16_tflops, known.fp16_tflops);
  fill(peaks.fp8_tflops, known.fp8_tflops);
  fill(peaks.bandwidth_gbs, known.bandwidth_gbs);
  fill(peaks.multiprocessors, known.multiprocessors);
  fill(peaks.threads_per_multiprocessor, known.threads_per_multiprocessor);
  fill(peaks.blocks_per_multiprocessor, known.blocks_per_multiprocessor);
  fill(peaks.shared_bytes_per_multiprocessor, known.shared_bytes_per_multiprocessor);
  fill(peaks.shared_bytes_reserved_per_block, known.shared_bytes_reserved_per_block);
}

GpuPeaks peaks_of(const GpuLimits& exported) {
  GpuPeaks peaks;
  peaks.bandwidth_gbs = static_cast<double>(exported.bandwidth) * 1e-9;
  peaks.multiprocessors = exported.multiprocessors;
  peaks.threads_per_multiprocessor = exported.threads_per_multiprocessor;
  peaks.blocks_per_multiprocessor = exported.blocks_per_multiprocessor;
  peaks.shared_bytes_per_multiprocessor = exported.shared_bytes_per_multiprocessor;
  peaks.shared_bytes_reserved_per_block = exported.compute_capability_major >= 8 ? 1024 : 0;
  return peaks;
}

}  // namespace

double GpuPeaks::tflops(std::string_view type) const {
  if (type == "fp64") return fp64_tflops;
  if (type == "fp32") return fp32_tflops;
  if (type == "tf32") return tf32_tflops;
  if (type == "fp16") return fp16_tflops;
  if (type == "fp8") return fp8_tflops;
  return 0;
}

std::optional<GpuPeaks> PeakTable::find(std::string_view gpu_name, const GpuLimits& exported) const {
  GpuPeaks peaks;
  peaks.name = gpu_name;
  const GpuPeaks told = peaks_of(exported);
  bool is_known = exported.bandwidth > 0 || exported.multiprocessors > 0 || exported.threads_per_multiprocessor > 0;
  for (const GpuPeaks* source : {first_fit(own_, gpu_name), &told, first_fit(built_in_peaks(), gpu_name)}) {
    if (source == nullptr) continue;
    is_known = is_known || source != &told;
    fill_from(peaks, *source);
  }
  return is_known ? std::optional(peaks) : std::nullopt;
}

PeakTable parse_gpu_peaks(std::string_view text) {
  std::vector<GpuPeaks> table;
  for (const Line& line : significant_lines(text)) {
    const auto refuse = [&](std::string_view problem) {
      return std::runtime_error(fmt::format(
          "line {} of the GPU peaks {}, so shares of peak would be wrong; lines are 'KEY=VALUE ... NAME' with the keys fp64, fp32, tf32, fp16, fp8 (TFLOP/s) and bandwidth (GB/s), for example: fp16=900 bandwidth=3350 H100 80GB",
          line.number, problem));
    };
    GpuPeaks peaks;
    const std::map<std::string_view, double*> keys = {
        {"fp64", &peaks.fp64_tflops}, {"fp32", &peaks.fp32_tflops}, {"tf32", &peaks.tf32_tflops},
        {"fp16", &peaks.fp16_tflops}, {"fp8", &peaks.fp8_tflops},   {"bandwidth", &peaks.bandwidth_gbs}};
    std::string_view rest = line.text;
    std::size_t values = 0;
    for (;; ++values) {
      const std::string_view word = rest.substr(0, rest.find(' '));
      const std::size_t equals = word.find('=');
      if (equals == std::string_view::npos) break;
      const auto key = keys.find(word.substr(0, equals));
      if (key == keys.end()) throw refuse(fmt::format("has the unknown key '{}'", word.substr(0, equals)));
      const auto value = parse_number(word.substr(equals + 1));
      if (!value || *value <= 0) throw refuse(fmt::format("has '{}', which is no number above 0", word));
      *key->second = *value;
      rest.remove_prefix(std::min(word.size() + 1, rest.size()));
      rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
    }
    if (rest.empty()) throw refuse("names no GPU");
    if (values == 0) throw refuse("has no value");
    peaks.name = rest;
    table.push_back(std::move(peaks));
  }
  return PeakTable(std::move(table));
}

std::optional<Occupancy> theoretical_occupancy(const GpuPeaks& gpu, int threads_per_block, int registers_per_thread,
                                               int shared_bytes_per_block) {
  constexpr int warp = 32, registers_per_multiprocessor = 65536, register_unit = 256, shared_unit = 128;
  // CUDA's limit; and more than any GPU has, so that nothing below overflows.
  constexpr int most_threads = 1024, most_shared_bytes = 1 << 24;
  if (gpu.threads_per_multiprocessor == 0 || gpu.blocks_per_multiprocessor == 0 ||
      gpu.shared_bytes_per_multiprocessor == 0 || threads_per_block <= 0 || threads_per_block > most_threads ||
      registers_per_thread > registers_per_multiprocessor || shared_bytes_per_block < 0 ||
      shared_bytes_per_block > most_shared_bytes) {
    return std::nullopt;
  }
  const int warps = (threads_per_block + warp - 1) / warp;
  Occupancy occupancy{0, gpu.threads_per_multiprocessor / warp / warps, "threads"};
  const auto limit = [&](int blocks, std::string_view by) {
    if (blocks < occupancy.blocks) occupancy = {0, blocks, by};
  };
  limit(gpu.blocks_per_multiprocessor, "blocks");
  if (registers_per_thread > 0) {
    const int per_warp = (registers_per_thread * warp + register_unit - 1) / register_unit * register_unit;
    // Four schedulers have a quarter of the registers each, and a warp stays with one.
    limit(registers_per_multiprocessor / 4 / per_warp * 4 / warps, "registers");
  }
  if (const int shared = shared_bytes_per_block + gpu.shared_bytes_reserved_per_block; shared > 0) {
    const int rounded = (shared + shared_unit - 1) / shared_unit * shared_unit;
    limit(gpu.shared_bytes_per_multiprocessor / rounded, "shared memory");
  }
  occupancy.percent = 100.0 * occupancy.blocks * warps * warp / gpu.threads_per_multiprocessor;
  return occupancy;
}

}  // namespace nsys_explain::analysis
