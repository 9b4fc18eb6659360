#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <memory_resource>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "ingest/export_content.hpp"
#include "nsys_explain/ingest/discovery.hpp"
#include "pipeline/tool_rank/file_memory.hpp"

/// How traces are read so that a tool rank stays within --memory-limit: fewer at a time, with fewer threads, with their
/// events in files that stand in for memory.
namespace nsys_explain::pipeline {

/// Of more a part of the steps is replayed: rank 0 holds all of them.
inline constexpr std::int64_t most_replayed_arrivals = 1'000'000;

/// What a trace takes while it is read and analysed, estimated before.
struct ReadingCost {
  ingest::EventCounts events;
  bool is_small = false;      ///< may be read beside others
  std::int64_t arrivals = 0;  ///< at collectives; estimated only where a limit is to be named

  /// Memory with so many threads. `in_files`: without the events.
  std::int64_t memory_bytes(int threads, bool in_files) const;
  /// What lies in files then.
  std::int64_t file_bytes() const;
};

/// Traces up to this size are read side by side, since one alone cannot keep several threads busy; larger ones after
/// each other.
bool is_small(const ingest::AssignedTrace& assigned);

/// Room for what is read next.
struct Room {
  std::int64_t memory_bytes = std::numeric_limits<std::int64_t>::max();
  std::int64_t file_bytes = 0;
};

/// Traces that are read together, at most `threads / threads_each` of them at a time.
struct ReadingRound {
  std::size_t traces = 0;  ///< how many of those that wait; 0: there is no room even for the first
  int threads_each = 1;
  bool in_files = false;
};

/// As many of the small traces as there is room for together, for what reading leaves of them stays; a large one by
/// itself. A trace for which there is no room is read by one thread, or with its events in files, or both.
ReadingRound next_round(std::span<const ReadingCost> waiting, int threads, const Room& room);

/// The memory that this tool rank may take, and the files that stand in for it.
class MemoryBudget {
 public:
  /// Without a limit everything has room. Files lie under $TMPDIR or the system's place for temporary files.
  explicit MemoryBudget(std::optional<std::int64_t> limit_bytes);

  std::optional<std::int64_t> limit_bytes() const { return limit_bytes_; }
  /// What is left, beside all that is held now. Not while traces are read.
  Room room() const;

  /// Whether there is room for what rank 0 needs to write a report of any job.
  bool can_write() const;

  /// Throws std::runtime_error where reading `assigned` or writing a report would need more memory than there is,
  /// however it is read: problem, why it matters, what to do.
  /// `enough`: a limit that would do.
  [[noreturn]] void refuse(const ingest::AssignedTrace& assigned, const ReadingCost& cost, std::int64_t enough) const;
  /// A limit with which these traces can be read and a report written, as far as can be told before, if each of so many
  /// tool ranks has as much to read.
  std::int64_t limit_for(std::span<const ReadingCost> waiting, int tool_ranks) const;

  /// What arrivals take to be matched and analysed, if `replayed` ones are replayed, and a report if it is written.
  struct Arrivals {
    std::int64_t own = 0, replayed = 0;
    bool writes = false;
    std::int64_t bytes() const;
  };
  /// A limit that leaves room for them.
  std::int64_t limit_for(const Arrivals& arrivals) const;
  /// Throws as refuse() where the limit does not.
  void require_for(const Arrivals& arrivals, std::int64_t enough) const;

  /// While one lives, arrays with an entry per event, of one trace, are made in files, if `in_files`.
  class EventPlace {
   public:
    EventPlace(MemoryBudget& budget, bool in_files, const std::string& trace);
    ~EventPlace();
    EventPlace(const EventPlace&) = delete;
    EventPlace& operator=(const EventPlace&) = delete;

   private:
    std::pmr::memory_resource* const before_;
  };

  /// Traces read with their events in files so far, and the bytes that lay there at most at a time.
  std::int64_t traces_in_files() const { return std::ssize(traces_in_files_); }
  std::int64_t most_file_bytes() const { return files_.most_bytes(); }

 private:
  const std::optional<std::int64_t> limit_bytes_;
  FileMemory files_;
  std::set<std::string> traces_in_files_;  ///< some are read twice
};

/// Estimated where there is a limit; nothing but is_small() otherwise, without opening the file.
ReadingCost cost_of(const ingest::AssignedTrace& assigned, const MemoryBudget& budget);

// What the C library does with memory that analyses have given back.

/// From now on memory that is freed is kept for whoever asks next: analyses take and free arrays with a value for each
/// of millions of events, and to get the pages anew from the system each time takes a fifth of the time of a run.
/// `threads` share it, so that the next analysis finds it whichever thread it runs on; large arrays of several threads
/// are not kept. No effect but with glibc.
void keep_freed_memory(int threads);

/// Gives what is free back to the system.
void return_freed_memory();

}  // namespace nsys_explain::pipeline
