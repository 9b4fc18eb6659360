#pragma once

#include <string_view>
#include <vector>

#include "analysis/statistics/lag_correlation.hpp"
#include "analysis/trace/rank_events.hpp"
#include "nsys_explain/model/table.hpp"

/// What NVLinks and network ports carried while one trace rank was in collectives, and while it was not. The time a
/// member waits inside a collective counts as during it.
namespace nsys_explain::analysis {

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

}  // namespace nsys_explain::analysis
