#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain {

std::vector<Straggler*> everybody_late(std::vector<Straggler>& stragglers, std::vector<SuspectedStraggler>& suspects) {
  std::vector<Straggler*> late;
  for (Straggler& straggler : stragglers) late.push_back(&straggler);
  for (SuspectedStraggler& suspect : suspects) late.push_back(&suspect.late);
  return late;
}

std::vector<std::int64_t> first_instances(const JobReport& report) {
  std::vector<std::int64_t> first;
  std::int64_t next = 0;
  for (const CommunicatorSummary& communicator : report.communicators) {
    first.push_back(next);
    next += communicator.instances;
  }
  return first;
}

}  // namespace nsys_explain
