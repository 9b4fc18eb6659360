#pragma once

#include <cstdint>
#include <unordered_map>

#include "ingest/database.hpp"
#include "ingest/nccl_payload.hpp"

namespace nsys_explain::ingest {

/// Payloads that `nsys export --dynamic-tables=all` (2026.x) decoded already, by NVTX_EVENTS.eventId: one table
/// DYNAMIC_NVTXPAYLOAD_DATATYPE_<globalPid>_<domainId>_<schemaId> for each schema, one column for each field.
std::unordered_map<std::int64_t, NcclPayload> read_dynamic_payloads(const Database& database);

}  // namespace nsys_explain::ingest
