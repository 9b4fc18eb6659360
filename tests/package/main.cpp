#include <algorithm>
#include <cstdio>

#include <nsys_explain/ingest/ingest.hpp>

/// Prints, for every device of an export, its kernels and the time from the first start to the last end of them.
int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const nsys_explain::Trace trace = nsys_explain::ingest::read_trace(argv[1]);
  for (const auto& process : trace.processes) {
    for (const auto& device : process.devices) {
      nsys_explain::Nanoseconds end_ns = 0;
      for (const auto& kernel : device.kernels) end_ns = std::max(end_ns, kernel.end_ns);
      const auto window_ns = device.kernels.empty() ? 0 : end_ns - device.kernels[0].start_ns;
      std::printf("%zu kernels, window %lld ns\n", device.kernels.size(), static_cast<long long>(window_ns));
    }
  }
}
