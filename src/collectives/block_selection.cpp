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
#include "collectives/unevenness.hpp"
#include "nsys_explain/model/end_model.hpp"

namespace nsys_explain::collectives {
namespace {

/// Members that stand for a block where exits are compared.
constexpr std::size_t most_representatives = 16;

/// An arrival of a member.
struct Times {
  double enter = 0, exit = 0;
};

/// Members that end alike, on the clock on which their exits agree.
struct Block {
  std::vector<std::size_t> members;
  std::vector<Series> exits;        ///< of representatives
  Series exit;                      ///< the middle one
  std::vector<Times> last, second;  ///< of those who came last and second-last; NaN where not all members are there
};

constexpr Times nobody{-std::numeric_limits<double>::infinity(), 0};

bool is_there(const Times& times) {
  return !std::isnan(times.enter);
}

/// Adds an arrival to the two last of a row.
void add_arrival(Times& last, Times& second, const Times& arrival) {
  if (!is_there(last) || !is_there(arrival)) {
    last = second = {std::nan(""), std::nan("")};
  } else if (arrival.enter > last.enter) {
    second = std::exchange(last, arrival);
  } else if (arrival.enter > second.enter) {
    second = arrival;
  }
}

Block block_of_member(const StreamTable& table, std::size_t member) {
  Block block{{member}, {table.exit_ns[member]}, table.exit_ns[member], {}, {}};
  for (std::size_t k = 0; k < table.rows(); ++k) {
    block.last.push_back({table.enter_ns[member][k], table.exit_ns[member][k]});
    block.second.push_back(nobody);
  }
  return block;
}

Series middle_of(const std::vector<Series>& members) {
  Series middle(members.front().size(), std::nan(""));
  std::vector<double> present;
  for (std::size_t k = 0; k < middle.size(); ++k) {
    present.clear();
    for (const Series& member : members) {
      if (!std::isnan(member[k])) present.push_back(member[k]);
    }
    if (!present.empty()) middle[k] = mean_median(present);
  }
  return middle;
}

/// By row: how long the operations of its symbol take the member that they take least, in the middle.
Series last_takes_ns(const StreamTable& table, const RowsOfSymbol& of_symbol) {
  Series result(table.rows(), 0);
  for (const std::vector<std::size_t>& rows : of_symbol) {
    std::vector<double> least;
    for (const std::size_t k : rows) {
      double least_of_row = std::numeric_limits<double>::infinity();
      for (std::size_t m = 0; m < table.members(); ++m)
        least_of_row = std::min(least_of_row, table.exit_ns[m][k] - table.enter_ns[m][k]);  // not by NaN
      if (std::isfinite(least_of_row)) least.push_back(least_of_row);
    }
    const double middle = least.empty() ? 0 : mean_median(least);
    for (const std::size_t k : rows) result[k] = middle;
  }
  return result;
}

/// Rows of a table by symbol, and what their operations are.
struct Rows {
  RowsOfSymbol of_symbol;
  std::vector<std::size_t> aligning;  ///< by whose exits clocks are aligned: of the operation with the least bias
  double bias = 0;                    ///< by which clocks aligned so may be wrong
  double most_uneven = std::numeric_limits<double>::infinity();  ///< of members of one communicator, see Unevenness

