#include "analysis/links/links.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "model/schema/links.hpp"

namespace nsys_explain::analysis {
namespace {

struct Sum {
  std::int64_t calls = 0, bytes = 0;
};

/// NCCL's number of this device in each communicator, where its creation or destruction was recorded.
std::map<std::uint64_t, std::int32_t> own_ranks(const ProcessTrace& process, const DeviceTrace& device) {
  std::map<std::uint64_t, std::int32_t> ranks;
  for (const NcclCall& call : process.nccl_calls) {
    const bool here = call.device < 0 || call.device == device.device_id;
    if (call.communicator != 0 && call.rank >= 0 && here) ranks.try_emplace(call.communicator, call.rank);
  }
  return ranks;
}

}  // namespace

Table messages_table(const RankEvents& events) {
  Table table = make_table(schema::messages);
  if (events.process.devices.size() != 1) return table;
  std::map<std::tuple<std::uint64_t, bool, std::int32_t>, Sum> sums;
  for (const NcclCall& call : events.process.nccl_calls) {
    const bool sends = call.function == NcclFunction::send;
    if (!sends && call.function != NcclFunction::recv) continue;
    if (call.communicator == 0 || call.bytes < 0 || call.peer_or_root < 0) continue;
    Sum& sum = sums[{call.communicator, !sends, call.peer_or_root}];
    ++sum.calls;
    sum.bytes += call.bytes;
  }
  const auto own = own_ranks(events.process, events.device);
  RowWriter rows(table);
  for (const auto& [key, sum] : sums) {
    const auto& [communicator, receives, peer] = key;
    const auto rank = own.find(communicator);
    rows << std::string_view(fmt::format("{:#018x}", communicator)) << std::string_view(receives ? "recv" : "send")
         << std::int64_t{rank == own.end() ? -1 : rank->second} << std::int64_t{peer} << sum.calls << sum.bytes;
  }
  return table;
}

Table byte_matrix_table(const std::vector<Table>& tables) {
  Table matrix = make_table(schema::byte_matrix);
  const Table* messages = find_table(tables, schema::messages);
  if (messages == nullptr) return matrix;
  const auto& trace_rank = column(*messages, schema::trace_rank);
  const auto& communicator = column(*messages, schema::messages.communicator);
  const auto& direction = column(*messages, schema::messages.direction);
  const auto& own_rank = column(*messages, schema::messages.own_rank);
  const auto& peer = column(*messages, schema::messages.peer);
  std::map<std::pair<std::string, std::int64_t>, std::int64_t> trace_rank_of;
  for (std::size_t row = 0; row < messages->row_count(); ++row)
    if (own_rank[row] >= 0) trace_rank_of.try_emplace({communicator[row], own_rank[row]}, trace_rank[row]);
  std::map<std::pair<std::int64_t, std::int64_t>, std::pair<Sum, Sum>> pairs;
  for (std::size_t row = 0; row < messages->row_count(); ++row) {
    const auto other = trace_rank_of.find({communicator[row], peer[row]});
    if (other == trace_rank_of.end()) continue;
    const bool sends = direction[row] == "send";
    auto& [sent, received] = sends ? pairs[{trace_rank[row], other->second}] : pairs[{other->second, trace_rank[row]}];
    Sum& sum = sends ? sent : received;
    sum.calls += column(*messages, schema::messages.calls)[row];
    sum.bytes += column(*messages, schema::messages.bytes)[row];
  }
  RowWriter rows(matrix);
  for (const auto& [ranks, sums] : pairs) {
    rows << ranks.first << ranks.second << sums.first.calls << sums.first.bytes << sums.second.calls
         << sums.second.bytes;
  }
  return matrix;
}

std::vector<ExchangeBalance> exchange_balances(const std::vector<Table>& tables) {
  struct Member {
    std::set<std::int64_t> peers;  ///< that it sends to
    std::int64_t sent_bytes = 0, received_bytes = 0;
  };
  std::vector<ExchangeBalance> balances;
  const Table* messages = find_table(tables, schema::messages);
  if (messages == nullptr) return balances;
  std::map<std::string, std::map<std::int64_t, Member>> communicators;
  for (std::size_t row = 0; row < messages->row_count(); ++row) {
    Member& member = communicators[column(*messages, schema::messages.communicator)[row]]
                                  [column(*messages, schema::trace_rank)[row]];
    const std::int64_t bytes = column(*messages, schema::messages.bytes)[row];
    if (column(*messages, schema::messages.direction)[row] == "send") {
      member.peers.insert(column(*messages, schema::messages.peer)[row]);
      member.sent_bytes += bytes;
    } else {
      member.received_bytes += bytes;
    }
  }
  for (const auto& entry : communicators) {
    const std::map<std::int64_t, Member>& members = entry.second;
    // Stages of a pipeline send to one neighbour or two; members of an all-to-all to nearly all others.
    const bool all_to_all = members.size() > 2 && std::all_of(members.begin(), members.end(), [&](const auto& member) {
                              return 2 * member.second.peers.size() > members.size();
                            });
    if (!all_to_all) continue;
    ExchangeBalance balance;
    balance.communicator = entry.first;
    balance.members = static_cast<std::int64_t>(members.size());
    std::int64_t total = 0;
    const auto take_most = [](std::int64_t bytes, std::int64_t rank, std::int64_t& most, std::int32_t& who) {
      if (bytes <= most) return;
      most = bytes;
      who = static_cast<std::int32_t>(rank);
    };
    for (const auto& [rank, member] : members) {
      total += member.sent_bytes;
      take_most(member.sent_bytes, rank, balance.most_bytes, balance.busiest_trace_rank);
      take_most(member.received_bytes, rank, balance.most_received_bytes, balance.busiest_receiver);
    }
    balance.mean_bytes = total / balance.members;
    balances.push_back(std::move(balance));
  }
  return balances;
}

Table exchange_balances_table(std::span<const ExchangeBalance> balances, std::span<const MemberTransfer> transfers,
                              std::span<const std::string> names) {
  struct Times {
    Nanoseconds total_ns = 0, most_ns = 0;
    std::int64_t members = 0;
    std::int32_t slowest = -1;
  };
  std::map<std::string, Times> times;
  for (const MemberTransfer& member : transfers) {
    Times& of = times[names[static_cast<std::size_t>(member.communicator)]];
    ++of.members;
    of.total_ns += member.transfer_ns;
    if (std::pair(member.transfer_ns, -member.trace_rank) > std::pair(of.most_ns, -of.slowest)) {
      of.most_ns = member.transfer_ns;
      of.slowest = member.trace_rank;
    }
  }
  const auto imbalance = [](std::int64_t most, std::int64_t mean) {
    return mean > 0 ? static_cast<double>(most) / static_cast<double>(mean) : std::numeric_limits<double>::quiet_NaN();
  };
  Table table = make_table(schema::exchange_balances);
  RowWriter rows(table);
  for (const ExchangeBalance& balance : balances) {
    const Times& of = times[balance.communicator];
    const std::int64_t mean_ns = of.members > 0 ? of.total_ns / of.members : 0;
    rows << std::string_view(balance.communicator) << balance.members << balance.mean_bytes << balance.most_bytes
         << std::int64_t{balance.busiest_trace_rank} << imbalance(balance.most_bytes, balance.mean_bytes)
         << balance.most_received_bytes << std::int64_t{balance.busiest_receiver}
         << imbalance(balance.most_received_bytes, balance.mean_bytes) << mean_ns << of.most_ns
         << std::int64_t{of.slowest} << imbalance(of.most_ns, mean_ns);
  }
  return table;
}

}  // namespace nsys_explain::analysis
