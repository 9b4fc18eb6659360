#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "nsys_explain/model/table.hpp"

/// What NCCL's own log (NCCL_DEBUG=INFO) tells of communicators, of what connects their members, and of how collectives
/// ran (with NCCL_DEBUG_SUBSYS=INIT,GRAPH,P2P,SHM,NET,TUNING or ALL). Facts as logged: nothing is concluded here.
namespace nsys_explain::analysis {

/// A member of a communicator, as its process logged it.
struct LoggedMember {
  std::string host, version, network;  ///< empty: not logged
  std::int64_t process_id = -1, cuda_device = -1;
  std::int64_t ranks = -1, nodes = -1;
  std::int64_t collective_channels = -1, nvls_channels = -1, p2p_channels = -1;  ///< -1: not logged
};

struct NcclLog {
  using Member = std::pair<std::string, std::int64_t>;  ///< communicator (NCCL's hash), rank in it
  /// Communicator, sender, receiver, transport.
  using Connection = std::tuple<std::string, std::int64_t, std::int64_t, std::string>;
  /// Operation, bytes, algorithm, protocol.
  using Choice = std::tuple<std::string, std::int64_t, std::string, std::string>;
  std::map<Member, LoggedMember> members;
  std::map<Connection, std::set<std::string>> connections;  ///< channels: both ends may log one
  std::map<Choice, std::int64_t> choices;                   ///< how often
};

/// Adds what the text of one log says. Lines of others and of kinds that are not known are passed over; nothing throws.
void add_nccl_log(std::string_view text, NcclLog& log);

/// The tables nccl_members, nccl_connections and nccl_choices; without rows where no log was given.
std::vector<Table> nccl_log_tables(const NcclLog& log);

}  // namespace nsys_explain::analysis
