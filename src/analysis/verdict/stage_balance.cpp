#include "analysis/verdict/job_delays.hpp"

#include <numeric>

#include "analysis/statistics/significance.hpp"
#include "model/schema/gpu.hpp"
#include "nsys_explain/model/algorithms.hpp"

namespace nsys_explain::analysis {
namespace {

using Times = std::vector<std::int64_t>;

std::map<std::string, std::vector<std::size_t>> members_by_stage(const Grouping& stages) {
  std::map<std::string, std::vector<std::size_t>> members;
  for (std::size_t r = 0; r < stages.place_of_rank.size(); ++r)
    if (!stages.place_of_rank[r].empty()) members[stages.place_of_rank[r]].push_back(r);
  return members;
}

constexpr const auto& stage_kernel_shape = schema::kernels_by_launch.shape.sizes;
using StageKernelKey = std::pair<std::string_view, std::array<std::int64_t, stage_kernel_shape.size()>>;

/// The compute kernels of one trace rank, each with its sum of durations.
using KernelTotals = std::map<StageKernelKey, std::int64_t>;

std::vector<KernelTotals> totals_by_rank(const Table& table, std::span<const std::int32_t> trace_ranks) {
  const auto& ranks = column(table, schema::trace_rank);
  const auto& names = column(table, schema::kernels_by_launch.name);
  const auto& communication = column(table, schema::kernels_by_launch.communication);
  const auto& totals = column(table, schema::kernels_by_launch.durations.total);
  const auto shape = columns(table, stage_kernel_shape);
  std::vector<KernelTotals> by_rank(trace_ranks.size());
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const auto found = std::lower_bound(trace_ranks.begin(), trace_ranks.end(), ranks[i]);
    if (communication[i] != 0 || found == trace_ranks.end() || *found != ranks[i]) continue;
    StageKernelKey key{names[i], {}};
    for (std::size_t s = 0; s < shape.size(); ++s) key.second[s] = (*shape[s])[i];
    by_rank[static_cast<std::size_t>(found - trace_ranks.begin())][key] += totals[i];
  }
  return by_rank;
}

/// Of two members of a stage, or two other stages, either may be the odd one: a stage itself is taken for the shorter,
/// what is usual for others for the longer, so that nobody looks overfull for what is odd elsewhere.
enum class Taken : std::uint8_t { itself, usual };

/// Of all stages, one row of bins each: the median member's time, on a GPU of usual speed.
Times stage_rows(const KernelTime& time, std::span<const GpuSpeed> speeds,
                 const std::map<std::string, std::vector<std::size_t>>& members, bool shared_only, Taken taken) {
  Times rows;
  for (const auto& [stage, ranks] : members) {
    for (std::size_t b = 0; b < time.bins; ++b) {
      Times known;
      for (const std::size_t r : ranks) {
        const std::int64_t kernel_ns = time.kernel_ns[r * time.bins + b];
        if (kernel_ns <= 0) continue;
        const double usual_speed = speeds[r].slow ? 1 / speeds[r].ratio : 1;
        const double part = shared_only ? time.shared[r] : 1;
        known.push_back(static_cast<std::int64_t>(static_cast<double>(kernel_ns) * part * usual_speed));
      }
      rows.push_back(known.empty()            ? 0
                     : taken == Taken::itself ? lower_median(std::move(known))
                                              : upper_median(std::move(known)));
    }
  }
  return rows;
}

/// Keeps the bins that are known of every row.
std::size_t keep_known_bins(std::vector<Times*> rows_of_each, std::size_t rows, std::size_t bins) {
  std::vector<std::size_t> known;
  for (std::size_t b = 0; b < bins; ++b) {
    bool everywhere = true;
    for (std::size_t r = 0; r < rows; ++r) everywhere = everywhere && rows_of_each.front()->at(r * bins + b) > 0;
    if (everywhere) known.push_back(b);
  }
  for (Times* times : rows_of_each) {
    Times kept;
    for (std::size_t r = 0; r < rows; ++r)
      for (const std::size_t b : known) kept.push_back((*times)[r * bins + b]);
    *times = std::move(kept);
  }
  return known.size();
}

/// A row against the median of the others.
struct AgainstOthers {
  Nanoseconds own_ns = 0, others_ns = 0;  ///< medians over the bins
  Nanoseconds more_ns = 0;                ///< likewise, of the differences
};

AgainstOthers against_others(const Times& rows, const Times& usual_rows, std::size_t row, std::size_t bins) {
  Times own, others, more;
  for (std::size_t b = 0; b < bins; ++b) {
    Times of_bin;
    for (std::size_t r = 0; r < rows.size() / bins; ++r)
      if (r != row) of_bin.push_back(usual_rows[r * bins + b]);
    own.push_back(rows[row * bins + b]);
    others.push_back(upper_median(std::move(of_bin)));
    more.push_back(own.back() - others.back());
  }
  return {lower_median(std::move(own)), lower_median(std::move(others)), lower_median(std::move(more))};
}

}  // namespace

