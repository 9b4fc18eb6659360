#pragma once

#include <span>
#include <vector>

#include "analysis/verdict/job_delays.hpp"
#include "analysis/waits/levels.hpp"

/// Which places chance does not explain, and which of them a list of culprits needs.
namespace nsys_explain::analysis {

/// Places that chance would treat alike: of one level, with trace ranks of the same roles. GPUs whose role nobody
/// shares were compared with themselves over time, and that makes them alike.
std::vector<std::vector<std::size_t>> classes_of_likes(std::span<const Place> places, const JobDelays& delays);

/// What chance has to say about each place; by index of the place.
struct Probabilities {
  std::vector<double> proven;  ///< up to the limit of verdicts; 1 above
  std::vector<double> likely;  ///< above that, up to the limit of a mention; 1 elsewhere
  std::vector<double> limit;   ///< of verdicts
  std::vector<double> part;    ///< of what the place takes longer: what this is said of; 1 where kernels say it
};

/// Takes one culprit after the other out of a class, whose work is longer, by sums or by order, down to the first that
/// is not proven.
void test_class(std::vector<std::size_t> members, std::span<const Place> places, const JobDelays& delays, double limit,
                double mention_limit, Probabilities& probabilities);

/// Probability that chance makes all GPUs of a place as slow as their kernels are; 1 where one of them is not slow.
double slow_by_kernels(const Place& place, const JobDelays& delays);

/// Probability that chance gives a pipeline stage so much more than its part of the layers; 1 where it has no more.
double overfull_by_chance(const Place& place, const JobDelays& delays);

/// The places of those with a p-value below 1 that a fit of the ranks' excess work needs. A place two of whose culprits
/// are late at other times than each other is not taken for one, nor one whose others are not late with its culprits.
std::vector<std::size_t> explaining_places(std::span<const Place> places, std::span<const double> p_values,
                                           const JobDelays& delays);

}  // namespace nsys_explain::analysis
