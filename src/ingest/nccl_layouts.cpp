#include "ingest/nccl_payload.hpp"

#include <algorithm>
#include <set>

#include "ingest/table_scan.hpp"

namespace nsys_explain::ingest {
namespace {

constexpr std::string_view table_prefix = "DYNAMIC_NVTXPAYLOAD_DATATYPE_";

/// Column names as exported, by what NVTX called them.
std::map<std::string, std::string> read_translation(const Database& database) {
  std::map<std::string, std::string> original_of;
  TableScan scan(database, "NVTX_EXPORT_TRANSLATION");
  const auto original = scan.text("originalName"), sanitized = scan.text("sanitizedName");
  scan.for_each_batch([&](std::size_t rows) {
    for (std::size_t row = 0; row < rows; ++row) original_of.emplace(sanitized[row], original[row]);
  });
  return original_of;
}

PayloadField field_of_column(const std::string& column, const std::map<std::string, std::string>& original_of) {
  const auto original = original_of.find(column);
  const PayloadField field = original == original_of.end() ? PayloadField::none : payload_field(original->second);
  return field != PayloadField::none ? field : payload_field(column);
}

void read_table(const Database& database, const std::string& table, const std::vector<std::string>& columns,
                const std::map<std::string, std::string>& original_of,
                std::unordered_map<std::int64_t, NcclPayload>& payloads) {
  TableScan scan(database, table);
  const auto event_id = scan.integer("eventId", Presence::required);
  // As text, because a 64-bit hash may be stored as a number or as text.
  std::vector<std::pair<PayloadField, TextColumn>> fields;
  for (const std::string& column : columns) {
    const PayloadField field = field_of_column(column, original_of);
    if (field != PayloadField::none) fields.emplace_back(field, scan.text(column));
  }
  if (fields.empty()) return;
  scan.for_each_batch([&](std::size_t rows) {
    for (std::size_t row = 0; row < rows; ++row) {
      PayloadBuilder builder;
      for (const auto& [field, values] : fields)
        if (!is_null(values[row])) builder.set_text(field, values[row]);
      if (const auto payload = builder.finish()) payloads.emplace(event_id[row], *payload);
    }
  });
}

}  // namespace

std::unordered_map<std::int64_t, NcclPayload> read_dynamic_payloads(const Database& database) {
  std::unordered_map<std::int64_t, NcclPayload> payloads;
  if (!database.has_column("NVTX_EVENTS", "eventId")) return payloads;
  std::map<std::string, std::string> original_of;
  for (const auto& [table, columns] : database.tables()) {
    if (!table.starts_with(table_prefix) || !database.has_column(table, "eventId")) continue;
    if (original_of.empty()) original_of = read_translation(database);
    read_table(database, table, columns, original_of, payloads);
  }
  return payloads;
}

namespace {

/// NVTX numbers static schemas from here; NCCL adds its own schema number.
constexpr std::uint64_t first_static_schema = 1U << 24;

struct Layout {
  std::uint64_t schema = 0;  ///< NCCL's number
  std::uint64_t payload_bytes = 0;
  std::vector<PayloadEntry> entries;
};

constexpr PayloadEntry communicator_at(std::uint32_t offset) {
  return {PayloadField::communicator, offset, 8, false};
}
constexpr PayloadEntry bytes_at(std::uint32_t offset) {
  return {PayloadField::bytes, offset, 8, false};
}
constexpr PayloadEntry peer_or_root_at(std::uint32_t offset) {
  return {PayloadField::peer_or_root, offset, 4, true};
}
constexpr PayloadEntry rank_at(std::uint32_t offset) {
  return {PayloadField::rank, offset, 4, true};
}
constexpr PayloadEntry rank_count_at(std::uint32_t offset) {
  return {PayloadField::rank_count, offset, 4, true};
}
constexpr PayloadEntry device_at(std::uint32_t offset) {
  return {PayloadField::device, offset, 4, true};
}

/// The payload structs of NCCL 2.16 to 2.30 (src/include/nvtx_payload_schemas.h and the calls before it existed), in
/// natural C alignment. Up to 2.24 there is no communicator; from 2.25 it comes first and rank and size swap places.
/// No two layouts share schema number and size.
const std::vector<Layout>& builtin_layouts() {
  static const std::vector<Layout> layouts = [] {
    const std::vector<PayloadEntry> old_member = {rank_at(0), rank_count_at(4), device_at(8)};
    const std::vector<PayloadEntry> old_size = {bytes_at(0)};
    const std::vector<PayloadEntry> old_size_peer = {bytes_at(0), peer_or_root_at(8)};
    const std::vector<PayloadEntry> member = {communicator_at(0), rank_count_at(8), rank_at(12), device_at(16)};
    const std::vector<PayloadEntry> child = {communicator_at(0), rank_count_at(16), rank_at(20), device_at(24)};
    const std::vector<PayloadEntry> size = {communicator_at(0), bytes_at(8)};
    const std::vector<PayloadEntry> size_peer = {communicator_at(0), bytes_at(8), peer_or_root_at(16)};
    return std::vector<Layout>{
        // NCCL 2.16 .. 2.24
        {0, 12, old_member},         // CommInitRank
        {1, 4, {rank_count_at(0)}},  // CommInitAll
        {2, 12, old_member},         // CommDestroy
        {3, 12, old_member},         // CommAbort
        {4, 8, old_size},            // AllGather
        {5, 16, old_size},           // AllReduce
        {6, 16, old_size_peer},      // Broadcast
        {7, 16, old_size},           // ReduceScatter
        {8, 16, old_size_peer},      // Reduce
        {9, 16, old_size_peer},      // Send
        {10, 16, old_size_peer},     // Recv
        {11, 12, old_member},        // CommInitRankConfig, 2.23
        {12, 12, old_member},        // CommInitRankScalable, 2.23
        {13, 20, old_member},        // CommSplit, 2.23
        // NCCL 2.25 .. 2.30
        {0, 24, member},
        {1, 16, {communicator_at(0), rank_count_at(8)}},
        {2, 24, member},
        {3, 24, member},
        {4, 16, size},
        {5, 24, size},
        {6, 24, size_peer},
        {7, 24, size},
        {8, 24, size_peer},
        {9, 24, size_peer},
        {10, 24, size_peer},
        {11, 24, member},
        {12, 24, member},
        {13, 40, child},
        {14, 8, {communicator_at(0)}},                       // CommFinalize
        {15, 24, member},                                    // CommShrink, 2.27
        {16, 16, size},                                      // AlltoAll, 2.28
        {17, 24, size_peer},                                 // Gather, 2.28
        {18, 24, size_peer},                                 // Scatter, 2.28
        {19, 24, member},                                    // CommRevoke, 2.28.7
        {20, 32, child},                                     // CommGrow, 2.29
        {21, 24, size_peer},                                 // PutSignal, 2.29
        {22, 16, {communicator_at(0), peer_or_root_at(8)}},  // Signal, 2.29
        {23, 16, {communicator_at(0)}},                      // WaitSignal, 2.29
    };
  }();
  return layouts;
}

std::uint64_t little_endian(std::string_view bytes, std::size_t offset, std::size_t count) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < count; ++i)
    value |= std::uint64_t{static_cast<unsigned char>(bytes[offset + i])} << (8 * i);
  return value;
}

