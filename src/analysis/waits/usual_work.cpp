#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "analysis/waits/rank_timeline.hpp"
#include "nsys_explain/model/lower_median.hpp"

namespace nsys_explain::analysis {
namespace {

/// Reorders. 0 where none is known.
Nanoseconds median_of_known(std::span<Nanoseconds> times) {
  const auto unknown = std::partition(times.begin(), times.end(), [](Nanoseconds time) { return time != no_time; });
  return unknown == times.begin() ? 0 : lower_median(std::span(times.begin(), unknown));
}

/// Numbers of the samples' places, equal where peers meet; in the order in which places come first. Ranks of one role
/// go through the same places in the same order, so where the last one went from the same place is tried first.
std::vector<std::uint32_t> number_places(std::span<const WorkSample> samples) {
  std::unordered_map<std::uint64_t, std::uint32_t> known;
  std::vector<std::uint64_t> places;      // by number
  std::vector<std::uint32_t> went_on_to;  // from each place
  std::vector<std::uint32_t> numbers(samples.size());
  std::uint32_t before = 0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    std::uint32_t& next = numbers[i];
    if (i > 0 && places[went_on_to[before]] == samples[i].place) {
      next = went_on_to[before];
    } else {
      const auto [entry, is_new] = known.try_emplace(samples[i].place, static_cast<std::uint32_t>(places.size()));
      next = entry->second;
      if (is_new) {
        places.push_back(samples[i].place);
        went_on_to.push_back(0);
      }
    }
    went_on_to[before] = next;
    before = next;
  }
  return numbers;
}

}  // namespace

std::vector<UsualWork> usual_work(std::span<const WorkSample> samples, bool with_transfers) {
  const std::vector<std::uint32_t> place = number_places(samples);
  const std::size_t places = place.empty() ? 0 : std::size_t{*std::max_element(place.begin(), place.end())} + 1;
  std::vector<std::size_t> first(places + 2, 0);  // of each place's samples; shifted by one until they are filled in
  for (const std::uint32_t p : place) ++first[p + 2];
  std::partial_sum(first.begin(), first.end(), first.begin());
  std::vector<Nanoseconds> work(samples.size()), wait(samples.size()), transfer(with_transfers ? samples.size() : 0);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const std::size_t at = first[place[i] + 1]++;
    work[at] = samples[i].work_ns;
    wait[at] = samples[i].wait_ns;
    if (with_transfers) transfer[at] = samples[i].transfer_ns;
  }
  std::vector<UsualWork> of_place(places);
  for (std::size_t p = 0; p < places; ++p) {
    const std::size_t count = first[p + 1] - first[p];
    if (count < 2) continue;
    of_place[p].work_ns = lower_median(std::span(work).subspan(first[p], count));
    of_place[p].wait_ns = median_of_known(std::span(wait).subspan(first[p], count));
    of_place[p].transfer_ns = with_transfers ? lower_median(std::span(transfer).subspan(first[p], count)) : 0;
  }
  std::vector<UsualWork> usual(samples.size());
  for (std::size_t i = 0; i < samples.size(); ++i) usual[i] = of_place[place[i]];
  return usual;
}

}  // namespace nsys_explain::analysis
