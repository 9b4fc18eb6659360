#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "collectives/robust.hpp"
#include "collectives/turn_sets.hpp"

namespace nsys_explain::collectives {
namespace {

struct Edge {
  std::size_t first = 0, second = 0;
  double sharp = 0;  ///< exits that lie on the line, beyond those that lie there by chance
  RoughLine offset;  ///< exit on the second lane - exit on the first, of operations they share
};

struct Point {
  double time_ns = 0;
  double difference_ns = 0;
  double sharp_ns = 0;  ///< exits of one operation lie mostly within this
};

/// Rough clocks are good to this: where sends and receives alone relate lanes, those of a chain of stages add up what
/// their ends differ by as a habit.
constexpr Nanoseconds rough_ns = 25'000;

std::vector<Point> differences(const TurnLane& a, const TurnLane& b, Nanoseconds centre_ns) {
  std::vector<Point> points;
  for (const auto& entry : a.operations) {
    const std::vector<TurnOperation>& operations = entry.second;
    const Operation operation = operations.front().operation;
    const auto others = b.operations.find(entry.first);
    if (others == b.operations.end()) continue;
    if (operation != Operation::all_reduce && operation != Operation::reduce_scatter) continue;
    const double sharp_ns = operation == Operation::all_reduce ? 800 : 2'400;
    for_each_nearest(operations, others->second, 0, [&](std::size_t i, std::size_t, Nanoseconds difference_ns) {
      if (std::abs(difference_ns) <= rough_ns)
        points.push_back(
            {static_cast<double>(operations[i].exit_ns - centre_ns), static_cast<double>(difference_ns), sharp_ns});
    });
  }
  return points;
}

/// Where most differences lie within a microsecond or two.
double usual_difference(const std::vector<Point>& points) {
  constexpr double width_ns = 1'500;
  std::vector<double> differences;
  for (const Point& point : points) differences.push_back(point.difference_ns);
  return densest(std::move(differences), width_ns);
}

/// The line on which most differences lie: those of other operations at about the same time scatter around it.
Edge fit(std::size_t first, std::size_t second, const std::vector<Point>& points) {
  constexpr std::size_t fewest_for_slope = 24;
  constexpr int iterations = 12;
  constexpr double first_scale_ns = 2'000, last_scale_ns = 400;
  Edge edge{first, second, 0, {usual_difference(points), 0}};
  double scale_ns = first_scale_ns;
  for (int iteration = 0; iteration < iterations; ++iteration, scale_ns = std::max(last_scale_ns, scale_ns * 0.7)) {
    double w = 0, wx = 0, wy = 0, wxx = 0, wxy = 0;
    for (const Point& p : points) {
      const double residual_ns = p.difference_ns - edge.offset.offset_ns - edge.offset.slope * p.time_ns;
      const double weight = 1 / (1 + residual_ns * residual_ns / (scale_ns * scale_ns));
      w += weight;
      wx += weight * p.time_ns;
      wy += weight * p.difference_ns;
      wxx += weight * p.time_ns * p.time_ns;
      wxy += weight * p.time_ns * p.difference_ns;
    }
    const double determinant = w * wxx - wx * wx;
    if (points.size() >= fewest_for_slope && determinant > 1e-9 * w * wxx)
      edge.offset.slope = (w * wxy - wx * wy) / determinant;
    edge.offset.offset_ns = (wy - edge.offset.slope * wx) / w;
  }
  double on_line = 0, beside = 0;
  for (const Point& p : points) {
    const double residual_ns = std::abs(p.difference_ns - edge.offset.offset_ns - edge.offset.slope * p.time_ns);
    on_line += residual_ns <= p.sharp_ns ? 1 : 0;
    beside += residual_ns > p.sharp_ns && residual_ns <= 3 * p.sharp_ns ? 1 : 0;
  }
  // Lanes that something holds in step share a moment many times, and about as often nearly.
  const double by_chance = beside / 2;
  edge.sharp = on_line - by_chance - 4 * std::sqrt(by_chance);
  return edge;
}

/// Pairs of lanes that share operations, the sharpest first.
std::vector<Edge> sharp_edges(const std::vector<TurnLane>& lanes, Nanoseconds centre_ns) {
  constexpr std::size_t fewest_points = 8, most_compared = 32;
  constexpr double fewest_sharp = 8;
  std::vector<Edge> edges;
  for (std::size_t l = 0; l < lanes.size(); ++l) {
    for (std::size_t n = 0; n < std::min(most_compared, lanes[l].neighbours.size()); ++n) {
      const std::size_t other = lanes[l].neighbours[n];
      if (other < l) continue;
      const std::vector<Point> points = differences(lanes[l], lanes[other], centre_ns);
      if (points.size() < fewest_points) continue;
      const Edge edge = fit(l, other, points);
      if (edge.sharp >= fewest_sharp) edges.push_back(edge);
    }
  }
  std::sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) {
    return std::tuple(b.sharp, a.first, a.second) < std::tuple(a.sharp, b.first, b.second);
  });
  return edges;
}

