#include "store/encoded_rows.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

#include <zlib.h>

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
    for (std::size_t v = 0; v < numbers.size(); ++v)
      of_byte[v * value_stride] = static_cast<char>(std::bit_cast<std::uint64_t>(numbers[v]) >> (8 * b));
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

/// Compresses chunk after chunk, each by itself.
class Deflater {
 public:
  explicit Deflater(int strategy) {
    constexpr int window_bits = 15, memory_level = 8;  // zlib's own choice
    if (deflateInit2(&stream_, rows_deflate_level, Z_DEFLATED, window_bits, memory_level, strategy) != Z_OK)
      throw std::bad_alloc();
  }
  ~Deflater() { deflateEnd(&stream_); }
  Deflater(const Deflater&) = delete;
  Deflater& operator=(const Deflater&) = delete;

  void append_chunk(std::string& plain, EncodedColumn& column) {
    const std::size_t before = column.bytes.size(), most = deflateBound(&stream_, plain.size());
    column.bytes.resize(before + most);
    stream_.next_in = reinterpret_cast<Bytef*>(plain.data());
    stream_.avail_in = static_cast<uInt>(plain.size());
    stream_.next_out = reinterpret_cast<Bytef*>(column.bytes.data() + before);
    stream_.avail_out = static_cast<uInt>(most);
    if (deflate(&stream_, Z_FINISH) != Z_STREAM_END) throw std::bad_alloc();  // there is room for whatever comes out
    column.bytes.resize(before + stream_.total_out);
    column.chunk_bytes.push_back(stream_.total_out);
    deflateReset(&stream_);
  }

 private:
  z_stream stream_ = {};
};

/// Of shuffled measurements some bytes are equal in all rows, and the others differ: to look for runs alone takes half
/// of the time, and the whole store 3% more room. Numbers of things, points in time, and texts repeat in other ways.
struct Deflaters {
  Deflater measurements{Z_RLE}, others{Z_DEFAULT_STRATEGY};

  Deflater& of(const ColumnSchema& column) {
    const bool is_measurement =
        (column.kind == ColumnKind::integer || column.kind == ColumnKind::real) && !column.unit.empty();
    return is_measurement ? measurements : others;
  }
};

/// Texts are to be storable.
EncodedColumn encode_column(const ColumnData& values, const ColumnLayout& layout, std::size_t first, std::size_t count,
                            Deflater& deflater) {
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
      std::string plain = lay_out(values, layout, first + row, rows, layout.chunk_rows);
      deflater.append_chunk(plain, column);
    }
  }
  return column;
}

}  // namespace

EncodedRows encode_rows(const Table& rows, const TableExtent& extent, std::size_t first, std::size_t count) {
  check_rows(rows, rows.schema, extent.longest_texts);
  EncodedRows encoded{rows.schema.name, count, {}};
  Deflaters deflaters;
  for (std::size_t c = 0; c < rows.columns.size(); ++c) {
    const ColumnSchema& column = rows.schema.columns[c];
    const ColumnLayout layout = layout_of(column.kind, extent.rows, extent.longest_texts[c]);
    const ColumnData& values = rows.columns[c];
    const auto encode = [&](const ColumnData& storable) {
      return encode_column(storable, layout, first, count, deflaters.of(column));
    };
    encoded.columns.push_back(is_storable_column(values) ? encode(values)
                                                         : encode(storable_texts(std::get<TextColumn>(values))));
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