std::optional<NcclPayload> decode_entries(std::string_view payload, const std::vector<PayloadEntry>& entries) {
  PayloadBuilder builder;
  for (const PayloadEntry& entry : entries) {
    if (entry.offset > payload.size() || entry.bytes > payload.size() - entry.offset) return std::nullopt;
    const std::uint64_t raw = little_endian(payload, entry.offset, entry.bytes);
    const bool extend = entry.is_signed && entry.bytes == 4;
    builder.set(entry.field,
                extend ? static_cast<std::int32_t>(static_cast<std::uint32_t>(raw)) : static_cast<std::int64_t>(raw));
  }
  return builder.finish();
}

struct IntegerType {
  std::uint32_t bytes = 0;  ///< 0: not an integer that NCCL's numbers use
  bool is_signed = false;
};

/// Entry types of NVTX's payload extension (nvToolsExtPayload.h).
IntegerType integer_type(std::int64_t type) {
  switch (type) {
    case 5:   // int
    case 15:  // int32
      return {4, true};
    case 6:   // unsigned int
    case 16:  // uint32
      return {4, false};
    case 7:   // long
    case 9:   // long long
    case 17:  // int64
      return {8, true};
    case 8:   // unsigned long
    case 10:  // unsigned long long
    case 18:  // uint64
    case 22:  // size_t
      return {8, false};
    default:
      return {};
  }
}

/// Bytes of hexadecimal text. A BLOB never looks like it: its first 8 bytes are a small number with zero bytes.
std::optional<std::string> from_hex(std::string_view text) {
  if (text.starts_with("0x") || text.starts_with("0X")) text.remove_prefix(2);
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  };
  if (text.size() % 2 != 0) return std::nullopt;
  std::string bytes;
  bytes.reserve(text.size() / 2);
  for (std::size_t i = 0; i < text.size(); i += 2) {
    const int high = digit(text[i]), low = digit(text[i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    bytes += static_cast<char>(high << 4 | low);
  }
  return bytes;
}

}  // namespace

