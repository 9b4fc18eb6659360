#include "analysis/tables/side_files.hpp"

#include <algorithm>
#include <charconv>
#include <stdexcept>

#include <fmt/format.h>

#include "analysis/statistics/delimited_text.hpp"

namespace nsys_explain::analysis {
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
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
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
