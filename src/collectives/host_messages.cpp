#include "collectives/host_messages.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <utility>

namespace nsys_explain::collectives {
namespace {

constexpr Nanoseconds part_ns = 4;  // remains some when clocks are related

bool makes_persistent(std::string_view function) {
  return function.ends_with("_init");
}
bool starts_persistent(std::string_view function) {
  return function.starts_with("MPI_Start");
}
bool begins_receive(std::string_view function) {
  return function == "MPI_Irecv" || function == "MPI_Recv_init";
}
bool begins_send(std::string_view function) {
  return (function.starts_with("MPI_I") && function.ends_with("send")) ||
         (makes_persistent(function) && !begins_receive(function));
}
bool completes_all(std::string_view function) {
  return function == "MPI_Wait" || function == "MPI_Waitall";
}

/// What the calls of one process tell of its messages.
class Messages {
 public:
  Messages(const Trace& trace, const std::vector<MpiCall>& calls) : trace_(trace) {
    std::set<std::pair<std::uint64_t, std::uint64_t>> named;
    for (const MpiCall& call : calls) {
      const bool is_named = call.communicator != 0 || call.handle != 0;
      if (is_named) named.emplace(call.communicator, call.communicator != 0 ? 0 : call.handle);
    }
    one_communicator_ = named.size() == 1;
  }

  std::string_view name_of(const MpiCall& call) const { return trace_.strings[call.name]; }

