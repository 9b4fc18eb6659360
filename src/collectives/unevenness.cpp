#include "collectives/unevenness.hpp"

#include <limits>
#include <map>
#include <tuple>
#include <utility>

namespace nsys_explain::collectives {
namespace {

double mean_log_change(const Series& exits, const RowsOfSymbol& symbols) {
  constexpr double fewest_changes = 3;
  double sum = 0, count = 0;
  for (const std::vector<std::size_t>& of_symbol : symbols) {
    for_each_change(exits, of_symbol, [&](std::size_t before, std::size_t k) {
      sum += std::log(std::abs(exits[k] - exits[before]) + least_difference_ns);
      count += 1;
    });
  }
  return count < fewest_changes ? std::numeric_limits<double>::infinity() : sum / count;
}

}  // namespace

RowsOfSymbol rows_of_symbols(const StreamTable& table) {
  std::map<std::uint64_t, std::vector<std::size_t>> rows;
  for (std::size_t k = 0; k < table.rows(); ++k) rows[table.symbols[k]].push_back(k);
  RowsOfSymbol result;
  for (auto& [symbol, of_symbol] : rows) result.push_back(std::move(of_symbol));
  return result;
}

Unevenness::Unevenness(const StreamTable& table, const RowsOfSymbol& symbols) : members_(table.members()) {
  constexpr std::size_t most_with_all = 512, furthest = 64;
  values_.assign(members_ * members_, std::numeric_limits<double>::infinity());
  for (std::size_t a = 0; a < members_; ++a) {
    const std::size_t end = members_ > most_with_all ? std::min(a + furthest, members_) : members_;
    for (std::size_t b = a + 1; b < end; ++b) {
      const double found = mean_log_change(difference(table.exit_ns[a], table.exit_ns[b]), symbols);
      values_[a * members_ + b] = values_[b * members_ + a] = found;
      if (std::isfinite(found)) pairs_.push_back({found, a, b});
    }
  }
  std::sort(pairs_.begin(), pairs_.end(),
            [](const Pair& x, const Pair& y) { return std::tie(x.value, x.a, x.b) < std::tie(y.value, y.a, y.b); });
}

}  // namespace nsys_explain::collectives
