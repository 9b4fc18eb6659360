#include "analysis/questions/question.hpp"

#include <algorithm>

#include "analysis/findings/finding_parts.hpp"
#include "model/schema/gpu.hpp"

namespace nsys_explain::analysis::questions {
namespace {

/// Rows of table roofline of one kernel, over the trace ranks.
struct ProfiledKernel {
  std::string_view name;
  Nanoseconds total_ns = 0;
  std::size_t row = 0;  ///< its first; what Nsight Compute says is the same in all of them
};

/// Those that `is_meant`, most time first.
template <class IsMeant>
std::vector<ProfiledKernel> kernels_that(const Table& table, const IsMeant& is_meant) {
  std::map<std::string_view, ProfiledKernel> kernels;
  for (std::size_t row = 0; row < table.row_count(); ++row) {
    if (!is_meant(row)) continue;
    const std::string_view name = column(table, schema::roofline.kernel)[row];
    const auto [kernel, is_new] = kernels.try_emplace(name, ProfiledKernel{name, 0, row});
    kernel->second.total_ns += column(table, schema::roofline.total_ns)[row];
  }
  std::vector<ProfiledKernel> order;
  for (const auto& [name, kernel] : kernels) order.push_back(kernel);
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.total_ns > b.total_ns; });
  return order;
}

Nanoseconds time_of(const std::vector<ProfiledKernel>& kernels) {
  Nanoseconds total_ns = 0;
  for (const ProfiledKernel& kernel : kernels) total_ns += kernel.total_ns;
  return total_ns;
}

template <class Tell>
std::vector<std::string> evidence_of(const std::vector<ProfiledKernel>& kernels, const Tell& tell) {
  constexpr std::size_t most_told = 4;
  std::vector<std::string> evidence;
  for (std::size_t i = 0; i < std::min(kernels.size(), most_told); ++i)
    evidence.push_back(fmt::format("{}: {}, {}", short_kernel_name(kernels[i].name), gpu_time(kernels[i].total_ns),
                                   tell(kernels[i].row)));
  return evidence;
}

/// Nsight Compute's own line: the memory is 60% busy and more, and busier than the multiprocessors.
void find_memory_bound(const JobReport& report, const Table& table, std::vector<Finding>& findings) {
  const auto& bound = column(table, schema::roofline.bound);
  const std::vector<ProfiledKernel> kernels = kernels_that(table, [&](std::size_t r) { return bound[r] == "memory"; });
  const double part = share(time_of(kernels), windows_of(report).ranks_ns);
  if (part < spent_time.medium) return;
  std::vector<std::string> evidence = evidence_of(kernels, [&](std::size_t row) {
    std::string text =
        fmt::format("memory {:.0f}% busy, multiprocessors {:.0f}%", column(table, schema::roofline.dram_percent)[row],
                    column(table, schema::roofline.sm_percent)[row]);
    const double intensity = column(table, schema::roofline.intensity)[row];
    if (intensity >= 0) text += fmt::format(", {:.2f} FLOPs for each byte", intensity);
    return text;
  });
  evidence.emplace_back("rows: roofline where bound = 'memory'");
  findings.push_back(
      {.id = "memory-bound",
       .severity = severity_of(part),
       .title =
           fmt::format("memory bandwidth bounds kernels that take {:.1f}% of GPU time, by Nsight Compute", 100 * part),
       .evidence = std::move(evidence),
       .recommendation =
           "move fewer bytes: fuse kernels that work on the same tensor (torch.compile, fused normalisation, attention and optimizer), keep weights, activations and the KV cache in fewer bits (bf16, fp8), and give kernels that read weights more tokens at once; more FLOPs of the GPU would not help them",
       .cost_ns = time_of(kernels)});
}

bool multiplies_matrices(std::string_view name) {
  constexpr std::array<std::string_view, 9> marks{"gemm",  "Gemm",  "GEMM",  "nvjet", "xmma",
                                                  "fprop", "dgrad", "wgrad", "conv"};
  return std::any_of(marks.begin(), marks.end(),
                     [&](std::string_view mark) { return name.find(mark) != std::string_view::npos; });
}

/// Matrix multiplications and convolutions, by name, that the multiprocessors bound while the tensor pipe stands still.
void find_tensor_cores_idle(const JobReport& report, const Table& table, std::vector<Finding>& findings) {
  constexpr double idle_percent = 1;
  const auto& bound = column(table, schema::roofline.bound);
  const auto& tensor = column(table, schema::roofline.tensor_percent);
  const std::vector<ProfiledKernel> kernels = kernels_that(table, [&](std::size_t row) {
    return bound[row] == "compute" && tensor[row] >= 0 && tensor[row] < idle_percent &&
           multiplies_matrices(column(table, schema::roofline.kernel)[row]);
  });
  const double part = share(time_of(kernels), windows_of(report).ranks_ns);
  if (part < spent_time.medium) return;
  std::vector<std::string> evidence = evidence_of(kernels, [&](std::size_t row) {
    return fmt::format("tensor pipe {:.1f}% active, multiprocessors {:.0f}% busy", tensor[row],
                       column(table, schema::roofline.sm_percent)[row]);
  });
  evidence.emplace_back("rows: roofline where tensor_percent < 1");
  findings.push_back(
      {.id = "tensor-cores-idle",
       .severity = severity_of(part),
       .title = fmt::format(
           "matrix multiplications that take {:.1f}% of GPU time leave the tensor cores idle, by Nsight Compute",
           100 * part),
       .evidence = std::move(evidence),
       .recommendation =
           "let them use tensor cores: bf16 or fp16 (autocast), or TF32 for fp32 (torch.set_float32_matmul_precision('high')), and widths, head sizes, vocabulary and batch that are multiples of 8 elements (16 of 8-bit types)",
       .cost_ns = time_of(kernels)});
}

void find_in_roofline(const JobReport& report, std::vector<Finding>& findings) {
  const Table* const table = find_table(report.tables, schema::roofline);
  if (table == nullptr) return;
  find_memory_bound(report, *table, findings);
  find_tensor_cores_idle(report, *table, findings);
}

}  // namespace

Question roofline() {
  return {.shown = {.table = schema::roofline.table_name(),
                    .findings = {"memory-bound", "tensor-cores-idle"},
                    .view = "roofline"},
          .find = find_in_roofline};
}

}  // namespace nsys_explain::analysis::questions
