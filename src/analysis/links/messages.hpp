#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analysis/trace/rank_events.hpp"
#include "nsys_explain/model/job_report.hpp"
#include "nsys_explain/model/table.hpp"

/// Who sends how much to whom: from the sends and receives that NCCL's payloads record.
namespace nsys_explain::analysis {

/// Table `messages`: a row per communicator, direction and peer of one trace rank. Empty where the process drives
/// several GPUs, because payloads do not say which of them a call was for.
Table messages_table(const RankEvents& events);

/// Table `byte_matrix` from the joined table `messages`: a row per pair of trace ranks that exchanged messages. Sender
/// and receiver each recorded their part; where only one was captured, or knows the communicator's numbering, only its
/// figure is there.
Table byte_matrix_table(const std::vector<Table>& tables);

/// Sends and receives of one communicator whose members all send to most others, as all-to-alls do.
struct ExchangeBalance {
  std::string communicator;
  std::int64_t members = 0;
  std::int64_t mean_bytes = 0;  ///< sent per member
  std::int64_t most_bytes = 0;
  std::int32_t busiest_trace_rank = -1;
  std::int64_t most_received_bytes = 0;
  std::int32_t busiest_receiver = -1;
};
std::vector<ExchangeBalance> exchange_balances(const std::vector<Table>& tables);

/// Of the exchanges of one member in one communicator. Trivially copyable.
struct MemberTransfer {
  Nanoseconds transfer_ns = 0;  ///< once the last member had entered, summed
  std::int32_t communicator = -1;
  std::int32_t trace_rank = -1;
};

/// Table `exchange_balances`; `transfers` in any order, `names` by their communicator.
Table exchange_balances_table(std::span<const ExchangeBalance> balances, std::span<const MemberTransfer> transfers,
                              std::span<const std::string> names);

}  // namespace nsys_explain::analysis
