#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain {

std::vector<Straggler*> everybody_late(std::vector<Straggler>& stragglers, std::vector<SuspectedStraggler>& suspects) {
  std::vector<Straggler*> late;
  for (Straggler& straggler : stragglers) late.push_back(&straggler);
  for (SuspectedStraggler& suspect : suspects) late.push_back(&suspect.late);
  return late;
}

}  // namespace nsys_explain
