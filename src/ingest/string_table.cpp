#include "ingest/string_table.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "ingest/masked_secrets.hpp"
#include "ingest/table_scan.hpp"
#include "model/hash.hpp"
#include "nsys_explain/model/utf8.hpp"

namespace nsys_explain::ingest {
namespace {

std::uint32_t hash_of(std::string_view text) {
  return static_cast<std::uint32_t>(std::hash<std::string_view>()(text));
}

/// The beginning, and what tells it apart from others that begin alike.
std::string shortened(std::string_view text) {
  std::size_t cut = StringTable::longest_kept;
  const auto continues = [&](std::size_t at) { return (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U; };
  for (int i = 0; i < 3 && continues(cut); ++i) --cut;  // not inside a character
  return fmt::format("{}... ({} bytes, hash {:016x})", text.substr(0, cut), text.size(), fnv1a(text));
}

}  // namespace

StringTable::StringTable(const Database& database) {
  TableScan scan(database, "StringIds");
  const auto id = scan.integer("id", Presence::required);
  const auto value = scan.text("value", Presence::required);
  scan.for_each_batch([&](std::size_t rows) {
    for (std::size_t row = 0; row < rows; ++row) {
      entries_.push_back({id[row], bytes_.size(), value[row].size(), unkept});
      bytes_ += value[row];
    }
  });
  const auto by_id = [](const Entry& a, const Entry& b) { return a.id < b.id; };
  if (!std::is_sorted(entries_.begin(), entries_.end(), by_id))
    std::stable_sort(entries_.begin(), entries_.end(), by_id);
  slots_.resize(1024);
}

std::size_t StringTable::find(std::int64_t id) const {
  if (entries_.empty()) return not_found;
  // Ids usually count up without gaps, so the distance from the first one is the place; else search.
  const auto guess = static_cast<std::uint64_t>(id) - static_cast<std::uint64_t>(entries_.front().id);
  if (guess < entries_.size() && entries_[guess].id == id) return guess;
  const auto found = std::lower_bound(entries_.begin(), entries_.end(), id,
                                      [](const Entry& entry, std::int64_t wanted) { return entry.id < wanted; });
  if (found == entries_.end() || found->id != id) return not_found;
  return static_cast<std::size_t>(found - entries_.begin());
}

std::string_view StringTable::value(std::int64_t id) const {
  const std::size_t place = find(id);
  if (place == not_found) return {};
  return std::string_view(bytes_).substr(entries_[place].offset, entries_[place].length);
}

std::size_t StringTable::find_named(std::int64_t id) {
  const std::size_t place = id == no_time ? not_found : find(id);
  if (place == not_found && id != no_time) ++unknown_ids_;
  return place;
}

StringIndex StringTable::keep_id(std::int64_t id) {
  const std::size_t place = find_named(id);
  if (place == not_found) return 0;
  Entry& entry = entries_[place];
  if (entry.kept == unkept) entry.kept = keep(std::string_view(bytes_).substr(entry.offset, entry.length));
  return entry.kept;
}

StringIndex StringTable::keep_id_masked(std::int64_t id) {
  return find_named(id) == not_found ? 0 : keep_masked(value(id));
}

/// Valid text, or as much of it as is kept.
std::string StringTable::bounded(std::string_view text) {
  std::string shorter, repaired;
  if (text.size() > longest_kept) {
    ++shortened_texts_;
    text = shorter = shortened(text);
  }
  if (!repair_utf8(text, repaired)) return std::string(text);
  ++repaired_texts_;
  return repaired;
}

StringIndex StringTable::keep(std::string_view text) {
  if (text.empty()) return 0;
  // What is equal to a text kept before is as good as that.
  const StringIndex known = slot_of(text).index;
  return known != 0 ? known : keep_bounded(bounded(text));
}

StringIndex StringTable::keep_masked(std::string_view text) {
  if (text.empty()) return 0;
  if (const StringIndex known = slot_of(text).index; known != 0 && is_masked_[known]) return known;
  if (const auto known = masked_.find(text); known != masked_.end()) return known->second;
  const std::string raw = bounded(text);
  std::string masked;
  const bool has_secret = mask_secrets(raw, masked);
  const StringIndex index = keep_bounded(has_secret ? masked : raw);
  is_masked_[index] = true;
  if (has_secret && text.size() <= longest_kept) masked_.emplace(text, index);
  return index;
}

StringIndex StringTable::keep_bounded(std::string text) {
  Slot* slot = &slot_of(text);
  if (slot->index != 0) return slot->index;
  const auto index = static_cast<StringIndex>(kept_.size());
  *slot = {hash_of(text), index};
  kept_.push_back(std::move(text));
  is_masked_.push_back(false);
  if (2 * kept_.size() > slots_.size()) grow();
  return index;
}

StringTable::Slot& StringTable::slot_of(std::string_view text) {
  const std::uint32_t hash = hash_of(text);
  const std::size_t mask = slots_.size() - 1;
  std::size_t place = hash & mask;
  while (slots_[place].index != 0 && (slots_[place].hash != hash || kept_[slots_[place].index] != text))
    place = (place + 1) & mask;
  return slots_[place];
}

void StringTable::grow() {
  std::vector<Slot> larger(2 * slots_.size());
  const std::size_t mask = larger.size() - 1;
  for (const Slot& slot : slots_) {
    if (slot.index == 0) continue;
    std::size_t place = slot.hash & mask;
    while (larger[place].index != 0) place = (place + 1) & mask;
    larger[place] = slot;
  }
  slots_ = std::move(larger);
}

}  // namespace nsys_explain::ingest
