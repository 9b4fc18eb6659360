#pragma once

#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <cereal/archives/binary.hpp>
#include <cereal/types/optional.hpp>
#include <cereal/types/string.hpp>
#include <cereal/types/variant.hpp>
#include <cereal/types/vector.hpp>

#include "nsys_explain/exchange/communicator.hpp"

/// Model structs with strings travel as bytes: each lists its members in `serialize`, cereal does the rest.
namespace nsys_explain::pipeline {

template <class T>
std::string pack(const T& value) {
  std::ostringstream stream(std::ios::binary);
  cereal::BinaryOutputArchive archive(stream);
  archive(value);
  return std::move(stream).str();
}

template <class T>
T unpack(std::string_view bytes) {
  std::istringstream stream{std::string(bytes), std::ios::binary};
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
