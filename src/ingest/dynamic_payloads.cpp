#include "ingest/nccl_payload.hpp"

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
      for (const auto& [field, values] : fields) {
        if (!is_null(values[row])) builder.set_text(field, values[row]);
      }
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

}  // namespace nsys_explain::ingest
