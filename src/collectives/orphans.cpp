#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <vector>

#include "nsys_explain/collectives/inference.hpp"

namespace nsys_explain::collectives {
namespace {

/// Members of one operation leave within this of each other; operations of one stream lie further apart.
constexpr Nanoseconds together_ns = 3'000;

struct Ending {
  Nanoseconds exit_ns = 0;  ///< on the common clock
  const SampledOperation* operation = nullptr;
};

/// Operations that may be one: of clocks that are related, and of one kind by what their kernels show.
using Endings = std::map<std::pair<std::int32_t, std::uint64_t>, std::vector<Ending>>;

Endings endings_of(std::span<const SampledOperation> samples, const RoughClocks& clocks) {
  Endings endings;
  for (const SampledOperation& operation : samples) {
    if (operation.operation == Operation::send_recv) continue;  // its members have habits
    endings[{clocks.component_of(operation.session), operation.symbol >> 32U}].push_back(
        {clocks.to_common(operation.session, operation.exit_ns), &operation});
  }
  for (auto& [kind, by_exit] : endings) {
    std::sort(by_exit.begin(), by_exit.end(), [](const Ending& a, const Ending& b) {
      return std::tie(a.exit_ns, a.operation->trace_rank, a.operation->index) <
             std::tie(b.exit_ns, b.operation->trace_rank, b.operation->index);
    });
  }
  return endings;
}

using Members = std::map<std::uint64_t, std::set<std::int32_t>>;  ///< trace ranks by communicator

/// The communicator of the trace rank of which others leave an operation together with this one, and itself none; 0 if
/// there is none, or several.
std::uint64_t communicator_of(const Ending& orphan, std::span<const Ending> by_exit, const Members& members) {
  std::set<std::uint64_t> own, wanting;
  auto near = std::lower_bound(by_exit.begin(), by_exit.end(), orphan.exit_ns - together_ns,
                               [](const Ending& e, Nanoseconds t) { return e.exit_ns < t; });
  for (; near != by_exit.end() && near->exit_ns <= orphan.exit_ns + together_ns; ++near) {
    const std::uint64_t communicator = near->operation->lane;
    if (communicator < first_nccl_key) continue;
    if (near->operation->trace_rank == orphan.operation->trace_rank)
      own.insert(communicator);
    else if (members.at(communicator).contains(orphan.operation->trace_rank))
      wanting.insert(communicator);
  }
  std::erase_if(wanting, [&](std::uint64_t communicator) { return own.contains(communicator); });
  return wanting.size() == 1 ? *wanting.begin() : 0;
}

}  // namespace

std::vector<OperationKey> name_orphans(std::span<const SampledOperation> samples, const RoughClocks& clocks) {
  Members members;
  for (const SampledOperation& operation : samples) {
    if (operation.lane >= first_nccl_key) members[operation.lane].insert(operation.trace_rank);
  }
  std::vector<OperationKey> keys;
  if (members.empty()) return keys;
  for (const auto& [kind, by_exit] : endings_of(samples, clocks)) {
    for (const Ending& ending : by_exit) {
      if (ending.operation->lane >= first_nccl_key) continue;
      const std::uint64_t communicator = communicator_of(ending, by_exit, members);
      if (communicator != 0)
        keys.push_back({ending.operation->trace_rank, ending.operation->index, communicator, false});
    }
  }
  std::sort(keys.begin(), keys.end(), [](const OperationKey& a, const OperationKey& b) {
    return std::tie(a.trace_rank, a.index) < std::tie(b.trace_rank, b.index);
  });
  return keys;
}

}  // namespace nsys_explain::collectives
