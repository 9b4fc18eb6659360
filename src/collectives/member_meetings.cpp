#include "collectives/member_meetings.hpp"

#include <iterator>

namespace nsys_explain::collectives {
namespace {

constexpr std::size_t fewest = 4;

}  // namespace

Nanoseconds middle_of(std::vector<Nanoseconds> times_ns) {
  if (times_ns.empty()) return 0;
  const auto middle = std::next(times_ns.begin(), static_cast<std::ptrdiff_t>(times_ns.size() / 2));
  std::nth_element(times_ns.begin(), middle, times_ns.end());
  return *middle;
}

Nanoseconds usual_ns(std::span<const MemberMeeting> meetings) {
  std::vector<Nanoseconds> took_ns;
  for (const MemberMeeting& meeting : meetings) took_ns.push_back(meeting.took_ns);
  const auto fifth = std::next(took_ns.begin(), static_cast<std::ptrdiff_t>(took_ns.size() / 5));
  std::nth_element(took_ns.begin(), fifth, took_ns.end());
  return *fifth;
}

std::vector<bool> have_waited(std::span<const MemberMeeting> meetings) {
  constexpr Nanoseconds times = 3, more_ns = 100'000;
  if (meetings.size() < fewest) return {};
  const Nanoseconds longest_ns = times * std::max<Nanoseconds>(usual_ns(meetings), 0) + more_ns;
  std::vector<bool> waited;
  for (const MemberMeeting& meeting : meetings) waited.push_back(meeting.took_ns > longest_ns);
  return waited;
}

std::vector<bool> have_waited_apart(std::span<const MemberMeeting> meetings) {
  constexpr Nanoseconds times = 3, least_ns = 500;
  std::vector<bool> apart = have_waited(meetings);
  std::vector<Nanoseconds> usual_ns;
  for (std::size_t i = 0; i < apart.size(); ++i) {
    if (!apart[i]) usual_ns.push_back(meetings[i].apart_ns);
  }
  if (usual_ns.size() < fewest) return {};
  const Nanoseconds close_ns = times * std::max(middle_of(std::move(usual_ns)), least_ns);
  for (std::size_t i = 0; i < apart.size(); ++i) apart[i] = apart[i] && meetings[i].apart_ns > close_ns;
  return apart;
}

bool are_many(const std::vector<bool>& meetings) {
  constexpr std::size_t one_in = 20;
  const auto count = static_cast<std::size_t>(std::count(meetings.begin(), meetings.end(), true));
  return count >= std::max(fewest, meetings.size() / one_in);
}

}  // namespace nsys_explain::collectives
