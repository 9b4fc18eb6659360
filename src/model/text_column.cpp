#include "nsys_explain/model/text_column.hpp"

#include <bit>
#include <functional>
#include <limits>
#include <stdexcept>
#include <utility>

#include "nsys_explain/model/algorithms.hpp"

namespace nsys_explain {

void TextColumn::push_back(std::string_view text) {
  const bool is_repeated = !codes_.empty() && distinct_[codes_.back()] == text;
  codes_.push_back(is_repeated ? codes_.back() : code_of(text));
}

TextColumn::TextColumn(std::vector<std::string> distinct, std::vector<std::uint32_t> codes)
    : distinct_(std::move(distinct)), codes_(std::move(codes)) {
  if (std::any_of(codes_.begin(), codes_.end(), [&](std::uint32_t code) { return code >= distinct_.size(); }))
    throw std::out_of_range("a row of a column names a text that is not there");
}

void TextColumn::append(const TextColumn& other, std::size_t first, std::size_t count) {
  constexpr std::uint32_t unknown = std::numeric_limits<std::uint32_t>::max();
  std::vector<std::uint32_t> own_code(other.distinct_.size(), unknown);
  const std::size_t before = codes_.size();
  reserve_sparingly(codes_, count);
  codes_.resize(before + count);
  for (std::size_t row = 0; row < count; ++row) {
    const std::uint32_t others = other.codes_[first + row];
    if (own_code[others] == unknown) own_code[others] = code_of(other.distinct_[others]);
    codes_[before + row] = own_code[others];
  }
}

std::uint32_t TextColumn::code_of(std::string_view text) {
  if (slots_.size() <= 2 * distinct_.size()) rebuild_slots();
  std::uint32_t& slot = slots_[slot_of(text)];
  if (slot == 0) {
    distinct_.emplace_back(text);
    slot = static_cast<std::uint32_t>(distinct_.size());
  }
  return slot - 1;
}

std::size_t TextColumn::slot_of(std::string_view text) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = std::hash<std::string_view>()(text) & mask;
  while (slots_[at] != 0 && distinct_[slots_[at] - 1] != text) at = (at + 1) & mask;
  return at;
}

void TextColumn::rebuild_slots() {
  constexpr std::size_t fewest = 8;
  slots_.assign(std::max(fewest, std::bit_ceil(2 * distinct_.size() + 1) * 2), 0);
  for (std::uint32_t code = 0; code < distinct_.size(); ++code) slots_[slot_of(distinct_[code])] = code + 1;
}

}  // namespace nsys_explain
