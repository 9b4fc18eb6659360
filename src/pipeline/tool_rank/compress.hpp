#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

/// What few ask for, kept small meanwhile: in memory and in records.
namespace nsys_explain::pipeline {

/// By zstd, at the level at which it is as fast as a disk.
std::string compress(std::string_view bytes);
/// Throws std::runtime_error where `compressed` is none that compress() made. Takes no more memory than 1,024 times its
/// size, whatever it says. `room`: a string whose memory the result may take.
std::string decompress(std::string_view compressed, std::string room = {});

/// Bytes of rows of `stride` bytes each, the first bytes of all rows, then the second ones: neighbours differ in few,
/// so that what is alike lies together. A rest that is no row stays at the end.
std::string shuffled(std::string_view rows, std::size_t stride);
/// The inverse: puts as many bytes of rows to `rows`.
void unshuffle(std::string_view bytes, std::size_t stride, char* rows);

/// Rows without strings, compressed.
template <class T>
class PackedRows {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  PackedRows() = default;
  explicit PackedRows(const std::vector<T>& rows) : size_(rows.size()) {
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): rows are bytes
    const std::string_view bytes(reinterpret_cast<const char*>(rows.data()), rows.size() * sizeof(T));
    bytes_ = compress(shuffled(bytes, sizeof(T)));
  }

  std::size_t size() const { return size_; }
  /// Gives back what they take.
  void release() {
    size_ = 0;
    std::string().swap(bytes_);
  }
  /// Throws std::runtime_error where they were damaged.
  std::vector<T> rows() const {
    if (size_ == 0) return {};
    const std::string bytes = decompress(bytes_);
    if (bytes.size() % sizeof(T) != 0 || bytes.size() / sizeof(T) != size_)
      throw std::runtime_error("packed rows are more or fewer than they say");
    std::vector<T> rows(size_);
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): rows are bytes
    unshuffle(bytes, sizeof(T), reinterpret_cast<char*>(rows.data()));
    return rows;
  }

  template <class Archive>
  void serialize(Archive& archive) {
    archive(size_, bytes_);
  }

 private:
  std::uint64_t size_ = 0;
  std::string bytes_;
};

}  // namespace nsys_explain::pipeline
