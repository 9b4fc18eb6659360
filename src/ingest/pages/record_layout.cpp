#include "ingest/pages/record_layout.hpp"

#include "ingest/pages/page_file.hpp"
#include "model/hash.hpp"
#include "nsys_explain/model/time.hpp"

namespace nsys_explain::ingest::pages {
namespace {

constexpr std::uint64_t longest_record = std::numeric_limits<std::int32_t>::max();  // SQLite's limit

/// Bytes of a value of a serial type; no_such_type for the two that are not in use.
constexpr std::uint64_t no_such_type = std::numeric_limits<std::uint64_t>::max();
std::uint64_t value_bytes(std::uint64_t type) {
  constexpr std::array<std::uint64_t, 12> numbers = {0, 1, 2, 3, 4, 6, 8, 8, 0, 0, no_such_type, no_such_type};
  return type < numbers.size() ? numbers[type] : (type - numbers.size()) / 2;
}

IntegerField make_integer(std::uint64_t type, std::uint64_t offset, std::uint64_t bytes) {
  IntegerField field;
  if (type >= 1 && type <= 6) {
    field.load_offset = static_cast<std::int32_t>(offset + bytes) - 8;
    field.shift = static_cast<std::uint32_t>(64 - 8 * bytes);
    field.mask = -1;
  } else {
    field.constant = type == 8 ? 0 : type == 9 ? 1 : no_time;
  }
  return field;
}

/// Reads up to 7 bytes past the header.
std::size_t slot_of(const std::uint8_t* header, std::size_t bytes) {
  std::uint64_t hash = bytes;
  for (; bytes >= 8; header += 8, bytes -= 8) hash = (hash ^ load_be64(header)) * golden_ratio;
  if (bytes > 0) hash = (hash ^ load_be64(header) >> (64 - 8 * bytes)) * golden_ratio;
  return hash >> 56;
}

/// Asked for every row. Eight bytes at a time, the last eight once more: a call of memcmp takes longer.
bool same_header(const RecordLayout& layout, const std::uint8_t* record, std::size_t header_bytes) {
  if (layout.header_bytes != header_bytes) return false;
  const std::uint8_t* header = layout.header.data();
  if (header_bytes < 8) return std::memcmp(header, record, header_bytes) == 0;
  for (std::size_t i = 0; i + 8 < header_bytes; i += 8)
    if (load_be64(header + i) != load_be64(record + i)) return false;
  return load_be64(header + header_bytes - 8) == load_be64(record + header_bytes - 8);
}

}  // namespace

const RecordLayout* RecordLayouts::of(const std::uint8_t* record, std::size_t available) {
  std::uint64_t header_bytes = 0;
  const std::size_t first_type = read_varint(record, record + available, header_bytes);
  if (first_type == 0 || header_bytes < first_type || header_bytes > available) return nullptr;
  if (header_bytes > RecordLayout::longest_kept_header)
    return parse(record, header_bytes, first_type, too_long_to_keep_) ? &too_long_to_keep_ : nullptr;
  if (latest_ != nullptr && same_header(*latest_, record, header_bytes)) return latest_;
  RecordLayout& layout = kept_[slot_of(record, header_bytes)];
  if (!same_header(layout, record, header_bytes)) {
    layout.header_bytes = 0;
    latest_ = nullptr;
    if (!parse(record, header_bytes, first_type, layout)) return nullptr;
    std::memcpy(layout.header.data(), record, header_bytes);
    layout.header_bytes = header_bytes;
  }
  latest_ = &layout;
  return latest_;
}

bool RecordLayouts::parse(const std::uint8_t* record, std::size_t header_bytes, std::size_t first_type,
                          RecordLayout& layout) const {
  layout.integers.clear();
  layout.doubles.clear();
  layout.texts.clear();
  layout.wanted_bytes = static_cast<std::uint32_t>(header_bytes);
  const std::uint8_t *at = record + first_type, *const end = record + header_bytes;
  std::uint64_t offset = header_bytes;
  std::size_t column = 0, next = 0;
  for (; at < end; ++column) {
    if (column == rules_.never_null.size()) return false;
    std::uint64_t type = 0;
    const std::size_t length = read_varint(at, end, type);
    const std::uint64_t bytes = value_bytes(type);
    if (length == 0 || bytes > longest_record || offset + bytes > longest_record) return false;
    if (type == 0 && rules_.never_null[column]) return false;
    at += length;
    for (; next < wanted_.size() && wanted_[next].position == column; ++next) {
      const auto place = static_cast<std::uint32_t>(offset);
      const IntegerField integer = make_integer(type, offset, bytes);
      if (wanted_[next].is_text) {
        layout.texts.push_back({static_cast<std::uint32_t>(type), place, static_cast<std::uint32_t>(bytes), integer});
      } else {
        if (type == 7) layout.doubles.push_back({layout.integers.size(), place});
        layout.integers.push_back(integer);
      }
      layout.wanted_bytes = static_cast<std::uint32_t>(offset + bytes);
    }
    offset += bytes;
  }
  layout.record_bytes = offset;
  layout.lacks_columns = column < rules_.never_null.size();
  return column >= rules_.fewest_columns;
}

}  // namespace nsys_explain::ingest::pages
