#include "collectives/consensus.hpp"

#include <algorithm>

namespace nsys_explain::collectives {

std::vector<std::int64_t> Consensus::merge(const MemberSequence& member, const ClockMap& map,
                                           std::span<const std::ptrdiff_t> partner, std::int64_t& next_identifier) {
  std::vector<std::int64_t> result(partner.size());
  std::vector<Insertion> insertions;
  std::vector<std::size_t> limit(partner.size());  // place of the next operation with a partner
  for (std::size_t i = partner.size(), next = identifiers_.size(); i-- > 0;) {
    if (partner[i] >= 0) next = static_cast<std::size_t>(partner[i]);
    limit[i] = next;
  }
  std::size_t place = 0;  // first operation behind everything of this member so far
  for (std::size_t i = 0; i < partner.size(); ++i) {
    const Nanoseconds enter_ns = map.to_reference(member.enter_ns[i]);
    const Nanoseconds exit_ns = map.to_reference(member.exit_ns[i]);
    if (partner[i] >= 0) {
      const auto index = static_cast<std::size_t>(partner[i]);
      timeline_.symbols[index] = std::max(timeline_.symbols[index], member.symbols[i]);  // of one kind: what calls tell
      update(index, enter_ns, exit_ns);
      result[i] = identifiers_[index];
      place = index + 1;
      continue;
    }
    // Alone: by time, but before the next operation that has a partner.
    const auto begin = timeline_.exit_ns.begin();
    const auto found = std::upper_bound(begin + static_cast<std::ptrdiff_t>(place),
                                        begin + static_cast<std::ptrdiff_t>(limit[i]), exit_ns);
    place = static_cast<std::size_t>(found - begin);
    result[i] = next_identifier++;
    insertions.push_back({place, member.symbols[i], enter_ns, exit_ns, result[i]});
  }
  if (!insertions.empty()) insert(insertions);
  return result;
}

void Consensus::update(std::size_t index, Nanoseconds enter_ns, Nanoseconds exit_ns) {
  Nanoseconds& mean_ns = timeline_.exit_ns[index];
  mean_ns += (exit_ns - mean_ns) / ++counts_[index];
  earliest_exit_ns_[index] = std::min(earliest_exit_ns_[index], exit_ns);
  timeline_.enter_ns[index] = std::max(timeline_.enter_ns[index], enter_ns);
  // Means move by a little; order must stay.
  if (index > 0) {
    timeline_.enter_ns[index] = std::max(timeline_.enter_ns[index], timeline_.enter_ns[index - 1]);
    mean_ns = std::max(mean_ns, timeline_.exit_ns[index - 1]);
  }
  if (index + 1 < identifiers_.size()) {
    timeline_.enter_ns[index] = std::min(timeline_.enter_ns[index], timeline_.enter_ns[index + 1]);
    mean_ns = std::min(mean_ns, timeline_.exit_ns[index + 1]);
  }
}

void Consensus::insert(std::span<const Insertion> insertions) {
  const std::size_t old_size = identifiers_.size(), new_size = old_size + insertions.size();
  MemberSequence merged;
  std::vector<Nanoseconds> earliest_exit_ns;
  std::vector<std::int64_t> counts, identifiers;
  for (auto* times : {&merged.enter_ns, &merged.exit_ns, &earliest_exit_ns}) times->reserve(new_size);
  for (auto* numbers : {&counts, &identifiers}) numbers->reserve(new_size);
  merged.symbols.reserve(new_size);
  const auto append = [&](std::uint64_t symbol, Nanoseconds enter_ns, Nanoseconds exit_ns, Nanoseconds earliest_ns,
                          std::int64_t count, std::int64_t identifier) {
    if (!identifiers.empty()) {
      enter_ns = std::max(enter_ns, merged.enter_ns.back());
      exit_ns = std::max(exit_ns, merged.exit_ns.back());
    }
    merged.symbols.push_back(symbol);
    merged.enter_ns.push_back(enter_ns);
    merged.exit_ns.push_back(exit_ns);
    earliest_exit_ns.push_back(earliest_ns);
    counts.push_back(count);
    identifiers.push_back(identifier);
  };
  auto next = insertions.begin();
  for (std::size_t index = 0; index <= old_size; ++index) {
    for (; next != insertions.end() && next->place == index; ++next) {
      append(next->symbol, next->enter_ns, next->exit_ns, next->exit_ns, 1, next->identifier);
    }
    if (index == old_size) break;
    append(timeline_.symbols[index], timeline_.enter_ns[index], timeline_.exit_ns[index], earliest_exit_ns_[index],
           counts_[index], identifiers_[index]);
  }
  timeline_ = std::move(merged);
  earliest_exit_ns_ = std::move(earliest_exit_ns);
  counts_ = std::move(counts);
  identifiers_ = std::move(identifiers);
}

}  // namespace nsys_explain::collectives
