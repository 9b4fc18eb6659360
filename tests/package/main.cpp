#include <cstdio>
#include <vector>

#include <nsys_explain/analysis/budget.hpp>
#include <nsys_explain/ingest/ingest.hpp>

/// Prints, for every trace rank of an export, its kernels and its window.
int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const nsys_explain::Trace trace = nsys_explain::ingest::read_trace(argv[1]);
  for (const auto& process : trace.processes) {
    for (const auto& device : process.devices) {
      const auto budget =
          nsys_explain::analysis::compute_budget(device, std::vector<bool>(device.kernel_kinds.size(), false));
      std::printf("%zu kernels, window %lld ns\n", device.kernels.size(), static_cast<long long>(budget.window_ns));
    }
  }
}
