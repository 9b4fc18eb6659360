#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "nsys_explain/model/collective.hpp"
#include "nsys_explain/model/time.hpp"

/// Exposed communication, every nanosecond told by what the collective did and by why no compute ran beside it.
namespace nsys_explain {

enum class CollectivePhase : std::uint8_t {
  arrival_skew,  ///< before its last member had entered
  transfer,      ///< after that
  unmatched,     ///< its other members are not known
  inconclusive   ///< the clocks leave open which of the two: it took less than three standard uncertainties
};
enum class StandstillReason : std::uint8_t {
  blocking,      ///< compute, or the host, waited for communication
  launch_paced,  ///< the host had not launched what ran next
  not_told
};
inline constexpr std::size_t collective_phase_count = 4, standstill_reason_count = 3;

std::string_view collective_phase_name(CollectivePhase phase);
std::string_view standstill_reason_name(StandstillReason reason);

/// Of the collectives of one operation on one trace rank. Trivially copyable.
struct ExposedTime {
  std::int32_t trace_rank = -1;
  Operation operation = Operation::unknown;
  std::array<std::uint8_t, 3> reserved = {};  ///< no padding bytes travel uninitialised
  std::array<std::array<Nanoseconds, standstill_reason_count>, collective_phase_count> duration_ns{};  ///< by phase
};

}  // namespace nsys_explain