  explicit Rows(const StreamTable& table) : of_symbol(rows_of_symbols(table)) {
    constexpr std::size_t fewest_aligning = 5;  // for a line
    const Series takes_ns = last_takes_ns(table, of_symbol);
    const auto bias_of = [&](std::size_t k) { return end_model(table.operations[k]).always * takes_ns[k]; };
    double least = std::numeric_limits<double>::infinity();
    for (const std::vector<std::size_t>& rows : of_symbol)
      if (rows.size() >= fewest_aligning) least = std::min(least, bias_of(rows.front()));
    for (std::size_t k = 0; k < table.rows(); ++k) {
      if (bias_of(k) > least) continue;
      aligning.push_back(k);
      bias = std::max(bias, bias_of(k));
    }
    if (table.is_equal) return;
    // Where times tell what belongs together, wrong rows pass for noise: no more of it than twice for the difference of
    // two members and of two operations, and as much again for machines that are noisier than the measured one.
    constexpr double noise = 4;
    double sum = 0;
    for (const double takes : takes_ns) sum += std::log(noise * EndModel::spread_ns(takes));
    most_uneven = sum / static_cast<double>(table.rows());
  }
};

/// Moves the block onto the clock on which its exits agree with those given; what it differs by at the end of a kind of
/// operation concerns its exits only.
void move_to(Block& block, const Series& reference, const Rows& rows) {
  constexpr std::size_t fewest_for_slope = 5;
  std::vector<double> x, y;
  for (const std::size_t k : rows.aligning) {
    if (std::isnan(block.exit[k] - reference[k])) continue;
    x.push_back(block.exit[k]);
    y.push_back(reference[k] - block.exit[k]);
  }
  if (x.empty()) return;
  const double base = y.front();  // keeps the fit's numbers small
  for (double& value : y) value -= base;
  const clock::ClockLine line = clock::fit_line(x, y, 0, x.size() >= fewest_for_slope);
  const auto moved = [&](double t) { return base + line.offset_ns + (1 + line.slope) * t; };  // -infinity stays
  const auto move = [&](Series& times) { std::transform(times.begin(), times.end(), times.begin(), moved); };
  for (Series& member : block.exits) move(member);
  move(block.exit);
  for (std::vector<Times>* ends : {&block.last, &block.second})
    for (Times& times : *ends) times = {moved(times.enter), moved(times.exit)};
  for (const std::vector<std::size_t>& of_symbol : rows.of_symbol) {
    std::vector<double> differences;
    for (const std::size_t k : of_symbol) {
      if (!std::isnan(reference[k] - block.exit[k])) differences.push_back(reference[k] - block.exit[k]);
    }
    if (differences.empty()) continue;
    const double bias = mean_median(differences);
    for (const std::size_t k : of_symbol) {
      block.exit[k] += bias;
      for (Series& member : block.exits) member[k] += bias;
      block.last[k].exit += bias;
      block.second[k].exit += bias;
    }
  }
}

/// The two blocks as one; they are on one clock.
Block joined(Block block, Block other) {
  block.members.insert(block.members.end(), other.members.begin(), other.members.end());
  std::sort(block.members.begin(), block.members.end());
  for (Series& member : other.exits) {
    if (block.exits.size() < most_representatives) block.exits.push_back(std::move(member));
  }
  block.exit = middle_of(block.exits);
  for (std::size_t k = 0; k < block.last.size(); ++k) {
    add_arrival(block.last[k], block.second[k], other.last[k]);
    add_arrival(block.last[k], block.second[k], other.second[k]);
  }
  return block;
}

/// For that who came second-last waited for who came last.
LogRatio evidence_of_waiting(const std::vector<Times>& last, const std::vector<Times>& second, const Rows& rows) {
  LogRatio result;
  for (const std::vector<std::size_t>& of_symbol : rows.of_symbol) {
    std::vector<double> exits, enters;
    for (const std::size_t k : of_symbol) {
      if (!is_there(last[k])) continue;
      exits.push_back(last[k].exit - second[k].exit);
      enters.push_back(std::max(0.0, last[k].enter - second[k].enter - rows.bias));
    }
    weigh(exits, enters, result);
  }
  return result;
}

/// For that one of the two blocks waited for the other, wherever who came last overall came last alone.
LogRatio evidence_of_waiting(const Block& a, const Block& b, const std::vector<Times>& last,
                             const std::vector<Times>& second, const Rows& rows) {
  LogRatio result;
  for (const std::vector<std::size_t>& of_symbol : rows.of_symbol) {
    std::vector<double> exits, enters;
    for (const std::size_t k : of_symbol) {
      const bool is_of_a = a.last[k].enter == last[k].enter, is_of_b = b.last[k].enter == last[k].enter;
      if (!is_of_a && !is_of_b) continue;
      exits.push_back(a.exit[k] - b.exit[k]);
      const double alone = std::max(0.0, last[k].enter - second[k].enter - rows.bias);
      enters.push_back(is_of_a ? alone : -alone);
    }
    weigh(exits, enters, result);
  }
  return result;
}

/// For that the exits of two blocks follow their own last enters.
LogRatio evidence_of_leaving_alone(const Block& a, const Block& b, const Rows& rows) {
  Series enters(a.exit.size());
  for (std::size_t k = 0; k < enters.size(); ++k) enters[k] = a.last[k].enter - b.last[k].enter;
  const Series exits = difference(a.exit, b.exit), both = difference(exits, enters);
  LogRatio result;
  for (const std::vector<std::size_t>& of_symbol : rows.of_symbol) {
    std::vector<double> of_exits, of_enters;
    for_each_change(both, of_symbol, [&](std::size_t before, std::size_t k) {
      of_exits.push_back(exits[k] - exits[before]);
      of_enters.push_back(enters[k] - enters[before]);
    });
    weigh(of_exits, of_enters, result);
  }
  return result.against();
}

/// Log of the likelihood ratio, about, that two blocks deviate as wholes. Of members a, b of one block and c, d of the
/// other, a - c and b - d know nothing of each other if all four are of one communicator, whatever the law and the
/// scale of each; if the blocks are two, both hold what these differ by. So their changes go the same way more often
/// than not.
double log_ratio_of_wholes(const Block& a, const Block& b, const Rows& rows) {
  constexpr std::size_t most_pairs = 4;
  const std::size_t pairs = std::min({most_pairs, a.exits.size() / 2, b.exits.size() / 2});
  std::map<std::size_t, double> votes;  // by row, -1 to 1
  for (std::size_t p = 0; p < pairs; ++p) {
    const Series one = difference(a.exits[2 * p], b.exits[2 * p]),
                 other = difference(a.exits[2 * p + 1], b.exits[2 * p + 1]);
    const Series both = difference(one, other);
    for (const std::vector<std::size_t>& of_symbol : rows.of_symbol) {
      for_each_change(both, of_symbol, [&](std::size_t before, std::size_t k) {
        const bool is_same = (one[k] > one[before]) == (other[k] > other[before]);
        votes[k] += (is_same ? 1.0 : -1.0) / static_cast<double>(pairs);
      });
    }
  }
  if (votes.empty()) return 0;
  double sum = 0;
  for (const auto& [row, vote] : votes) sum += vote;
  const auto count = static_cast<double>(votes.size());
  const double mean = std::min(sum / count, 1 - 1e-9);
  if (mean <= 0) return 0;
  // Hoeffding's bound on the chance of such a mean of independent votes.
  return count * ((1 + mean) / 2 * std::log(1 + mean) + (1 - mean) / 2 * std::log(1 - mean));
}

/// Joins what ends alike, the most alike first, into a tree, and takes of each branch the largest block that is one.
class BlockTree {
 public:
  BlockTree(const StreamTable& table, const Conflict& conflict)
      : table_(table), conflict_(conflict), rows_(table), unevenness_(table, rows_.of_symbol), top_(table.members()) {
    std::iota(top_.begin(), top_.end(), std::size_t{0});
    for (std::size_t m = 0; m < table.members(); ++m) nodes_.push_back({block_of_member(table, m), {}, false});
    for (const Unevenness::Pair& pair : unevenness_.pairs()) join(pair);
  }

