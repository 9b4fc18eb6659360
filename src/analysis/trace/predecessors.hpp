#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "analysis/trace/activity_graph.hpp"

namespace nsys_explain::analysis {

inline std::uint32_t saturated_slack(Nanoseconds time_ns) {
  return static_cast<std::uint32_t>(std::clamp<Nanoseconds>(time_ns, 0, no_bound - 1));
}

/// What something may have waited for.
class Predecessors {
 public:
  /// `piece`: -1 the host. One that was not over by `start_ns` is none.
  Predecessors(Nanoseconds start_ns, Nanoseconds host_ns) : start_ns_(start_ns) {
    if (host_ns != no_time && host_ns <= start_ns) host_ns_ = latest_ns_ = host_ns;
  }

  void add_compute(std::int32_t piece, Nanoseconds end_ns) {
    if (end_ns == no_time || end_ns > start_ns_) return;
    compute_ = {piece, end_ns};
    latest_ns_ = std::max(latest_ns_, end_ns);
  }
  void add_other(std::int32_t piece, Nanoseconds end_ns) {
    if (piece < 0 || end_ns > start_ns_) return;
    others_.push_back({piece, end_ns});
    latest_ns_ = std::max(latest_ns_, end_ns);
  }

  bool has_others() const { return !others_.empty(); }
  Nanoseconds latest_ns() const { return latest_ns_; }  ///< no_time: of none
  std::uint32_t host_slack() const { return slack_of(host_ns_); }
  std::uint32_t compute_slack() const { return slack_of(compute_.end_ns); }

  /// Of many others those that were over last.
  std::array<PieceWait, 3> waits() {
    std::sort(others_.begin(), others_.end(), [](const Ended& a, const Ended& b) {
      return a.end_ns != b.end_ns ? a.end_ns > b.end_ns : a.piece < b.piece;
    });
    std::array<PieceWait, 3> waits{};
    waits[0] = {compute_.piece, compute_slack()};
    for (std::size_t w = 1; w < waits.size() && w <= others_.size(); ++w)
      waits[w] = {others_[w - 1].piece, slack_of(others_[w - 1].end_ns)};
    return waits;
  }

 private:
  struct Ended {
    std::int32_t piece = -1;
    Nanoseconds end_ns = no_time;
  };
  std::uint32_t slack_of(Nanoseconds time_ns) const {
    return time_ns == no_time ? no_bound : saturated_slack(latest_ns_ - time_ns);
  }

  Nanoseconds start_ns_, host_ns_ = no_time, latest_ns_ = no_time;
  Ended compute_;
  std::vector<Ended> others_;
};

}  // namespace nsys_explain::analysis
