#include <gtest/gtest.h>

#include <cstdio>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include "exchange/session.hpp"
#include "exchange/transport.hpp"
#include "mpi/mpi_test.hpp"

namespace nsys_explain::mpi_test {
namespace {

std::optional<exchange::Communicator> test_world;

/// Ranks above 0 print nothing: at the end of each test rank 0 receives their failures and reports them as its own.
/// Uses a communicator of its own, so that it cannot receive what a failed test left behind.
class FailureCollector : public testing::EmptyTestEventListener {
 public:
  explicit FailureCollector(exchange::Communicator communicator) : communicator_(std::move(communicator)) {}

  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed() || communicator_.is_root()) return;
    std::ostringstream text;
    text << "\non rank " << communicator_.rank() << " of " << communicator_.size() << ", "
         << (result.file_name() != nullptr ? result.file_name() : "unknown file") << ":" << result.line_number() << "\n"
         << result.message() << "\n";
    failures_ += text.str();
  }

  void OnTestEnd(const testing::TestInfo& /*test*/) override { report(); }

  /// What failed outside of any test: set-up and tear-down of suites.
  void OnTestProgramEnd(const testing::UnitTest& /*program*/) override { report(); }

 private:
  void report() {
    const auto all = communicator_.gather(std::span<const char>(failures_));
    failures_.clear();
    if (!all.values.empty()) ADD_FAILURE() << std::string(all.values.begin(), all.values.end());
  }

  exchange::Communicator communicator_;
  std::string failures_;
};

int run_all_tests(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  if (!world().is_root()) {
    delete listeners.Release(listeners.default_result_printer());
    delete listeners.Release(listeners.default_xml_generator());
  }
  // googletest owns its listeners
  listeners.Append(new FailureCollector(exchange::Communicator(exchange::make_mpi_transport())));

  const int failed = RUN_ALL_TESTS();
  if (!GTEST_FLAG_GET(list_tests) && testing::UnitTest::GetInstance()->test_to_run_count() == 0) {
    std::fprintf(stderr, "no test ran\n");
    return 1;
  }
  return failed;
}

}  // namespace

const exchange::Communicator& world() {
  return *test_world;
}

}  // namespace nsys_explain::mpi_test

int main(int argc, char** argv) {
  using nsys_explain::mpi_test::test_world;
  if (!nsys_explain::exchange::launched_by_mpi()) {
    std::fprintf(stderr, "this test needs MPI ranks; start it with: mpirun -n 2 %s\n", argv[0]);
    return 1;
  }
  nsys_explain::exchange::Session session(argc, argv);
  test_world = session.world();
  const int failed = nsys_explain::mpi_test::run_all_tests(argc, argv);
  const auto failed_anywhere = static_cast<int>(session.world().maximum(failed));
  test_world.reset();
  return failed_anywhere;
}
