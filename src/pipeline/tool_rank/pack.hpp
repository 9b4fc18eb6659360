#pragma once

#include <cstring>
#include <ostream>
#include <stdexcept>
#include <streambuf>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <cereal/archives/binary.hpp>
#include <cereal/types/map.hpp>
#include <cereal/types/optional.hpp>
#include <cereal/types/string.hpp>
#include <cereal/types/variant.hpp>
#include <cereal/types/vector.hpp>

#include "exchange/communicator.hpp"

/// Model structs with strings travel as bytes: each lists its members in `serialize`, cereal does the rest.
namespace nsys_explain::pipeline {

/// Writes to the end of a string. Megabytes pass here, which a string stream would copy several times.
class StringEnd final : public std::streambuf {
 public:
  explicit StringEnd(std::string& bytes) : bytes_(bytes) {}

 protected:
  std::streamsize xsputn(const char* bytes, std::streamsize count) override {
    bytes_.append(bytes, static_cast<std::size_t>(count));
    return count;
  }
  int_type overflow(int_type byte) override {
    bytes_.push_back(traits_type::to_char_type(byte));
    return byte;
  }

 private:
  std::string& bytes_;
};

/// Counts what is written.
class ByteCount final : public std::streambuf {
 public:
  std::size_t bytes() const { return bytes_; }

 protected:
  std::streamsize xsputn(const char*, std::streamsize count) override {
    bytes_ += static_cast<std::size_t>(count);
    return count;
  }
  int_type overflow(int_type byte) override {
    ++bytes_;
    return byte;
  }

 private:
  std::size_t bytes_ = 0;
};

/// Reads what cereal's binary archive wrote. No size is believed that is larger than the bytes that are left: what was
/// damaged, or made up, must not become an allocation.
class PackedInput final : public cereal::InputArchive<PackedInput, cereal::AllowEmptyClassElision> {
 public:
  explicit PackedInput(std::string_view bytes) : InputArchive(this), left_(bytes) {}

  void read(void* target, std::size_t size) {
    require(size);
    if (size > 0) std::memcpy(target, left_.data(), size);
    left_.remove_prefix(size);
  }
  void require(std::size_t size) const {
    if (size > left_.size()) throw std::length_error("packed bytes end before what they hold");
  }

 private:
  std::string_view left_;
};

}  // namespace nsys_explain::pipeline

/// Half of CEREAL_SETUP_ARCHIVE_TRAITS: what is written is cereal's own.
template <>
struct cereal::traits::detail::get_output_from_input<nsys_explain::pipeline::PackedInput> {
  using type = cereal::BinaryOutputArchive;
};

namespace nsys_explain::pipeline {

template <class T>
requires std::is_arithmetic_v<T>
void load(PackedInput& archive, T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    unsigned char byte = 0;
    archive.read(&byte, sizeof byte);
    if (byte > 1) throw std::length_error("packed bytes hold neither true nor false where one of them is meant");
    value = byte == 1;
  } else {
    archive.read(&value, sizeof value);
  }
}
template <class T>
void load(PackedInput& archive, cereal::BinaryData<T>& data) {
  archive.read(data.data, data.size);
}
template <class T>
void serialize(PackedInput& archive, cereal::NameValuePair<T>& pair) {
  archive(pair.value);
}
/// An element takes a byte at least.
template <class T>
void serialize(PackedInput& archive, cereal::SizeTag<T>& tag) {
  archive(tag.size);
  archive.require(tag.size);
}

template <class T>
void write_packed(const T& value, std::streambuf& buffer) {
  std::ostream stream(&buffer);
  cereal::BinaryOutputArchive archive(stream);
  archive(value);
}

template <class T>
std::string pack(const T& value) {
  ByteCount count;  // a string that grows takes three times its bytes in between
  write_packed(value, count);
  std::string bytes;
  bytes.reserve(count.bytes());
  StringEnd buffer(bytes);
  write_packed(value, buffer);
  return bytes;
}

template <class T>
T unpack(std::string_view bytes) {
  PackedInput archive(bytes);
  T value;
  archive(value);
  return value;
}

/// Collective: the value of every tool rank, in rank order, on every rank.
template <class T>
std::vector<T> all_gather_packed(const exchange::Communicator& communicator, const T& mine) {
  std::vector<T> values;
  for (const std::string& bytes : communicator.all_gather_text(pack(mine))) values.push_back(unpack<T>(bytes));
  return values;
}

}  // namespace nsys_explain::pipeline
