#include "nsys_explain/model/launch_index.hpp"

#include "nsys_explain/model/algorithms.hpp"

namespace nsys_explain {
namespace {

/// Ids are handed out one after the other, so a table by id is hardly longer than the calls that have one.
constexpr std::size_t most_places_per_call = 4;

}  // namespace

LaunchIndex::LaunchIndex(const ApiCalls& calls) : calls_(&calls) {
  if (fill_table()) return;
  release(call_of_id_);
  entries_.reserve(calls.size());
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const std::uint32_t id = calls[i].correlation_id;
    if (id != 0) entries_.push_back({id, static_cast<std::uint32_t>(i)});
  }
  std::sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
    return a.correlation_id != b.correlation_id ? a.correlation_id < b.correlation_id : a.call < b.call;
  });
}

/// False where ids repeat or leave too many holes.
bool LaunchIndex::fill_table() {
  std::uint32_t last = 0;
  std::size_t with_id = 0;
  for (const ApiCall& call : *calls_) {
    if (call.correlation_id == 0) continue;
    first_id_ = with_id == 0 ? call.correlation_id : std::min(first_id_, call.correlation_id);
    last = std::max(last, call.correlation_id);
    ++with_id;
  }
  if (with_id == 0) return true;
  const std::size_t places = static_cast<std::size_t>(last - first_id_) + 1;
  if (places / most_places_per_call > with_id) return false;
  call_of_id_ = NearbyNumbers(places);
  for (std::size_t i = 0; i < calls_->size(); ++i) {
    const std::uint32_t id = (*calls_)[i].correlation_id;
    if (id == 0) continue;
    const std::uint32_t place = id - first_id_;
    if (call_of_id_[place] != no_call) return false;
    call_of_id_.set(place, static_cast<std::uint32_t>(i));
  }
  return true;
}

std::uint32_t LaunchIndex::search(std::uint32_t correlation_id, Nanoseconds activity_start_ns) const {
  if (correlation_id == 0) return no_call;
  const auto first = std::lower_bound(entries_.begin(), entries_.end(), correlation_id,
                                      [](const Entry& e, std::uint32_t id) { return e.correlation_id < id; });
  std::uint32_t found = no_call;
  for (auto entry = first; entry != entries_.end() && entry->correlation_id == correlation_id; ++entry) {
    if (found != no_call && (*calls_)[entry->call].start_ns > activity_start_ns) break;
    found = entry->call;
  }
  return found;
}

}  // namespace nsys_explain
