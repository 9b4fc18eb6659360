#include "ingest/rank_claims.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "ingest/table_scan.hpp"

namespace nsys_explain::ingest {
namespace {

ThreadNameRanks read_mpi_ranks(const Database& database) {
  ThreadNameRanks ranks;
  TableScan scan(database, "MPI_RANKS");
  const auto global_tid = scan.integer("globalTid", Presence::required);
  const auto rank = scan.integer("rank", Presence::required);
  scan.for_each_batch([&](std::size_t rows) {
    for (std::size_t row = 0; row < rows; ++row) {
      if (global_tid[row] == no_time || rank[row] < 0 || rank[row] > std::numeric_limits<std::int32_t>::max()) continue;
      ranks[process_of(global_tid[row])].insert(static_cast<std::int32_t>(rank[row]));
    }
  });
  return ranks;
}

/// Rank in the largest communicator with a known member count. A process that drives several GPUs holds several ranks
/// of it: then NCCL says nothing about the process as a whole. Empty then, and where NCCL told nothing.
struct NcclClaim {
  std::set<std::int32_t> ranks;
  std::int32_t rank_count = 0;
};

NcclClaim largest_communicator(const ProcessTrace& process) {
  NcclClaim claim;
  std::uint64_t communicator = 0;
  for (const NcclCall& call : process.nccl_calls) {  // sorted by start: of equally large ones the first is the world
    if (call.rank < 0 || call.rank_count <= 0 || call.rank_count < claim.rank_count) continue;
    if (call.rank_count > claim.rank_count) {
      claim = {{}, call.rank_count};
      communicator = call.communicator;
    }
    // Before NCCL 2.25 all communicators look alike (0): then those of one size must agree.
    if (call.communicator == communicator) claim.ranks.insert(call.rank);
  }
  return claim;
}

std::optional<std::int32_t> parse_rank(std::string_view text) {
  std::int32_t rank = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), rank);
  if (problem != std::errc() || end != text.data() + text.size() || rank < 0) return std::nullopt;
  return rank;
}

/// Processes that used CUDA, or all where none did. The environment belongs to what nsys launched, so it says something
/// about a process only if there is one: under torchrun one file holds several and the variables are the launcher's.
std::vector<ProcessTrace*> profiled_processes(std::vector<ProcessTrace>& processes) {
  std::vector<ProcessTrace*> with_cuda, all;
  for (ProcessTrace& process : processes) {
    all.push_back(&process);
    if (!process.devices.empty() || !process.api_calls.empty()) with_cuda.push_back(&process);
  }
  return with_cuda.empty() ? all : with_cuda;
}

void claim_from_environment(const Metadata& metadata, ProcessTrace& process) {
  for (const std::string& name : environment_variables()) {
    const auto found = metadata.environment.find(name);
    if (found == metadata.environment.end() || name.starts_with("CUDA_") || name == "WORLD_SIZE") continue;
    if (const auto rank = parse_rank(found->second)) {
      process.claims.push_back({RankSource::environment, *rank, name});
    }
  }
}

}  // namespace

void claim_ranks(const Database& database, const Metadata& metadata, const ThreadNameRanks& thread_name_ranks,
                 std::vector<ProcessTrace>& processes, std::vector<Warning>& warnings) {
  const ThreadNameRanks mpi_ranks = read_mpi_ranks(database);
  std::int64_t contradictions = 0;
  for (ProcessTrace& process : processes) {
    const auto claim_from = [&](const ThreadNameRanks& ranks, const char* detail) {
      const auto found = ranks.find(process.global_pid);
      if (found == ranks.end()) return false;
      if (found->second.size() > 1) {
        ++contradictions;
        return false;
      }
      process.claims.push_back({RankSource::mpi_ranks, *found->second.begin(), detail});
      return true;
    };
    if (!claim_from(mpi_ranks, "MPI_RANKS")) claim_from(thread_name_ranks, "name of the MPI thread");
    const NcclClaim nccl = largest_communicator(process);
    if (nccl.ranks.size() == 1) {
      process.claims.push_back({RankSource::nccl_payload, *nccl.ranks.begin(),
                                fmt::format("rank in the largest communicator, of {} ranks", nccl.rank_count)});
    }
  }
  const auto profiled = profiled_processes(processes);
  if (profiled.size() == 1) claim_from_environment(metadata, *profiled.front());
  if (contradictions > 0) {
    warnings.push_back(
        {Severity::info, WarningSource::trace, contradictions,
         "processes have several MPI ranks by this export: MPI's ranks are not used for them; name the ranks with a rank map if the numbers come out wrong"});
  }
}

}  // namespace nsys_explain::ingest
