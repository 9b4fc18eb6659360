#pragma once

#include <cstdint>

#include "nsys_explain/model/collective.hpp"
#include "nsys_explain/model/time.hpp"

namespace nsys_explain {

/// Who waits for whom in an operation.
enum class Waiting : std::uint8_t {
  unknown,    ///< a kernel whose name does not tell
  all,        ///< nobody leaves before the last member has entered
  root,       ///< the root leaves after the last member, others when they like
  receivers,  ///< receivers leave after the root has entered, the root when it likes
  peers       ///< the two ends of an exchange, or all members of an exchange with several
};

/// How operations end, as everything that compares ends of members sees it.
struct OperationModel {
  Waiting waiting = Waiting::unknown;
  /// Median distance of a member's exit from the common end, as far as it varies from instance to instance. Measured on
  /// four processes of one host whose clock is one: all-reduce 0.28 us, reduce-scatter 0.98 us, all-gather 2.7 us; an
  /// exchange 0.5 us beside a bias of the member of 10 to 20 us. A floor, not a bound: other machines scatter more, so
  /// what compares exits estimates the scale from the data.
  Nanoseconds exit_noise_ns = 300;
  /// What a member always differs by, at most.
  Nanoseconds exit_bias_ns = 0;
};

constexpr OperationModel operation_model(Operation operation) {
  switch (operation) {
    case Operation::all_reduce:
    case Operation::barrier:
      return {.waiting = Waiting::all};
    case Operation::reduce_scatter:
      return {.waiting = Waiting::all, .exit_noise_ns = 1'000};
    case Operation::all_gather:
      return {.waiting = Waiting::all, .exit_noise_ns = 2'700, .exit_bias_ns = 25'000};
    case Operation::all_to_all:
      return {.waiting = Waiting::all, .exit_noise_ns = 500, .exit_bias_ns = 20'000};
    case Operation::send_recv:
      return {.waiting = Waiting::peers, .exit_noise_ns = 500, .exit_bias_ns = 20'000};
    case Operation::reduce:
    case Operation::gather:
      return {.waiting = Waiting::root};
    case Operation::broadcast:
    case Operation::scatter:
      return {.waiting = Waiting::receivers};
    case Operation::unknown:
      break;
  }
  return {};
}

/// Operations whose members leave together; a kernel of which nothing is known may be one.
constexpr bool may_end_together(Operation operation) {
  const Waiting waiting = operation_model(operation).waiting;
  return waiting != Waiting::root && waiting != Waiting::receivers;
}

}  // namespace nsys_explain
