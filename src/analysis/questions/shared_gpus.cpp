#include "analysis/questions/question.hpp"

#include "analysis/findings/finding_parts.hpp"
#include "model/schema/job.hpp"
#include "model/shared_gpus.hpp"

namespace nsys_explain::analysis::questions {
namespace {

/// Told, whether it is meant or not; it names nobody.
void find_shared_gpus(const JobReport& report, std::vector<Finding>& findings) {
  constexpr std::size_t most_told = 8;
  const auto gpus = shared_gpus_of(report.trace_ranks);
  if (gpus.empty()) return;
  std::size_t ranks = 0;
  std::vector<std::string> evidence;
  for (const auto& [uuid, of_gpu] : gpus) {
    ranks += of_gpu.size();
    if (evidence.size() < most_told)
      evidence.push_back(
          fmt::format("{}: {}, UUID {}", trace_ranks_text(of_gpu), place_of(report, of_gpu.front()), uuid));
  }
  evidence.emplace_back(
      "their kernels wait for each other or each have a part of it, so GPU time counts it once for each of them (table ranks)");
  evidence.emplace_back(
      "what is fixed on one of them changes the others' share of the GPU, which no replay knows: each saving has a standard error of 30%, as measured on recordings of such jobs");
  findings.push_back(
      {.id = "shared-gpus",
       .title =
           fmt::format("{} ranks share {}", ranks, gpus.size() == 1 ? "one GPU" : fmt::format("{} GPUs", gpus.size())),
       .evidence = std::move(evidence),
       .recommendation =
           "where each should have a separate GPU, bind it before its first CUDA call (torch.cuda.set_device(LOCAL_RANK), CUDA_VISIBLE_DEVICES, srun --gpus-per-task=1); where sharing is meant (MPS, MIG), nothing"});
}

}  // namespace

Question shared_gpus() {
  return {.shown = {.table = schema::ranks.table_name(), .findings = {"shared-gpus"}, .view = "facts"},
          .find = find_shared_gpus};
}

}  // namespace nsys_explain::analysis::questions
