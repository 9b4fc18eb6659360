#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

/// Numbers as SQLite stores them: big-endian, of fixed or variable length.
namespace nsys_explain::ingest::pages {

inline std::uint32_t load_be16(const std::uint8_t* bytes) {
  return std::uint32_t{bytes[0]} << 8 | bytes[1];
}

inline std::uint32_t load_be32(const std::uint8_t* bytes) {
  return load_be16(bytes) << 16 | load_be16(bytes + 2);
}

inline std::uint64_t load_be64(const std::uint8_t* bytes) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes, sizeof value);
  return std::endian::native == std::endian::little ? __builtin_bswap64(value) : value;
}

/// Reads a number of 1 to 9 bytes that ends before `end`. Returns its length; 0 where it runs past `end`.
inline std::size_t read_varint(const std::uint8_t* bytes, const std::uint8_t* end, std::uint64_t& value) {
  if (bytes < end && bytes[0] < 0x80) {
    value = bytes[0];
    return 1;
  }
  value = 0;
  for (std::size_t i = 0; i < 8; ++i) {
    if (bytes + i >= end) return 0;
    value = value << 7 | (bytes[i] & 0x7F);
    if (bytes[i] < 0x80) return i + 1;
  }
  if (bytes + 8 >= end) return 0;
  value = value << 8 | bytes[8];  // the ninth byte counts whole
  return 9;
}

}  // namespace nsys_explain::ingest::pages
