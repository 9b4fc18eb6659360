#include "analysis/tables/side_files.hpp"

#include <algorithm>
#include <charconv>
#include <stdexcept>

#include <fmt/format.h>

#include "analysis/statistics/delimited_text.hpp"
#include "model/text.hpp"

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

namespace {

std::string_view between(std::string_view text, std::string_view before, std::string_view after) {
  const std::size_t begin = text.find(before);
  if (begin == std::string_view::npos) return {};
  const std::string_view rest = text.substr(begin + before.size());
  return rest.substr(0, rest.find_first_of(after));
}

std::optional<double> count_of(std::string_view text) {
  std::int64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr == text.data() || value < 0) return std::nullopt;
  return static_cast<double>(value);
}

/// Words of cudaDataType_t and cublasComputeType_t. Types whose peak the table of GPUs does not hold keep their own
/// name: their FLOPs must not be held against another type's peak.
std::string gemm_type(std::string_view data, std::string_view compute) {
  const auto is = [&](std::string_view word) { return data.find(word) != std::string_view::npos; };
  if (is("64F")) return "fp64";
  if (is("_4F")) return "fp4";
  if (is("_8F")) return "fp8";
  if (is("_8I") || is("_8U")) return "int8";
  if (is("16F") || is("16BF")) return "fp16";
  if (compute.find("TF32") != std::string_view::npos) return "tf32";
  if (compute.find("FAST_16") != std::string_view::npos) return "fp16";
  return "fp32";
}

/// FLOPs of a complex multiplication and addition over those of a real one.
double complex_factor(std::string_view data) {
  return data.find("C_") != std::string_view::npos ? 4 : 1;
}

/// "cublasCgemm3m", "cublasSgemm_v2": the letter says the type. In words of cudaDataType_t.
std::string_view type_of_function(std::string_view function) {
  const std::size_t gemm = function.find("gemm");
  const char letter = gemm == std::string_view::npos || gemm == 0 ? 'S' : function[gemm - 1];
  switch (letter) {
    case 'D':
      return "CUDA_R_64F";
    case 'Z':
      return "CUDA_C_64F";
    case 'C':
      return "CUDA_C_32F";
    case 'H':
      return "CUDA_R_16F";
    default:
      return "CUDA_R_32F";
  }
}

/// FLOPs and calls of one multiplication, added to the process's sums.
void add_gemm(GemmLog& log, std::int64_t process, const std::string& type, double flops) {
  LoggedGemms& gemms = log[process][type];
  ++gemms.calls;
  gemms.flops += flops;
}

/// The function of a line "[time][cublasLt][process][Trace][cublasLtMatmul] ..."; empty: not such a line. One that the
/// program called is cublasLtMatmul; cublasLtTSTMatmul, cublasLtSSSMatmul and the like come from within cuBLAS.
std::string_view traced_multiplication(std::string_view line) {
  const std::string_view function = between(line, "[Trace][", "]");
  const bool multiplies = function.starts_with("cublasLt") && function.ends_with("Matmul");
  return multiplies && line.find("Adesc=[") != std::string_view::npos ? function : std::string_view();
}

/// One line of cublasLt: D is M x N; K is the other side of A.
void read_lt_line(std::string_view line, GemmLog& log) {
  const std::string_view a = between(line, "Adesc=[", "]"), d = between(line, "Ddesc=[", "]");
  const std::string_view result = d.empty() ? between(line, "Cdesc=[", "]") : d;
  const auto m = count_of(between(result, "rows=", " ]")), n = count_of(between(result, "cols=", " ]"));
  const bool transposed = line.find("transa=OP_T") != std::string_view::npos ||
                          line.find("transA=OP_T") != std::string_view::npos ||
                          line.find("transa=OP_C") != std::string_view::npos;
  const auto k = count_of(between(a, transposed ? "rows=" : "cols=", " ]"));
  if (!m || !n || !k) return;
  const double batch = count_of(between(result, "batchCount=", " ]")).value_or(1);
  const std::string_view type = between(a, "type=", " ]");
  add_gemm(log, static_cast<std::int64_t>(count_of(between(line, "cublasLt][", "]")).value_or(0)),
           gemm_type(type, between(line, "computeType=", " ]")), 2 * *m * *n * *k * batch * complex_factor(type));
}

