#include "analysis/tables/kernel_evidence.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <stdexcept>

#include <fmt/format.h>

#include "analysis/statistics/delimited_text.hpp"

namespace nsys_explain::analysis {
namespace {

using Row = std::vector<std::string>;

std::optional<std::size_t> column_of(const Row& header, std::string_view name) {
  const auto found = std::find(header.begin(), header.end(), name);
  return found == header.end() ? std::nullopt : std::optional<std::size_t>(found - header.begin());
}

/// Metrics of one launch by name.
using Metrics = std::map<std::string, double>;

double scale_of(std::string_view unit) {
  if (unit == "Kbyte") return 1e3;
  if (unit == "Mbyte") return 1e6;
  if (unit == "Gbyte") return 1e9;
  if (unit == "Tbyte") return 1e12;
  return 1;
}

double first_of(const Metrics& metrics, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const auto found = metrics.find(name); found != metrics.end()) return found->second;
  }
  return -1;
}

/// -1 where nothing was counted.
double flops_of(const Metrics& metrics) {
  constexpr std::array<std::pair<const char*, double>, 9> operations{{{"dadd", 1},
                                                                      {"dmul", 1},
                                                                      {"dfma", 2},
                                                                      {"fadd", 1},
                                                                      {"fmul", 1},
                                                                      {"ffma", 2},
                                                                      {"hadd", 1},
                                                                      {"hmul", 1},
                                                                      {"hfma", 2}}};
  double flops = 0;
  bool counted = false;
  for (const auto& [operation, weight] : operations) {
    const double half_lanes = operation[0] == 'h' ? 2 : 1;  // an instruction works on a pair of halves
    const auto found = metrics.find(fmt::format("smsp__sass_thread_inst_executed_op_{}_pred_on.sum", operation));
    if (found == metrics.end()) continue;
    flops += weight * half_lanes * found->second;
    counted = true;
  }
  for (const auto& [name, value] : metrics) {
    const bool tensor = name.starts_with("sm__ops_path_tensor_src_") && name.ends_with(".sum") &&
                        name.find("sparsity_on") == std::string::npos;
    if (!tensor) continue;
    flops += value;
    counted = true;
  }
  return counted ? flops : -1;
}

std::string top_stall_of(const Metrics& metrics) {
  // By section WarpStateStats, by its latencies, and by samples of the program counter (SourceCounters): the first that
  // was collected, since they count different things.
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> families{
      {{"smsp__average_warps_issue_stalled_", "_per_issue_active.ratio"},
       {"smsp__average_warp_latency_issue_stalled_", ".ratio"},
       {"smsp__pcsamp_warps_issue_stalled_", ""}}};
  for (const auto& [prefix, suffix] : families) {
    std::string top;
    double most = 0;
    for (const auto& [name, value] : metrics) {
      if (!name.starts_with(prefix) || !name.ends_with(suffix) || value <= most) continue;
      const std::string reason = name.substr(prefix.size(), name.size() - prefix.size() - suffix.size());
      if (reason == "selected" || reason.ends_with("_not_issued")) continue;  // no stall; counted twice
      most = value;
      top = reason;
    }
    if (!top.empty()) return top;
  }
  return {};
}

/// The columns of metric values: one, or in the raw page all that are named like hardware counters.
std::vector<std::size_t> value_columns(const Row& names) {
  if (const auto value = column_of(names, "Metric Value")) return {*value};
  std::vector<std::size_t> columns;
  for (std::size_t c = 0; c < names.size(); ++c) {
    if (names[c].find("__") != std::string::npos) columns.push_back(c);
  }
  return columns;
}

