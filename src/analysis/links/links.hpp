#pragma once

#include "analysis/trace/rank_events.hpp"
#include "analysis/waits/bandwidth.hpp"
#include "nsys_explain/model/job_report.hpp"
#include "nsys_explain/model/report_parts.hpp"

/// What went over links between GPUs and nodes, and which of them are slow.
namespace nsys_explain::analysis {

// What NVLinks and network ports carried while one trace rank was in collectives, and while it was not. The time a
// member waits inside a collective counts as during it.

/// Table `nvlink`: a row per direction and operation ("all" first). Percent of the peak of all links of the GPU in that
/// direction, as sampled; requests and responses are summed. Only samples between the first start and the last end of
/// the rank's GPU activity count. Empty where the counters were not captured.
Table nvlink_table(const RankEvents& events);

/// Samples of one direction of a GPU's NVLinks that count: percent of the peak of all its links.
struct LinkSeries {
  std::string_view metric;
  SampledSeries series;
};

/// The directions that were captured, within the rank's GPU activity and without what idle links read wrongly.
std::vector<LinkSeries> nvlink_series(const RankEvents& events);

/// Table `nvlink_over_time`: the mean of every direction in 240 equal spans from the first start to the last end of the
/// rank's GPU activity, and which part of each the rank was in collectives. Empty where nothing was captured.
Table nvlink_over_time_table(const RankEvents& events);

/// Table `network`: a row per metric of each NIC or switch port of the node, in the metric's own unit, against all
/// collectives of this trace rank.
Table network_table(const RankEvents& events);

/// Peak of all NVLinks of a GPU together in one direction. Exports do not hold it, so what is derived from it is an
/// estimate.
struct LinkPeak {
  std::string gpu_name_part;  ///< found anywhere in the GPU's name, case matters
  double nvlink_gbs = 0;      ///< GB/s, GB = 1e9 bytes
};

/// By NVIDIA's data sheets (half of the bidirectional figures that they state), most specific name first.
const std::vector<LinkPeak>& known_link_peaks();

/// Lines "GBS NAME PART", e.g. "450 NVIDIA H100 80GB HBM3"; '#' starts a comment. Throws std::runtime_error for what is
/// neither.
std::vector<LinkPeak> parse_link_peaks(std::string_view text);

/// The first of `own`, then of the known ones, whose name part the GPU's name contains.
std::optional<double> nvlink_peak_gbs(const std::vector<LinkPeak>& own, std::string_view gpu_name);

/// Of the joined table `nvlink`: whether it has rows, and what they show, or how to get them.
NvlinkReport describe_nvlink(const std::vector<Table>& tables);

/// Fills estimated_during_gbs of the joined table `nvlink`, if it is there; `trace_ranks`, sorted, tell the GPUs'
/// names.
void estimate_nvlink_gbs(const std::vector<TraceRankIdentity>& trace_ranks, const std::vector<LinkPeak>& own_peaks,
                         std::vector<Table>& tables);

/// From the joined table `network`. A port is told by host, source, device and number.
Table network_metrics_table(const std::vector<Table>& tables, const std::vector<TraceRankIdentity>& trace_ranks);

// Who sends how much to whom: from the sends and receives that NCCL's payloads record.

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

// Where in the network transfers are slow, by comparing groups that should be equally fast.
//
// Groups of one operation, size and shape (members, nodes) form a class. A group is slow in its class if its median
// bandwidth is below 1 / 1.25 of what a quarter of the class reaches, its fastest tenth included, and the difference
// exceeds what clocks and ends of kernels leave open. What is then named is what all slow groups contain and no fast
// one does: a greedy hitting set over ranks, pairs of them, nodes and pairs of nodes (docs/method.md, Slow links).
//
// Example. Pipeline stages on four nodes, eight lanes each: eight groups of two ranks between nodes 0 and 1, eight
// between 1 and 2, eight between 2 and 3. Those between 1 and 2 are slow. Rank 9 is only in one of them; node 1 is in
// all, but also in those between 0 and 1, which are fast; the pair (1, 2) is in all slow ones and in no fast one.

/// `names` of the communicators for the evidence; `hosts` by node. Most lost time first. Where every group of a class
/// is equally slow, or a class has one group only, nothing can be told.
std::vector<SlowLink> find_slow_links(std::span<const TransferGroup> groups, std::span<const std::string> names,
                                      const NodeOfRank& node_of, std::span<const std::string> hosts);

/// Trace ranks (ascending) of each group that is slow for most of the time that can be judged.
std::vector<std::vector<std::int32_t>> slow_groups(std::span<const TransferGroup> groups,
                                                   std::span<const std::string> names, const NodeOfRank& node_of);

/// Table `slow_links`: a row per place.
Table slow_links_table(std::span<const SlowLink> links);

/// The link of the report with most lost time that one of the straggler's trace ranks lies on; null where there is
/// none.
const SlowLink* link_of(const JobReport& report, const Straggler& straggler);

/// Likewise, where the straggler is late by its transfers: then finding `slow-link` tells of both.
const SlowLink* link_behind(const JobReport& report, const Straggler& straggler);

/// "the link between trace ranks 3 and 7 (hosts n0, n1)".
std::string describe(const SlowLink& link);

}  // namespace nsys_explain::analysis