  BlockSelection selection() const {
    std::vector<const Block*> chosen;
    std::vector<std::size_t> block_of(table_.members());
    for (const std::size_t top : std::set<std::size_t>(top_.begin(), top_.end())) choose(top, chosen);
    for (std::size_t b = 0; b < chosen.size(); ++b)
      for (const std::size_t member : chosen[b]->members) block_of[member] = b;
    return parted(chosen, block_of);
  }

 private:
  struct Node {
    Block block;
    std::vector<std::size_t> children;
    bool is_one = false;
  };

  bool are_in_conflict(const Block& x, const Block& y) const {
    return std::any_of(x.members.begin(), x.members.end(), [&](std::size_t m) {
      return std::any_of(y.members.begin(), y.members.end(), [&](std::size_t n) { return conflict_(m, n); });
    });
  }

  void join(const Unevenness::Pair& pair) {
    const std::size_t x = top_[pair.a], y = top_[pair.b];
    if (x == y || are_in_conflict(nodes_[x].block, nodes_[y].block)) return;
    Block other = nodes_[y].block;
    move_to(other, nodes_[x].block.exit, rows_);
    Node node{joined(nodes_[x].block, other), {x, y}, false};
    node.is_one = are_one(nodes_[x].block, other, node.block, pair.value);
    for (const std::size_t member : node.block.members) top_[member] = nodes_.size();
    for (const std::size_t child : {x, y}) {
      if (node.is_one || (!nodes_[child].is_one && !nodes_[child].children.empty())) nodes_[child].block = {};
    }
    nodes_.push_back(std::move(node));
  }