  /// The receives that a call completes, in the order in which they began. Rows are those of one call.
  std::vector<MpiCall> completed_by(std::span<const MpiCall> rows) {
    std::vector<std::pair<std::int64_t, MpiCall>> receives;
    for (const MpiCall& row : rows) {
      const auto found = begun_.find(row.request);
      if (found == begun_.end()) continue;  // before the recording, or a null request
      const auto& [number, begun] = found->second;
      if (begins_receive(name_of(begun))) receives.emplace_back(number, begun);
      begun_.erase(found);
    }
    std::sort(receives.begin(), receives.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<MpiCall> result;
    for (const auto& [number, begun] : receives) {
      std::int64_t& last = last_completed_[{begun.root, begun.tag}];
      are_followed_ = are_followed_ && number > last;
      last = number;
      result.push_back(begun);
    }
    return result;
  }

  void begin(const MpiCall& call) {
    are_followed_ = are_followed_ && call.request != 0 && !begun_.contains(call.request);
    begun_[call.request] = {++begun_count_, call};
  }

  void keep(const MpiCall& persistent) { persistent_[persistent.request] = persistent; }

  /// The sends that a call starts, of persistent requests; its receives begin, too. Rows are those of one call.
  std::vector<MpiCall> start(std::span<const MpiCall> rows) {
    std::vector<MpiCall> sends;
    for (const MpiCall& row : rows) {
      const auto found = persistent_.find(row.request);
      if (found == persistent_.end()) {  // made before the recording
        are_followed_ = false;
        continue;
      }
      begin(found->second);
      if (begins_send(name_of(found->second))) sends.push_back(found->second);
    }
    return sends;
  }

  /// Peers are numbered as the trace ranks are.
  bool knows_peer(const MpiCall& call) const {
    return call.root >= 0 && call.tag >= 0 && (is_world_handle(call.handle) || one_communicator_);
  }
  bool are_followed() const { return are_followed_; }

 private:
  const Trace& trace_;
  bool one_communicator_ = false, are_followed_ = true;
  std::int64_t begun_count_ = 0;
  std::map<std::uint64_t, std::pair<std::int64_t, MpiCall>> begun_;               ///< by request
  std::map<std::uint64_t, MpiCall> persistent_;                                   ///< likewise, as they were made
  std::map<std::pair<std::int32_t, std::int32_t>, std::int64_t> last_completed_;  ///< by peer and tag
};

/// A row for each of the messages, or one.
void add_parts(const MpiCall& call, std::span<const MpiCall> messages, std::vector<MpiCall>& made) {
  const auto parts = static_cast<Nanoseconds>(std::max<std::size_t>(messages.size(), 1));
  const bool fits = call.end_ns - call.start_ns > parts * part_ns;
  for (Nanoseconds i = 0; i < (fits ? parts : 1); ++i) {
    MpiCall& part = made.emplace_back(call);
    part.request = static_cast<std::uint64_t>(i);
    if (i > 0) part.start_ns = made[made.size() - 2].end_ns;
    part.end_ns = call.end_ns - (fits ? (parts - 1 - i) * part_ns : 0);
    part.root = part.tag = -1;
    if (messages.empty() || !fits) continue;
    const MpiCall& message = messages[static_cast<std::size_t>(i)];
    part.root = message.root;
    part.tag = message.tag;
    part.communicator = message.communicator;
    part.handle = message.handle;
    part.bytes = message.bytes;
  }
}

}  // namespace

bool is_world_handle(std::uint64_t handle) {
  return handle == 0x44000000 || handle == 0x101;
}

Directions direction_of_call(std::string_view function) {
  if (function.starts_with("MPI_Wait") || function == "MPI_Recv") return Directions::receives;
  if (function.starts_with("MPI_Sendrecv")) return Directions::both;
  const bool is_send = function.ends_with("send") || function == "MPI_Send" || begins_send(function);
  return is_send ? Directions::sends : Directions::unknown;
}

std::vector<MpiCall> messages_in_a_row(const Trace& trace, std::vector<MpiCall> calls) {
  Messages messages(trace, calls);
  std::vector<MpiCall> made;
  Nanoseconds busy_until_ns = no_time;
  for (std::size_t first = 0, end = 0; first < calls.size(); first = end) {
    const MpiCall& call = calls[first];
    const auto key = [](const MpiCall& c) { return std::tie(c.start_ns, c.end_ns, c.name); };
    while (end < calls.size() && key(calls[end]) == key(call)) ++end;
    if (call.start_ns < busy_until_ns) continue;  // within another
    busy_until_ns = call.end_ns;
    const std::span<const MpiCall> rows = std::span(calls).subspan(first, end - first);
    const std::string_view name = messages.name_of(call);
    if (makes_persistent(name)) {
      messages.keep(call);
      continue;
    }
    if (starts_persistent(name)) {
      const std::vector<MpiCall> sends = messages.start(rows);
      const std::size_t first_made = made.size();
      if (!sends.empty()) add_parts(call, sends, made);
      for (std::size_t i = first_made; i < made.size(); ++i) made[i].name = sends[i - first_made].name;
      continue;
    }
    if (begins_receive(name) || begins_send(name)) messages.begin(call);
    if (begins_receive(name)) continue;
    if (completes_all(name)) {
      add_parts(call, messages.completed_by(rows), made);
      continue;
    }
    made.push_back(call);
    // Of two rows of MPI_Sendrecv nothing tells which one sends.
    const bool is_both_ways = direction_of_call(name) == Directions::both;
    if (is_both_ways && (rows.size() != 2 || rows[0].root != rows[1].root || rows[0].tag != rows[1].tag))
      made.back().root = -1;
  }
  std::vector<MpiCall> result;
  for (MpiCall& call : made) {
    const std::string_view name = messages.name_of(call);
    const bool is_lost = !messages.are_followed() && (begins_send(name) || completes_all(name));
    if (is_lost && begins_send(name)) continue;
    if (is_lost && call.request > 0) {  // one call again
      result.back().end_ns = call.end_ns;
      continue;
    }
    const bool is_message = completes_all(name) || direction_of_call(name) != Directions::unknown;
    if (is_message && (is_lost || !messages.knows_peer(call))) call.root = call.tag = -1;
    if (!completes_all(name)) call.request = 0;
    result.push_back(call);
  }
  return result;
}

}  // namespace nsys_explain::collectives
