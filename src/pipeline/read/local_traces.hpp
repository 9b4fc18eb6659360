#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "analysis/trace/activity_graph.hpp"
#include "analysis/trace/rank_events.hpp"
#include "analysis/trace/work_profile.hpp"
#include "analysis/waits/rank_timeline.hpp"
#include "analysis/window/steps.hpp"
#include "analysis/window/window.hpp"
#include "clock/job_clock.hpp"
#include "collectives/extraction.hpp"
#include "ingest/jobs.hpp"
#include "ingest/rank_resolution.hpp"
#include "ingest/session_checks.hpp"
#include "ingest/trace_content.hpp"
#include "nsys_explain/ingest/discovery.hpp"
#include "nsys_explain/ingest/ingest.hpp"
#include "nsys_explain/model/job_report.hpp"
#include "nsys_explain/model/table.hpp"
#include "nsys_explain/model/trace.hpp"
#include "nsys_explain/model/work.hpp"
#include "pipeline/read/kept_exports.hpp"
#include "pipeline/read/packed_tables.hpp"
#include "pipeline/tool_rank/compress.hpp"
#include "pipeline/tool_rank/memory_budget.hpp"
#include "pipeline/tool_rank/phases.hpp"
#include "pipeline/tool_rank/user_options.hpp"

namespace nsys_explain::pipeline {

/// One trace rank whose events this tool rank holds.
struct LocalRank {
  TraceRankKey key;
  std::int32_t trace_rank = -1;        ///< set once the ranks of the whole job are resolved
  std::size_t session = 0;             ///< index into the run's sessions, set at the same time
  Budget budget;                       ///< trace time until the clock is known
  std::vector<TraceArrival> arrivals;  ///< until the timeline is made of them
  analysis::Steps steps;               ///< trace time until the clock is known
  std::vector<std::int32_t>
      steps_with_more;  ///< of these (analysis::steps_with_more); none where the user chose what is analysed
  analysis::RankTimeline timeline;   ///< of the arrivals, once they are matched
  std::uint64_t kernel_names = 0;    ///< analysis::names_of_kernels
  PackedRows<WorkProfile> profiles;  ///< of every arrival, in enter order
  PackedRows<analysis::TracePiece> pieces;
  PackedRows<analysis::ExposedStretch> exposed;  ///< likewise
  std::vector<collectives::CommunicatorMembership> memberships;
  std::map<std::uint64_t, std::string> communicator_names;  ///< what the program calls them, by key
  PackedTables tables;      ///< what the rank tells by itself (rank_tables.hpp); trace time
  clock::TraceClock clock;  ///< as its session recorded it, until the job's is known
};

/// What all tool ranks need to know about one input: small.
struct TraceFacts {
  InputReport input;
  bool analysed = false;
  Session session;
  ingest::SessionExtent extent;
  ingest::TraceContent content;
  std::vector<TraceRankIdentity> identities;  ///< empty where the trace holds no GPU activity; without helpers
  std::vector<HelperProcess> helpers;
  std::vector<ingest::ProcessFacts> processes;
  std::vector<TraceRankIdentity> hosts;  ///< processes without GPU work (ingest::identify_host_processes)
  std::vector<Warning> warnings;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(input, analysed, session, extent, content, identities, helpers, processes, hosts, warnings);
  }
};

/// One input read by this tool rank.
struct LocalTrace {
  TraceFacts facts;
  std::vector<LocalRank> ranks;
  std::vector<LocalRank> hosts;  ///< processes without GPU work: no trace ranks, but rows of tables
  /// By global process id: the steps of the whole recording, until all tool ranks agree on which are steady; and what
  /// was analysed of it. Empty where the user chose a part of the run, or all of it.
  std::map<std::uint64_t, analysis::RecordedSteps> recorded_steps;
  analysis::ProcessWindows windows;
  ingest::ZoneMap zones;  ///< empty where a record was taken, or where something was left out that cannot be true
};

class TraceRecords;

/// By the name of an input: what is to be analysed of each of its processes.
using AgreedWindows = std::map<std::string, analysis::ProcessWindows>;

/// `when_unchanged`: as long as the file is what its fingerprint says, in a later run than the one that found it.
enum class TraceAccess : std::uint8_t { always, when_unchanged, never };

struct ReadSettings {
  const UserOptions& options;
  TraceRecords& records;  ///< a trace with a record is not read
  MemoryBudget& memory;
  KeptExports& exports;
  Nanoseconds epoch_utc_ns = 0;  ///< where a window of time counts from; 0 where there is none
  ingest::Reader reader = ingest::Reader::automatic;
  int threads = 1;  ///< several small traces are read at once, the rows of a large one by several threads
  TraceAccess access = TraceAccess::always;
  int tool_ranks = 1;
  const AgreedWindows* agreed = nullptr;  ///< of the inputs named there; each proposes its own otherwise
};

/// What tool ranks have agreed on about an input; nullptr: nothing.
const analysis::ProcessWindows* agreed_windows(const ReadSettings& settings, const std::string& input);

/// Reads inputs and does everything that needs no other trace; results in the order of the inputs. Never throws for a
/// bad trace: it becomes a failed input with a message. Throws std::runtime_error where the memory limit leaves no
/// room.
std::vector<LocalTrace> read_local_traces(const std::vector<ingest::AssignedTrace>& assigned,
                                          const ReadSettings& settings, Progress& progress);

/// 0 where each of the inputs by itself can be read with the limit there is, else one that would do. Opens each of
/// them; reads some of their rows where there is a limit to name.
std::int64_t memory_limit_for(const std::vector<ingest::AssignedTrace>& assigned, const ReadSettings& settings);

/// Throws std::runtime_error where one of the inputs by itself cannot be read with the limit there is; `enough` would
/// do.
void check_memory_for(const std::vector<ingest::AssignedTrace>& assigned, const ReadSettings& settings,
                      std::int64_t enough);

/// The session of an input, without its events; one without a start where it cannot be read. `nsys` exports
/// reports.
Session read_local_session(const ingest::AssignedTrace& assigned, const std::string& nsys);

/// All whose tables have rows: trace ranks, and processes without GPU work.
template <class Use>
void for_each_with_rows(std::vector<LocalTrace>& local_traces, const Use& use) {
  for (LocalTrace& trace : local_traces) {
    for (std::vector<LocalRank>* some : {&trace.ranks, &trace.hosts})
      for (LocalRank& one : *some) use(one);
  }
}

/// Gives back what timelines and profiles take.
void release_timelines(std::vector<LocalTrace>& local_traces);

/// Reads an input a second time, as read_local_traces does, and shows the events of each of its ranks to `visit`;
/// kernels and calls only as far as `part` says. `windows`: what was analysed of it (LocalTrace::windows). Throws
/// ingest::TraceError, also where the file has changed or must not be read, and whatever `visit` throws.
void read_again(const ingest::AssignedTrace& assigned, const ReadSettings& settings,
                const analysis::ProcessWindows& windows, const ingest::FilePart& part,
                const std::function<void(const TraceRankKey&, const analysis::RankEvents&)>& visit);

}  // namespace nsys_explain::pipeline
