#include "pipeline/tool_rank/compress.hpp"

#include <algorithm>
#include <memory>

#include <zstd.h>

namespace nsys_explain::pipeline {
namespace {

constexpr int level = 1;
constexpr std::size_t largest_ratio = 1024;

/// Calls `move(row, byte)` for each byte of `rows` rows: those of a few rows after each other, while they are near.
template <class Move>
void for_each_byte(std::size_t rows, std::size_t stride, const Move& move) {
  constexpr std::size_t near_rows = 256;
  for (std::size_t first = 0; first < rows; first += near_rows) {
    const std::size_t end = std::min(first + near_rows, rows);
    for (std::size_t byte = 0; byte < stride; ++byte)
      for (std::size_t row = first; row < end; ++row) move(row, byte);
  }
}

[[noreturn]] void refuse() {
  throw std::runtime_error("compressed bytes are damaged");
}

}  // namespace

std::string compress(std::string_view bytes) {
  // To make one takes longer than to compress the tables of a rank.
  thread_local const std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> context(ZSTD_createCCtx(), &ZSTD_freeCCtx);
  std::string compressed(ZSTD_compressBound(bytes.size()), '\0');
  const std::size_t size =
      ZSTD_compressCCtx(context.get(), compressed.data(), compressed.size(), bytes.data(), bytes.size(), level);
  if (ZSTD_isError(size) != 0) throw std::bad_alloc();  // there was room for any result
  // What is told of a size is believed up to that ratio; nothing of ours loses by it.
  compressed.resize(size);
  if (const std::size_t least = bytes.size() / largest_ratio; least > size) compressed.resize(least, '\0');
  compressed.shrink_to_fit();
  return compressed;
}

std::string decompress(std::string_view compressed, std::string room) {
  const std::size_t frame = ZSTD_findFrameCompressedSize(compressed.data(), compressed.size());
  const unsigned long long size = ZSTD_getFrameContentSize(compressed.data(), compressed.size());
  if (ZSTD_isError(frame) != 0 || size == ZSTD_CONTENTSIZE_ERROR || size == ZSTD_CONTENTSIZE_UNKNOWN) refuse();
  if (size / largest_ratio > compressed.size()) refuse();
  thread_local const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context(ZSTD_createDCtx(), &ZSTD_freeDCtx);
  room.resize(size);
  const std::size_t got = ZSTD_decompressDCtx(context.get(), room.data(), room.size(), compressed.data(), frame);
  if (ZSTD_isError(got) != 0 || got != room.size()) refuse();
  return room;
}

std::string shuffled(std::string_view rows, std::size_t stride) {
  const std::size_t count = rows.size() / stride;
  std::string bytes(rows.size(), '\0');
  char* const planes = bytes.data();
  for_each_byte(count, stride,
                [&](std::size_t row, std::size_t byte) { planes[byte * count + row] = rows[row * stride + byte]; });
  std::copy(rows.begin() + static_cast<std::ptrdiff_t>(count * stride), rows.end(),
            bytes.begin() + static_cast<std::ptrdiff_t>(count * stride));
  return bytes;
}

void unshuffle(std::string_view bytes, std::size_t stride, char* rows) {
  const std::size_t count = bytes.size() / stride;
  const auto put = [&](auto row_bytes) {
    for_each_byte(count, row_bytes,
                  [&](std::size_t row, std::size_t byte) { rows[row * row_bytes + byte] = bytes[byte * count + row]; });
  };
  if (stride == sizeof(std::uint64_t)) {  // numbers are most of what there is: a stride known in advance is faster
    put(std::integral_constant<std::size_t, sizeof(std::uint64_t)>());
  } else {
    put(stride);
  }
  std::copy(bytes.begin() + static_cast<std::ptrdiff_t>(count * stride), bytes.end(), rows + count * stride);
}

}  // namespace nsys_explain::pipeline
