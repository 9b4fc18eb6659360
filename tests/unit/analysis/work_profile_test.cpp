#include "analysis/trace/work_profile.hpp"

#include <algorithm>
#include <numeric>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/trace/host_activity.hpp"
#include "unit/analysis/rank_fixture.hpp"
#include "work_fixture.hpp"

namespace nsys_explain::analysis {

bool operator==(const WorkPiece& a, const WorkPiece& b) {
  return a.start_ns == b.start_ns && a.end_ns == b.end_ns && a.part == b.part;
}
void PrintTo(const WorkPiece& piece, std::ostream* out) {
  *out << piece.start_ns << "-" << piece.end_ns << " " << work_parts()[static_cast<std::size_t>(piece.part)].name;
}

namespace {

using ::testing::ElementsAre;
using testing::RankFixture;

constexpr Nanoseconds us = 1000;

TEST(WorkTimeline, IdleTimeBelongsToWhatTheHostDidUntilTheLaunchReturned) {
  RankFixture rank;
  rank.kernel("a", 0, 100 * us, 200 * us);
  rank.call("cudaStreamSynchronize", 150 * us, 220 * us);
  rank.range("gc.collect", 250 * us, 400 * us);
  rank.kernel("b", 450 * us, 460 * us, 500 * us);
  const RankEvents events = rank.events();
  EXPECT_THAT(
      work_timeline(events),
      ElementsAre(
          WorkPiece{100 * us, 200 * us, WorkPart::compute}, WorkPiece{200 * us, 220 * us, WorkPart::synchronising},
          WorkPiece{220 * us, 250 * us, WorkPart::unseen}, WorkPiece{250 * us, 400 * us, WorkPart::named_range},
          WorkPiece{400 * us, 450 * us, WorkPart::unseen}, WorkPiece{450 * us, 450 * us + 10, WorkPart::launching},
          WorkPiece{450 * us + 10, 460 * us, WorkPart::pending}, WorkPiece{460 * us, 500 * us, WorkPart::compute}));
}

TEST(WorkTimeline, ARangeThatOnlyCopiesIsWhatTheHostDid) {
  RankFixture rank;
  rank.kernel("a", 0, 100 * us, 200 * us);
  rank.range("checkpoint", 210 * us, 400 * us);
  rank.copy("cudaMemcpyAsync", 220 * us, 260 * us, 230 * us, 260 * us);  // then it writes a file
  rank.range("forward", 420 * us, 500 * us);
  rank.kernel("b", 450 * us, 460 * us, 500 * us);
  const RankEvents events = rank.events();
  const auto pieces = work_timeline(events);
  const auto in = [&](Nanoseconds from, Nanoseconds until, WorkPart part) {
    return std::find(pieces.begin(), pieces.end(), WorkPiece{from, until, part}) != pieces.end();
  };
  EXPECT_TRUE(in(260 * us, 400 * us, WorkPart::named_range));
  EXPECT_TRUE(in(400 * us, 450 * us, WorkPart::unseen)) << "the next range launches a kernel: it is the program";
}

TEST(WorkTimeline, IdleTimeIsNotTheHostsWhereTheLaunchWasInTime) {
  RankFixture rank;
  rank.kernel("a", 0, 100 * us, 200 * us);
  rank.kernel("b", 150 * us, 300 * us, 400 * us);
  rank.call("cudaMalloc", 160 * us, 390 * us);
  const RankEvents events = rank.events();
  EXPECT_EQ(work_timeline(events)[1], (WorkPiece{200 * us, 300 * us, WorkPart::pending}));
}

TEST(WorkTimeline, ACopyBlocksWhereItsCallOutlastsIt) {
  RankFixture rank;
  rank.kernel("a", 0, 100 * us, 200 * us);
  rank.copy("cudaMemcpyAsync", 150 * us, 420 * us, 200 * us, 400 * us);
  rank.copy("cudaMemcpyAsync", 430 * us, 440 * us, 450 * us, 600 * us);
  const RankEvents events = rank.events();
  const auto pieces = work_timeline(events);
  EXPECT_EQ(pieces[1], (WorkPiece{200 * us, 400 * us, WorkPart::blocking_copy}));
  EXPECT_EQ(pieces.back(), (WorkPiece{450 * us, 600 * us, WorkPart::copy}));
}

TEST(WorkTimeline, ProfilerAndSystemCallsAndCores) {
  RankFixture rank;
  rank.kernel("a", 0, 100 * us, 200 * us);
  ProcessTrace& process = rank.process();
  process.overheads.push_back({300 * us, 400 * us, 99, 0, OverheadKind::buffer_flush, true});  // on a thread of its own
  process.os_calls.push_back({400 * us, 500 * us, 1, rank.name("read"), false});
  process.os_calls.push_back({500 * us, 600 * us, 1, rank.name("poll"), false});
  process.scheduling_events.push_back({510 * us, 1, 0, 0, 0, false});  // waiting has no core, either
  process.scheduling_events.push_back({700 * us, 1, 0, 0, 0, true});
  rank.kernel("b", 800 * us, 810 * us, 900 * us);
  const RankEvents events = rank.events();
  const auto pieces = work_timeline(events);
  EXPECT_THAT(
      std::vector(pieces.begin() + 1, pieces.begin() + 7),
      ElementsAre(
          WorkPiece{200 * us, 300 * us, WorkPart::unseen}, WorkPiece{300 * us, 400 * us, WorkPart::profiling},
          WorkPiece{400 * us, 500 * us, WorkPart::file_access}, WorkPiece{500 * us, 600 * us, WorkPart::system_wait},
          WorkPiece{600 * us, 700 * us, WorkPart::descheduled}, WorkPiece{700 * us, 800 * us, WorkPart::unseen}));
}

TEST(WorkTimeline, RangesThatLaunchArePartsOfTheProgram) {
  RankFixture rank;
  rank.range("step 0", 0, 900 * us);
  rank.kernel("a", 10 * us, 100 * us, 200 * us);
  rank.kernel("b", 450 * us, 460 * us, 500 * us);
  const RankEvents events = rank.events();
  EXPECT_EQ(work_timeline(events)[1], (WorkPiece{200 * us, 450 * us, WorkPart::unseen}));
}

TEST(WorkTimeline, ALongLaunchIsSeenPastManyShortOnesAfterItsBegin) {
  RankFixture rank;
  rank.kernel("a", 0, 100 * us, 4000 * us);
  rank.call("cudaGraphLaunch", 50 * us, 4750 * us);
  for (int i = 0; i < 300; ++i) rank.call("cudaLaunchKernel", (60 + 10 * i) * us, (65 + 10 * i) * us);
  rank.kernel("b", 4800 * us, 4900 * us, 5000 * us);
  const RankEvents events = rank.events();
  EXPECT_THAT(work_timeline(events), ElementsAre(WorkPiece{100 * us, 4000 * us, WorkPart::compute},
                                                 WorkPiece{4000 * us, 4750 * us, WorkPart::launching},
                                                 WorkPiece{4750 * us, 4800 * us, WorkPart::unseen},
                                                 WorkPiece{4800 * us, 4800 * us + 10, WorkPart::launching},
                                                 WorkPiece{4800 * us + 10, 4900 * us, WorkPart::pending},
                                                 WorkPiece{4900 * us, 5000 * us, WorkPart::compute}));
}

TEST(WorkTimeline, ALaunchIsSeenBehindVeryManyOfOtherThreads) {
  RankFixture rank;
  rank.kernel("a", 0, 100 * us, 200 * us);
  for (int i = 0; i < 70000; ++i) rank.call("cudaLaunchKernel", 20 + i, 21 + i, 0, 2);
  rank.call("cudaGraphLaunch", 150 * us, 320 * us);
  rank.kernel("b", 350 * us, 360 * us, 400 * us);
  const RankEvents events = rank.events();
  const auto pieces = work_timeline(events);
  EXPECT_EQ(pieces[1], (WorkPiece{200 * us, 320 * us, WorkPart::launching}));
  EXPECT_EQ(pieces[2], (WorkPiece{320 * us, 350 * us, WorkPart::unseen}));
}

TEST(WorkTimeline, AnotherThreadThatLaunchesCanBeWhatTheLaunchWaitedFor) {
  RankFixture rank;
  rank.kernel("forward", 0, 100 * us, 200 * us);
  rank.call("cudaMalloc", 250 * us, 400 * us);
  rank.kernel("backward", 450 * us, 460 * us, 500 * us, 1, 2);
  const RankEvents events = rank.events();
  EXPECT_EQ(work_timeline(events)[2], (WorkPiece{250 * us, 400 * us, WorkPart::allocation}));
}

TEST(PartOfCall, FollowsTheName) {
  EXPECT_EQ(part_of_call("cudaDeviceSynchronize"), WorkPart::synchronising);
  EXPECT_EQ(part_of_call("cuCtxSynchronize"), WorkPart::synchronising);
  EXPECT_EQ(part_of_call("cudaMemcpy"), WorkPart::blocking_copy);
  EXPECT_EQ(part_of_call("cuMemcpyDtoH"), WorkPart::blocking_copy);
  EXPECT_EQ(part_of_call("cudaMemcpyAsync"), WorkPart::launching);
  EXPECT_EQ(part_of_call("cudaMalloc"), WorkPart::allocation);
  EXPECT_EQ(part_of_call("cuMemAlloc"), WorkPart::allocation);
  EXPECT_EQ(part_of_call("cudaFreeHost"), WorkPart::allocation);
  EXPECT_EQ(part_of_call("cuModuleLoadData"), WorkPart::module_load);
  EXPECT_EQ(part_of_call("cuLibraryLoadData"), WorkPart::module_load);
  EXPECT_EQ(part_of_call("cudaLaunchKernel"), WorkPart::launching);
  EXPECT_EQ(part_of_call("cudaEventRecord"), WorkPart::launching);
}

TraceArrival arrival(Nanoseconds enter_ns, Nanoseconds exit_ns, Nanoseconds work_ns) {
  TraceArrival a;
  a.enter = TraceTime(enter_ns);
  a.exit = TraceTime(exit_ns);
  a.work_ns = work_ns;
  return a;
}

TEST(WorkProfile, KnowsHowLongTheSameKernelsTakeAsARule) {
  RankFixture rank;
  rank.kernel("x", 0, 0, 30 * us);
  rank.kernel("nccl1", 1 * us, 100 * us, 120 * us);
  rank.kernel("x", 110 * us, 120 * us, 160 * us);
  rank.kernel("y", 111 * us, 160 * us, 170 * us);
  rank.kernel("nccl2", 112 * us, 200 * us, 220 * us);
  const RankEvents events = rank.events();
  const auto profiles =
      profile_work(events, std::vector{arrival(100 * us, 120 * us, 70 * us), arrival(200 * us, 220 * us, 80 * us)});
  EXPECT_EQ(profiles[0].kernel_ns, 30 * us);
  EXPECT_EQ(profiles[0].usual_kernel_ns, 35 * us);
  EXPECT_EQ(profiles[1].kernel_ns, 50 * us);
  EXPECT_EQ(profiles[1].usual_kernel_ns, 45 * us);
}

TEST(WorkProfile, CountsKernelsByLaunchNotByExecution) {
  // The second collective was launched behind two kernels; one of them ran while the first collective did.
  RankFixture rank;
  rank.kernel("nccl1", 0, 100 * us, 300 * us);
  rank.kernel("x", 10 * us, 200 * us, 260 * us, 4);
  rank.kernel("y", 20 * us, 300 * us, 350 * us);
  rank.call("cudaEventSynchronize", 25 * us, 26 * us);
  rank.call("cudaMalloc", 27 * us, 28 * us);
  rank.kernel("nccl2", 30 * us, 350 * us, 400 * us);
  rank.kernel("z", 40 * us, 400 * us, 500 * us);
  const RankEvents events = rank.events();
  const std::vector<TraceArrival> arrivals{arrival(100 * us, 300 * us, no_time), arrival(350 * us, 400 * us, 50 * us)};
  const auto profiles = profile_work(events, arrivals);
  ASSERT_EQ(profiles.size(), 2U);
  EXPECT_EQ(profiles[0].kernels, 0U);
  EXPECT_EQ(profiles[1].kernels, 2U);
  EXPECT_EQ(profiles[1].kernel_ns, 110 * us);
  EXPECT_EQ(profiles[1].usual_kernel_ns, 110 * us);
  EXPECT_EQ(profiles[1].synchronisations, 1);
  EXPECT_EQ(profiles[1].allocations, 1);
  EXPECT_EQ(profiles[1].part(WorkPart::compute), 50 * us);
}

TEST(WorkProfile, NodesOfAGraphAreInTheOrderOfTheProgramWhicheverStreamRanFirst) {
  // One launch: x, a collective on another stream, y, a collective. The first collective begins before y, or after it.
  for (const Nanoseconds begin : {150 * us, 250 * us}) {
    testing::OneRank rank;
    rank.call("cudaGraphLaunch", 0, 10 * us, 9);
    rank.kernel("x", 100 * us, 200 * us, 9).graph_node_id = 1;
    rank.kernel("nccl1", begin, 400 * us, 9, 20).graph_node_id = 2;
    rank.kernel("y", 200 * us, 230 * us, 9).graph_node_id = 3;
    rank.kernel("nccl2", 450 * us, 500 * us, 9, 20).graph_node_id = 4;
    const RankEvents events = rank.events();
    const std::vector<TraceArrival> arrivals{arrival(begin, 400 * us, no_time), arrival(450 * us, 500 * us, 50 * us)};
    const auto profiles = profile_work(events, arrivals);
    EXPECT_EQ(profiles[0].kernel_ns, 100 * us) << begin;
    EXPECT_EQ(profiles[1].kernel_ns, 30 * us) << begin;
  }
}

TEST(WorkProfile, KernelsCountOnceWhereTwoCollectivesStartAtOnce) {
  RankFixture rank;
  rank.kernel("x", 10 * us, 20 * us, 50 * us);
  rank.kernel("nccl1", 15 * us, 100 * us, 300 * us);
  rank.kernel("nccl2", 20 * us, 100 * us, 200 * us);
  rank.kernel("y", 30 * us, 300 * us, 320 * us);
  rank.kernel("nccl3", 40 * us, 330 * us, 340 * us);
  const RankEvents events = rank.events();
  const std::vector<TraceArrival> arrivals{arrival(100 * us, 300 * us, no_time), arrival(100 * us, 200 * us, no_time),
                                           arrival(330 * us, 340 * us, 30 * us)};
  const auto profiles = profile_work(events, arrivals);
  EXPECT_EQ(profiles[0].kernel_ns + profiles[1].kernel_ns, 30 * us);
  EXPECT_EQ(profiles[2].kernel_ns, 20 * us);
}

TEST(WorkProfile, HashTellsNamesAndGridsButNotOrderOrTime) {
  const auto hash = [](std::initializer_list<std::pair<const char*, int>> kernels, Nanoseconds duration_ns) {
    RankFixture rank;
    Nanoseconds at_ns = 0;
    for (const auto& [name, grid] : kernels) {
      rank.kernel(name, at_ns, at_ns + 5 * us, at_ns + 5 * us + duration_ns, grid);
      at_ns += 100 * us;
    }
    rank.kernel("nccl", at_ns, at_ns + 5 * us, at_ns + 10 * us);
    const RankEvents events = rank.events();
    const std::vector<TraceArrival> arrivals{arrival(at_ns + 5 * us, at_ns + 10 * us, 10 * us)};
    return profile_work(events, arrivals)[0].kernels_hash;
  };
  const std::uint64_t reference = hash({{"a", 1}, {"b", 2}}, 10 * us);
  EXPECT_EQ(hash({{"b", 2}, {"a", 1}}, 20 * us), reference);
  EXPECT_NE(hash({{"a", 2}, {"b", 1}}, 10 * us), reference);
  EXPECT_NE(hash({{"a", 1}, {"b", 2}, {"b", 2}}, 10 * us), reference);
  EXPECT_NE(hash({{"a", 1}}, 10 * us), reference);
}

TEST(WorkProfile, PartsAddUpToTheWorkOfRandomRanks) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    const auto draw = [&](Nanoseconds low, Nanoseconds high) {
      return std::uniform_int_distribution<Nanoseconds>(low, high)(random);
    };
    RankFixture rank;
    std::vector<TraceArrival> arrivals;
    Nanoseconds host_ns = 0, gpu_ns = 0, latest_exit_ns = no_time;
    for (int i = 0; i < 200; ++i) {
      if (draw(0, 9) == 0) {
        const Nanoseconds length = draw(1, 200 * us);
        rank.call(draw(0, 1) == 0 ? "cudaMalloc" : "cudaStreamSynchronize", host_ns, host_ns + length);
        host_ns += length;
      }
      const bool communicates = i % 7 == 6;
      const Nanoseconds launch_ns = host_ns;
      host_ns += draw(10, 30 * us);
      const Nanoseconds start_ns = std::max(launch_ns + draw(1, 20 * us), gpu_ns + draw(0, us));
      const Nanoseconds end_ns = start_ns + draw(1, 40 * us);
      gpu_ns = end_ns;
      rank.kernel(communicates ? "nccl" : "work", launch_ns, start_ns, end_ns);
      if (!communicates) continue;
      arrivals.push_back(arrival(start_ns, end_ns, latest_exit_ns == no_time ? no_time : start_ns - latest_exit_ns));
      latest_exit_ns = end_ns;
    }
    const RankEvents events = rank.events();
    const auto profiles = profile_work(events, arrivals);
    ASSERT_EQ(profiles.size(), arrivals.size());
    for (std::size_t i = 0; i < arrivals.size(); ++i) {
      const auto sum = std::accumulate(profiles[i].parts_ns.begin(), profiles[i].parts_ns.end(), Nanoseconds{0});
      EXPECT_EQ(sum, i == 0 ? 0 : arrivals[i].work_ns) << "seed " << seed << ", arrival " << i;
    }
  }
}

