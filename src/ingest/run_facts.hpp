#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "ingest/database.hpp"
#include "ingest/metadata.hpp"
#include "nsys_explain/model/trace.hpp"

/// What the metadata tables of an export tell of the machine, the software and the capture. They also hold command
/// lines, environments, user names and paths: only the entries named here are taken, never others, and no value is
/// longer than `longest_fact` bytes.
namespace nsys_explain::ingest {

inline constexpr std::size_t longest_fact = 96;

/// Of the host and the capture, in this order, each where the export tells it: nsys (that exported), driver,
/// cuda_driver (the CUDA version that the driver supports), os, linux_kernel, cpu, cpu_cores, network_driver (OFED),
/// traced (kinds of events asked for), cuda_graphs (Graph or Node: how graphs were traced), and the variables
/// CUDA_DEVICE_MAX_CONNECTIONS and CUDA_LAUNCH_BLOCKING, where they are numbers.
std::vector<RunFact> read_run_facts(const Database& database, const Metadata& metadata);

/// NvDriverVersion as nvidia-smi shows it: exports hold "580.95.05", or the digits alone ("52510517": 525.105.17,
/// Windows "42600": 426.00).
std::string driver_version(std::string_view recorded);

/// CudaDriverVersion "12080": 12.8. Empty: it is no such number.
std::string cuda_version(std::string_view recorded);

}  // namespace nsys_explain::ingest
