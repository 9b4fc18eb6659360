#include "collectives/stream_records.hpp"

#include <algorithm>
#include <tuple>

#include "collectives/turn_sets.hpp"

namespace nsys_explain::collectives {
namespace {

bool is_told(const SampledOperation& operation) {
  return names_communicator(operation.lane);
}

RankRecords records_of(std::span<const SampledOperation* const> operations, const RoughClocks& clocks) {
  RankRecords rank;
  rank.component = clocks.component_of(operations.front()->session);
  for (const SampledOperation* operation : operations) {
    StreamRecord record;
    record.enter_ns = clocks.to_common(operation->session, operation->enter_ns);
    record.exit_ns = clocks.to_common(operation->session, operation->exit_ns);
    record.operation = operation;
    if (is_told(*operation)) {
      record.communicator = operation->lane;
      const auto [stream, is_first] = rank.stream_of.try_emplace(operation->lane, operation->stream);
      if (!is_first && stream->second != operation->stream) stream->second = any_stream;
    }
    rank.streams[operation->stream].push_back(std::move(record));
  }
  return rank;
}

/// Puts all trace ranks on one clock by what they did in communicators that calls name.
void refine(JobRecords& job, Nanoseconds centre_ns) {
  std::vector<TurnLane> lanes(job.ranks.size());
  for (std::size_t r = 0; r < job.ranks.size(); ++r) {
    lanes[r].component = job.ranks[r].component;
    for (const auto& [stream, records] : job.ranks[r].streams) {
      for (const StreamRecord& record : records) {
        if (!record.is_named()) continue;
        const std::uint64_t symbol = kind_of(*record.operation) ^ (record.operation->lane * 0x9e3779b97f4a7c15ULL);
        TurnOperation& added = lanes[r].operations[symbol].emplace_back();
        added.enter_ns = record.enter_ns;
        added.exit_ns = record.exit_ns;
        added.operation = record.operation->operation;
      }
    }
    for (auto& [symbol, operations] : lanes[r].operations) {
      std::sort(operations.begin(), operations.end(), [](const TurnOperation& a, const TurnOperation& b) {
        return std::tie(a.exit_ns, a.enter_ns) < std::tie(b.exit_ns, b.enter_ns);
      });
    }
  }
  for (const auto& [key, communicator] : job.communicators) {
    for (std::size_t m = 1; m < communicator.members.size(); ++m) {
      const std::size_t a = communicator.members[m - 1], b = communicator.members[m];
      if (lanes[a].component == lanes[b].component) lanes[a].neighbours.push_back(b);
    }
  }
  for (TurnLane& lane : lanes) {
    std::sort(lane.neighbours.begin(), lane.neighbours.end());
    lane.neighbours.erase(std::unique(lane.neighbours.begin(), lane.neighbours.end()), lane.neighbours.end());
  }
  const std::vector<FineClock> fine = fine_clocks(lanes, centre_ns);
  for (std::size_t r = 0; r < job.ranks.size(); ++r) {
    for (auto& [stream, records] : job.ranks[r].streams) {
      for (StreamRecord& record : records) {
        record.enter_ns = fine[r].corrected(record.enter_ns);
        record.exit_ns = fine[r].corrected(record.exit_ns);
      }
    }
  }
}

/// The extent of what a trace rank recorded, and what its operations may be.
void complete(RankRecords& rank, const JobRecords& job) {
  std::vector<std::uint64_t> own;
  for (const auto& [communicator, stream] : rank.stream_of) own.push_back(communicator);
  bool is_first = true;
  for (auto& [stream, records] : rank.streams) {
    std::sort(records.begin(), records.end(), [](const StreamRecord& a, const StreamRecord& b) {
      return std::tie(a.enter_ns, a.operation->index) < std::tie(b.enter_ns, b.operation->index);
    });
    for (StreamRecord& record : records) {
      rank.first_enter_ns = is_first ? record.enter_ns : std::min(rank.first_enter_ns, record.enter_ns);
      rank.last_exit_ns = is_first ? record.exit_ns : std::max(rank.last_exit_ns, record.exit_ns);
      is_first = false;
      if (record.is_named()) continue;
      for (const std::uint64_t communicator : own) {
        const std::uint8_t its_stream = rank.stream_of.at(communicator);
        const bool shares_stream = its_stream == stream || its_stream == any_stream || stream == any_stream;
        if (shares_stream && job.communicators.at(communicator).kinds.contains(kind_of(*record.operation)))
          record.possible.push_back(communicator);
      }
    }
  }
}

}  // namespace

std::uint64_t kind_of(const SampledOperation& operation) {
  return operation.symbol >> 32U;
}

StreamRecord* JobRecords::running(std::size_t rank, std::uint64_t communicator, Nanoseconds t_ns) {
  const std::uint8_t stream = ranks[rank].stream_of.at(communicator);
  if (stream == any_stream) return nullptr;
  std::vector<StreamRecord>& records = ranks[rank].streams.at(stream);
  const auto later = std::upper_bound(records.begin(), records.end(), t_ns,
                                      [](Nanoseconds t, const StreamRecord& record) { return t < record.enter_ns; });
  if (later == records.begin() || std::prev(later)->exit_ns < t_ns) return nullptr;
  return &*std::prev(later);
}

JobRecords make_records(std::span<const SampledOperation> samples, const RoughClocks& clocks) {
  std::map<std::int32_t, std::vector<const SampledOperation*>> by_rank;
  for (const SampledOperation& operation : samples) by_rank[operation.trace_rank].push_back(&operation);
  JobRecords job;
  for (const auto& [trace_rank, operations] : by_rank) {
    for (const SampledOperation* operation : operations) {
      if (!is_told(*operation)) continue;
      NamedCommunicator& communicator = job.communicators[operation->lane];
      communicator.kinds.insert(kind_of(*operation));
      if (operation->operation == Operation::send_recv && !operation->meets_several)
        communicator.exchanges_in_pairs = true;
      if (communicator.members.empty() || communicator.members.back() != job.ranks.size())
        communicator.members.push_back(job.ranks.size());
    }
    job.ranks.push_back(records_of(operations, clocks));
  }
  refine(job, clocks.centre_ns());
  for (RankRecords& rank : job.ranks) complete(rank, job);
  return job;
}

}  // namespace nsys_explain::collectives
