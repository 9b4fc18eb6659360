#pragma once

#include <cmath>

#include "nsys_explain/model/collective.hpp"

namespace nsys_explain {

/// Who waits for whom in an operation.
enum class Waiting : std::uint8_t {
  unknown,    ///< a kernel whose name does not tell
  all,        ///< nobody leaves before the last member has entered
  root,       ///< the root leaves after the last member, others when they like
  receivers,  ///< receivers leave after the root has entered, the root when it likes
  peers       ///< the two ends of an exchange, or all members of an exchange with several
};

/// How members leave an operation: what is known before a job's own exits tell (docs/method.md, "How members leave",
/// has the measurements). Shares are of T, the time that an instance takes the member that it takes least, its last
/// one.
struct EndModel {
  Waiting waiting = Waiting::unknown;
  double always = 0;   ///< standard deviation of what a member always leaves earlier or later by
  double of_last = 0;  ///< the same of a member that is always the last to enter

  /// Standard deviation of an exit from instance to instance, ns.
  static constexpr double spread_ns(double last_takes_ns) {
    constexpr double share = 0.05, least_ns = 300;
    return std::max(share * last_takes_ns, least_ns);
  }

  /// Standard deviation of what a member differs by for good, ns. spread: of the job's exits where they tell, else
  /// spread_ns(last_takes_ns). last_share: how often the member is the last to enter, beyond one in all members.
  double bias_ns(double spread, double last_takes_ns, double last_share) const {
    constexpr double lasting = 0.6;  // of what varies from instance to instance
    return std::hypot(lasting * spread, always * last_takes_ns, of_last * last_share * last_takes_ns);
  }

  constexpr bool synchronises() const { return waiting == Waiting::all; }
  /// Members leave together; a kernel of which nothing is known may be one.
  constexpr bool may_end_together() const { return waiting != Waiting::root && waiting != Waiting::receivers; }
};

/// by_tree: NCCL's tree, whose members leave one by one.
constexpr EndModel end_model(Operation operation, bool by_tree = false) {
  EndModel model{.waiting = Waiting::unknown, .always = 0.05, .of_last = 0.5};
  switch (operation) {
    case Operation::all_reduce:
    case Operation::barrier:
      model = {.waiting = Waiting::all, .always = 0, .of_last = 0.05};
      break;
    case Operation::reduce_scatter:
      model = {.waiting = Waiting::all, .always = 0, .of_last = 0.5};
      break;
    case Operation::all_gather:
      model = {.waiting = Waiting::all, .always = 0.1, .of_last = 0.5};
      break;
    case Operation::all_to_all:
      model.waiting = Waiting::all;
      break;
    case Operation::send_recv:
      model.waiting = Waiting::peers;
      break;
    case Operation::reduce:
    case Operation::gather:
      model.waiting = Waiting::root;
      break;
    case Operation::broadcast:
    case Operation::scatter:
      model.waiting = Waiting::receivers;
      break;
    case Operation::unknown:
      break;
  }
  if (by_tree) model.always = 0.45, model.of_last = 0.05;
  return model;
}

}  // namespace nsys_explain
