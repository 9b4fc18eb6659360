#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "ingest/database.hpp"
#include "ingest/nccl_payload.hpp"

namespace nsys_explain::ingest {

/// Place of one field in the bytes of a payload (little endian).
struct PayloadEntry {
  PayloadField field = PayloadField::none;
  std::uint32_t offset = 0;
  std::uint32_t bytes = 0;  ///< 4 or 8
  bool is_signed = false;
  friend bool operator==(const PayloadEntry&, const PayloadEntry&) = default;
};

/// The definitions of payload bytes that an export brings along: NVTX_PAYLOAD_SCHEMAS and _SCHEMA_ENTRIES.
/// They name no process, so each definition appears once per process; where two processes disagree, neither is used.
class PayloadSchemas {
 public:
  explicit PayloadSchemas(const Database& database);

  struct Schema {
    std::int64_t payload_bytes = 0;  ///< 0: not told
    std::vector<PayloadEntry> entries;
    bool is_ambiguous = false;
  };
  /// nullptr where the export does not define this schema.
  const Schema* find(std::uint64_t domain, std::uint64_t schema) const;
  /// True where some schema of the domain has an entry that only NCCL writes.
  bool is_nccl_domain(std::int64_t domain) const;

 private:
  std::map<std::pair<std::uint64_t, std::uint64_t>, Schema> schemas_;
  std::vector<std::int64_t> nccl_domains_;
};

/// Decodes NVTX_EVENTS.binaryData, stored as a BLOB or as hexadecimal text: domain, schema, payload size and a fourth
/// number (8 bytes each), then the payload. By the export's own schema if it is there and unambiguous, else by
/// NCCL's layouts (2.16 to 2.30), which schema id and payload size tell apart. Empty where neither fits: nothing is
/// guessed.
std::optional<NcclPayload> decode_binary_payload(std::string_view stored, const PayloadSchemas& schemas);

}  // namespace nsys_explain::ingest
