#include "nsys_explain/model/exposed_time.hpp"

namespace nsys_explain {

std::string_view collective_phase_name(CollectivePhase phase) {
  constexpr std::array<std::string_view, collective_phase_count> names{"arrival_skew", "transfer", "unmatched",
                                                                       "inconclusive"};
  return names[static_cast<std::size_t>(phase)];
}

std::string_view standstill_reason_name(StandstillReason reason) {
  constexpr std::array<std::string_view, standstill_reason_count> names{"blocking", "launch_paced", "not_told"};
  return names[static_cast<std::size_t>(reason)];
}

}  // namespace nsys_explain
