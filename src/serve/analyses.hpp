#pragma once

#include <condition_variable>
#include <filesystem>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <thread>

#include <sys/types.h>
#include <nlohmann/json.hpp>

#include "ingest/staging.hpp"
#include "serve/serve.hpp"

namespace nsys_explain::serve {

/// Where the service puts what is not complete yet: a directory below the root that names no report. What a service
/// left that was killed is removed by the next one.
inline constexpr std::string_view staging_prefix = ".nsys-explain-serve-";

/// Exports that are to become a report.
struct AnalysisInput {
  std::string name;                 ///< of the report to be
  std::vector<std::string> paths;   ///< of exports that lie here already
  std::filesystem::path directory;  ///< what was uploaded lies in `exports`; empty: nothing was
};

/// Analyses, one after the other, each a process of its own. Its report appears whole under its name, or not at all.
class Analyses {
 public:
  /// Throws Refusal where nothing can be written below the root.
  Analyses(const ServiceOptions& options, std::function<void()> on_report);
  /// Ends the one that runs.
  ~Analyses();

  /// A new directory for one upload.
  std::filesystem::path make_upload_directory();
  /// Throws Refusal where the name is none or is taken, or a path lies below no allowed root, or too many wait. Returns
  /// what `status` says.
  nlohmann::ordered_json add(AnalysisInput input);
  /// Throws Refusal where the name cannot become a report's, or too many wait: before anything is uploaded.
  void check(const std::string& name) const;
  nlohmann::ordered_json status(std::int64_t id) const;
  nlohmann::ordered_json all() const;
  nlohmann::ordered_json cancel(std::int64_t id);

  const std::filesystem::path& staging() const { return staging_.path(); }

 private:
  struct Analysis;
  void check_while_locked(const std::string& name) const;
  void work();
  struct Said;
  void run(Analysis& analysis);
  std::vector<std::string> command_line(const Analysis& analysis) const;
  /// Until the process ends; ends it where nobody wants it, or where it takes too long. Returns its status.
  int watch(const Analysis& analysis, pid_t child, Said& said);
  void finish(Analysis& analysis, int code, const std::string& problems);
  nlohmann::ordered_json describe(const Analysis& analysis) const;
  Analysis& find(std::int64_t id) const;

  const ServiceOptions options_;
  const std::function<void()> on_report_;
  ingest::StagingDirectory staging_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::list<std::unique_ptr<Analysis>> analyses_;  ///< in the order in which they came
  std::int64_t last_id_ = 0, last_upload_ = 0;
  bool ends_ = false;
  std::thread worker_;
};

/// Whether an uploaded file may have that name.
bool is_export_name(std::string_view name);

}  // namespace nsys_explain::serve
