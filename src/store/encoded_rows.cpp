#include "store/encoded_rows.hpp"

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <span>
#include <variant>

#include "nsys_explain/model/utf8.hpp"
#include "store/column.hpp"

namespace nsys_explain::store {

namespace {

/// Higher ones take up to twice as long and save a twentieth of the file. (libdeflate at its lowest takes two thirds of
/// zlib's time for numbers that hardly repeat and as long for texts that do, which are most of what is written.)
constexpr int rows_deflate_level = 1;

/// Little-endian whatever the machine: byte b of value v goes to v * value_stride + b * byte_stride.
template <class Number>
void place_numbers(std::span<const Number> numbers, std::size_t value_stride, std::size_t byte_stride, char* place) {
  for (std::size_t b = 0; b < sizeof(Number); ++b) {
    char* const of_byte = place + b * byte_stride;
    for (std::size_t v = 0; v < numbers.size(); ++v) {
      of_byte[v * value_stride] = static_cast<char>(std::bit_cast<std::uint64_t>(numbers[v]) >> (8 * b));
    }
  }
}

bool is_storable_column(const ColumnData& values) {
  const auto* texts = std::get_if<TextColumn>(&values);
  return texts == nullptr || std::all_of(texts->distinct().begin(), texts->distinct().end(), is_storable);
}

/// The texts as HDF5 can hold them.
TextColumn storable_texts(const TextColumn& texts) {
  TextColumn storable;
  for (const std::string& text : texts) storable.push_back(storable_text(text));
  return storable;
}

/// Rows [first, first + count) as `room` values of the layout, zeros behind them.
std::string lay_out(const ColumnData& values, const ColumnLayout& layout, std::size_t first, std::size_t count,
                    std::size_t room) {
  std::string bytes(room * layout.width, '\0');
  if (const auto* texts = std::get_if<TextColumn>(&values)) {
    for (std::size_t row = 0; row < count; ++row) {
      const std::string& text = (*texts)[first + row];
      std::memcpy(bytes.data() + row * layout.width, text.data(), text.size());
    }
    return bytes;
  }
  const bool is_compact = layout.chunk_rows == 0;
  const std::size_t value_stride = is_compact ? layout.width : 1;
  const std::size_t byte_stride = is_compact ? 1 : room;
  if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&values)) {
    place_numbers(std::span(*integers).subspan(first, count), value_stride, byte_stride, bytes.data());
  } else {
    place_numbers(std::span(std::get<std::vector<double>>(values)).subspan(first, count), value_stride, byte_stride,
                  bytes.data());
  }
  return bytes;
}

void append_chunk(const std::string& plain, EncodedColumn& column) {
  const std::size_t before = column.bytes.size();
  uLongf bytes = compressBound(plain.size());
  column.bytes.resize(before + bytes);
  const int status = compress2(reinterpret_cast<Bytef*>(column.bytes.data() + before), &bytes,
                               reinterpret_cast<const Bytef*>(plain.data()), plain.size(), rows_deflate_level);
  if (status != Z_OK) throw std::bad_alloc();  // there is room enough for whatever comes out
  column.bytes.resize(before + bytes);
  column.chunk_bytes.push_back(bytes);
}

/// Texts are to be storable.
EncodedColumn encode_column(const ColumnData& values, const ColumnLayout& layout, std::size_t first,
                            std::size_t count) {
  EncodedColumn column;
  if (layout.width == 0) {
    const auto& texts = std::get<TextColumn>(values);
    column.texts.reserve(count);
    for (std::size_t row = first; row < first + count; ++row) column.texts.push_back(texts[row]);
  } else if (layout.chunk_rows == 0) {
    column.bytes = lay_out(values, layout, first, count, count);
  } else {
    for (std::size_t row = 0; row < count; row += layout.chunk_rows) {
      const std::size_t rows = std::min(layout.chunk_rows, count - row);
      append_chunk(lay_out(values, layout, first + row, rows, layout.chunk_rows), column);
    }
  }
  return column;
}

}  // namespace

EncodedRows encode_rows(const Table& rows, const TableExtent& extent, std::size_t first, std::size_t count) {
  check_rows(rows, rows.schema, extent.longest_texts);
  EncodedRows encoded{rows.schema.name, count, {}};
  for (std::size_t c = 0; c < rows.columns.size(); ++c) {
    const ColumnLayout layout = layout_of(rows.schema.columns[c].kind, extent.rows, extent.longest_texts[c]);
    const ColumnData& values = rows.columns[c];
    encoded.columns.push_back(is_storable_column(values)
                                  ? encode_column(values, layout, first, count)
                                  : encode_column(storable_texts(std::get<TextColumn>(values)), layout, first, count));
  }
  return encoded;
}

namespace {

/// How many of the first bytes are ASCII without NUL, in steps of eight: hardly any text has others.
std::size_t plain_bytes(std::string_view text) {
  constexpr std::uint64_t ones = 0x0101010101010101, high_bits = 0x8080808080808080;
  std::size_t at = 0;
  for (; at + sizeof(std::uint64_t) <= text.size(); at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + at, sizeof word);
    if (((word | (word - ones)) & high_bits) != 0) break;  // a byte above 0x7F, or one that is 0
  }
  return at;
}

}  // namespace

bool is_storable(std::string_view text) {
  for (std::size_t at = plain_bytes(text); at < text.size();) {
    const std::size_t length = utf8_length(text.substr(at));
    if (length == 0) return false;
    at += length;
  }
  return true;
}

std::string storable_text(std::string_view text) {
  std::string result(text);
  for (std::size_t at = plain_bytes(text); at < text.size();) {
    const std::size_t length = utf8_length(text.substr(at));
    if (length == 0) result[at] = '?';
    at += length == 0 ? 1 : length;
  }
  return result;
}

}  // namespace nsys_explain::store
