#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "nsys_explain/model/time.hpp"

namespace nsys_explain::collectives {

/// The sends and receives of one member on a common clock, by exit.
struct MemberExchanges {
  std::vector<Nanoseconds> enter_ns, exit_ns;  ///< of equal length
};

/// Two members that exchange with each other: nobody leaves before the other, so that their exits differ by what the
/// two ends always differ by, and hardly vary.
struct ExchangeLink {
  std::size_t a = 0, b = 0;
  Nanoseconds offset_ns = 0;  ///< exit of b - exit of a
  Nanoseconds spread_ns = 0;  ///< half the width of the window that holds the differences
  bool waited = false;        ///< whether it is clear that who came first waited for the other: see unevenness.hpp
};

/// Two exchanges that are one. Indices into the members' exchanges.
struct LinkedPair {
  std::size_t a = 0, b = 0;  ///< members
  std::size_t i = 0, j = 0;  ///< which exchange of each
};

struct ExchangeLinks {
  std::vector<ExchangeLink> links;
  std::vector<LinkedPair> pairs;
};

/// Finds out of members' exchanges with unknown peers who exchanges with whom. An exchange has one counterpart, so
/// links compete for it: those whose exits differ most evenly come first, and others only take what these leave. Where
/// two would share most of what they explain and are about as even, which is right cannot be told: neither is taken.
ExchangeLinks link_exchanges(std::span<const MemberExchanges> members);

}  // namespace nsys_explain::collectives
