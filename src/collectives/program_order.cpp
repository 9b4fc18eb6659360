#include "collectives/program_order.hpp"

#include <algorithm>
#include <array>

#include "collectives/hash_mix.hpp"

namespace nsys_explain::collectives {
namespace {

/// How many operations that follow are looked at: as many of these as are known. Short contexts look alike at different
/// places of a step, above all where a record is lost: they tell nothing where a longer one was never seen.
constexpr std::array<std::size_t, 3> context_lengths = {12, 8, 5};

/// Of the first so many deeds.
std::uint64_t context(const std::vector<std::uint64_t>& following, std::size_t length) {
  std::uint64_t hash = length;
  for (std::size_t i = 0; i < length; ++i) hash = mix(hash, following[i]);
  return hash;
}

/// An operation of this kind in a communicator.
std::uint64_t deed(const JobRecords& job, std::uint64_t communicator, std::uint64_t kind) {
  const std::vector<std::size_t>& members = job.communicators.at(communicator).members;
  const std::size_t distance = members.size() > 1 ? members[1] - members[0] : 0;
  return mix(mix(mix(1, members.size()), distance), kind) | 1U;
}

}  // namespace

std::vector<std::uint64_t> ProgramOrder::following(const JobRecords& job, const std::vector<StreamRecord>& records,
                                                   std::size_t position) {
  std::vector<std::uint64_t> deeds;
  for (std::size_t next = position + 1; next < records.size() && deeds.size() < context_lengths.front(); ++next) {
    const std::uint64_t communicator = records[next].is_named() ? records[next].communicator : records[next].expected;
    if (communicator == 0) break;
    deeds.push_back(deed(job, communicator, kind_of(*records[next].operation)));
  }
  return deeds;
}

ProgramOrder::ProgramOrder(const JobRecords& job) {
  constexpr std::size_t enough = 100'000;  // operations of a few trace ranks are the program
  std::size_t learned = 0;
  for (const RankRecords& rank : job.ranks) {
    for (const auto& [stream, records] : rank.streams) {
      for (std::size_t position = 0; position < records.size() && learned < enough; ++position) {
        if (!records[position].is_named()) continue;
        const std::vector<std::uint64_t> deeds = following(job, records, position);
        const std::uint64_t own = deed(job, records[position].communicator, kind_of(*records[position].operation));
        for (const std::size_t length : context_lengths) {
          if (length <= deeds.size()) ++seen_[{length, context(deeds, length)}][own];
        }
        ++learned;
      }
    }
  }
}

std::uint64_t ProgramOrder::expected(const JobRecords& job, std::size_t rank, std::uint8_t stream,
                                     std::size_t position) const {
  const std::vector<StreamRecord>& records = job.ranks[rank].streams.at(stream);
  const std::uint64_t deed_before = before(following(job, records, position));
  if (deed_before == 0) return 0;
  for (const std::uint64_t communicator : records[position].possible) {
    if (deed(job, communicator, kind_of(*records[position].operation)) == deed_before) return communicator;
  }
  return 0;
}

std::uint64_t ProgramOrder::before(const std::vector<std::uint64_t>& deeds) const {
  constexpr std::size_t fewest = 4;
  constexpr double least_share = 0.9;
  for (const std::size_t length : context_lengths) {
    if (length > deeds.size()) continue;
    const auto found = seen_.find({length, context(deeds, length)});
    if (found == seen_.end()) return 0;
    std::size_t total = 0;
    std::pair<std::size_t, std::uint64_t> most{0, 0};
    for (const auto& [own, count] : found->second) {
      total += count;
      most = std::max(most, {count, own});
    }
    const bool is_known =
        total >= fewest && static_cast<double>(most.first) >= least_share * static_cast<double>(total);
    return is_known ? most.second : 0;
  }
  return 0;
}

}  // namespace nsys_explain::collectives
