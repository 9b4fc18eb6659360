#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "nsys_explain/exchange/agree.hpp"
#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain::pipeline {

/// Runs the named phases of a job and keeps their wall times.
class Phases {
 public:
  explicit Phases(const exchange::Communicator& communicator) : communicator_(communicator) {}

  /// Collective: local work of one phase, without communication. A failure on any tool rank is thrown on all of them
  /// (exchange::AgreedFailure).
  void local(const std::string& name, const std::function<void()>& work) {
    timed(name, [&] { exchange::run_agreed(communicator_, name, work); });
  }

  /// Collective: work that communicates. It must not throw on one tool rank only.
  void collective(const std::string& name, const std::function<void()>& work) { timed(name, work); }

  const std::vector<RunFacts::Phase>& finished() const { return finished_; }

 private:
  void timed(const std::string& name, const std::function<void()>& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    if (!finished_.empty() && finished_.back().name == name) {
      finished_.back().seconds += elapsed.count();
    } else {
      finished_.push_back({name, elapsed.count()});
    }
  }

  const exchange::Communicator& communicator_;
  std::vector<RunFacts::Phase> finished_;
};

}  // namespace nsys_explain::pipeline
