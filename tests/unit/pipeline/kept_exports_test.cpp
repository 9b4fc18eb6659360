#include "pipeline/read/kept_exports.hpp"

#include <gmock/gmock.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "nsys_explain/ingest/ingest.hpp"
#include "pipeline/tool_rank/file_memory.hpp"

namespace nsys_explain::pipeline {
namespace {

namespace fs = std::filesystem;

class KeptExportsTest : public ::testing::Test {
 protected:
  KeptExportsTest() {
    std::string name = (fs::temp_directory_path() / "kept-exports-XXXXXX").string();
    directory_ = ::mkdtemp(name.data());
    input_ = directory_ + "/trainer.json";
    std::ofstream(input_)
        << R"({"traceEvents": [{"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 100.5, "dur": 2,)"
        << R"( "args": {"device": 0, "stream": 7, "correlation": 1}}]})";
  }
  ~KeptExportsTest() override { fs::remove_all(directory_); }

  std::string directory_, input_;
};

TEST_F(KeptExportsTest, MakesAnExportOnce) {
  if (available_on_disk(fs::temp_directory_path().string()) == 0) GTEST_SKIP() << "temporary files lie in memory";
  std::string path;
  {
    KeptExports exports("nsys");
    EXPECT_FALSE(exports.holds(input_));
    path = exports.of(input_)->made.path;
    EXPECT_TRUE(exports.holds(input_));
    EXPECT_TRUE(fs::exists(path));
    fs::remove(input_);  // nobody reads it again
    EXPECT_EQ(exports.of(input_)->made.path, path);
  }
  EXPECT_FALSE(fs::exists(fs::path(path).parent_path()));
}

TEST_F(KeptExportsTest, KeepsNothingWhereTheInputCannotBeRead) {
  KeptExports exports("nsys");
  const std::string missing = directory_ + "/missing.json";
  EXPECT_THROW(exports.of(missing), ingest::TraceError);
  EXPECT_FALSE(exports.holds(missing));
}

}  // namespace
}  // namespace nsys_explain::pipeline
