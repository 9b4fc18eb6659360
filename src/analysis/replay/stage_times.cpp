#include "analysis/replay/stage_times.hpp"

#include <algorithm>
#include <map>

namespace nsys_explain::analysis {

StageTimes measure_stages(const JobGraph& graph, std::span<const std::string> stage_of_rank) {
  struct Stage {
    double gpu_ns = 0, ranks = 0;
    double mean_ns() const { return gpu_ns / ranks; }
  };
  std::map<std::string, Stage> stages;
  for (const std::string& name : stage_of_rank) {
    if (name.empty()) return {};
    stages[name].ranks += 1;
  }
  for (std::size_t p = 0; p < graph.pieces(); ++p)
    stages[stage_of_rank[graph.rank_of[p]]].gpu_ns += graph.piece(p).gpu_ns;
  double all_ns = 0;
  const Stage* longest = nullptr;
  StageTimes times;
  for (const auto& [name, stage] : stages) {
    if (stage.gpu_ns <= 0) return {};
    all_ns += stage.mean_ns();
    if (longest != nullptr && stage.mean_ns() <= longest->mean_ns()) continue;
    longest = &stage;
    times.longest = name;
  }
  const double balanced_ns = all_ns / static_cast<double>(stages.size());
  if (stages.size() < 2 || longest == nullptr || longest->mean_ns() <= balanced_ns) return {};
  for (const std::string& name : stage_of_rank) times.gpu_factors.push_back(balanced_ns / stages[name].mean_ns());
  return times;
}

}  // namespace nsys_explain::analysis
