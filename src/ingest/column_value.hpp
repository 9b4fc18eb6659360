#pragma once

#include <cstdint>

#include "nsys_explain/model/time.hpp"

namespace nsys_explain::ingest {

/// A column's value as a narrower type; `fallback` for NULL.
template <class Integer>
Integer value_or(std::int64_t value, Integer fallback) {
  return value == no_time ? fallback : static_cast<Integer>(value);
}

}  // namespace nsys_explain::ingest