/// Those that relate all lanes without a circle.
std::vector<Edge> spanning_edges(std::vector<Edge> sharpest_first, std::size_t lanes) {
  std::vector<std::size_t> tree(lanes);
  std::iota(tree.begin(), tree.end(), std::size_t{0});
  std::erase_if(sharpest_first, [&](const Edge& edge) {
    const std::size_t from = tree[edge.first], to = tree[edge.second];
    if (from != to) std::replace(tree.begin(), tree.end(), from, to);
    return from == to;
  });
  return sharpest_first;
}

/// Moves each clock to the weighted mean of what its edges say, again and again: what a single edge of few operations
/// gets wrong, others make good. Nearly least squares (Gauss and Seidel's method).
void settle(std::vector<FineClock>& clocks, const std::vector<Edge>& edges) {
  constexpr int sweeps = 32;
  struct Neighbour {
    std::size_t lane;
    double sign;  ///< of the edge's offset to this one
    const Edge* edge;
  };
  std::vector<std::vector<Neighbour>> neighbours(clocks.size());
  for (const Edge& edge : edges) {
    neighbours[edge.second].push_back({edge.first, 1, &edge});
    neighbours[edge.first].push_back({edge.second, -1, &edge});
  }
  for (int sweep = 0; sweep < sweeps; ++sweep) {
    for (std::size_t l = 0; l < clocks.size(); ++l) {
      RoughLine sum;
      double weights = 0;
      for (const auto& [other, sign, edge] : neighbours[l]) {
        const RoughLine& its = clocks[other].correction;
        weights += edge->sharp;
        sum.offset_ns += edge->sharp * (its.offset_ns + sign * edge->offset.offset_ns);
        sum.slope += edge->sharp * (its.slope + sign * edge->offset.slope);
      }
      if (weights > 0) clocks[l].correction = {sum.offset_ns / weights, sum.slope / weights};
    }
  }
}

/// Settles clocks by all edges, then again and again by each the less, the more others contradict it: lanes that
/// something holds in step share a moment by chance, and more often than the operations that they do together. More
/// than `enough` exits on an edge make it no better.
void settle_robustly(std::vector<FineClock>& clocks, std::vector<Edge> edges) {
  constexpr int rounds = 8;
  constexpr double enough = 64, scale_ns = 400;
  for (Edge& edge : edges) edge.sharp = std::min(edge.sharp, enough);
  settle(clocks, edges);
  for (int round = 0; round < rounds; ++round) {
    std::vector<Edge> believed = edges;
    for (Edge& edge : believed) {
      const double between_ns = clocks[edge.second].correction.offset_ns - clocks[edge.first].correction.offset_ns;
      const double residual = (between_ns - edge.offset.offset_ns) / scale_ns;
      edge.sharp /= 1 + residual * residual;
    }
    settle(clocks, believed);
  }
}

}  // namespace

std::vector<FineClock> fine_clocks(const std::vector<TurnLane>& lanes, Nanoseconds centre_ns) {
  const std::vector<Edge> all = sharp_edges(lanes, centre_ns), edges = spanning_edges(all, lanes.size());
  std::vector<FineClock> clocks(lanes.size(), FineClock{{}, centre_ns});
  std::vector<bool> is_known(lanes.size(), false);
  for (std::size_t l = 0; l < lanes.size(); ++l) {
    if (is_known[l]) continue;
    std::vector<std::size_t> reached{l};
    is_known[l] = true;
    for (std::size_t r = 0; r < reached.size(); ++r) {
      for (const Edge& edge : edges) {
        const bool forward = edge.first == reached[r];
        const std::size_t next = forward ? edge.second : edge.first;
        if ((!forward && edge.second != reached[r]) || is_known[next]) continue;
        const double sign = forward ? 1 : -1;
        const RoughLine& from = clocks[reached[r]].correction;
        clocks[next].correction = {from.offset_ns + sign * edge.offset.offset_ns,
                                   from.slope + sign * edge.offset.slope};
        is_known[next] = true;
        reached.push_back(next);
      }
    }
  }
  settle_robustly(clocks, all);
  return clocks;
}

void refine_clocks(std::vector<TurnLane>& lanes, Nanoseconds centre_ns) {
  const std::vector<FineClock> clocks = fine_clocks(lanes, centre_ns);
  for (std::size_t l = 0; l < lanes.size(); ++l) {
    const FineClock& clock = clocks[l];
    for (auto& [symbol, operations] : lanes[l].operations) {
      for (TurnOperation& operation : operations) {
        operation.enter_ns = clock.corrected(operation.enter_ns);
        operation.exit_ns = clock.corrected(operation.exit_ns);
      }
    }
    lanes[l].first_exit_ns = clock.corrected(lanes[l].first_exit_ns);
    lanes[l].last_exit_ns = clock.corrected(lanes[l].last_exit_ns);
  }
}

}  // namespace nsys_explain::collectives
