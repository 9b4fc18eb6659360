#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "ingest/session_checks.hpp"
#include "nsys_explain/model/identity.hpp"
#include "nsys_explain/model/trace.hpp"

/// Which processes with GPU work are of one job.
namespace nsys_explain::ingest {

struct CommunicatorMember {
  std::uint64_t communicator = 0;  ///< NCCL's hash
  std::int32_t rank = -1;          ///< of the process in it; -1: not told, or it has several

  friend bool operator==(const CommunicatorMember&, const CommunicatorMember&) = default;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(communicator, rank);
  }
};

/// Where a process ran its program several times: from each run to the next a pause, the longest of the process, over
/// which no communicator is used. Each run makes a communicator as large as the others' and communicates a tenth of
/// what the busiest does, at least: what only makes its groups early, or another one later, is one run.
struct ProcessRuns {
  std::vector<Nanoseconds> pauses;  ///< the middle of each, ascending, trace time; empty: one run
  std::size_t analysed = 0;         ///< which run: that with most collectives, then the longest, then the first

  template <class Archive>
  void serialize(Archive& archive) {
    archive(pauses, analysed);
  }
};

ProcessRuns runs_of(const ProcessTrace& process);

/// What a process with GPU work tells of the job it belongs to.
struct ProcessFacts {
  std::uint64_t global_pid = 0;
  std::int32_t process_id = 0;
  Interval recorded;                              ///< first start to last end of its events, trace time
  std::vector<CommunicatorMember> communicators;  ///< ascending; none where other jobs may have the same
  std::int32_t largest_communicator = 0;          ///< ranks of the largest NCCL communicator made in it; 0: none seen
  std::int64_t collectives = 0;
  ProcessRuns runs;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(global_pid, process_id, recorded.start_ns, recorded.end_ns, communicators, largest_communicator,
            collectives, runs);
  }
};

/// Of each process of the trace; `kernels`: how many of each communicate.
std::vector<ProcessFacts> facts_of_processes(const Trace& trace, std::span<const std::int64_t> kernels);

/// A process as the jobs of a run are told by it.
struct JobUnit {
  std::string path;
  std::uint64_t global_pid = 0;
  std::int32_t process_id = 0;
  std::string host;       ///< empty: not known
  Interval recorded_utc;  ///< empty: not known
  std::vector<CommunicatorMember> communicators;
  std::int32_t world_size = 0;  ///< 0: not told
  std::vector<LauncherId> launchers;
  std::vector<RankClaim> claims;
  std::int32_t trace_ranks = 1;
  std::int64_t collectives = 0;
};

/// Of each process in which `ranks` see themselves, sorted by path and process.
std::vector<JobUnit> units_of(const std::vector<TraceRankIdentity>& ranks, const Session& session,
                              const SessionExtent& extent, const std::vector<ProcessFacts>& processes);

struct Job {
  std::vector<std::size_t> units;  ///< ascending
  std::int32_t trace_ranks = 0;
  std::string reason;  ///< what contradicts that it is one with the first of the jobs; empty for that
};

/// Divides processes into jobs, the largest first (by ranks, then by collectives, then by time, then by path). One NCCL
/// communicator is in one job, whatever else is told, unless two processes are the same rank of it. A division needs a
/// contradiction between processes that none joins: a rank that both claim by MPI or the environment; other ids of
/// their launchers; other world sizes; times apart (a pause in which nothing of the one or the other runs: on one host
/// more than a second between captures, any within one; between hosts more than an hour, as their clocks may be wrong,
/// unless one launcher started them). That no communicator joins them is none. What could be of several jobs is put to
/// those at its time, then to those with names like its own. A user who gives ranks says that all are one job. A
/// function of the set of units, which are sorted by path and process.
///
///     RANK 0 and 1 of world size 2, and again RANK 0 and 1 at the same time: two jobs of two ranks
///     RANK 0 and 1, then RANK 2 and 3, no communicator in common: one job of four
std::vector<Job> divide_into_jobs(std::span<const JobUnit> units);

/// The units of each job by path, and the command that analyses the job by itself: with its files where they hold
/// nothing else, else with a process of it.
std::string command_for(std::size_t job, std::span<const Job> jobs, std::span<const JobUnit> units);

/// The job that `name` belongs to: FILE, or FILE:PID for a process of it; a name without its folder will do where no
/// other file has it. Of several in one file the largest. -1: none.
std::ptrdiff_t job_of(const std::string& name, std::span<const Job> jobs, std::span<const JobUnit> units);

}  // namespace nsys_explain::ingest
