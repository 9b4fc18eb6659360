#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "exchange/agree.hpp"
#include "nsys_explain/model/job_report.hpp"
#include "pipeline/run/watch.hpp"

namespace nsys_explain::pipeline {

/// Runs the named phases of a job and keeps what each of them took.
class Phases {
 public:
  Phases(const exchange::Communicator& communicator, Watch& watch) : communicator_(communicator), watch_(watch) {}

  /// Collective: local work of one phase, without communication. A failure on any tool rank is thrown on all of them
  /// (exchange::AgreedFailure).
  void local(const std::string& name, const std::function<void()>& work) {
    measured(name, [&] {
      exchange::run_agreed(communicator_, name, [&] {
        watch_.doing(name, true);
        work();
        watch_.doing(name, false);
      });
    });
  }

  /// Collective: work that communicates. It must not throw on one tool rank only.
  void collective(const std::string& name, const std::function<void()>& work) { measured(name, work); }

  /// Rows and bytes that this tool rank handled in the phase that runs.
  void count(std::int64_t rows, std::int64_t bytes) {
    rows_ += rows;
    bytes_ += bytes;
  }

  /// Collective: the phases so far. Time and memory are those of the slowest and the largest tool rank, rows and bytes
  /// are summed over all.
  std::vector<RunFacts::Phase> finished() const;

 private:
  void measured(const std::string& name, const std::function<void()>& work);

  const exchange::Communicator& communicator_;
  Watch& watch_;
  std::vector<RunFacts::Phase> mine_;
  std::int64_t rows_ = 0, bytes_ = 0;
};

}  // namespace nsys_explain::pipeline
