#pragma once

#include <cstddef>
#include <vector>

#include "exchange/communicator.hpp"

/// Records on their way to other tool ranks.
namespace nsys_explain::pipeline {

/// About so many leave a tool rank at a time where there is one for each arrival: a megabyte or two, which the second
/// cache hands from step to step, and which are used again for the next.
inline constexpr std::size_t records_per_round = std::size_t{1} << 14;

/// Records by the tool rank that they go to.
template <class Record>
using Outgoing = std::vector<std::vector<Record>>;

template <class Record>
Outgoing<Record> nothing_for(const exchange::Communicator& communicator) {
  return Outgoing<Record>(static_cast<std::size_t>(communicator.size()));
}

/// Empty, but with the memory that it has.
template <class Record>
void empty(Outgoing<Record>& outgoing) {
  for (std::vector<Record>& part : outgoing) part.clear();
}

}  // namespace nsys_explain::pipeline
