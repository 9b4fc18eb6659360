#include "pipeline/read/arrival_counts.hpp"

namespace nsys_explain::pipeline {
namespace {

std::int64_t count_kernels(const std::vector<collectives::FusedCall>& fused) {
  std::int64_t kernels = 0;
  for (std::size_t i = 0; i < fused.size(); ++i) kernels += i == 0 || fused[i].enter != fused[i - 1].enter ? 1 : 0;
  return kernels;
}

}  // namespace

void ArrivalCounts::add(const collectives::DeviceArrivals& device) {
  communication += static_cast<std::int64_t>(device.arrivals.size());
  without_call += device.without_call;
  replayed += device.replayed;
  fused += count_kernels(device.fused);
  without_peer += device.without_peer;
}

void warn_about_arrivals(const ArrivalCounts& counts, std::vector<Warning>& warnings) {
  if (counts.without_call > 0 && counts.without_call < counts.communication) {
    warnings.push_back(
        {Severity::info, WarningSource::analysis, counts.without_call,
         "communication kernels without an NCCL range around their launch: their communicator is concluded from stream and order"});
  }
  if (counts.replayed > 0) {
    warnings.push_back(
        {Severity::info, WarningSource::analysis, counts.replayed,
         "communication kernels are replayed by CUDA graphs that were made before the capture began: NCCL names communicator and message size of these only while a graph is made; start the capture before that"});
  }
  if (counts.without_peer > 0) {
    warnings.push_back(
        {Severity::info, WarningSource::analysis, counts.without_peer,
         "MPI calls wait for messages of which nothing tells the peer: they end sends only, requests have no handle or end in MPI_Test, MPI_Waitany or MPI_Waitsome, or nothing tells which communicator is MPI_COMM_WORLD; whom they wait for is concluded from times where these tell it"});
  }
  if (counts.fused > 0) {
    warnings.push_back(
        {Severity::info, WarningSource::analysis, counts.fused,
         "communication kernels carry several grouped collectives: each counts as one operation with the sum of the sizes; table fused_operations lists what it carries"});
  }
}

}  // namespace nsys_explain::pipeline