std::vector<double> shared_kernel_shares(const Table& kernels_by_launch, std::span<const std::int32_t> trace_ranks,
                                         const Grouping& stages) {
  const std::vector<KernelTotals> totals = totals_by_rank(kernels_by_launch, trace_ranks);
  std::map<StageKernelKey, std::set<std::string_view>> stages_of;
  for (std::size_t r = 0; r < totals.size(); ++r)
    for (const auto& [kernel, total_ns] : totals[r]) stages_of[kernel].insert(stages.place_of_rank[r]);
  std::vector<double> shares;
  for (const KernelTotals& kernels : totals) {
    std::int64_t all_ns = 0, shared_ns = 0;
    for (const auto& [kernel, total_ns] : kernels) {
      all_ns += total_ns;
      if (stages_of[kernel].size() > 1) shared_ns += total_ns;
    }
    shares.push_back(all_ns > 0 ? static_cast<double>(shared_ns) / static_cast<double>(all_ns) : 1);
  }
  return shares;
}

std::vector<StageBalance> compare_stages(const KernelTime& time, std::span<const GpuSpeed> speeds,
                                         const Grouping& stages) {
  const auto members = members_by_stage(stages);
  if (members.size() < 2) return {};
  const auto rows_of = [&](bool shared_only, Taken taken) {
    return stage_rows(time, speeds, members, shared_only, taken);
  };
  Times whole = rows_of(false, Taken::itself), shared = rows_of(true, Taken::itself);
  Times usual_whole = rows_of(false, Taken::usual), usual_shared = rows_of(true, Taken::usual);
  const std::size_t bins = keep_known_bins({&whole, &shared, &usual_whole, &usual_shared}, members.size(), time.bins);
  if (bins == 0) return {};
  const std::vector<double> p_whole = caused_wait_p_values(whole, members.size(), bins);
  const std::vector<double> p_shared = caused_wait_p_values(shared, members.size(), bins);
  std::vector<StageBalance> balances;
  for (const auto& [stage, ranks] : members) {
    const std::size_t row = balances.size();
    const AgainstOthers of_whole = against_others(whole, usual_whole, row, bins);
    const AgainstOthers of_shared = against_others(shared, usual_shared, row, bins);
    StageBalance& balance = balances.emplace_back();
    balance.stage = stage;
    balance.ranks = ranks;
    balance.kernel_ns = of_whole.own_ns;
    balance.others_kernel_ns = of_whole.others_ns;
    balance.shared_ns = of_shared.own_ns;
    balance.others_shared_ns = of_shared.others_ns;
    const auto surplus_ns = static_cast<double>(std::min(of_whole.more_ns, of_shared.more_ns));
    const bool comparable = of_shared.others_ns > 0;
    balance.surplus = comparable ? std::max(0.0, surplus_ns / static_cast<double>(balance.kernel_ns)) : 0;
    balance.p_value = std::max(p_whole[row], p_shared[row]);
  }
  return balances;
}

Grouping lone_stages(std::span<const std::int32_t> trace_ranks) {
  Grouping stages{Level::pipeline_stage, {}};
  for (const std::int32_t trace_rank : trace_ranks) stages.place_of_rank.push_back(name_of_lone_stage(trace_rank));
  return stages;
}

std::string name_of_lone_stage(std::int32_t trace_rank) {
  return "rank " + std::to_string(trace_rank);
}

Table stage_balance_table(std::span<const StageBalance> stages) {
  Table table = make_table(schema::stage_balance);
  RowWriter row(table);
  for (const StageBalance& stage : stages) {
    row << stage.stage << static_cast<std::int64_t>(stage.ranks.size()) << stage.kernel_ns << stage.others_kernel_ns
        << stage.shared_ns << stage.others_shared_ns << stage.surplus << stage.p_value;
  }
  return table;
}

std::size_t bins_of_steps(std::size_t steps) {
  return std::min(steps, most_bins);
}

std::size_t bin_of_step(std::size_t step, std::size_t steps) {
  const std::size_t bins = bins_of_steps(steps);
  return std::min(step * bins / steps, bins - 1);
}

namespace {

Nanoseconds sum_of_row(const std::vector<Nanoseconds>& rows, std::size_t rank, std::size_t bins) {
  const auto row = rows.begin() + static_cast<std::ptrdiff_t>(rank * bins);
  return std::accumulate(row, row + static_cast<std::ptrdiff_t>(bins), Nanoseconds{0});
}

}  // namespace

Nanoseconds JobDelays::excess_of(std::size_t rank) const {
  return sum_of_row(excess_work_ns, rank, bins);
}

Nanoseconds JobDelays::slow_transfers_of(std::size_t rank) const {
  return slow_transfer_ns.empty() ? 0 : sum_of_row(slow_transfer_ns, rank, bins);
}

std::vector<Nanoseconds> JobDelays::greatest_excess(std::span<const std::size_t> ranks) const {
  std::vector<Nanoseconds> greatest(bins, 0);
  for (const std::size_t r : ranks)
    for (std::size_t b = 0; b < bins; ++b) greatest[b] = std::max(greatest[b], excess_work_ns[r * bins + b]);
  return greatest;
}

const StageBalance* find_overfull_stage(const JobDelays& delays, std::span<const std::size_t> ranks) {
  const auto found = std::find_if(delays.stages.begin(), delays.stages.end(), [&](const StageBalance& stage) {
    return stage.overfull() && std::equal(stage.ranks.begin(), stage.ranks.end(), ranks.begin(), ranks.end());
  });
  return found == delays.stages.end() ? nullptr : &*found;
}

}  // namespace nsys_explain::analysis