/// Launches by (kernel, process, id), whichever form the file has. Ids count from 0 in every process.
std::map<std::array<std::string, 3>, Metrics> read_launches(const std::vector<Row>& rows, std::size_t header) {
  std::map<std::array<std::string, 3>, Metrics> launches;
  const Row& names = rows[header];
  const std::size_t id = *column_of(names, "ID"), kernel = *column_of(names, "Kernel Name");
  const auto process = column_of(names, "Process ID"), metric = column_of(names, "Metric Name"),
             unit = column_of(names, "Metric Unit");
  const std::vector<std::size_t> values = value_columns(names);
  const std::size_t needed = std::max(
      {id, kernel, process.value_or(0), metric.value_or(0), unit.value_or(0), values.empty() ? 0 : values.back()});
  const auto is_launch = [&](const Row& row) { return row.size() > needed && !row[id].empty(); };
  const Row units = !metric && header + 1 < rows.size() && !is_launch(rows[header + 1]) ? rows[header + 1] : Row();
  DecimalMark mark = DecimalMark::point;
  for (std::size_t r = header + 1; r < rows.size(); ++r) {
    for (const std::size_t c : values) {
      if (is_launch(rows[r]) && decimal_mark_of(rows[r][c]) == DecimalMark::comma) mark = DecimalMark::comma;
    }
  }
  for (std::size_t r = header + 1; r < rows.size(); ++r) {
    const Row& row = rows[r];
    if (!is_launch(row)) continue;  // the row of units, a message between the lines
    Metrics& metrics = launches[{row[kernel], process ? row[*process] : std::string(), row[id]}];
    for (const std::size_t c : values) {
      const std::string& name = metric ? row[*metric] : names[c];
      const std::string_view its_unit = metric ? (unit ? std::string_view(row[*unit]) : std::string_view())
                                               : (c < units.size() ? std::string_view(units[c]) : std::string_view());
      if (const auto number = parse_number(row[c], mark)) metrics[name] = *number * scale_of(its_unit);
    }
  }
  return launches;
}

double dram_bytes_of(const Metrics& metrics) {
  const double both = first_of(metrics, {"dram__bytes.sum"});
  const double read = first_of(metrics, {"dram__bytes_read.sum"}),
               written = first_of(metrics, {"dram__bytes_write.sum"});
  return both < 0 && read >= 0 && written >= 0 ? read + written : both;
}

/// Metric names of nvprof's successor (Nsight Compute, "nvprof transition guide").
double bank_conflicts_of(const Metrics& metrics) {
  const double all = first_of(metrics, {"l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"});
  const double loads = first_of(metrics, {"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"}),
               stores = first_of(metrics, {"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum"});
  return all < 0 && loads >= 0 && stores >= 0 ? loads + stores : all;
}

/// Running average of what was collected.
void join(double& average, double value, std::int64_t& count) {
  if (value < 0) return;
  average = count == 0 ? value : (average * static_cast<double>(count) + value) / static_cast<double>(count + 1);
  ++count;
}

}  // namespace

std::vector<NcuKernel> parse_ncu_csv(std::string_view text) {
  const std::vector<Row> rows = parse_csv(text);
  const auto header = std::find_if(
      rows.begin(), rows.end(), [](const Row& row) { return column_of(row, "ID") && column_of(row, "Kernel Name"); });
  if (header == rows.end()) {
    throw std::runtime_error(
        "it has no header with 'ID' and 'Kernel Name', so it is not Nsight Compute's CSV and no kernel's work is known; make it with: ncu --import REPORT.ncu-rep --csv --page raw > FILE.csv");
  }
  std::map<std::string, std::pair<NcuKernel, std::array<std::int64_t, 8>>> kernels;
  for (const auto& [key, metrics] : read_launches(rows, static_cast<std::size_t>(header - rows.begin()))) {
    auto& [kernel, counts] = kernels[key[0]];
    kernel.name = key[0];
    ++kernel.launches;
    join(kernel.flops, flops_of(metrics), counts[0]);
    join(kernel.dram_bytes, dram_bytes_of(metrics), counts[1]);
    join(kernel.sm_percent,
         first_of(metrics, {"sm__throughput.avg.pct_of_peak_sustained_elapsed", "Compute (SM) Throughput", "SM [%]",
                            "Compute (SM) [%]"}),
         counts[2]);
    join(kernel.dram_percent,
         first_of(metrics, {"gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
                            "dram__throughput.avg.pct_of_peak_sustained_elapsed", "DRAM Throughput"}),
         counts[3]);
    join(kernel.tensor_percent,
         first_of(metrics, {"sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active",
                            "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
                            "sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active"}),
         counts[4]);
    join(kernel.l2_hit_percent, first_of(metrics, {"lts__t_sector_hit_rate.pct", "L2 Hit Rate"}), counts[5]);
    join(kernel.occupancy_percent,
         first_of(metrics, {"sm__warps_active.avg.pct_of_peak_sustained_active", "Achieved Occupancy"}), counts[6]);
    join(kernel.bank_conflicts, bank_conflicts_of(metrics), counts[7]);
    if (kernel.top_stall.empty()) kernel.top_stall = top_stall_of(metrics);
  }
  std::vector<NcuKernel> result;
  for (auto& [name, entry] : kernels) result.push_back(std::move(entry.first));
  return result;
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
