#include "analysis/questions/question.hpp"

#include "analysis/findings/finding_parts.hpp"
#include "model/schema/job.hpp"
#include "model/shared_gpus.hpp"

namespace nsys_explain::analysis::questions {
namespace {

/// Less than that of a GPU's time is lost among what steps vary by.
constexpr double noticeable_share = 0.01;

/// Who takes a noticeable part of a rank's GPU, the largest part first.
std::vector<HelperProcess> helpers_in_the_way(const JobReport& report) {
  std::vector<HelperProcess> some;
  std::copy_if(report.helpers.begin(), report.helpers.end(), std::back_inserter(some), [](const HelperProcess& helper) {
    return !helper.trace_ranks.empty() && helper.share() >= noticeable_share;
  });
  std::stable_sort(some.begin(), some.end(),
                   [](const HelperProcess& a, const HelperProcess& b) { return a.share() > b.share(); });
  return some;
}

std::string tell_helper(const HelperProcess& helper) {
  return fmt::format("process {}{} keeps the GPU of {} busy for {:.1f}% of its recorded time", helper.process_id,
                     helper.process_name.empty() ? "" : fmt::format(" ({})", helper.process_name),
                     trace_ranks_text(helper.trace_ranks), 100 * helper.share());
}

/// Told, whether it is meant or not; it names nobody.
void find_shared_gpus(const JobReport& report, std::vector<Finding>& findings) {
  constexpr std::size_t most_told = 8;
  const auto gpus = shared_gpus_of(report.trace_ranks);
  const std::vector<HelperProcess> helpers = helpers_in_the_way(report);
  if (gpus.empty() && helpers.empty()) return;
  std::size_t ranks = 0;
  std::vector<std::string> evidence;
  for (const auto& [uuid, of_gpu] : gpus) {
    ranks += of_gpu.size();
    if (evidence.size() < most_told)
      evidence.push_back(
          fmt::format("{}: {}, UUID {}", trace_ranks_text(of_gpu), place_of(report, of_gpu.front()), uuid));
  }
  for (std::size_t h = 0; h < std::min(helpers.size(), most_told); ++h) evidence.push_back(tell_helper(helpers[h]));
  evidence.emplace_back(
      "their kernels wait for each other or each have a part of it, so GPU time counts it once for each of them (table ranks)");
  evidence.emplace_back(
      "what is fixed on one of them changes the others' share of the GPU, which no replay knows: each saving has a standard error of 30%, as measured on recordings of such jobs");
  std::vector<std::string> title;
  if (!gpus.empty())
    title.push_back(
        fmt::format("{} ranks share {}", ranks, gpus.size() == 1 ? "one GPU" : fmt::format("{} GPUs", gpus.size())));
  if (!helpers.empty())
    title.push_back(fmt::format("{} beside the ranks take{} up to {:.1f}% of a rank's GPU",
                                helpers.size() == 1 ? "a helper process" : fmt::format("{} helpers", helpers.size()),
                                helpers.size() == 1 ? "s" : "", 100 * helpers.front().share()));
  findings.push_back(
      {.id = "shared-gpus",
       .title = fmt::format("{}", fmt::join(title, ", and ")),
       .evidence = std::move(evidence),
       .recommendation =
           gpus.empty()
               ? "run the helper where no rank computes, or give it another GPU (CUDA_VISIBLE_DEVICES)"
               : "where each should have a separate GPU, bind it before its first CUDA call (torch.cuda.set_device(LOCAL_RANK), CUDA_VISIBLE_DEVICES, srun --gpus-per-task=1); where sharing is meant (MPS, MIG), nothing"});
}

}  // namespace

Question shared_gpus() {
  return {.shown = {.table = schema::ranks.table_name(), .findings = {"shared-gpus"}, .view = "facts"},
          .find = find_shared_gpus};
}

}  // namespace nsys_explain::analysis::questions
