#pragma once

#include "model/schema/declaration.hpp"

/// Traffic of each trace rank: what links carried, and the messages that were sent.
namespace nsys_explain::schema {

inline constexpr struct Nvlink : Declaration {
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
  Real estimated_during_gbs{*this, "estimated_during_gbs", "GB/s",
                            "mean_during_percent of the peak that the GPU's name tells (--link-peaks); nan: not known"};
} nvlink{{"nvlink",
          "One row per trace rank, direction of its NVLinks and operation: traffic during and outside of collectives"}};

inline constexpr struct NetworkMetrics : Declaration {
  Text source{*this, "source", "", "nic or infiniband_switch"};
  Text metric{*this, "metric", "", "as nsys names it"};
  Text unit{*this, "unit", "", "of the means"};
  Integer ports{*this, "ports", "", "that have it"};
  Real mean_during{*this, "mean_during", "",
                   "mean over ports, each of the trace rank that it follows best; nan: never"};
  Real mean_outside{*this, "mean_outside", "", "likewise"};
  Integer correlated_ports{*this, "correlated_ports", "", "that follow the collectives of some trace rank"};
} network_metrics{
    {"network_metrics", "Metrics of NIC and switch ports during and outside of collectives, over all ports"}};

inline constexpr struct Network : Declaration {
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
} network{{"network",
           "One row per trace rank and metric of a port of its node: traffic during and outside of its collectives"}};

inline constexpr struct Messages : Declaration {
  Text communicator{*this, "communicator", "", "NCCL's communicator hash"};
  Text direction{*this, "direction", "", "send or recv"};
  Integer own_rank{*this, "own_rank", "", "NCCL's number of this trace rank; -1: not recorded"};
  Integer peer{*this, "peer", "", "NCCL's number of the other one"};
  Integer calls{*this, "calls", "", "calls with a recorded size"};
  Integer bytes{*this, "bytes", "bytes", "sum over the calls"};
} messages{{"messages", "One row per trace rank, communicator, direction and peer: sends and receives as called"}};

inline constexpr struct ByteMatrix : Declaration {
  Integer source{*this, "source", "", "trace rank that sends"};
  Integer destination{*this, "destination", "", "trace rank that receives"};
  Integer sent_messages{*this, "sent_messages", "", "as the sender recorded"};
  Integer sent_bytes{*this, "sent_bytes", "bytes", "as the sender recorded"};
  Integer received_messages{*this, "received_messages", "", "as the receiver recorded"};
  Integer received_bytes{*this, "received_bytes", "bytes", "as the receiver recorded"};
} byte_matrix{{"byte_matrix", "One row per pair of trace ranks that exchanged messages by ncclSend and ncclRecv"}};

inline constexpr struct NvlinkOverTime : Declaration {
  Text metric{*this, "metric", "", "direction, and what is counted"};
  Time start_ns{*this, "start_ns", "ns", "job time at which the span starts"};
  Integer span_ns{*this, "span_ns", "ns"};
  Real mean_percent{*this, "mean_percent", "%", "of the peak; nan: no sample"};
  Real collectives_percent{*this, "collectives_percent", "%", "of the span in which the rank was in a collective"};
} nvlink_over_time{
    {"nvlink_over_time", "NVLink traffic over time: means of equal spans of each trace rank's GPU activity"}};

inline constexpr struct Bandwidth : Declaration {
  Text communicator{*this, "communicator", "", "NCCL's communicator hash, or inferred-N"};
  Text operation{*this, "operation", "", "what the members do"};
  Integer from_bytes{*this, "from_bytes", "bytes", "message sizes from this power of two to below the next"};
  Integer members{*this, "members", "", "trace ranks that took part"};
  Integer nodes{*this, "nodes", "", "nodes that they lie on"};
  Integer instances{*this, "instances", "", "collectives that count"};
  Integer bytes{*this, "bytes", "bytes", "sum of message sizes"};
  Integer transfer_ns{*this, "transfer_ns", "ns", "sum of transfer times"};
  Real algorithm_bandwidth_gbs{*this, "algorithm_bandwidth_gbs", "GB/s",
                               "bytes / transfer time; median over instances"};
  Real bus_bandwidth_gbs{*this, "bus_bandwidth_gbs", "GB/s", "by the convention of nccl-tests; median over instances"};
  Real bus_bandwidth_p10_gbs{*this, "bus_bandwidth_p10_gbs", "GB/s", "a tenth of the instances is slower"};
  Real bus_bandwidth_p90_gbs{*this, "bus_bandwidth_p90_gbs", "GB/s", "a tenth of the instances is faster"};
  Real expected_gbs{
      *this, "expected_gbs", "GB/s",
      "median of the communicators with the same operation, size, members and nodes; nan: fewer than three"};
  Integer outlier{*this, "outlier", "", "1: below 0.8 of what is expected"};
} bandwidth{
    {"bandwidth",
     "One row per communicator, operation and power of two of the message size: speed of transfers once every member is there"}};

inline constexpr struct Slack : Declaration {
  Text communicator{*this, "communicator", "", "NCCL's communicator hash, or inferred-N"};
  Text operation{*this, "operation", "", "what the members do"};
  Integer from_bytes{*this, "from_bytes", "bytes",
                     "message sizes from this power of two to below the next; -1: not recorded"};
  Integer members{*this, "members", "", "trace ranks that took part"};
  Integer instances{*this, "instances", "", "complete collectives"};
  Integer without_slack{*this, "without_slack", "", "of these, after which compute began at once on some member"};
  Integer transfer_p50_ns{*this, "transfer_p50_ns", "ns", "from the last enter to the first exit, median"};
  Integer slack_p10_ns{*this, "slack_p10_ns", "ns", "a tenth of the instances has less"};
  Integer slack_p50_ns{*this, "slack_p50_ns", "ns", "median: at most so much longer before compute begins later"};
  Real required_gbs{*this, "required_gbs", "GB/s",
                    "bus bandwidth at which nine of ten delay no compute: bytes / (transfer + slack); nan: no sizes"};
  Real measured_gbs{*this, "measured_gbs", "GB/s", "bus bandwidth, median; nan: no sizes"};
} slack{
    {"slack",
     "How much longer collectives could take, at most, before any compute begins later, and the bandwidth that this asks for; by communicator, operation and power of two of the size"}};

inline constexpr struct ExchangeBalances : Declaration {
  Text communicator{*this, "communicator", "", "NCCL's communicator hash"};
  Integer members{*this, "members", "", "trace ranks that send to most others, as all-to-alls do"};
  Integer mean_bytes{*this, "mean_bytes", "bytes", "sent by a member, on average"};
  Integer most_bytes{*this, "most_bytes", "bytes", "sent by the member that sends most"};
  Integer busiest_sender{*this, "busiest_sender", "", "its trace rank"};
  Real sent_imbalance{*this, "sent_imbalance", "", "most / mean; 1: all alike"};
  Integer most_received_bytes{*this, "most_received_bytes", "bytes", "received by the member that receives most"};
  Integer busiest_receiver{*this, "busiest_receiver", "", "its trace rank"};
  Real received_imbalance{*this, "received_imbalance", "", "most / mean; 1: all alike"};
  Integer mean_transfer_ns{*this, "mean_transfer_ns", "ns",
                           "in its exchanges once the last member had entered, of a member on average"};
  Integer most_transfer_ns{*this, "most_transfer_ns", "ns", "of the member with most"};
  Integer slowest{*this, "slowest", "", "its trace rank"};
  Real time_imbalance{*this, "time_imbalance", "", "most / mean; 1: all alike; nan: none is matched"};
} exchange_balances{
    {"exchange_balances", "One row per communicator with all-to-alls by sends and receives: how even they are"}};

}  // namespace nsys_explain::schema
