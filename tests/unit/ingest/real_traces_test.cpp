#include <gmock/gmock.h>
#include <sqlite3.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <tuple>

#include "unit/ingest/export_fixture.hpp"

/// Real exports of nsys 2022.1 to 2026.2, counted once by read_trace and once by plain SQL.
namespace nsys_explain::ingest {
namespace {

namespace fs = std::filesystem;

class RealTracesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* directory = std::getenv("NSYS_EXPLAIN_SHARED_TRACES");
    if (directory == nullptr || !fs::is_directory(directory)) {
      GTEST_SKIP() << "SKIPPED: no real traces; set NSYS_EXPLAIN_SHARED_TRACES to the directory that holds them";
    }
    root_ = directory;
    for (const auto& entry : fs::recursive_directory_iterator(root_)) {
      if (entry.path().extension() == ".sqlite") files_.push_back(entry.path().string());
    }
    std::sort(files_.begin(), files_.end());
  }
  std::string file(const std::string& name) const { return (root_ / name).string(); }

  fs::path root_;
  std::vector<std::string> files_;
};

/// Rows of a query as integers; no rows where the table does not exist.
std::vector<std::vector<std::int64_t>> query(const std::string& path, const std::string& sql) {
  sqlite3* handle = nullptr;
  std::vector<std::vector<std::int64_t>> rows;
  if (sqlite3_open_v2(path.c_str(), &handle, SQLITE_OPEN_READONLY, nullptr) == SQLITE_OK) {
    sqlite3_stmt* statement = nullptr;
    if (sqlite3_prepare_v2(handle, sql.c_str(), -1, &statement, nullptr) == SQLITE_OK) {
      while (sqlite3_step(statement) == SQLITE_ROW) {
        std::vector<std::int64_t>& row = rows.emplace_back();
        for (int i = 0; i < sqlite3_column_count(statement); ++i) row.push_back(sqlite3_column_int64(statement, i));
      }
    }
    sqlite3_finalize(statement);
  }
  sqlite3_close(handle);
  return rows;
}

/// (process, device, rows, sum of durations) by SQL.
std::vector<std::vector<std::int64_t>> gpu_rows(const std::string& path, const std::string& table) {
  return query(path,
               "SELECT globalPid, deviceId, count(*), sum(end - start) FROM " + table + " GROUP BY 1, 2 ORDER BY 1, 2");
}

template <class Events>
std::vector<std::vector<std::int64_t>> gpu_rows(const Trace& trace, const Events& events) {
  std::vector<std::vector<std::int64_t>> rows;
  for (const ProcessTrace& process : trace.processes) {
    for (const DeviceTrace& device : process.devices) {
      std::int64_t count = 0, duration = 0;
      events(device, [&](const auto& event) {
        ++count;
        duration += event.end_ns - event.start_ns;
      });
      if (count > 0) rows.push_back({static_cast<std::int64_t>(process.global_pid), device.device_id, count, duration});
    }
  }
  return rows;
}

template <class Events>
bool is_sorted_by_time(const Events& events) {
  return std::is_sorted(events.begin(), events.end(), [](const auto& a, const auto& b) {
    return std::tie(a.start_ns, a.end_ns) < std::tie(b.start_ns, b.end_ns);
  });
}

TEST_F(RealTracesTest, EveryRowArrives) {
  ASSERT_GE(files_.size(), 11);
  for (const std::string& path : files_) {
    SCOPED_TRACE(path);
    const auto before = testing::snapshot(fs::path(path).parent_path());
    const Trace trace = read_trace(path);
    EXPECT_EQ(testing::snapshot(fs::path(path).parent_path()), before);

    EXPECT_EQ(gpu_rows(trace,
                       [](const DeviceTrace& d, const auto& add) {
                         for (const auto& k : d.kernels) add(k);
                       }),
              gpu_rows(path, "CUPTI_ACTIVITY_KIND_KERNEL"));
    EXPECT_EQ(gpu_rows(trace,
                       [](const DeviceTrace& d, const auto& add) {
                         for (const auto& m : d.memory_operations)
                           if (!m.is_set) add(m);
                       }),
              gpu_rows(path, "CUPTI_ACTIVITY_KIND_MEMCPY"));
    EXPECT_EQ(gpu_rows(trace,
                       [](const DeviceTrace& d, const auto& add) {
                         for (const auto& m : d.memory_operations)
                           if (m.is_set) add(m);
                       }),
              gpu_rows(path, "CUPTI_ACTIVITY_KIND_MEMSET"));
    EXPECT_EQ(gpu_rows(trace,
                       [](const DeviceTrace& d, const auto& add) {
                         for (const auto& g : d.graph_launches) add(g);
                       }),
              gpu_rows(path, "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"));

    std::vector<std::vector<std::int64_t>> calls, ranges;
    for (const ProcessTrace& process : trace.processes) {
      const auto pid = static_cast<std::int64_t>(process.global_pid);
      if (!process.api_calls.empty()) calls.push_back({pid, static_cast<std::int64_t>(process.api_calls.size())});
      if (!process.nvtx_ranges.empty()) ranges.push_back({pid, static_cast<std::int64_t>(process.nvtx_ranges.size())});
    }
    EXPECT_EQ(calls, query(path, "SELECT globalTid & ~16777215, count(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME GROUP BY 1"));
    EXPECT_EQ(ranges, query(path,
                            "SELECT globalTid & ~16777215, count(*) FROM NVTX_EVENTS WHERE eventType IN (34, 59, 60)"
                            " GROUP BY 1"));
  }
}

