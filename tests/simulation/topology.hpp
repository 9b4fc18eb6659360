#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "simulation/job_plan.hpp"
#include "simulation/simulated_job.hpp"

namespace nsys_explain::synth {

/// The groups a rank belongs to.
enum class Role : std::uint8_t { world, tensor, data, pipeline };
inline constexpr std::size_t role_count = 4;

/// A rank's place in the parallel layout.
struct Coordinates {
  std::int32_t tensor = 0, data = 0, pipeline = 0;
};

/// Where ranks meet: a whole communicator, or two neighbours of a pipeline communicator.
struct Channel {
  std::uint32_t communicator = 0;
  std::vector<std::int32_t> ranks;  ///< ascending
  bool pair = false;
  bool crosses_nodes = false;
};

Coordinates coordinates_of(const Layout& layout, std::int32_t rank);

/// Communicators and channels of the whole job. With a restart every communicator exists in two generations.
struct Topology {
  std::vector<TrueCommunicator> communicators;
  std::vector<Channel> channels;  ///< channel i < communicators.size() is communicator i as a whole

  Coordinates coordinates(std::int32_t rank) const { return coordinates_of(layout, rank); }

  /// Index of the rank's communicator; -1 where the group has one member only.
  std::int32_t communicator(Role role, std::int32_t rank, std::int32_t generation) const {
    return member_of[static_cast<std::size_t>(generation)][static_cast<std::size_t>(rank)]
                    [static_cast<std::size_t>(role)];
  }

  /// Channel between a rank and the next pipeline stage.
  std::int32_t next_stage_channel(std::int32_t rank, std::int32_t generation) const {
    return next_stage[static_cast<std::size_t>(generation)][static_cast<std::size_t>(rank)];
  }

  Layout layout;
  std::vector<std::vector<std::array<std::int32_t, role_count>>> member_of;  ///< [generation][rank][role]
  std::vector<std::vector<std::int32_t>> next_stage;                         ///< [generation][rank]
};

/// Rank of given coordinates: tensor varies fastest, then data, then pipeline.
std::int32_t rank_at(const Layout& layout, const Coordinates& coordinates);

Topology make_topology(const JobPlan& plan);

}  // namespace nsys_explain::synth
