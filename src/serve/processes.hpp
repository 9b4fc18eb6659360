#pragma once

#include <chrono>

#include <sys/types.h>

#include "serve/report_answers.hpp"

/// The processes that the service starts.
namespace nsys_explain::serve {

/// How a child of this program runs. Descriptors that are not named here are closed in it.
struct ChildOptions {
  int standard_input = -1, standard_output = -1, standard_error = -1;  ///< -1: /dev/null; for errors: as this process
  std::vector<int> kept;                                               ///< stay open under their numbers
  std::int64_t address_space_bytes = 0, data_bytes = 0;                ///< limits; 0: none
  std::vector<std::pair<std::string, std::string>> environment;        ///< instead of what this process has
  /// Files and directories; beside the program's own, it reaches no others where the kernel can see to that.
  std::vector<std::string> readable, writable;
};

/// Starts this same program, without MPI. The child ends when the thread that started it does, however that happens.
/// Throws Refusal (503) where the system has no more processes.
pid_t start_own_program(const std::vector<std::string>& arguments, const ChildOptions& options);

/// The status of waitpid: waits, or says nothing while the process runs.
int wait_for(pid_t process);
/// Kills it, with all that it has started, where it takes longer.
int wait_for(pid_t process, std::chrono::seconds longest);
std::optional<int> poll_for(pid_t process);

// Stores and report.json come from anywhere, and a damaged store can crash the library that reads it. So they are read
// by processes of their own, which live on and keep what they opened; the service only hands their answers on.

struct Reply {
  int status = 200;
  std::string body;  ///< JSON, or the text of a tool
};

/// The answer to {"report", "ask", ...}: `ask` is summary, verdict, findings, what_if, capture_advice, tables, table
/// (with "table" and "parameters") or tool (with "tool" and "arguments"). Throws nothing.
class ReaderAnswers {
 public:
  explicit ReaderAnswers(const std::string& root) : tree_(root) {}
  Reply answer(const std::string& request);

 private:
  Report& open(const std::string& name);

  ReportTree tree_;
  std::vector<std::unique_ptr<Report>> reports_;  ///< the last ones asked for, the latest at the end
};

/// The reader process itself: answers what comes on descriptor 0 until its end. Returns the exit code.
int run_reader(const std::string& root);

/// Reader processes, each with a part of the reports.
class ReaderPool {
 public:
  ReaderPool(std::string root, std::size_t processes);
  ~ReaderPool();
  /// A reader that crashes or takes too long is replaced; what it was asked is refused, and so is for a while all that
  /// is asked of the report in this version.
  Reply ask(const std::string& report, const std::string& version, const Json& request);

 private:
  struct Reader;
  std::string root_;
  std::vector<std::unique_ptr<Reader>> readers_;
};

}  // namespace nsys_explain::serve
