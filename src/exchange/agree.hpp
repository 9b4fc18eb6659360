#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "exchange/communicator.hpp"

namespace nsys_explain::exchange {

/// Thrown on every rank alike after a phase failed on at least one: catching it is safe, no rank is left behind.
class AgreedFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Collective: runs `work` here, catches what it throws, and agrees with all ranks whether it succeeded everywhere.
/// `work` itself must not communicate. Throws AgreedFailure with the same text on every rank: the phase, and the
/// message of each failed rank in rank order.
void run_agreed(const Communicator& communicator, std::string_view phase, const std::function<void()>& work);

/// The first text in which a rank differs from rank 0; long texts cut down to the place.
struct Difference {
  int rank = 0;  ///< the first that differs
  int differing_ranks = 0;
  std::size_t text = 0;  ///< its number
  std::string own, of_root;
};

/// Collective, the same result on every rank: whether all have the same texts, which hold no NUL.
std::optional<Difference> find_difference(const Communicator& communicator, const std::vector<std::string>& mine);

}  // namespace nsys_explain::exchange