TEST_F(RealTracesTest, EverythingIsInOrderAndIndicesAreValid) {
  for (const std::string& path : files_) {
    SCOPED_TRACE(path);
    const Trace trace = read_trace(path);
    EXPECT_GT(trace.session.utc_start_ns, 1'600'000'000'000'000'000);
    EXPECT_FALSE(trace.session.nsys_version.empty());
    EXPECT_EQ(trace.strings.at(0), "");
    EXPECT_EQ(std::set<std::string>(trace.strings.begin(), trace.strings.end()).size(), trace.strings.size());
    for (const ProcessTrace& process : trace.processes) {
      const bool is_of_program = !process.devices.empty() || !process.api_calls.empty() || !process.nvtx_ranges.empty();
      EXPECT_TRUE(!process.name.empty() || !is_of_program);  // others may have been sampled for a moment
      EXPECT_TRUE(is_sorted_by_time(process.api_calls));
      EXPECT_TRUE(is_sorted_by_time(process.nvtx_ranges));
      std::size_t next_call = 0;
      for (const NvtxRange& range : process.nvtx_ranges) {
        ASSERT_LT(std::max(range.text, range.domain), trace.strings.size());
        if (!range.is_nccl_call) continue;
        ASSERT_LT(next_call, process.nccl_calls.size());
        ASSERT_EQ(range.start_ns, process.nccl_calls[next_call++].start_ns);
      }
      EXPECT_EQ(next_call, process.nccl_calls.size());
      for (const DeviceTrace& device : process.devices) {
        EXPECT_TRUE(is_sorted_by_time(device.kernels));
        EXPECT_TRUE(is_sorted_by_time(device.memory_operations));
        for (const Kernel& kernel : device.kernels)
          ASSERT_FALSE(trace.strings.at(device.kind_of(kernel).short_name).empty());
      }
    }
  }
}

TEST_F(RealTracesTest, NcclCallsOfATwoGpuTorchrunJob) {
  const std::string path = file("nsys-ai/mfu_2gpu_after.sqlite");
  const Trace trace = read_trace(path);
  ASSERT_EQ(trace.processes.size(), 2);
  EXPECT_EQ(query(path, "SELECT count(*) FROM NVTX_EVENTS WHERE domainId = 1").at(0).at(0), 420);
  for (const ProcessTrace& process : trace.processes) {
    EXPECT_EQ(process.nccl_calls.size(), 210);
    const auto count = [&](NcclFunction function) {
      return std::count_if(process.nccl_calls.begin(), process.nccl_calls.end(),
                           [&](const NcclCall& call) { return call.function == function; });
    };
    EXPECT_EQ(count(NcclFunction::group_start), count(NcclFunction::group_end));
    EXPECT_EQ(count(NcclFunction::send), 60);
    EXPECT_EQ(count(NcclFunction::recv), 60);
    const DeviceTrace& device = process.devices.at(0);
    EXPECT_EQ(
        std::count_if(device.kernels.begin(), device.kernels.end(),
                      [&](const Kernel& kernel) {
                        return trace.strings[device.kind_of(kernel).short_name].starts_with("ncclDevKernel_SendRecv");
                      }),
        31);
  }
  EXPECT_EQ(trace.processes[0].devices.at(0).device_id, 0);
  EXPECT_EQ(trace.processes[1].devices.at(0).device_id, 1);
}

TEST_F(RealTracesTest, OrphanKernelsOfACutWindow) {
  EXPECT_TRUE(testing::has_warning(read_trace(file("nsys-ai/h100_2gpu_1s.sqlite")), "no launching API call", 1810));
}

TEST_F(RealTracesTest, GpusRanksAndMissingTables) {
  const Trace cloverleaf = read_trace(file("pipit/perlmutter-cloverleaf-cuda.sqlite"));
  EXPECT_EQ(cloverleaf.processes.at(0).devices.at(0).gpu_uuid, "b17c6502-716a-c2c7-0f65-854136d5f79f")
      << "CUDA ordinal 0 has nsys' number 3 here";
  const Trace saxpy = read_trace(file("pipit/saxpy-mpi-cuda_nsys_perlmutter0.sqlite"));
  ASSERT_FALSE(saxpy.processes.at(0).claims.empty());
  EXPECT_EQ(saxpy.processes[0].claims[0].source, RankSource::mpi_ranks);
  EXPECT_EQ(saxpy.processes[0].claims[0].rank, 0);
  EXPECT_EQ(saxpy.strings[saxpy.processes[0].nvtx_ranges.at(0).domain], "MPI");
  const Trace gemm = read_trace(file("gemm/profile.sqlite"));
  EXPECT_FALSE(gemm.has_kernel_table);
  EXPECT_EQ(gemm.processes.at(0).api_calls.size(), 3);
}

}  // namespace
}  // namespace nsys_explain::ingest
