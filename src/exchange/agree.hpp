#pragma once

#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>

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

}  // namespace nsys_explain::exchange
