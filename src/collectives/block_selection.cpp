#include "collectives/block_selection.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "clock/clock_map.hpp"
#include "nsys_explain/model/operation_model.hpp"

namespace nsys_explain::collectives {
namespace {

/// GPU times are multiples of 32 ns and exits agree to a few hundred: smaller residuals say nothing more.
constexpr double least_residual_ns = 150;
/// Advantage over its standard error from which an explanation clearly wins: over 16 groups of rows chance exceeds it
/// once in ten thousand times.
constexpr double clear_advantage = 5;
/// From which it wins where the difference is large, too.
constexpr double likely_advantage = 3;
/// What one explanation leaves is this many times (e-fold) what the other leaves, in the mean of the logs.
constexpr double far_better = 1;
/// Members of one communicator are at most so many times as uneven as the noise of ends makes them: twice for the
/// difference of two members and of two operations, and as much again for machines that are noisier than the measured
/// one; strictly, where others that are in step would pass for members.
constexpr double even = 4, strictly_even = 1.4;
/// Members that stand for a block in comparisons; what its last member does counts of all.
constexpr std::size_t most_representatives = 16;

using Series = std::vector<double>;

double median_of_present(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

/// Rows of a table by symbol: what members differ by at the end depends on the operation.
using RowsOfSymbol = std::vector<std::vector<std::size_t>>;

RowsOfSymbol rows_of_symbols(const StreamTable& table) {
  std::map<std::uint64_t, std::vector<std::size_t>> rows;
  for (std::size_t k = 0; k < table.rows(); ++k) rows[table.symbols[k]].push_back(k);
  RowsOfSymbol result;
  for (auto& [symbol, of_symbol] : rows) result.push_back(std::move(of_symbol));
  return result;
}

/// What each row costs: the mean log of what is left of the members' times once what they share in the row, and what a
/// member always differs by, are taken out. NaN where fewer than two are present.
Series row_costs(std::vector<Series> times, const RowsOfSymbol& symbols) {
  const std::size_t rows = times.front().size();
  std::vector<double> present;
  for (int iteration = 0; iteration < 2; ++iteration) {
    for (std::size_t k = 0; k < rows; ++k) {
      present.clear();
      for (const Series& member : times) {
        if (!std::isnan(member[k])) present.push_back(member[k]);
      }
      if (present.empty()) continue;
      const double shared = median_of_present(present);
      for (Series& member : times) member[k] -= shared;
    }
    for (Series& member : times) {
      for (const std::vector<std::size_t>& of_symbol : symbols) {
        present.clear();
        for (const std::size_t k : of_symbol) {
          if (!std::isnan(member[k])) present.push_back(member[k]);
        }
        if (present.empty()) continue;
        const double bias = median_of_present(present);
        for (const std::size_t k : of_symbol) member[k] -= bias;
      }
    }
  }
  Series costs(rows, std::nan(""));
  for (std::size_t k = 0; k < rows; ++k) {
    double sum = 0;
    std::size_t count = 0;
    for (const Series& member : times) {
      if (std::isnan(member[k])) continue;
      sum += std::log(std::abs(member[k]) + least_residual_ns);
      ++count;
    }
    if (count >= 2) costs[k] = sum / static_cast<double>(count);
  }
  return costs;
}

/// Members taken for one communicator, on a clock of their own.
struct Block {
  std::vector<std::size_t> members;
  std::vector<Series> exits;  ///< of representatives
  Series last_enter;

  /// The middle exit of each row.
  Series exit() const {
    Series middle(last_enter.size(), std::nan(""));
    std::vector<double> present;
    for (std::size_t k = 0; k < middle.size(); ++k) {
      present.clear();
      for (const Series& member : exits) {
        if (!std::isnan(member[k])) present.push_back(member[k]);
      }
      if (!present.empty()) middle[k] = median_of_present(present);
    }
    return middle;
  }
  /// What representatives took since the last member had entered.
  std::vector<Series> transfers() const {
    std::vector<Series> result = exits;
    for (Series& member : result) {
      for (std::size_t k = 0; k < member.size(); ++k) member[k] -= last_enter[k];
    }
    return result;
  }
};

/// Moves the block onto the clock on which its exits agree with those given.
void move_to(Block& block, const Series& reference) {
  constexpr std::size_t fewest_for_slope = 5;
  const Series own = block.exit();
  std::vector<double> x, y;
  for (std::size_t k = 0; k < own.size(); ++k) {
    if (std::isnan(own[k]) || std::isnan(reference[k])) continue;
    x.push_back(own[k]);
    y.push_back(reference[k] - own[k]);
  }
  if (x.empty()) return;
  const double base = y.front();
  for (double& difference : y) difference -= base;
  const clock::ClockLine line = clock::fit_line(x, y, 0, x.size() >= fewest_for_slope);
  const auto moved = [&](double t) { return t + base + line.offset_ns + line.slope * t; };
  for (Series& member : block.exits) std::transform(member.begin(), member.end(), member.begin(), moved);
  std::transform(block.last_enter.begin(), block.last_enter.end(), block.last_enter.begin(), moved);
}

Block joined(const Block& a, Block b) {
  move_to(b, a.exit());
  Block result = a;
  result.members.insert(result.members.end(), b.members.begin(), b.members.end());
  std::sort(result.members.begin(), result.members.end());
  for (Series& member : b.exits) {
    if (result.exits.size() < most_representatives) result.exits.push_back(std::move(member));
  }
  for (std::size_t k = 0; k < result.last_enter.size(); ++k)
    result.last_enter[k] = std::fmax(result.last_enter[k], b.last_enter[k]);
  return result;
}

/// An advantage per row, and how sure it is.
struct Advantage {
  double mean = 0;
  double sure = 0;  ///< over its standard error

  bool is_clear() const { return sure >= clear_advantage || (sure >= likely_advantage && mean >= far_better); }
};

/// Whether blocks are one, or each is for itself.
struct Comparison {
  Series advantages;  ///< how much less a row costs if they are one; NaN where nothing is compared
  Advantage one;      ///< of that they are one
  Advantage apart;    ///< of exits within blocks over those between them

  bool is_one() const { return one.is_clear() && (!apart.is_clear() || one.mean >= far_better); }
  bool is_parted() const {
    constexpr std::ptrdiff_t fewest_rows = 8;
    const auto is_there = [](double advantage) { return !std::isnan(advantage); };
    if (std::count_if(advantages.begin(), advantages.end(), is_there) < fewest_rows) return false;
    return one.sure <= -clear_advantage || (apart.is_clear() && one.mean < far_better);
  }
};

/// How much less a row costs if all blocks are one than if each is for itself; NaN where nothing is compared.
Series advantages_of_one(std::span<const Block> blocks, const RowsOfSymbol& symbols) {
  std::vector<Series> as_one, apart;
  Series exits = blocks.front().exit();
  std::vector<std::size_t> present(exits.size(), 0);
  for (const Block& block : blocks) {
    Block moved = block;
    move_to(moved, exits);
    for (Series& member : moved.exits) as_one.push_back(std::move(member));
    for (Series& member : block.transfers()) apart.push_back(std::move(member));
    for (std::size_t k = 0; k < present.size(); ++k) present[k] += std::isnan(block.last_enter[k]) ? 0 : 1;
  }
  const Series cost_as_one = row_costs(std::move(as_one), symbols), cost_apart = row_costs(std::move(apart), symbols);
  Series advantages(present.size(), std::nan(""));
  for (std::size_t k = 0; k < present.size(); ++k) {
    if (present[k] > 1) advantages[k] = cost_apart[k] - cost_as_one[k];
  }
  return advantages;
}

double mean_of_present(const Series& values) {
  double sum = 0, count = 0;
  for (const double value : values) {
    if (std::isnan(value)) continue;
    sum += value;
    count += 1;
  }
  return count == 0 ? 0 : sum / count;
}

/// The mean of what is present over its standard error; neighbouring rows are alike, so that groups of them count. 0
/// where there are too few to tell.
double significance(const Series& advantages) {
  constexpr std::size_t most_groups = 16, fewest = 4;
  std::vector<double> present;
  std::copy_if(advantages.begin(), advantages.end(), std::back_inserter(present),
               [](double value) { return !std::isnan(value); });
  if (present.size() < fewest) return 0;
  const std::size_t groups = std::min(most_groups, present.size());
  double sum = 0, squares = 0;
  for (std::size_t g = 0; g < groups; ++g) {
    const auto first = present.begin() + static_cast<std::ptrdiff_t>(g * present.size() / groups);
    const auto end = present.begin() + static_cast<std::ptrdiff_t>((g + 1) * present.size() / groups);
    const double mean = std::accumulate(first, end, 0.0) / static_cast<double>(end - first);
    sum += mean;
    squares += mean * mean;
  }
  const auto n = static_cast<double>(groups);
  const double mean = sum / n, variance = std::max(1e-6, squares / n - mean * mean) * n / (n - 1);
  return mean / std::sqrt(variance / n);
}

/// Mean logs, by row, of how far exits of pairs of members differ, but for what they always differ by.
class ExitDifferences {
 public:
  explicit ExitDifferences(std::size_t rows) : sum_(rows, 0), count_(rows, 0) {}

  void add(const Series& a, const Series& b, const RowsOfSymbol& symbols) {
    for (const std::vector<std::size_t>& of_symbol : symbols) {
      present_.clear();
      for (const std::size_t k : of_symbol) {
        if (!std::isnan(a[k] - b[k])) present_.push_back(a[k] - b[k]);
      }
      if (present_.empty()) continue;
      const double usual = median_of_present(present_);
      for (const std::size_t k : of_symbol) {
        if (std::isnan(a[k] - b[k])) continue;
        sum_[k] += std::log(std::abs(a[k] - b[k] - usual) + least_residual_ns);
        count_[k] += 1;
      }
    }
  }

  Series by_row() const {
    Series values(sum_.size());
    for (std::size_t k = 0; k < values.size(); ++k) values[k] = of(k);
    return values;
  }
  double of(std::size_t row) const { return count_[row] == 0 ? std::nan("") : sum_[row] / count_[row]; }

 private:
  Series sum_, count_;
  std::vector<double> present_;
};

/// How much better exits agree within blocks than between them, as they do where blocks that something else
/// holds in step take their own times. Of a member alone it cannot be told whether it scatters or is another's.
Advantage parting_of_ends(std::span<const Block> blocks, const RowsOfSymbol& symbols) {
  constexpr std::size_t most_members = 4;
  std::vector<std::vector<Series>> ends;
  const Series exits = blocks.front().exit();
  for (const Block& block : blocks) {
    if (block.members.size() < 2) continue;
    Block moved = block;
    move_to(moved, exits);
    if (moved.exits.size() > most_members) moved.exits.resize(most_members);
    ends.push_back(std::move(moved.exits));
  }
  if (ends.size() < 2) return {};
  std::vector<Series> within;
  for (const std::vector<Series>& block : ends) {
    ExitDifferences of_block(exits.size());
    for (std::size_t i = 0; i < block.size(); ++i)
      for (std::size_t j = i + 1; j < block.size(); ++j) of_block.add(block[i], block[j], symbols);
    within.push_back(of_block.by_row());
  }
  // Members that scatter most find together, too: the block that scatters more counts.
  Series sums(exits.size(), 0);
  for (std::size_t b = 1; b < ends.size(); ++b) {
    ExitDifferences between(exits.size());
    for (const Series& one : ends[b - 1])
      for (const Series& other : ends[b]) between.add(one, other, symbols);
    const Series of_pair = between.by_row();
    const bool is_first = mean_of_present(within[b - 1]) > mean_of_present(within[b]);
    for (std::size_t k = 0; k < sums.size(); ++k) sums[k] += of_pair[k] - within[is_first ? b - 1 : b][k];
  }
  for (double& sum : sums) sum /= static_cast<double>(ends.size() - 1);
  return {mean_of_present(sums), significance(sums)};
}

Comparison compare_blocks(std::span<const Block> blocks, const RowsOfSymbol& symbols) {
  Comparison result;
  result.advantages = advantages_of_one(blocks, symbols);
  result.one = {mean_of_present(result.advantages), significance(result.advantages)};
  result.apart = parting_of_ends(blocks, symbols);
  return result;
}

/// How unevenly the exits of two members follow each other: the mean log of the change of their difference from one
/// operation of a symbol to the next, which clocks and biases leave alone. Of the symbol that is most even.
struct Unevenness {
  double value = std::numeric_limits<double>::infinity();
  std::size_t symbol = 0;  ///< index
};

/// In these rows; NaN where there are too few.
double unevenness_in(const Series& a, const Series& b, std::span<const std::size_t> rows) {
  constexpr std::size_t fewest_changes = 3;
  double sum = 0, before = std::nan("");
  std::size_t count = 0;
  for (const std::size_t k : rows) {
    const double difference = a[k] - b[k];
    if (std::isnan(difference)) continue;
    if (!std::isnan(before)) {
      sum += std::log(std::abs(difference - before) + least_residual_ns);
      ++count;
    }
    before = difference;
  }
  return count < fewest_changes ? std::nan("") : sum / static_cast<double>(count);
}

Unevenness unevenness(const Series& a, const Series& b, const RowsOfSymbol& symbols) {
  constexpr std::size_t one_in = 5;  // rare kinds agree by chance
  Unevenness least;
  for (std::size_t s = 0; s < symbols.size(); ++s) {
    if (one_in * symbols[s].size() < a.size()) continue;
    const double value = unevenness_in(a, b, symbols[s]);
    if (value < least.value) least = {value, s};
  }
  return least;
}

struct MemberPair {
  Unevenness unevenness;
  std::size_t a = 0, b = 0;
};

/// Pairs of members, the most alike first. Of very many members only those are compared that are near to each other in
/// the order of trace ranks, where layouts put the members of a communicator or a chain of them.
std::vector<MemberPair> pairs_by_evenness(const StreamTable& table, const RowsOfSymbol& symbols) {
  constexpr std::size_t most_with_all = 512, furthest = 64;
  std::vector<MemberPair> pairs;
  for (std::size_t a = 0; a < table.members(); ++a) {
    const std::size_t end = table.members() > most_with_all ? std::min(a + furthest, table.members()) : table.members();
    for (std::size_t b = a + 1; b < end; ++b) {
      const Unevenness found = unevenness(table.exit_ns[a], table.exit_ns[b], symbols);
      if (std::isfinite(found.value)) pairs.push_back({found, a, b});
    }
  }
  std::sort(pairs.begin(), pairs.end(), [](const MemberPair& x, const MemberPair& y) {
    return std::tie(x.unevenness.value, x.a, x.b) < std::tie(y.unevenness.value, y.a, y.b);
  });
  return pairs;
}

/// A table whose blocks grow.
class BlockJoiner {
 public:
  BlockJoiner(const StreamTable& table, const Conflict& conflict)
      : table_(table),
        conflict_(conflict),
        symbols_(rows_of_symbols(table)),
        pairs_(pairs_by_evenness(table, symbols_)),
        block_of_(table.members()) {
    std::iota(block_of_.begin(), block_of_.end(), std::size_t{0});
    for (std::size_t m = 0; m < table.members(); ++m) blocks_.push_back({{m}, {table.exit_ns[m]}, table.enter_ns[m]});
  }

  /// Those that the rows clearly say are one, and that are even: see is_even.
  void join_clear_ones(double usual) {
    for (const MemberPair& pair : pairs_) {
      const std::size_t x = block_of_[pair.a], y = block_of_[pair.b];
      if (x == y || refused_.contains(std::minmax(x, y)) || !is_even(pair, usual)) continue;
      if (may_join(blocks_[x], blocks_[y]) && compare(x, y).is_one())
        join(x, y);
      else
        refused_.insert(std::minmax(x, y));
    }
  }

  /// Whether members of different blocks are as even as those of one communicator usually are.
  bool are_any_even(double usual) const {
    return std::any_of(pairs_.begin(), pairs_.end(), [&](const MemberPair& pair) {
      return block_of_[pair.a] != block_of_[pair.b] && is_even(pair, usual);
    });
  }

  /// Where nobody waits much for anybody, when members entered does not tell. Then those are one that follow each other
  /// as evenly as either does anyone.
  void join_alike(double usual) {
    constexpr double alike = 0.7;  // twice as uneven
    refused_.clear();
    std::vector<double> least(table_.members(), std::numeric_limits<double>::infinity());
    for (const MemberPair& pair : pairs_) {
      least[pair.a] = std::min(least[pair.a], pair.unevenness.value);
      least[pair.b] = std::min(least[pair.b], pair.unevenness.value);
    }
    for (const MemberPair& pair : pairs_) {
      const std::size_t x = block_of_[pair.a], y = block_of_[pair.b];
      if (x == y || refused_.contains(std::minmax(x, y))) continue;
      if (pair.unevenness.value > std::min(least[pair.a], least[pair.b]) + alike) continue;
      if (!is_even(pair, usual)) continue;
      if (may_join(blocks_[x], blocks_[y]) && !compare(x, y).is_parted())
        join(x, y);
      else
        refused_.insert(std::minmax(x, y));
    }
  }

  std::vector<Block> blocks() const {
    std::vector<Block> result;
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      if (!blocks_[b].members.empty()) result.push_back(blocks_[b]);
    }
    return result;
  }

  const RowsOfSymbol& symbols() const { return symbols_; }

  bool may_all_join(std::span<const Block> blocks) const {
    for (std::size_t b = 1; b < blocks.size(); ++b)
      for (std::size_t a = 0; a < b; ++a)
        if (!may_join(blocks[a], blocks[b])) return false;
    return true;
  }

  bool may_join(const Block& a, const Block& b) const {
    return std::none_of(a.members.begin(), a.members.end(), [&](std::size_t m) {
      return std::any_of(b.members.begin(), b.members.end(), [&](std::size_t n) { return conflict_(m, n); });
    });
  }

 private:
  /// At most so many times as uneven as the noise of ends makes members of one communicator.
  bool is_even(const MemberPair& pair, double usual) const {
    const Operation operation = table_.operations[symbols_[pair.unevenness.symbol].front()];
    return pair.unevenness.value <= std::log(usual * static_cast<double>(operation_model(operation).exit_noise_ns));
  }
  Comparison compare(std::size_t x, std::size_t y) const {
    return compare_blocks(std::vector<Block>{blocks_[x], blocks_[y]}, symbols_);
  }
  void join(std::size_t x, std::size_t y) {
    blocks_.push_back(joined(blocks_[x], blocks_[y]));
    for (const std::size_t member : blocks_.back().members) block_of_[member] = blocks_.size() - 1;
    blocks_[x] = blocks_[y] = {};
  }

  const StreamTable& table_;
  const Conflict& conflict_;
  RowsOfSymbol symbols_;
  std::vector<MemberPair> pairs_;
  std::vector<Block> blocks_;
  std::vector<std::size_t> block_of_;
  std::set<std::pair<std::size_t, std::size_t>> refused_;
};

/// Values less the mean of their neighbours: what changes slowly, as clocks do, does not repeat with the program.
Series without_slow_changes(const Series& values) {
  constexpr std::size_t reach = 16;
  Series result(values.size(), std::nan(""));
  for (std::size_t k = 0; k < values.size(); ++k) {
    const std::size_t first = k - std::min(k, reach), end = std::min(k + reach + 1, values.size());
    const auto at = [&](std::size_t i) { return values.begin() + static_cast<std::ptrdiff_t>(i); };
    result[k] = values[k] - mean_of_present(Series(at(first), at(end)));
  }
  return result;
}

/// How surely values repeat with the program, wherever its period lies: the autocorrelation at all multiples of a lag
/// over its standard error; of the lag where it is largest.
double recurrence(const Series& values) {
  const std::size_t size = values.size();
  const double mean = mean_of_present(values);
  double squares = 0;
  std::size_t count = 0;
  for (const double value : values) {
    if (std::isnan(value)) continue;
    squares += (value - mean) * (value - mean);
    ++count;
  }
  if (count == 0 || squares == 0) return 0;
  const double variance = squares / static_cast<double>(count);
  double largest = 0;
  for (std::size_t lag = 1; 3 * lag <= size; ++lag) {
    double sum = 0, pairs = 0;
    for (std::size_t multiple = lag; multiple < size; multiple += lag) {
      for (std::size_t k = 0; k + multiple < size; ++k) {
        if (std::isnan(values[k]) || std::isnan(values[k + multiple])) continue;
        sum += (values[k] - mean) * (values[k + multiple] - mean);
        pairs += 1;
      }
    }
    if (pairs > 0) largest = std::max(largest, sum / variance / std::sqrt(pairs));
  }
  return largest;
}

/// Several communicators share the streams where what ends differ by depends on the place in the program: noise does
/// not.
bool are_mixed(std::span<const Block> blocks, const RowsOfSymbol& symbols) {
  constexpr double clear_recurrence = 4.5;  // of some hundred lags chance exceeds it once in a thousand times
  constexpr std::size_t most_members = 4;
  const std::size_t rows = blocks.front().last_enter.size();
  ExitDifferences within(rows);
  for (const Block& block : blocks) {
    const std::size_t members = std::min(block.exits.size(), most_members);
    for (std::size_t i = 0; i < members; ++i)
      for (std::size_t j = i + 1; j < members; ++j) within.add(block.exits[i], block.exits[j], symbols);
  }
  Series values(rows, std::nan(""));
  for (const std::vector<std::size_t>& of_symbol : symbols) {
    double sum = 0, squares = 0, count = 0;
    for (const std::size_t k : of_symbol) {
      if (std::isnan(within.of(k))) continue;
      sum += within.of(k);
      squares += within.of(k) * within.of(k);
      count += 1;
    }
    const double mean = sum / count, deviation = std::sqrt(std::max(1e-6, squares / count - mean * mean));
    for (const std::size_t k : of_symbol) values[k] = (within.of(k) - mean) / deviation;
  }
  return recurrence(without_slow_changes(values)) >= clear_recurrence;
}

/// Share of the rows in which the difference of two members' exits is further from what they always differ by.
double far_off_share(const Series& a, const Series& b, std::span<const std::size_t> rows, double limit_ns) {
  std::vector<double> differences;
  for (const std::size_t k : rows) {
    if (!std::isnan(a[k] - b[k])) differences.push_back(a[k] - b[k]);
  }
  if (differences.empty()) return 0;
  std::vector<double> sorted = differences;
  const double usual = median_of_present(sorted);
  const auto far = std::count_if(differences.begin(), differences.end(),
                                 [&](double difference) { return std::abs(difference - usual) > limit_ns; });
  return static_cast<double>(far) / static_cast<double>(differences.size());
}

/// Whether members of most blocks end some kind of operation far less evenly than the noise of ends makes members of
/// one communicator: those operations are of another.
bool is_any_kind_uneven(std::span<const Block> blocks, const StreamTable& table, const RowsOfSymbol& symbols) {
  constexpr double usual = 2.5;  // times the noise of ends: twice for the differences, and a quarter more
  constexpr double far = 12, most_far_off = 0.1;  // ends of ten in a hundred are hardly four times as far off as usual
  constexpr std::size_t fewest_rows = 6, most_compared = 4;
  for (const std::vector<std::size_t>& rows : symbols) {
    if (rows.size() < fewest_rows) continue;
    const OperationModel model = operation_model(table.operations[rows.front()]);
    const double limit =
        std::log(usual * static_cast<double>(model.exit_noise_ns) + static_cast<double>(model.exit_bias_ns));
    std::size_t uneven = 0, compared = 0;
    for (const Block& block : blocks) {
      if (block.members.size() < 2) continue;
      // Some members scatter more than others: the most even of a few pairs counts.
      double least = std::numeric_limits<double>::infinity(), least_far_off = 1;
      const std::size_t members = std::min(block.exits.size(), most_compared);
      for (std::size_t a = 0; a < members; ++a) {
        for (std::size_t b = a + 1; b < members; ++b) {
          least = std::fmin(least, unevenness_in(block.exits[a], block.exits[b], rows));
          least_far_off = std::min(least_far_off, far_off_share(block.exits[a], block.exits[b], rows,
                                                                far * static_cast<double>(model.exit_noise_ns)));
        }
      }
      compared += std::isfinite(least) ? 1 : 0;
      const bool is_far_off = model.exit_bias_ns == 0 && least_far_off > most_far_off;
      uneven += std::isfinite(least) && (least > limit || is_far_off) ? 1 : 0;
    }
    if (2 * uneven > compared) return true;
  }
  return false;
}

}  // namespace

std::vector<std::vector<std::size_t>> strictly_even_blocks(const StreamTable& table, const Conflict& conflict) {
  BlockJoiner joiner(table, conflict);
  joiner.join_clear_ones(strictly_even);
  std::vector<std::vector<std::size_t>> result;
  for (Block& block : joiner.blocks()) result.push_back(std::move(block.members));
  return result;
}

BlockSelection select_blocks(const StreamTable& table, const Conflict& conflict, bool is_plain_usual) {
  BlockSelection selection;
  if (table.members() == 0) return selection;
  BlockJoiner joiner(table, conflict);
  const double usual = is_plain_usual ? std::numeric_limits<double>::infinity() : even;
  joiner.join_clear_ones(usual);
  const std::vector<Block> clear = joiner.blocks();
  joiner.join_alike(usual);
  std::vector<Block> blocks = joiner.blocks();
  if (blocks.size() == 1) {
    const Comparison all = compare_blocks(clear, joiner.symbols());
    selection.is_told = clear.size() == 1 || all.is_one() ||
                        (is_plain_usual ? !all.is_parted() : all.one.sure >= 0 && all.apart.sure < likely_advantage);
  } else {
    const Comparison all = compare_blocks(blocks, joiner.symbols());
    const bool is_plain = is_plain_usual && joiner.may_all_join(blocks) && !all.is_parted();
    selection.is_told = is_plain || all.is_parted() || !joiner.may_all_join(blocks) || !joiner.are_any_even(even);
    for (std::size_t b = 1; is_plain && b < blocks.size(); ++b) blocks.front() = joined(blocks.front(), blocks[b]);
    if (is_plain) blocks.resize(1);
  }
  const bool is_plain = is_plain_usual && blocks.size() == 1;
  selection.is_mixed =
      are_mixed(blocks, joiner.symbols()) || (!is_plain && is_any_kind_uneven(blocks, table, joiner.symbols()));
  for (Block& block : blocks) selection.blocks.push_back(std::move(block.members));
  return selection;
}

}  // namespace nsys_explain::collectives
