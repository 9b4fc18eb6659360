#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <map>
#include <numbers>
#include <random>
#include <string>
#include <vector>

#include "clock/fit.hpp"

/// Sessions with known clocks and the collectives they would record. Independent of the code under test: clocks run by
/// u = true + offset + drift * (true - mid-run), in the simulator's own arithmetic.
namespace nsys_explain::clock::testing {

/// Standard deviation of an exit whose lateness is |N| with a median of 0.3 us: N has sigma = 0.3 / 0.6745 us, and |N|
/// has sigma * sqrt(1 - 2 / pi) = 0.268 us. The difference of two members has sqrt(2) of that, 0.379 us; the demand
/// counts 0.42 us per pair.
inline constexpr double all_reduce_floor_ns = 420;

/// Half of what members leave apart lasts: it is the same in every instance, and no number of them makes it smaller.
inline constexpr double lasting_share = 0.5;

/// The floor of an offset from so many instances with members whose floor of one is `one_ns`.
inline double offset_floor_ns(double instances, double one_ns = all_reduce_floor_ns) {
  return one_ns * std::sqrt(1 / instances + lasting_share * lasting_share);
}

struct TrueClock {
  double offset_ns = 0;
  double drift = 0;
  /// Off the straight line by wander_ns * sin(2 pi (true - mid-run) / wander_period_ns): the room's temperature.
  double wander_ns = 0;
  double wander_period_ns = 600e9;
  /// Off it by as much again from second to second of the run; steps stay until the next second, bends grow to it.
  std::vector<double> step_ns{}, bend_ns{};
};

class SimulatedClocks {
 public:
  SimulatedClocks(std::uint64_t seed, int nodes, double seconds, double offset_spread_ns = 20e6,
                  double drift_spread = 50e-6)
      : random_(seed), lasting_random_(seed + 1'000'000), length_ns_(seconds * 1e9) {
    for (int n = 0; n < nodes; ++n) {
      Session session;
      char name[32];
      std::snprintf(name, sizeof(name), "rank%05d", n);
      session.path = name;
      session.host = "host" + std::to_string(n);
      session.utc_start_ns = 1'700'000'000'000'000'000;
      sessions.push_back(session);
      clocks.push_back({uniform(-offset_spread_ns, offset_spread_ns), uniform(-drift_spread, drift_spread)});
      const double spread = normal();
      gather_bias_.push_back(2'700 * std::exp(1.737 * spread));  // median 2.7 us, p90 25 us
      gather_spread_.push_back(2'700 * std::exp(1.2 * spread));  // the same with a scatter of 1.25 on top
      for (std::vector<double>* const lasting : {&reduce_lasting_, &scatter_lasting_})
        lasting->push_back(lasting_share * std::normal_distribution<double>()(lasting_random_));
    }
  }

  std::vector<int> everybody() const {
    std::vector<int> members;
    for (std::size_t n = 0; n < sessions.size(); ++n) members.push_back(static_cast<int>(n));
    return members;
  }

  double mid_run_ns() const { return start_ns_ + length_ns_ / 2; }

  /// `count` instances, evenly spread over the part [from, to) of the run.
  void add(Operation operation, const std::vector<int>& members, int count, double from = 0, double to = 1) {
    for (int i = 0; i < count; ++i) {
      const double share = from + (to - from) * (i + uniform(0, 1)) / count;
      add_instance(operation, members, start_ns_ + length_ns_ * share);
    }
  }

  void add_instance(Operation operation, const std::vector<int>& members, double begin_ns) {
    ObservedInstance instance;
    instance.operation = operation;
    instance.communicator = communicator_of(members);
    instance.kernel_name_hash = 17 + static_cast<std::uint32_t>(operation);
    instance.message_bytes = 1 << 20;
    instance.first_member = static_cast<std::int64_t>(observations.members.size());
    instance.members = static_cast<std::int32_t>(members.size());
    std::vector<double> enters;
    for (std::size_t i = 0; i < members.size(); ++i) {
      // Mostly microseconds late, now and then milliseconds: must not matter.
      enters.push_back(begin_ns + std::abs(normal()) * 5e3 + (uniform(0, 1) < 0.1 ? uniform(0, 3e6) : 0));
    }
    const double end = *std::max_element(enters.begin(), enters.end()) + 200e3;
    for (std::size_t i = 0; i < members.size(); ++i) {
      ObservedMember member;
      member.session = members[i];
      member.enter_ns = local(members[i], enters[i]);
      member.exit_ns = local(members[i], end + lateness(operation, members[i]));
      observations.members.push_back(member);
    }
    observations.instances.push_back(instance);
  }

  /// Offset that a perfect fit reports for `session` against `reference` at the job time `pivot` of the reference.
  double true_offset(int session, int reference, double pivot_ns) const {
    const TrueClock& r = clocks[reference];
    const double at = mid_run_ns() + (pivot_ns - mid_run_ns() - r.offset_ns) / (1 + r.drift);
    const TrueClock& s = clocks[session];
    return (s.offset_ns - r.offset_ns) + (s.drift - r.drift) * (at - mid_run_ns());
  }

  double wander(int session, double true_ns) const {
    const TrueClock& c = clocks[session];
    double result = c.wander_ns * std::sin(2 * std::numbers::pi * (true_ns - mid_run_ns()) / c.wander_period_ns);
    const double seconds = std::max(0.0, (true_ns - start_ns_) * 1e-9);
    const auto second = static_cast<std::size_t>(seconds);
    const auto at = [](const std::vector<double>& of, std::size_t i) { return of[std::min(i, of.size() - 1)]; };
    if (!c.step_ns.empty()) result += at(c.step_ns, second);
    if (!c.bend_ns.empty()) {
      const double before = at(c.bend_ns, second);
      result += before + (seconds - static_cast<double>(second)) * (at(c.bend_ns, second + 1) - before);
    }
    return result;
  }

  /// Every clock steps by up to `step_ns` and changes its drift by up to `bend_ns` a second, every second.
  void disturb(double step_ns, double bend_ns) {
    for (TrueClock& clock : clocks) {
      double off = 0, rate = 0;
      for (double second = 0; second <= length_ns_ * 1e-9 + 1; ++second) {
        clock.step_ns.push_back(uniform(-step_ns, step_ns));
        clock.bend_ns.push_back(off);
        rate = 0.9 * rate + uniform(-bend_ns, bend_ns);
        off += rate;
      }
    }
  }

  /// What a session's clock shows at a true time, without the ticks of the GPU's timer.
  double shows(int session, double true_ns) const {
    const TrueClock& c = clocks[session];
    return true_ns + c.offset_ns + c.drift * (true_ns - mid_run_ns()) + wander(session, true_ns);
  }
  double begin_ns() const { return start_ns_; }
  double end_ns() const { return start_ns_ + length_ns_; }

  /// The same for the drift: job time runs as the reference does.
  double true_drift(int session, int reference) const {
    return 1 - (1 + clocks[reference].drift) / (1 + clocks[session].drift);
  }

  double uniform(double low, double high) { return std::uniform_real_distribution<double>(low, high)(random_); }
  double normal() { return std::normal_distribution<double>()(random_); }

  std::vector<Session> sessions;
  std::vector<TrueClock> clocks;
  Observations observations;
  /// All-gathers: logarithmic standard deviation from instance to instance; 0: a bias that lasts and 1 us of noise.
  double gather_scatter = 0;

 private:
  std::int32_t communicator_of(const std::vector<int>& members) {
    const auto next = static_cast<std::int32_t>(communicator_index_.size());
    const auto [known, is_new] = communicator_index_.try_emplace(members, next);
    if (is_new) observations.communicators.emplace_back(members.begin(), members.end());
    return known->second;
  }

  Nanoseconds local(int session, double true_ns) const {
    return static_cast<Nanoseconds>(std::llround(shows(session, true_ns) / 32)) * 32;  // GPU timers tick in 32 ns
  }

  double lateness(Operation operation, int session) {
    constexpr double one_exit = 0.603;  // standard deviation of |N|
    switch (operation) {
      case Operation::all_reduce:
        return 300 / 0.6745 * (std::abs(normal()) + one_exit * reduce_lasting_[static_cast<std::size_t>(session)]);
      case Operation::reduce_scatter:
        return 1'000 / 0.6745 * (std::abs(normal()) + one_exit * scatter_lasting_[static_cast<std::size_t>(session)]);
      case Operation::all_gather:
        if (gather_scatter > 0) return gather_spread_[session] * std::exp(gather_scatter * normal());
        return gather_bias_[session] + 1'000 * std::abs(normal());
      default:
        return 10'000 * std::abs(normal());
    }
  }

  std::mt19937_64 random_, lasting_random_;
  double start_ns_ = 2e9;
  double length_ns_ = 0;
  std::vector<double> gather_bias_, gather_spread_, reduce_lasting_, scatter_lasting_;
  std::map<std::vector<int>, std::int32_t> communicator_index_;
};

}  // namespace nsys_explain::clock::testing
