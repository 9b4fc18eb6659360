#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "nsys_explain/model/time.hpp"

/// Sampled hardware counters: of GPUs (nsys' GPU metrics) and of the network (NICs, InfiniBand switches). Times are
/// trace time.
namespace nsys_explain {

/// The sampled counters that analyses use. All but the clock are percent of the hardware's peak, whole numbers from 0
/// to 100. Hopper and later count requests and responses apart (remote stores travel as requests, remote loads return
/// as responses: what a collective moves is their sum); GA100 counts all bytes, protocol included.
enum class GpuCounter : std::uint8_t {
  nvlink_receive_bytes,
  nvlink_receive_requests,
  nvlink_receive_responses,
  nvlink_transmit_bytes,
  nvlink_transmit_requests,
  nvlink_transmit_responses,
  gpc_clock_hz,
  sms_active,
  sm_issue,
  tensor_active,
  dram_read,
  dram_write,
  pcie_receive,
  pcie_transmit,
};
inline constexpr std::size_t gpu_counter_count = 14;

/// Counter values of one GPU. Compact: at nsys' default of 10 kHz an hour of four counters takes 0.9 GB.
struct GpuSamples {
  static constexpr std::uint32_t missing = std::numeric_limits<std::uint32_t>::max();

  std::vector<Nanoseconds> time_ns;  ///< ascending, distinct; a sample covers the time since the one before it
  std::array<std::vector<std::uint32_t>, gpu_counter_count> values;  ///< by GpuCounter; empty, or parallel to time_ns

  const std::vector<std::uint32_t>& of(GpuCounter counter) const { return values[static_cast<std::size_t>(counter)]; }
};

enum class NetworkSource : std::uint8_t { nic, infiniband_switch };

/// One metric of one port of a NIC or switch. It belongs to the node, not to a process.
struct NetworkSeries {
  NetworkSource source = NetworkSource::nic;
  std::string device;  ///< the NIC's name ("mlx5_0"); else nsys' id of the device
  std::int64_t port = 0;
  std::string metric;               ///< "IB: Bytes sent"
  std::string unit;                 ///< as the export names it: "bytes/ms"
  std::vector<Interval> intervals;  ///< sorted; what each value covers
  std::vector<std::int64_t> values;
};

}  // namespace nsys_explain
