#pragma once

#include <istream>
#include <ostream>
#include <streambuf>
#include <string>
#include <string_view>
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

/// Reads bytes where they lie.
class BytesInPlace final : public std::streambuf {
 public:
  explicit BytesInPlace(std::string_view bytes) {
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): the base class wants it so, and does not write
    char* const begin = const_cast<char*>(bytes.data());
    setg(begin, begin, begin + bytes.size());
  }
};

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
  BytesInPlace buffer(bytes);
  std::istream stream(&buffer);
  cereal::BinaryInputArchive archive(stream);
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
