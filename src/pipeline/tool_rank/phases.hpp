#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "exchange/agree.hpp"
#include "nsys_explain/model/job_report.hpp"
#include "pipeline/tool_rank/watch.hpp"

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

/// One line on a terminal while traces are read: files, rows, what is left. Speaks only on tool rank 0, of its own
/// traces, and only where somebody looks. All members may be called from several threads.
class Progress {
 public:
  /// `shows`: on standard error; else it counts in silence.
  Progress(std::int64_t files, std::int64_t bytes, bool shows) : files_(files), bytes_(bytes), shows_(shows) {}
  /// Wipes the line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void add_rows(std::int64_t rows);
  void finish_file(std::int64_t bytes);

  std::int64_t rows() const { return rows_done_; }
  std::int64_t bytes() const { return bytes_done_; }

 private:
  using Clock = std::chrono::steady_clock;
  void draw();

  const std::int64_t files_, bytes_;
  const bool shows_;
  const Clock::time_point start_ = Clock::now();
  std::atomic<std::int64_t> files_done_ = 0, bytes_done_ = 0, rows_done_ = 0;
  std::mutex drawing_;
  Clock::time_point drawn_ = start_;
};

/// True where standard error is a terminal.
bool stderr_is_terminal();

}  // namespace nsys_explain::pipeline
