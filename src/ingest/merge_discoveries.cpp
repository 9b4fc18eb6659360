#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "model/text.hpp"
#include "nsys_explain/ingest/discovery.hpp"

namespace nsys_explain::ingest {
namespace {

/// What makes a file the same file on two hosts, under one path.
struct Fingerprint {
  Nanoseconds modified_ns = 0;
  std::int64_t bytes = 0;
  std::uint64_t sample_hash = 0;

  friend bool operator<(const Fingerprint& a, const Fingerprint& b) {
    return std::tie(a.modified_ns, a.bytes, a.sample_hash) < std::tie(b.modified_ns, b.bytes, b.sample_hash);
  }
};

/// One file and who can read it.
struct SharedFile {
  std::string path, name;
  Fingerprint fingerprint;
  std::set<std::string> hosts;
  std::vector<int> readers;  ///< tool ranks, ascending
};

/// All files of the run. On one host a path is one file: if its tool ranks saw it change while it was being written,
/// the latest state counts.
std::vector<SharedFile> group_files(const std::vector<HostDiscovery>& by_tool_rank) {
  std::map<std::pair<std::string, std::string>, Fingerprint> latest;  // (path, host)
  for (const auto& [host, discovery] : by_tool_rank) {
    for (const auto& trace : discovery.traces) {
      auto& known = latest[{trace.path, host}];
      known = std::max(known, Fingerprint{trace.modified_ns, trace.bytes, trace.sample_hash});
    }
  }
  std::map<std::pair<std::string, Fingerprint>, SharedFile> files;
  for (std::size_t rank = 0; rank < by_tool_rank.size(); ++rank) {
    const auto& [host, discovery] = by_tool_rank[rank];
    for (const auto& trace : discovery.traces) {
      const Fingerprint fingerprint = latest.at({trace.path, host});
      SharedFile& file = files[{trace.path, fingerprint}];
      file.path = trace.path;
      file.fingerprint = fingerprint;
      file.hosts.insert(host);
      file.readers.push_back(static_cast<int>(rank));
    }
  }
  std::vector<SharedFile> result;
  result.reserve(files.size());
  for (auto& [key, file] : files) result.push_back(std::move(file));
  return result;
}

/// Names the files so that no two share a name, and says where that took more than the path. `files` is sorted by path.
void name_files(std::vector<SharedFile>& files, std::vector<Warning>& warnings) {
  std::map<std::string, std::int64_t> files_of_path;
  for (const auto& file : files) ++files_of_path[file.path];
  for (auto& file : files)
    file.name = files_of_path[file.path] == 1 ? file.path : *file.hosts.begin() + ':' + file.path;
  std::erase_if(files_of_path, [](const auto& entry) { return entry.second == 1; });
  if (files_of_path.empty()) return;
  warnings.push_back(
      {Severity::info, WarningSource::analysis, static_cast<std::int64_t>(files_of_path.size()),
       fmt::format(
           "hosts hold different files under one path (first: {}): each is read on its own host and called HOST:PATH; nothing to do if these are node-local disks",
           shell_quoted(files_of_path.begin()->first))});
}

/// Longest processing time first, files with few possible readers before all others.
std::vector<AssignedTrace> assign(const std::vector<SharedFile>& files,
                                  const std::vector<HostDiscovery>& by_tool_rank) {
  std::vector<const SharedFile*> order;
  order.reserve(files.size());
  for (const auto& file : files) order.push_back(&file);
  std::sort(order.begin(), order.end(), [](const SharedFile* a, const SharedFile* b) {
    return std::make_tuple(a->readers.size(), -a->fingerprint.bytes, a->name) <
           std::make_tuple(b->readers.size(), -b->fingerprint.bytes, b->name);
  });
  struct Load {
    std::int64_t bytes = 0, files = 0;
    bool operator<(const Load& other) const { return std::tie(bytes, files) < std::tie(other.bytes, other.files); }
    bool operator==(const Load&) const = default;
  };
  std::vector<Load> rank_load(by_tool_rank.size());
  std::map<std::string, Load> host_load;
  std::vector<AssignedTrace> result;
  result.reserve(files.size());
  for (const SharedFile* file : order) {
    const auto load = [&](int rank) {
      return std::make_tuple(rank_load[rank], host_load[by_tool_rank[rank].host], rank);
    };
    const int reader =
        *std::min_element(file->readers.begin(), file->readers.end(), [&](int a, int b) { return load(a) < load(b); });
    for (Load* carried : {&rank_load[reader], &host_load[by_tool_rank[reader].host]}) {
      carried->bytes += file->fingerprint.bytes;
      ++carried->files;
    }
    const Fingerprint& fingerprint = file->fingerprint;
    result.push_back(
        {file->path, file->name, fingerprint.bytes, reader, fingerprint.modified_ns, fingerprint.sample_hash});
  }
  std::sort(result.begin(), result.end(),
            [](const AssignedTrace& a, const AssignedTrace& b) { return a.name < b.name; });
  return result;
}

/// What failed anywhere, and what no tool rank found. Of several messages for one path the first in order stands, so
/// that it does not matter which rank met it.
std::vector<InputReport> merge_failures(const std::vector<HostDiscovery>& by_tool_rank,
                                        const std::vector<SharedFile>& files, std::vector<Warning>& warnings) {
  std::map<std::string, std::set<std::string>> failed, absent;  // path -> messages
  std::map<std::string, std::size_t> absences;
  std::map<std::string, std::string> failing_host;
  for (const auto& [host, discovery] : by_tool_rank) {
    for (const auto& input : discovery.failed) {
      failed[input.path].insert(input.message);
      const auto [known, is_new] = failing_host.try_emplace(input.path, host);
      if (!is_new) known->second = std::min(known->second, host);
    }
    for (const auto& input : discovery.absent) {
      absent[input.path].insert(input.message);
      ++absences[input.path];
    }
  }
  for (const auto& [path, messages] : absent)
    if (absences[path] == by_tool_rank.size()) failed[path].insert(*messages.begin());
  std::set<std::string> readable;
  for (const auto& file : files) readable.insert(file.path);
  std::vector<InputReport> result;
  for (const auto& [path, messages] : failed) {
    if (!readable.contains(path)) {
      result.push_back({path, InputStatus::failed, *messages.begin()});
      continue;
    }
    warnings.push_back(
        {Severity::data_loss, WarningSource::analysis, 1,
         fmt::format(
             "host {} cannot read {} ({}), another host can: if they hold different files under this path, the ranks in that of {} are missing; make it readable there, too",
             failing_host.at(path), shell_quoted(path), *messages.begin(), failing_host.at(path))});
  }
  return result;
}

/// Every warning once: ranks of one host, and hosts that share a file system, have the same to say.
void merge_warnings(const std::vector<HostDiscovery>& by_tool_rank, std::vector<Warning>& warnings) {
  std::map<std::pair<Severity, std::string>, Warning> merged;
  const auto add = [&](const Warning& warning) {
    auto& known = merged.try_emplace({warning.severity, warning.message}, warning).first->second;
    known.count = std::max(known.count, warning.count);
  };
  for (const auto& warning : warnings) add(warning);
  for (const auto& entry : by_tool_rank)
    for (const auto& warning : entry.discovery.warnings) add(warning);
  warnings.clear();
  for (const auto& [key, warning] : merged) warnings.push_back(warning);
}

}  // namespace

MergedDiscovery merge_discoveries(const std::vector<HostDiscovery>& by_tool_rank) {
  MergedDiscovery result;
  std::vector<SharedFile> files = group_files(by_tool_rank);
  name_files(files, result.warnings);
  result.failed = merge_failures(by_tool_rank, files, result.warnings);
  merge_warnings(by_tool_rank, result.warnings);
  result.traces = assign(files, by_tool_rank);
  return result;
}

}  // namespace nsys_explain::ingest