/// The lines of one cuBLAS call, collected until the next one begins.
struct CublasCall {
  std::string_view function;
  std::optional<double> m, n, k;
  double batch = 1;
  std::string_view type, compute;
  bool allows_tf32 = false;  ///< the handle lets FP32 multiplications run as TF32
  std::int64_t process = 0;

  void take_argument(std::string_view line) {
    const std::string_view name = between(line, "i!", ":");
    const std::string_view value = between(line, "val=", "\n");
    const std::size_t begin = std::min(name.find_first_not_of(' '), name.size());
    const std::string_view argument = name.substr(begin);
    if (argument == "m") m = count_of(value);
    if (argument == "n") n = count_of(value);
    if (argument == "k") k = count_of(value);
    if (argument == "batchCount") batch = count_of(value).value_or(1);
    if (argument == "Atype") type = value;
    if (argument == "computeType") compute = value;
    if (const auto id = count_of(between(line, "Process=", ";"))) process = static_cast<std::int64_t>(*id);
    if (line.find("MathMode=CUBLAS_TF32") != std::string_view::npos) allows_tf32 = true;
  }
  void add_to(GemmLog& log) const {
    const bool is_gemm =
        function.find("gemm") != std::string_view::npos || function.find("Gemm") != std::string_view::npos;
    if (!is_gemm || !m || !n || !k) return;
    const std::string_view data = type.empty() ? type_of_function(function) : type;
    const std::string_view mode = allows_tf32 ? std::string_view("TF32") : compute;
    add_gemm(log, process, gemm_type(data, mode), 2 * *m * *n * *k * batch * complex_factor(data));
  }
};

}  // namespace

GemmLog parse_cublas_log(std::string_view text) {
  GemmLog log, of_cublas, within_cublas;
  CublasCall call;
  while (!text.empty()) {
    const std::string_view line = next_part(text);
    if (const std::string_view function = traced_multiplication(line); !function.empty()) {
      read_lt_line(line, function == "cublasLtMatmul" ? log : within_cublas);
    } else if (line.starts_with("I! cuBLAS")) {
      call.add_to(of_cublas);
      call = {};
      call.function = between(line, "cublasStatus_t ", "(");
    } else if (line.starts_with("i!")) {
      call.take_argument(line);
    }
  }
  call.add_to(of_cublas);
  // With both logs on, what cuBLAS hands on to cublasLt is in them twice.
  for (const auto& [process, types] : within_cublas) of_cublas.try_emplace(process, types);
  for (const auto& [process, types] : of_cublas) {
    for (const auto& [type, gemms] : types) {
      log[process][type].calls += gemms.calls;
      log[process][type].flops += gemms.flops;
    }
  }
  if (log.empty()) {
    throw std::runtime_error(
        "it holds no matrix multiplication, so no work is known; run the program with CUBLAS_LOGINFO_DBG=1 CUBLAS_LOGDEST_DBG=FILE and CUBLASLT_LOG_LEVEL=2 CUBLASLT_LOG_FILE=FILE");
  }
  return log;
}

std::vector<WeightRule> parse_weights(std::string_view text) {
  std::vector<WeightRule> rules;
  for (const Line& line : significant_lines(text)) {
    const auto refuse = [&](std::string_view problem) {
      return std::runtime_error(fmt::format(
          "line {} of the weights {}, so its bandwidth would be wrong; lines are 'BYTES PATTERN', for example: 33.5M gemvx::kernel",
          line.number, problem));
    };
    const std::size_t gap = line.text.find_first_of(" \t");
    if (gap == std::string::npos) throw refuse("has no pattern");
    std::string number = line.text.substr(0, gap);
    double scale = 1;
    if (number.back() == 'k') scale = 1e3;
    if (number.back() == 'M') scale = 1e6;
    if (number.back() == 'G') scale = 1e9;
    if (scale > 1) number.pop_back();
    const auto bytes = parse_number(number);
    if (!bytes || *bytes <= 0)
      throw refuse(fmt::format("has '{}', which is no number of bytes", line.text.substr(0, gap)));
    const std::string pattern = line.text.substr(line.text.find_first_not_of(" \t", gap));
    try {
      rules.push_back({*bytes * scale, Regex(pattern)});
    } catch (const std::invalid_argument& error) {
      throw refuse(fmt::format("has '{}', which is not a regular expression ({})", pattern, error.what()));
    }
  }
  return rules;
}

}  // namespace nsys_explain::analysis