PayloadSchemas::PayloadSchemas(const Database& database) {
  TableScan schemas(database, "NVTX_PAYLOAD_SCHEMAS");
  {
    const auto domain = schemas.integer("domainId"), schema = schemas.integer("schemaId");
    const auto payload_bytes = schemas.integer("payloadSize");
    schemas.for_each_batch([&](std::size_t rows) {
      for (std::size_t row = 0; row < rows; ++row) {
        const std::pair key(static_cast<std::uint64_t>(zero_if_null(domain[row])),
                            static_cast<std::uint64_t>(zero_if_null(schema[row])));
        const auto [place, is_new] = schemas_.try_emplace(key);
        const std::int64_t told = zero_if_null(payload_bytes[row]);
        if (!is_new && place->second.payload_bytes != told) place->second.is_ambiguous = true;
        place->second.payload_bytes = told;
      }
    });
  }
  // Entries of one index that differ come from two processes that mean different things by one id.
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::map<std::int64_t, std::pair<std::int64_t, PayloadEntry>>> seen;
  std::set<std::int64_t> nccl_domains;
  TableScan entries(database, "NVTX_PAYLOAD_SCHEMA_ENTRIES");
  const auto domain = entries.integer("domainId"), schema = entries.integer("schemaId");
  const auto index = entries.integer("idx"), type = entries.integer("type"), offset = entries.integer("offset");
  const auto name = entries.text("name");
  entries.for_each_batch([&](std::size_t rows) {
    for (std::size_t row = 0; row < rows; ++row) {
      const std::pair key(static_cast<std::uint64_t>(zero_if_null(domain[row])),
                          static_cast<std::uint64_t>(zero_if_null(schema[row])));
      if (name[row] == "NCCL communicator ID") nccl_domains.insert(zero_if_null(domain[row]));
      const IntegerType number = integer_type(zero_if_null(type[row]));
      const PayloadEntry entry{payload_field(name[row]), static_cast<std::uint32_t>(zero_if_null(offset[row])),
                               number.bytes, number.is_signed};
      const std::pair definition(zero_if_null(type[row]), entry);
      const auto [place, is_new] = seen[key].try_emplace(zero_if_null(index[row]), definition);
      if (!is_new && place->second != definition) schemas_[key].is_ambiguous = true;
    }
  });
  for (const auto& [key, by_index] : seen) {
    for (const auto& [position, definition] : by_index) {
      const PayloadEntry& entry = definition.second;
      if (entry.field != PayloadField::none && entry.bytes > 0) schemas_[key].entries.push_back(entry);
    }
  }
  nccl_domains_.assign(nccl_domains.begin(), nccl_domains.end());
}

const PayloadSchemas::Schema* PayloadSchemas::find(std::uint64_t domain, std::uint64_t schema) const {
  const auto found = schemas_.find({domain, schema});
  return found == schemas_.end() ? nullptr : &found->second;
}

bool PayloadSchemas::is_nccl_domain(std::int64_t domain) const {
  return std::binary_search(nccl_domains_.begin(), nccl_domains_.end(), domain);
}

std::optional<NcclPayload> decode_binary_payload(std::string_view stored, const PayloadSchemas& schemas) {
  constexpr std::size_t header_bytes = 32;
  const auto unpacked = from_hex(stored);
  const std::string_view bytes = unpacked ? std::string_view(*unpacked) : stored;
  if (bytes.size() < header_bytes) return std::nullopt;
  const std::uint64_t domain = little_endian(bytes, 0, 8);
  const std::uint64_t schema_id = little_endian(bytes, 8, 8);
  const std::uint64_t payload_bytes = little_endian(bytes, 16, 8);
  // The fourth number is the total size or the payload's offset, depending on who describes it: not needed.
  if (payload_bytes > bytes.size() - header_bytes) return std::nullopt;
  const std::string_view payload = bytes.substr(header_bytes, payload_bytes);

  const PayloadSchemas::Schema* schema = schemas.find(domain, schema_id);
  if (schema != nullptr && !schema->is_ambiguous) {
    const auto expected = static_cast<std::uint64_t>(schema->payload_bytes);
    if (expected != 0 && expected != payload_bytes) return std::nullopt;
    if (!schema->entries.empty()) return decode_entries(payload, schema->entries);
  }
  const std::uint64_t number = schema_id >= first_static_schema ? schema_id - first_static_schema : schema_id;
  for (const Layout& layout : builtin_layouts()) {
    if (layout.schema == number && layout.payload_bytes == payload_bytes)
      return decode_entries(payload, layout.entries);
  }
  return std::nullopt;
}

}  // namespace nsys_explain::ingest
