#pragma once

#include <string>
#include <vector>

#include "ingest/database.hpp"
#include "ingest/metadata.hpp"
#include "nsys_explain/model/trace.hpp"

namespace nsys_explain::ingest {

/// Host name of the profiled machine as the target reported it: TARGET_INFO_SYSTEM_ENV, else the capture's device name.
/// (EXPORT_HOST is where the export ran, often another machine.) Empty where the export does not tell.
std::string read_host(const Database& database, const Metadata& metadata);

/// Fills ProcessTrace::name from PROCESSES, which lists every process of the machine.
void name_processes(const Database& database, std::vector<ProcessTrace>& processes);

/// Fills gpu_name, gpu_uuid, gpu_id and gpu_facts of every device. A device id is the CUDA ordinal that the process
/// saw, so the way to the GPU is, best first: TARGET_INFO_CUDA_DEVICE (nsys 2025.1 and later), the position in
/// CUDA_VISIBLE_DEVICES, the profiler's own ordinal. The last two are assumptions and give a warning; where they too
/// say nothing, both stay empty.
void identify_gpus(const Database& database, const Metadata& metadata, std::vector<ProcessTrace>& processes,
                   std::vector<Warning>& warnings);

}  // namespace nsys_explain::ingest
