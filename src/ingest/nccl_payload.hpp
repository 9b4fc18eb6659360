#pragma once

#include <optional>
#include <utility>

#include "ingest/database.hpp"
#include "nsys_explain/model/trace.hpp"

namespace nsys_explain::ingest {

/// What NCCL attached to one of its NVTX ranges, whatever form the export gives it in. -1 (0): not told.
struct NcclPayload {
  std::uint64_t communicator = 0;
  std::int64_t bytes = -1;
  std::int64_t sequence = -1;
  std::int64_t call_id = -1;  ///< advanced trace: links the ranges of one call
  std::int32_t peer_or_root = -1;
  std::int32_t rank = -1;
  std::int32_t rank_count = -1;
  std::int32_t device = -1;
  bool is_one_channel = false;  ///< advanced trace: work of one channel on the GPU, not a call

  friend bool operator==(const NcclPayload&, const NcclPayload&) = default;
};

/// Meaning of a payload entry, found by its label.
enum class PayloadField : std::uint8_t {
  none,
  communicator,
  bytes,
  sequence,
  call_id,
  peer_or_root,
  rank,
  rank_count,
  device,
  channel,
  element_count,
  data_type
};

/// Looks up a label ("Message size [bytes]", "commHash", "NCCL_communicator_ID"): case and everything but letters and
/// digits is ignored, because exports as JSON and as dynamic tables spell labels differently.
PayloadField payload_field(std::string_view label);

/// Puts a payload together field by field.
class PayloadBuilder {
 public:
  void set(PayloadField field, std::int64_t value);
  /// Numbers as decimal or 0x text, and names of NCCL's data types.
  void set_text(PayloadField field, std::string_view value);

  /// Empty where nothing known was set, or where a value is impossible: then the bytes mean something else.
  std::optional<NcclPayload> finish() const;

 private:
  NcclPayload payload_;
  std::int64_t element_count_ = -1;
  std::int64_t element_bytes_ = 0;
  bool known_ = false;
  bool impossible_ = false;
};

/// Decodes the JSON form (`nsys export --include-json=true`) by its keys; objects may be nested.
std::optional<NcclPayload> decode_json_payload(std::string_view json);

/// How a range of NCCL's domain reads. Legacy ranges carry the name of the C function; the advanced trace
/// (`nsys profile -t nccl`) drops the prefix and adds ranges of its own.
struct NcclLabel {
  NcclFunction function = NcclFunction::other;
  bool is_legacy = true;
};

/// Empty where the text is no label of NCCL's.
std::optional<NcclLabel> parse_nccl_label(std::string_view text);

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

/// Payloads that `nsys export --dynamic-tables=all` (2026.x) decoded already, by NVTX_EVENTS.eventId: one table
/// DYNAMIC_NVTXPAYLOAD_DATATYPE_<globalPid>_<domainId>_<schemaId> for each schema, one column for each field.
std::unordered_map<std::int64_t, NcclPayload> read_dynamic_payloads(const Database& database);

}  // namespace nsys_explain::ingest
