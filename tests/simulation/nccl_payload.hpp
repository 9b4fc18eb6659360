#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "simulation/simulated_job.hpp"

namespace nsys_explain::synth {

/// First id of NVTX's static payload schemas.
inline constexpr std::int64_t static_schema_ids = 1 << 24;

/// One member of a C struct that NCCL hands to NVTX.
struct PayloadField {
  const char* label = "";
  std::int64_t type = 0;  ///< NVTX payload entry type
  std::int32_t offset = 0;
  std::int32_t size = 0;  ///< bytes
  std::uint64_t value = 0;
};

/// The payload of one NCCL call; no fields: the function has none in this version.
struct NcclPayload {
  std::int64_t schema_id = 0;
  std::int32_t size = 0;
  std::vector<PayloadField> fields;
};

/// Layouts of docs/input.md, NCCL payloads, for `nccl_version` (227 for 2.27).
NcclPayload nccl_payload(const NcclCallRecord& call, int nccl_version);

/// "ncclAllReduce", ...
std::string nccl_function_name(NcclFunction function, int nccl_version);

/// What nsys' own NCCL trace (-t nccl) says of a call besides what it passes.
struct TracedCall {
  std::int64_t api_id = 0;    ///< links the call, its execution and its work on the GPU
  std::int64_t sequence = 0;  ///< of this function in the communicator
  std::int32_t rank = -1, rank_count = -1;
};

/// "AllReduce", "API Group" and "GroupLaunch": names of that trace.
std::string traced_function_name(NcclFunction function);

/// The payload of that trace as JSON; empty: the function has none.
std::string traced_payload_json(const NcclCallRecord& call, const TracedCall& traced);

/// The struct's bytes, little endian, behind the 32-byte header of NVTX_EVENTS.binaryData.
std::string payload_blob(const NcclPayload& payload, std::int64_t domain_id);

/// The bytes as lower-case hexadecimal text.
std::string hex_text(const std::string& bytes);

/// An object keyed by the entries' labels, as nsys writes it to jsonText.
std::string payload_json(const NcclPayload& payload);

}  // namespace nsys_explain::synth
