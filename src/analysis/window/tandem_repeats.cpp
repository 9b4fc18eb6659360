#include "analysis/window/tandem_repeats.hpp"

#include <algorithm>

namespace nsys_explain::analysis {
namespace {

constexpr std::size_t fewest_repeats = 3;

using SymbolSpan = std::span<const std::uint32_t>;

bool is_of_one_symbol(SymbolSpan motif) {
  return std::all_of(motif.begin(), motif.end(), [&](std::uint32_t symbol) { return symbol == motif.front(); });
}

void add_innermost(SymbolSpan symbols, std::size_t offset, std::size_t shortest, std::vector<TandemRepeat>& found) {
  const TandemRepeat longest = longest_tandem_repeat(symbols);
  if (longest.count == 0 || longest.length() < shortest) return;
  add_innermost(symbols.first(longest.first), offset, std::max(shortest, longest.length() / 4), found);
  const TandemRepeat inner = longest_tandem_repeat(symbols.subspan(longest.first, longest.period));
  if (2 * inner.length() >= longest.period) {
    for (std::size_t i = 0; i < longest.count; ++i) {
      const std::size_t first = longest.first + i * longest.period;
      add_innermost(symbols.subspan(first, longest.period), offset + first, inner.length() / 4, found);
    }
  } else {
    found.push_back({offset + longest.first, longest.period, longest.count});
  }
  const std::size_t end = longest.first + longest.length();
  add_innermost(symbols.subspan(end), offset + end, std::max(shortest, longest.length() / 4), found);
}

}  // namespace

TandemRepeat longest_tandem_repeat(SymbolSpan symbols) {
  TandemRepeat longest;
  for (std::size_t period = 2; period * fewest_repeats <= symbols.size(); ++period) {
    std::size_t run = 0;  // symbols up to here that equal those a period later
    for (std::size_t i = 0; i + period <= symbols.size(); ++i) {
      const bool goes_on = i + period < symbols.size() && symbols[i] == symbols[i + period];
      if (goes_on) {
        ++run;
        continue;
      }
      const TandemRepeat one{i - run, period, (run + period) / period};
      run = 0;
      if (one.count < fewest_repeats || one.length() <= longest.length()) continue;
      if (!is_of_one_symbol(symbols.subspan(one.first, period))) longest = one;
    }
  }
  return longest;
}

std::vector<TandemRepeat> innermost_repeats(SymbolSpan symbols) {
  std::vector<TandemRepeat> found;
  add_innermost(symbols, 0, 1, found);
  return found;
}

}  // namespace nsys_explain::analysis
