#pragma once

#include "model/schema/declaration.hpp"

/// Traffic of each trace rank: what links carried, and the messages that were sent.
namespace nsys_explain::schema {

inline constexpr struct Nvlink : Declaration {
  using Declaration::Declaration;
  Text metric{*this, "metric", "", "direction, and what is counted"};
  Text operation{*this, "operation", "", "collectives that count as during; all: any"};
  Real mean_during_percent{*this, "mean_during_percent", "%",
                           "time-weighted mean while the rank is in such a collective; nan: none"};
  Real mean_outside_percent{*this, "mean_outside_percent", "%",
                            "time-weighted mean while it is in no collective; nan: never"};
  Real correlation{*this, "correlation", "",
                   "Pearson's, of samples and the share of their period in collectives; nan: constant"};
  Integer lag_ns{*this, "lag_ns", "ns", "samples show the traffic this much later"};
  Real p_value{*this, "p_value", "", "of a correlation as high if samples had nothing to do with collectives"};
  Integer during_ns{*this, "during_ns", "ns", "sampled time in such collectives"};
  Integer outside_ns{*this, "outside_ns", "ns", "sampled time outside of all"};
  Integer samples{*this, "samples", "", "samples that count"};
  Integer period_ns{*this, "period_ns", "ns", "median time between samples"};
  Integer artefacts{*this, "artefacts", "", "samples left out: idle links that read as fully utilised"};
} nvlink{"nvlink",
         "One row per trace rank, direction of its NVLinks and operation: traffic during and outside of "
         "collectives"};

inline constexpr struct Network : Declaration {
  using Declaration::Declaration;
  Text source{*this, "source", "", "nic or infiniband_switch"};
  Text device{*this, "device", "", "name of the NIC, else nsys' id"};
  Integer port{*this, "port", "", "port of the device"};
  Text metric{*this, "metric", "", "as nsys names it"};
  Text unit{*this, "unit", "", "of the means"};
  Real mean_during{*this, "mean_during", "", "time-weighted mean while the trace rank is in a collective; nan: never"};
  Real mean_outside{*this, "mean_outside", "", "time-weighted mean while it is in none; nan: never"};
  Real correlation{*this, "correlation", "",
                   "Pearson's, of samples and the share of their period in collectives; nan: constant"};
  Integer lag_ns{*this, "lag_ns", "ns", "samples show the traffic this much later"};
  Real p_value{*this, "p_value", "", "of a correlation as high if samples had nothing to do with collectives"};
  Integer samples{*this, "samples", "", "samples that count"};
  Integer period_ns{*this, "period_ns", "ns", "median length of a sample"};
} network{"network",
          "One row per trace rank and metric of a port of its node: traffic during and outside of its "
          "collectives"};

inline constexpr struct Messages : Declaration {
  using Declaration::Declaration;
  Text communicator{*this, "communicator", "", "NCCL's communicator hash"};
  Text direction{*this, "direction", "", "send or recv"};
  Integer own_rank{*this, "own_rank", "", "NCCL's number of this trace rank; -1: not recorded"};
  Integer peer{*this, "peer", "", "NCCL's number of the other one"};
  Integer calls{*this, "calls", "", "calls with a recorded size"};
  Integer bytes{*this, "bytes", "bytes", "sum over the calls"};
} messages{"messages", "One row per trace rank, communicator, direction and peer: sends and receives as called"};

}  // namespace nsys_explain::schema
