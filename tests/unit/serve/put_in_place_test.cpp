#include "serve/upload.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>

namespace nsys_explain::serve {
namespace {

namespace fs = std::filesystem;

/// As a file system answers that has no rename without replacing: NFS, and kernels before 3.15.
template <int Reason>
int without_it(int, const char*, int, const char*, unsigned) {
  errno = Reason;
  return -1;
}

class PutInPlace : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "put_in_place_test.XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    fs::create_directory(directory_ / "report");
    std::ofstream(directory_ / "report/report.json") << "{}";
  }
  void TearDown() override { fs::remove_all(directory_); }
  fs::path directory_;
};

TEST_F(PutInPlace, WorksOnEveryFileSystem) {
  fs::path from = directory_ / "report";
  int number = 0;
  for (const RenameAt rename : {RenameAt{::renameat2}, RenameAt{without_it<EINVAL>}, RenameAt{without_it<ENOSYS>},
                                RenameAt{without_it<EOPNOTSUPP>}}) {
    const fs::path to = directory_ / std::to_string(number++);
    EXPECT_EQ(put_in_place(from, to, rename), 0);
    EXPECT_TRUE(fs::exists(to / "report.json"));
    EXPECT_FALSE(fs::exists(from));
    from = to;
  }
}

TEST_F(PutInPlace, ReplacesNothing) {
  const fs::path target = directory_ / "target";
  const std::function<void()> made[] = {[&] { std::ofstream(target) << "x"; }, [&] { fs::create_directory(target); },
                                        [&] { fs::create_symlink("nowhere", target); },
                                        [&] { fs::copy(directory_ / "report", target); }};
  for (const auto& make : made) {
    make();
    for (const RenameAt rename : {RenameAt{::renameat2}, RenameAt{without_it<EINVAL>}}) {
      EXPECT_EQ(put_in_place(directory_ / "report", target, rename), EEXIST);
      EXPECT_TRUE(fs::exists(directory_ / "report/report.json"));
    }
    fs::remove_all(target);
  }
  EXPECT_EQ(put_in_place(directory_ / "report", target, without_it<EIO>), EIO) << "what says something else is heard";
  EXPECT_EQ(put_in_place(directory_ / "absent", target, without_it<EINVAL>), ENOENT);
}

}  // namespace
}  // namespace nsys_explain::serve
