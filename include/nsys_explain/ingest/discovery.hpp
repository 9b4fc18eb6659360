#pragma once

#include <vector>

#include "nsys_explain/model/diagnostic.hpp"
#include "nsys_explain/model/time.hpp"

/// Which files a run reads, and which tool rank reads which. Every tool rank discovers on its own host (a pattern can
/// mean node-local files), the ranks exchange what they found, and merge_discoveries turns it into one assignment.
namespace nsys_explain::ingest {

/// One readable file found on this host.
struct FoundTrace {
  std::string path;             ///< as the user gave it, joined with the matched name; not canonicalised
  std::int64_t bytes = 0;       ///< size
  Nanoseconds modified_ns = 0;  ///< modification time, UTC epoch
  std::uint64_t device = 0, inode = 0;
  std::uint64_t sample_hash = 0;  ///< of a few small blocks spread over the file; 0 where the file is empty

  friend bool operator==(const FoundTrace&, const FoundTrace&) = default;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(path, bytes, modified_ns, device, inode, sample_hash);
  }
};

/// What the arguments mean on one host. Everything is sorted by path, bytewise.
struct Discovery {
  std::vector<FoundTrace> traces;   ///< each file once, under its first path
  std::vector<InputReport> failed;  ///< something is there, but it cannot be read as a trace; with the reason
  std::vector<InputReport> absent;  ///< arguments that name nothing on this host: a failure only if no host has them
  std::vector<Warning> warnings;    ///< e.g. the same file named twice

  template <class Archive>
  void serialize(Archive& archive) {
    archive(traces, failed, absent, warnings);
  }
};

/// Expands files, directories (their *.sqlite, or their *.json and *.json.gz where there is no export and no report;
/// not recursive) and quoted patterns (file_names.hpp). A name that exists
/// literally wins over its meaning as a pattern. Placeholders of nsys' own output names are put in
/// first, so that the name given to nsys finds what it wrote. A report file (.nsys-rep, .qdrep) stands for the export
/// beside it. Never throws for a bad argument: it becomes a failed or absent input with a message. A function of the
/// set of arguments: their order does not matter. With `take_reports` a report without an export beside it is an input,
/// too, to be exported by whoever reads it (export_report.hpp).
Discovery discover(const std::vector<std::string>& arguments, bool take_reports = false);

/// What one tool rank discovered. `host` is equal exactly for tool ranks that see the same node-local disks.
struct HostDiscovery {
  std::string host;
  Discovery discovery;
};

/// One file of the run and the tool rank that reads it.
struct AssignedTrace {
  std::string path;  ///< to open on that tool rank
  std::string name;  ///< unique in the run: the path, or "host:path" where hosts hold different files under one path
  std::int64_t bytes = 0;
  int tool_rank = 0;
  Nanoseconds modified_ns = 0;  ///< as found; see FoundTrace
  std::uint64_t sample_hash = 0;

  friend bool operator==(const AssignedTrace&, const AssignedTrace&) = default;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(path, name, bytes, tool_rank, modified_ns, sample_hash);
  }
};

/// Whether the file is there with the size, modification time and sample hash it was found with.
bool is_as_found(const AssignedTrace& trace);

struct MergedDiscovery {
  std::vector<AssignedTrace> traces;  ///< sorted by name
  std::vector<InputReport> failed;    ///< sorted by path
  std::vector<Warning> warnings;
};

/// One list of inputs from what every tool rank found (`by_tool_rank[r]` is rank r's), and who reads what.
///
/// Files of two hosts are one file if path, size, modification time and sample hash agree: device and inode numbers of
/// a network file system may differ between hosts, and those of node-local disks may agree by chance. Should two
/// copies on node-local disks agree in all four, they hold the same events, and reading one of them is right.
/// A file is read by a rank of a host that has it. Files with the fewest possible readers are given out first, then
/// the largest (longest processing time first), each to the least loaded rank, then to the least loaded host, then to
/// the lowest rank. Everything but `tool_rank` depends only on what the hosts hold, not on the number of tool ranks.
MergedDiscovery merge_discoveries(const std::vector<HostDiscovery>& by_tool_rank);

}  // namespace nsys_explain::ingest
