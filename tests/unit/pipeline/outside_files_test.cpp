#include "pipeline/tool_rank/own_files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "report/report.hpp"

namespace nsys_explain::pipeline {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

class OutsideFiles : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "outside_files_test.XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    job_.output_directory = place("out");
  }
  void TearDown() override { fs::remove_all(directory_); }

  std::string place(const std::string& name) const { return (directory_ / name).string(); }
  std::string file(const std::string& name, const std::string& text) const {
    fs::create_directories((directory_ / name).parent_path());
    std::ofstream(directory_ / name, std::ios::binary) << text;
    return place(name);
  }
  void expect_refused(const std::string& what) const {
    EXPECT_THAT([&] { check_outside_files(job_); },
                ThrowsMessage<std::runtime_error>(AllOf(HasSubstr(what), HasSubstr("; give "))));
  }

  fs::path directory_;
  JobSpecification job_;
};

TEST_F(OutsideFiles, ReplaceWhatAnEarlierRunWroteAndNothingElseUnlessForced) {
  job_.prometheus_path = place("m.prom");
  EXPECT_NO_THROW(check_outside_files(job_)) << "none is there";
  file("m.prom", report::to_prometheus({}, "out", 0));
  EXPECT_NO_THROW(check_outside_files(job_));
  for (const char* text : {"", "# HELP nsys_explain_run_inf", "# HELP node_load1 1m load average.\n", "my notes"}) {
    file("m.prom", text);
    job_.overwrite = false;
    expect_refused("nothing says that --prometheus wrote it");
    job_.overwrite = true;
    EXPECT_NO_THROW(check_outside_files(job_)) << text;
  }
  job_.overwrite = false;
  fs::remove(place("m.prom"));
  fs::create_symlink(file("far.prom", report::to_prometheus({}, "out", 0)), place("m.prom"));
  expect_refused("nothing says");
  job_.prometheus_path.clear();
  job_.perfetto_path = file("t.json.gz", "\x1f\x8b");
  expect_refused("nothing says that --perfetto wrote it");
}

TEST_F(OutsideFiles, ReplaceNoDirectoryAndNoDevice) {
  job_.overwrite = true;
  for (const std::string& path : {directory_.string(), std::string("/dev/null")}) {
    job_.prometheus_path = path;
    expect_refused("is no file");
  }
  ASSERT_EQ(::mkfifo(place("pipe").c_str(), 0600), 0);
  job_.perfetto_path = place("pipe");
  job_.prometheus_path.clear();
  expect_refused("is no file");
}

TEST_F(OutsideFiles, NeverReplaceWhatTheRunReads) {
  job_.overwrite = true;
  job_.nvml_path = file("gpu.csv", "timestamp");
  job_.nccl_log_paths = {file("nccl.log", "NCCL INFO")};
  job_.inspector_directory = place("logs");
  job_.cache_directory = place("cache");
  job_.shard_directories = {place("shards")};
  for (const char* name : {"logs/a.log", "cache/1.record", "shards/deep/1.record"}) file(name, "x");
  fs::create_hard_link(place("gpu.csv"), place("hard.csv"));
  fs::create_symlink("gpu.csv", place("soft.csv"));
  for (const char* name :
       {"gpu.csv", "hard.csv", "soft.csv", "nccl.log", "logs/a.log", "cache/1.record", "shards/deep/1.record"}) {
    for (std::string* path : {&job_.prometheus_path, &job_.perfetto_path}) {
      job_.prometheus_path = job_.perfetto_path = "";
      *path = place(name);
      expect_refused("which this run reads");
    }
  }
  job_.perfetto_path.clear();
  job_.prometheus_path = file("cache/m.prom", report::to_prometheus({}, "out", 0));
  EXPECT_NO_THROW(check_outside_files(job_)) << "what an earlier run wrote there";
}

TEST_F(OutsideFiles, AreNoResultsAndTwoFiles) {
  job_.overwrite = true;
  for (const char* name :
       {"out/report.json", "out/store.h5", "out/../out/report.md", "out/tables/ranks.csv", "out/shards/x"}) {
    job_.prometheus_path = place(name);
    expect_refused("a place for results of this run");
  }
  job_.prometheus_path = place("out/m.prom");
  job_.perfetto_path = place("out/./m.prom");
  expect_refused("of --prometheus and of --perfetto");
  job_.perfetto_path = place("report.json");
  EXPECT_NO_THROW(check_outside_files(job_));
}

TEST_F(OutsideFiles, AreNoTraces) {
  job_.overwrite = true;
  ingest::MergedDiscovery found;
  found.traces.resize(1);
  found.traces[0].path = file("rank_0.sqlite", "SQLite");
  found.traces[0].name = "host:rank_0.sqlite";
  file("rank_0.sqlite-wal", "wal");
  found.failed.push_back({file("rank_1.sqlite", "damaged"), InputStatus::failed, "damaged"});
  fs::create_hard_link(place("rank_0.sqlite"), place("other.prom"));
  fs::create_symlink(place("rank_0.sqlite"), place("link.prom"));
  for (const char* name : {"rank_0.sqlite", "rank_0.sqlite-wal", "rank_1.sqlite", "other.prom", "link.prom"}) {
    job_.prometheus_path = place(name);
    EXPECT_THAT([&] { require_outside_of_traces(job_, found); },
                ThrowsMessage<std::runtime_error>(HasSubstr("which this run reads")))
        << name;
  }
  for (const std::string& path : {place("absent.prom"), file("old.prom", "x")}) {
    job_.prometheus_path = path;
    EXPECT_NO_THROW(require_outside_of_traces(job_, found));
  }
}

}  // namespace
}  // namespace nsys_explain::pipeline