TEST(WorkProfile, ComputeThatResumesAtTheEndOfAShortCollectiveHadWaitedForIt) {
  RankFixture rank;
  rank.kernel("a", 0, 100 * us, 200 * us);
  rank.kernel("nccl", 10 * us, 201 * us, 220 * us);
  rank.kernel("b", 20 * us, 221 * us, 300 * us);
  rank.kernel("nccl", 30 * us, 250 * us, 340 * us);  // beside b until 300, a pause, and c until 335
  rank.kernel("c", 40 * us, 320 * us, 335 * us);
  rank.kernel("d", 50 * us, 341 * us, 400 * us);
  const RankEvents events = rank.events();
  std::vector<TraceArrival> arrivals(2);
  arrivals[0].enter = TraceTime(201 * us);
  arrivals[0].exit = TraceTime(220 * us);
  arrivals[1].enter = TraceTime(250 * us);
  arrivals[1].exit = TraceTime(340 * us);
  const std::vector<WorkProfile> profiles = profile_work(events, arrivals);
  EXPECT_EQ(profiles[0].compute_beside_ns, 0);
  EXPECT_EQ(profiles[1].compute_beside_ns, 85 * us);
}

TEST(WorkProfile, ACollectiveThatQueuedWasReadyOnceItWasLaunchedAndTheKernelsBeforeItWereDone) {
  RankFixture rank;
  rank.kernel("a", 0, 100 * us, 300 * us);
  rank.kernel("nccl", 10 * us, 305 * us, 700 * us);  // compute goes on beside it until 500, pausing for 30
  rank.kernel("b", 20 * us, 310 * us, 400 * us);
  rank.kernel("c", 30 * us, 430 * us, 500 * us);
  rank.kernel("nccl", 40 * us, 701 * us, 900 * us);  // ready at 500, and queued
  rank.kernel("nccl", 50 * us, 901 * us, 950 * us);  // nothing before it that could tell
  rank.kernel("d", 955 * us, 960 * us, 970 * us);
  rank.kernel("nccl", 960 * us, 980 * us, 990 * us);  // the stream was free
  const RankEvents events = rank.events();
  const std::vector<std::pair<Nanoseconds, Nanoseconds>> times{{305, 700}, {701, 900}, {901, 950}, {980, 990}};
  std::vector<TraceArrival> arrivals(times.size());
  for (std::size_t i = 0; i < times.size(); ++i) {
    arrivals[i].enter = TraceTime(times[i].first * us);
    arrivals[i].exit = TraceTime(times[i].second * us);
    arrivals[i].stream = 1;
  }
  std::vector<std::pair<Nanoseconds, Nanoseconds>> queued_and_beside;
  for (const WorkProfile& profile : profile_work(events, arrivals))
    queued_and_beside.emplace_back(profile.queued_ns / us, profile.compute_beside_ns / us);
  EXPECT_THAT(queued_and_beside, ElementsAre(std::pair(0, 195), std::pair(201, 0), std::pair(0, 0), std::pair(0, 0)));
  arrivals[1].stream = 2;
  EXPECT_EQ(profile_work(events, arrivals)[1].queued_ns, 0) << "no queue: it is on another stream";
}

}  // namespace
}  // namespace nsys_explain::analysis
