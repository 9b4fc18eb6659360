#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "serve/report_answers.hpp"

/// Stores and report.json come from anywhere, and a damaged store can crash the library that reads it. So they are read
/// by processes of their own, which live on and keep what they opened; the service only hands their answers on.
namespace nsys_explain::serve {

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