  /// Whether those who came last held the others up, whoever of those that end about as much alike belongs together.
  bool are_one(const Block& a, const Block& b, const Block& block, double unevenness) const {
    if (unevenness > rows_.most_uneven) return false;
    constexpr double deviations = 6;  // four of the difference of two mean logs, of which each change adds about 1.5
    constexpr std::size_t most_rivals = 64;
    const double limit = unevenness + deviations / std::sqrt(static_cast<double>(table_.rows()));
    std::vector<Times> last = block.last, second = block.second;
    std::size_t rivals = 0;
    for (std::size_t m = 0; m < table_.members(); ++m) {
      const auto& members = block.members;
      if (std::binary_search(members.begin(), members.end(), m)) continue;
      if (std::none_of(members.begin(), members.end(), [&](std::size_t n) { return unevenness_.of(m, n) <= limit; }))
        continue;
      if (++rivals > most_rivals) return false;
      Block rival = block_of_member(table_, m);
      move_to(rival, block.exit, rows_);
      for (std::size_t k = 0; k < last.size(); ++k) add_arrival(last[k], second[k], rival.last[k]);
    }
    return evidence_of_waiting(last, second, rows_).is_clear() &&
           evidence_of_waiting(a, b, last, second, rows_).is_clear() &&
           log_ratio_of_wholes(a, b, rows_) < clear_log_ratio;
  }

  void choose(std::size_t n, std::vector<const Block*>& chosen) const {
    const Node& node = nodes_[n];
    if (node.is_one || node.children.empty())
      chosen.push_back(&node.block);
    else
      for (const std::size_t child : node.children) choose(child, chosen);
  }

  /// Whether the data clearly say that two blocks are not one.
  bool are_apart(const Block& x, const Block& y) const {
    Block moved = y;
    move_to(moved, x.exit, rows_);
    return evidence_of_leaving_alone(x, moved, rows_).is_clear() ||
           log_ratio_of_wholes(x, moved, rows_) >= clear_log_ratio;
  }

  /// Blocks that are not clearly apart from those that end most like them are undecided, all of them together.
  BlockSelection parted(std::span<const Block* const> blocks, std::span<const std::size_t> block_of) const {
    constexpr std::size_t most_neighbours = 8;  // those farther away end less like it still
    std::vector<std::set<std::size_t>> neighbours(blocks.size());
    std::vector<std::size_t> group(blocks.size());
    std::iota(group.begin(), group.end(), std::size_t{0});
    for (const Unevenness::Pair& pair : unevenness_.pairs()) {
      const std::size_t x = block_of[pair.a], y = block_of[pair.b];
      if (x == y || (neighbours[x].size() >= most_neighbours && neighbours[y].size() >= most_neighbours)) continue;
      if (!neighbours[x].insert(y).second) continue;
      neighbours[y].insert(x);
      if (are_in_conflict(*blocks[x], *blocks[y]) || are_apart(*blocks[x], *blocks[y])) continue;
      std::replace(group.begin(), group.end(), std::size_t{group[x]}, std::size_t{group[y]});
    }
    std::map<std::size_t, std::vector<std::size_t>> members, of_group;
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      members[group[b]].insert(members[group[b]].end(), blocks[b]->members.begin(), blocks[b]->members.end());
      of_group[group[b]].push_back(b);
    }
    BlockSelection result;
    for (auto& [g, found] : members) (of_group[g].size() == 1 ? result.blocks : result.undecided).push_back(found);
    return result;
  }

  const StreamTable& table_;
  const Conflict& conflict_;
  Rows rows_;
  Unevenness unevenness_;
  std::vector<std::size_t> top_;  ///< node, by member
  std::vector<Node> nodes_;       ///< members first
};

}  // namespace

BlockSelection select_blocks(const StreamTable& table, const Conflict& conflict) {
  if (table.members() == 0) return {};
  return BlockTree(table, conflict).selection();
}

}  // namespace nsys_explain::collectives
