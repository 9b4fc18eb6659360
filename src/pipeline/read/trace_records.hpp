#pragma once

#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "nsys_explain/ingest/discovery.hpp"
#include "pipeline/read/local_traces.hpp"
#include "pipeline/tool_rank/record_directory.hpp"

namespace nsys_explain::pipeline {

/// What reading leaves behind of each trace, kept in files: a trace that has not changed need not be read again, and
/// what a tool rank had read outlives it. A record is keyed by the trace's name and fingerprint, by all options that
/// say how traces are read, and by the code that reads and analyses them, so a wrong one is never found.
///
/// In the cache, traces that were read well are kept for any later run; in the shards, every trace, until the run is
/// finished. All members but `discard_shards` may be called from several threads.
inline constexpr std::string_view what_is_lost =
    "; if this run is cut off, what it read is lost; make room there, or ignore this";

class TraceRecords {
 public:
  struct Places {
    std::vector<RecordDirectory> sources;  ///< only looked into
    std::optional<RecordDirectory> cache, shards;
  };
  explicit TraceRecords(Places places) : places_(std::move(places)) {}

  std::optional<LocalTrace> load(const ingest::AssignedTrace& assigned, const ReadSettings& settings) const;

  /// Never throws: without its record a trace is read again some time. `was_loaded`: from one of the places; it is
  /// written only where it is missing.
  void save(const ingest::AssignedTrace& assigned, const ReadSettings& settings, const LocalTrace& trace,
            bool was_loaded);

  /// Removes the shards that this object saved.
  void discard_shards();

  /// What is the matter with the first record that could not be saved, or was not taken: problem, why it matters, what
  /// to do; empty: nothing.
  std::string failure() const;

 private:
  std::optional<std::filesystem::path> save_in(const RecordDirectory& directory, const std::string& key,
                                               const WriteBytes& write, bool may_be_there);

  Places places_;
  mutable std::mutex mutex_;  // guards the rest
  std::set<std::filesystem::path> saved_shards_;
  mutable std::string failure_;
};

}  // namespace nsys_explain::pipeline
