#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "ingest/rank_resolution.hpp"
#include "ingest/session_checks.hpp"
#include "nsys_explain/ingest/ingest.hpp"

namespace nsys_explain::ingest {
namespace {

namespace fs = std::filesystem;

using testing::IsEmpty;
using testing::SizeIs;

/// From names to numbers on real exports.
class RealTraceIdentity : public testing::Test {
 protected:
  void SetUp() override {
    const char* shared = std::getenv("NSYS_EXPLAIN_SHARED_TRACES");
    if (shared == nullptr || !fs::exists(fs::path(shared) / "nsys-ai")) {
      GTEST_SKIP() << "SKIPPED: no real traces; set NSYS_EXPLAIN_SHARED_TRACES to test identities on real exports";
    }
    traces_ = shared;
  }

  Resolution resolve(const std::vector<std::string>& arguments, const RankOverrides& overrides = {}) const {
    std::vector<TraceRankIdentity> identities;
    for (const auto& found : discover(arguments).traces) {
      for (auto& identity : identify_trace_ranks(read_trace(found.path), overrides)) {
        identities.push_back(std::move(identity));
      }
    }
    return resolve_trace_ranks(std::move(identities));
  }

  std::string traces_;
};

TEST_F(RealTraceIdentity, TwoProcessesOfOneNodeAreOrderedByDevice) {
  const auto found = resolve({traces_ + "/nsys-ai/mfu_2gpu_before.sqlite"}).trace_ranks;
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_EQ(found[0].key.device_id, 0);
  EXPECT_EQ(found[1].key.device_id, 1);
  EXPECT_NE(found[0].process_id, found[1].process_id);
  EXPECT_EQ(found[1].rank_source, RankSource::file_order);
  EXPECT_EQ(found[1].trace_rank, 1);
}

TEST_F(RealTraceIdentity, RankMapNumbersProcessesOfOneFile) {
  const auto map = parse_rank_map("mfu_*.sqlite * 0 7\nmfu_*.sqlite * 1 4\n");
  const auto found = resolve({traces_ + "/nsys-ai/mfu_2gpu_before.sqlite"}, map).trace_ranks;
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_EQ(found[0].trace_rank, 4);
  EXPECT_EQ(found[0].key.device_id, 1);
  EXPECT_EQ(found[1].trace_rank, 7);
}

TEST_F(RealTraceIdentity, ProcessWithoutGpuActivityIsNoTraceRank) {
  ASSERT_THAT(discover({traces_ + "/gemm"}).traces, SizeIs(1));
  EXPECT_THAT(resolve({traces_ + "/gemm"}).trace_ranks, IsEmpty());
}

TEST_F(RealTraceIdentity, CopyOfAnExportIsRecognised) {
  std::vector<Session> sessions;
  std::vector<SessionExtent> extents;
  for (const auto& found : discover({traces_ + "/nsys-ai/mfu*"}).traces) {
    const Trace trace = read_trace(found.path);
    sessions.push_back(trace.session);
    extents.push_back(session_extent(trace));
    EXPECT_LT(extents.back().recorded.start_ns, extents.back().recorded.end_ns);
  }
  ASSERT_THAT(sessions, SizeIs(2));
  EXPECT_THAT(check_sessions(sessions, extents).duplicates, IsEmpty());
  sessions.push_back(sessions[0]);
  sessions.back().path += ".copy.sqlite";
  extents.push_back(extents[0]);
  const auto duplicates = check_sessions(sessions, extents).duplicates;
  ASSERT_THAT(duplicates, SizeIs(1));
  EXPECT_EQ(duplicates[0].path, sessions.back().path);
}

}  // namespace
}  // namespace nsys_explain::ingest
