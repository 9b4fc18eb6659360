#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "collectives/alignment.hpp"

/// A small job whose collectives are known: what the members of one communicator record, and which operation each
/// record is.
namespace nsys_explain::collectives::testing {

/// What exits of an operation differ by between members: the scale of an exponential delay, rarely a much longer one.
struct Kind {
  std::uint64_t symbol = 1;
  double exit_jitter_ns = 400;
  double tail_jitter_ns = 400;
  double transfer_ns = 60'000;
};

inline Kind all_reduce(std::uint64_t symbol) {
  return {symbol, 430, 430, 80'000};
}  // median 0.3 us
inline Kind reduce_scatter(std::uint64_t symbol) {
  return {symbol, 1'450, 1'450, 60'000};
}  // median 1 us
inline Kind all_gather(std::uint64_t symbol) {
  return {symbol, 3'500, 40'000, 60'000};
}  // median 2.7 us, p90 25 us
inline Kind send_recv(std::uint64_t symbol) {
  return {symbol, 20'000, 20'000, 150'000};
}  // median 14 us

struct JobShape {
  std::vector<Kind> step;  ///< operations of one step, in order
  double step_ns = 30e6;
  double step_noise = 0.005;  ///< standard deviation of a step's computation, relative
  double noise_ns = 3'000;    ///< of each piece of computation between operations
  bool even_spacing = false;  ///< else the pieces of a step have different lengths
  std::size_t members = 8;
  std::size_t operations = 2'000;
  double dropped = 0.01;
  double ragged = 0.2;          ///< up to this share missing at either end
  std::size_t pause_every = 0;  ///< operations between pauses (checkpoints); 0: none
  double pause_ns = 30e9;
  double largest_offset_ns = 20e6;
  double largest_drift = 50e-6;
};

struct RecordedJob {
  std::vector<MemberSequence> members;
  std::vector<std::vector<std::int64_t>> truth;  ///< operation of each record
};

/// What each member truly does, on one clock: computes, enters, and leaves together with the last one.
inline RecordedJob run_job(const JobShape& shape, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  std::exponential_distribution<double> exponential;
  std::uniform_real_distribution<double> uniform;
  const std::size_t length = shape.step.size();
  std::vector<double> piece(length);
  double total = 0;
  for (double& p : piece) total += p = shape.even_spacing ? 1.0 : 0.1 + exponential(random);
  for (double& p : piece) p *= shape.step_ns / total;

  RecordedJob job;
  job.members.resize(shape.members);
  job.truth.resize(shape.members);
  std::vector<double> now(shape.members, 1e9), pace(shape.members, 1.0);
  for (std::size_t k = 0; k < shape.operations; ++k) {
    const Kind& kind = shape.step[k % length];
    double last_enter = 0;
    const double pause = shape.pause_every != 0 && k % shape.pause_every == shape.pause_every - 1 ? shape.pause_ns : 0;
    for (std::size_t m = 0; m < shape.members; ++m) {
      if (k % length == 0) pace[m] = 1 + shape.step_noise * normal(random);
      now[m] += pause + std::max(2'000.0, piece[k % length] * pace[m] + shape.noise_ns * normal(random));
      last_enter = std::max(last_enter, now[m]);
    }
    for (std::size_t m = 0; m < shape.members; ++m) {
      const double jitter = uniform(random) < 0.85 ? kind.exit_jitter_ns : kind.tail_jitter_ns;
      const double exit = last_enter + kind.transfer_ns + jitter * exponential(random);
      job.members[m].symbols.push_back(kind.symbol);
      job.members[m].enter_ns.push_back(std::llround(now[m]));
      job.members[m].exit_ns.push_back(std::llround(exit));
      job.truth[m].push_back(static_cast<std::int64_t>(k));
      now[m] = exit;
    }
  }
  return job;
}

/// Keeps the records of a member for which keep(operation) holds.
template <typename Keep>
void keep_only(RecordedJob& job, std::size_t m, Keep keep) {
  const MemberSequence all = std::move(job.members[m]);
  const std::vector<std::int64_t> truth = std::move(job.truth[m]);
  job.members[m] = {};
  job.truth[m] = {};
  for (std::size_t i = 0; i < truth.size(); ++i) {
    if (!keep(truth[i])) continue;
    job.members[m].symbols.push_back(all.symbols[i]);
    job.members[m].enter_ns.push_back(all.enter_ns[i]);
    job.members[m].exit_ns.push_back(all.exit_ns[i]);
    job.truth[m].push_back(truth[i]);
  }
}

/// Puts a member on a clock that is wrong by an offset and a drift.
inline void set_clock(MemberSequence& member, double offset_ns, double drift) {
  for (auto* times : {&member.enter_ns, &member.exit_ns}) {
    for (Nanoseconds& t : *times) t += std::llround(offset_ns + drift * static_cast<double>(t));
  }
}

/// The job as recorded: windows ragged, records dropped, clocks wrong.
inline RecordedJob record_job(const JobShape& shape, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  RecordedJob job = run_job(shape, random);
  std::uniform_real_distribution<double> uniform, either(-1, 1);
  const auto operations = static_cast<double>(shape.operations);
  for (std::size_t m = 0; m < shape.members; ++m) {
    const double first = operations * shape.ragged * uniform(random);
    const double end = operations * (1 - shape.ragged * uniform(random));
    keep_only(job, m, [&](std::int64_t k) {
      const bool inside = static_cast<double>(k) >= first && static_cast<double>(k) < end;
      return inside && uniform(random) >= shape.dropped;
    });
    set_clock(job.members[m], shape.largest_offset_ns * either(random), shape.largest_drift * either(random));
  }
  return job;
}

struct Score {
  std::int64_t present = 0;      ///< records with a counterpart on another member
  std::int64_t matched = 0;      ///< of these, those brought together with the largest part of their operation
  std::int64_t wrong_pairs = 0;  ///< pairs of records under one number that are different operations
  bool well_formed = true;       ///< ascending on each member, no holes
  double matched_share() const {
    return present == 0 ? 1.0 : static_cast<double>(matched) / static_cast<double>(present);
  }
};

inline Score score(const RecordedJob& job, const std::vector<std::vector<std::int64_t>>& numbers) {
  Score result;
  std::map<std::int64_t, std::map<std::int64_t, std::int64_t>> numbers_of,
      operations_of;  // operation <-> number: records
  std::int64_t highest = -1;
  result.well_formed = numbers.size() == job.truth.size();
  for (std::size_t m = 0; result.well_formed && m < numbers.size(); ++m) {
    result.well_formed = numbers[m].size() == job.truth[m].size();
    for (std::size_t i = 0; result.well_formed && i < numbers[m].size(); ++i) {
      result.well_formed = numbers[m][i] >= 0 && (i == 0 || numbers[m][i] > numbers[m][i - 1]);
      ++numbers_of[job.truth[m][i]][numbers[m][i]];
      ++operations_of[numbers[m][i]][job.truth[m][i]];
      highest = std::max(highest, numbers[m][i]);
    }
  }
  result.well_formed = result.well_formed && highest + 1 == static_cast<std::int64_t>(operations_of.size());
  for (const auto& [operation, parts] : numbers_of) {
    std::int64_t records = 0, largest = 0;
    for (const auto& [number, count] : parts) {
      records += count;
      largest = std::max(largest, count);
    }
    if (records < 2) continue;
    result.present += records;
    if (largest > 1) result.matched += largest;
  }
  for (const auto& [number, parts] : operations_of) {
    std::int64_t records = 0, right = 0;
    for (const auto& [operation, count] : parts) {
      records += count;
      right += count * (count - 1) / 2;
    }
    result.wrong_pairs += records * (records - 1) / 2 - right;
  }
  return result;
}

}  // namespace nsys_explain::collectives::testing
