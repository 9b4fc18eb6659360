#include "clock/job_clock.hpp"

#include <gtest/gtest.h>

#include <compare>
#include <concepts>
#include <cstdint>
#include <type_traits>

namespace nsys_explain::clock {
namespace {

SessionClock clock_with(Nanoseconds offset_ns, double drift_ppb) {
  SessionClock clock;
  clock.offset_ns = offset_ns;
  clock.drift_ppb = drift_ppb;
  return clock;
}

Nanoseconds to_job_time(const SessionClock& clock, Nanoseconds pivot_ns, Nanoseconds u_ns) {
  return JobClock(clock, pivot_ns)(SessionTime(u_ns)).ns;
}

Nanoseconds to_session_time(const SessionClock& clock, Nanoseconds pivot_ns, Nanoseconds job_ns) {
  return JobClock(clock, pivot_ns).session_time(JobTime(job_ns)).ns;
}

template <class A, class B>
concept have_distance = requires(A a, B b) {
  a - b;
};
template <class A, class B>
concept mix = std::is_convertible_v<A, B> || std::is_convertible_v<B, A> || std::three_way_comparable_with<A, B>;

static_assert(mix<JobTime, JobTime> && !mix<TraceTime, JobTime> && !mix<TraceTime, SessionTime> &&
              !mix<SessionTime, JobTime> && !mix<JobTime, Nanoseconds>);
static_assert(have_distance<JobTime, JobTime> && !have_distance<TraceTime, JobTime> &&
              !have_distance<TraceTime, SessionTime> && !have_distance<SessionTime, JobTime>);
static_assert(std::invocable<JobClock, SessionTime> && !std::invocable<JobClock, TraceTime>);
static_assert(std::invocable<TraceClock, TraceTime> && !std::invocable<TraceClock, SessionTime>);
static_assert(std::is_trivially_copyable_v<JobTime> && sizeof(JobTime) == sizeof(Nanoseconds));

TEST(JobClock, WithoutDriftSubtractsTheOffset) {
  const SessionClock clock = clock_with(-1'500, 0);
  EXPECT_EQ(to_job_time(clock, 99, 1'000), 2'500);
  EXPECT_EQ(to_session_time(clock, 99, 2'500), 1'000);
}

TEST(JobClock, MatchesTheFormulaOfTheReport) {
  // x = 61e9 - 1e9 = 60e9, 30 s after the pivot: 50 ppm of it are 1.5 ms.
  EXPECT_EQ(to_job_time(clock_with(1'000'000'000, 50'000), 30'000'000'000, 61'000'000'000), 59'998'500'000);
  // The same distance before the pivot, and a clock that runs slow.
  EXPECT_EQ(to_job_time(clock_with(1'000'000'000, 50'000), 30'000'000'000, 1'000'000'000), 1'500'000);
  EXPECT_EQ(to_job_time(clock_with(1'000'000'000, -50'000), 30'000'000'000, 61'000'000'000), 60'001'500'000);
}

TEST(JobClock, RoundsHalvesOfTheCorrectionUpwards) {
  const SessionClock half = clock_with(0, 500'000'000);  // correction = x / 2
  EXPECT_EQ(to_job_time(half, 0, 1), 0);                 // 0.5 -> 1
  EXPECT_EQ(to_job_time(half, 0, -1), -1);               // -0.5 -> 0
  EXPECT_EQ(to_job_time(half, 0, 2), 1);
}

TEST(JobClock, KeepsNanosecondsFarFromZero) {
  // 1e17 ns of session time: a double would resolve 16 ns only.
  const Nanoseconds far = 100'000'000'000'000'001;
  EXPECT_EQ(to_job_time(clock_with(0, 1), far - 1'000'000'000, far), far - 1);
}

TEST(JobClock, IsExactWhereDriftTimesTimeIsBeyond64Bits) {
  // 5e6 ppb of 4e12 ns are 2e10 ns, through 2e19 ppb x ns; of 1 ns less 19'999'999'999.995, which rounds up.
  const Nanoseconds far = 4'000'000'000'000;
  const SessionClock fast = clock_with(0, 5e6), slow = clock_with(0, -5e6);
  EXPECT_EQ(to_job_time(fast, 0, far), far - 20'000'000'000);
  EXPECT_EQ(to_job_time(fast, 0, far - 1), far - 1 - 20'000'000'000);
  EXPECT_EQ(to_job_time(fast, 0, far - 100), far - 100 - 19'999'999'999 - 1);  // .5 rounds up
  EXPECT_EQ(to_job_time(fast, 0, far - 101), far - 101 - 19'999'999'999);
  EXPECT_EQ(to_job_time(slow, 0, far), far + 20'000'000'000);
  EXPECT_EQ(to_job_time(fast, far, 0), 20'000'000'000);
}

TEST(JobClock, IsMonotoneAndInverts) {
  for (const double drift_ppb : {-50'000.0, -0.37, 0.37, 50'000.0, 3'000'000.0}) {
    const SessionClock clock = clock_with(123'457, drift_ppb);
    const Nanoseconds pivot = 40'000;
    for (Nanoseconds u = -100'000; u < 300'000; u += 7) {
      const Nanoseconds job = to_job_time(clock, pivot, u);
      ASSERT_LE(job, to_job_time(clock, pivot, u + 1)) << drift_ppb << " at " << u;
      const Nanoseconds back = to_session_time(clock, pivot, job);
      ASSERT_TRUE(back == u || back == u - 1) << drift_ppb << " at " << u;
      ASSERT_GE(to_job_time(clock, pivot, back), job);
      ASSERT_LT(to_job_time(clock, pivot, back - 1), job);
    }
  }
}

TEST(JobClock, FollowsBends) {
  SessionClock clock = clock_with(1'000, 0);
  clock.bends = {{0, 0}, {10'000, 40}, {20'000, -60}};
  EXPECT_EQ(to_job_time(clock, 10'000, 1'000), 0);
  EXPECT_EQ(to_job_time(clock, 10'000, 6'000), 5'000 - 20);
  EXPECT_EQ(to_job_time(clock, 10'000, 11'000), 10'000 - 40);
  EXPECT_EQ(to_job_time(clock, 10'000, 16'000), 15'000 + 10);  // half-way from 40 to -60
  EXPECT_EQ(to_job_time(clock, 10'000, 31'000), 30'000 + 60);  // the last correction stays
  EXPECT_EQ(to_job_time(clock, 10'000, -9'000), -10'000 + 0);  // as does the first
  clock.drift_ppb = 1'000'000;                                 // 1 in 1,000, on top
  EXPECT_EQ(to_job_time(clock, 10'000, 16'000), 15'000 + 10 - 5);
  EXPECT_EQ(to_job_time(clock, 10'000, 31'000), 30'000 + 60 - 20);
}

TEST(JobClock, WithBendsIsMonotoneAndInverts) {
  for (const double drift_ppb : {-50'000.0, 0.0, 50'000.0}) {
    SessionClock clock = clock_with(123'457, drift_ppb);
    clock.bends = {{-70'000, -8}, {0, 5}, {50'000, 0}, {90'000, 9}};
    for (Nanoseconds u = -100'000; u < 300'000; u += 3) {
      const Nanoseconds job = to_job_time(clock, 50'000, u);
      ASSERT_LE(job, to_job_time(clock, 50'000, u + 1)) << drift_ppb << " at " << u;
      const Nanoseconds back = to_session_time(clock, 50'000, job);
      ASSERT_TRUE(back == u || back == u - 1) << drift_ppb << " at " << u;
    }
  }
}

TEST(TraceClock, GoesThroughSessionTimeAndBack) {
  const SessionClock clock = clock_with(-1'500, 0);
  const TraceClock of_trace(SessionTime(400), JobClock(clock, 0));
  EXPECT_EQ(of_trace.session_time(TraceTime(100)), SessionTime(500));
  EXPECT_EQ(of_trace(TraceTime(100)), JobTime(2'000));
  EXPECT_EQ(of_trace.trace_time(JobTime(2'000)), TraceTime(100));
  EXPECT_EQ(of_trace(TraceTime(no_time)), JobTime(no_time));
  EXPECT_EQ(TraceClock(SessionTime(400))(TraceTime(100)), JobTime(500)) << "where no clock is known better";
}

TEST(JobClock, LeavesMissingTimesMissing) {
  EXPECT_EQ(to_job_time(clock_with(5, 7), 0, no_time), no_time);
  EXPECT_EQ(to_session_time(clock_with(5, 7), 0, no_time), no_time);
}

}  // namespace
}  // namespace nsys_explain::clock
