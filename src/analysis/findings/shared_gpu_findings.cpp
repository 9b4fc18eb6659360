#include "analysis/findings/shared_gpu_findings.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "analysis/findings/finding_parts.hpp"
#include "model/shared_gpus.hpp"

namespace nsys_explain::analysis {

void add_shared_gpu_finding(const JobReport& report, std::vector<Finding>& findings) {
  constexpr std::size_t most_told = 8;
  const auto gpus = shared_gpus_of(report);
  if (gpus.empty()) return;
  std::size_t ranks = 0;
  Finding finding;
  for (const auto& [uuid, of_gpu] : gpus) {
    ranks += of_gpu.size();
    if (finding.evidence.size() < most_told)
      finding.evidence.push_back(
          fmt::format("{}: {}, UUID {}", trace_ranks_text(of_gpu), place_of(report, of_gpu.front()), uuid));
  }
  finding.evidence.emplace_back(
      "their kernels wait for each other or each have a part of it, so GPU time counts it once for each of them (table ranks)");
  finding.id = "shared-gpus";
  finding.title =
      fmt::format("{} ranks share {}", ranks, gpus.size() == 1 ? "one GPU" : fmt::format("{} GPUs", gpus.size()));
  finding.recommendation =
      "where each should have a separate GPU, bind it before its first CUDA call (torch.cuda.set_device(LOCAL_RANK), CUDA_VISIBLE_DEVICES, srun --gpus-per-task=1); where sharing is meant (MPS, MIG), nothing";
  findings.push_back(std::move(finding));
}

}  // namespace nsys_explain::analysis
