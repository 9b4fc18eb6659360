#pragma once

#include <cstdint>
#include <vector>

#include "nsys_explain/model/table.hpp"
#include "nsys_explain/model/trace.hpp"

namespace nsys_explain::analysis {

/// A GPU that several processes of one export launch kernels on: each is a trace rank, and what the GPU does, all
/// together. One row of table `shared_gpus`.
struct SharedGpu {
  std::int32_t device_id = -1;
  Table table;
};

/// By device id; empty where every GPU has one process.
std::vector<SharedGpu> shared_gpus(const Trace& trace);

/// Without rows.
Table shared_gpus_table();

}  // namespace nsys_explain::analysis
