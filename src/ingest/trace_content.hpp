#pragma once

#include "ingest/metadata.hpp"
#include "ingest/string_table.hpp"

/// What an export holds, and what it lacks.
namespace nsys_explain::ingest {

/// How many events of each kind an export holds: what tells that one lacks what the others have.
struct TraceContent {
  std::int64_t kernels = 0, ranges = 0, calls = 0;  ///< ranges: NVTX, those of NCCL too
  std::int64_t copies = 0, copy_calls = 0;          ///< copies and fills on GPUs, and CUDA calls that ask for them
  std::vector<std::int32_t> untraced_processes;     ///< with calls into NCCL, and without any work on a GPU

  template <class Archive>
  void serialize(Archive& archive) {
    archive(kernels, ranges, calls, copies, copy_calls, untraced_processes);
  }
};

/// Whether the process called NCCL for an operation: calls around making and destroying communicators, or groups, need
/// no GPU.
bool has_nccl_operations(const ProcessTrace& process);

/// Of the whole capture.
TraceContent content_of(const Trace& trace);

/// Of each export with kernels, what at least half of those hold and it does not, as "no NVTX ranges and no CUDA
/// calls"; empty: nothing. Copies are missed only where its own calls ask for some.
std::vector<std::string> what_is_lacking(std::span<const TraceContent> exports);

/// "processes 4002, 4003 and 4 more"; not of none.
std::string untraced_text(const TraceContent& content);

/// Of an export without a kernel: that it is, what it holds instead, why, as far as its own facts tell, and what to do.
/// "Record CUDA" is no advice where CUDA was recorded. None of an export with kernels.
std::optional<Warning> no_kernels_warning(const Database& database, const Metadata& metadata,
                                          const StringTable& strings, const Trace& trace);

}  // namespace nsys_explain::ingest
