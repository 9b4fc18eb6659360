#include "ingest/side_files.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingest/row_filters.hpp"
#include "model/text.hpp"

namespace nsys_explain::ingest {
namespace {

using nlohmann::json;

std::int64_t integer(const json& object, const char* key, std::int64_t fallback) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_integer()) return fallback;
  if (!found->is_number_unsigned()) return found->get<std::int64_t>();
  const auto value = found->get<std::uint64_t>();
  return value > std::numeric_limits<std::int64_t>::max() ? fallback : static_cast<std::int64_t>(value);
}

std::string text(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

/// A member that is an object; an empty one where there is none.
const json& object_in(const json& object, const char* key) {
  static const json none = json::object();
  const auto found = object.find(key);
  return found != object.end() && found->is_object() ? *found : none;
}

constexpr std::int64_t most_microseconds = std::numeric_limits<std::int64_t>::max() / 1'000;

Nanoseconds from_microseconds(std::int64_t microseconds) {
  return microseconds > 0 && microseconds <= most_microseconds ? microseconds * 1'000 : no_time;
}

/// "0x7f8c496ae9f661"; 0 where it is no hash.
std::uint64_t communicator_hash(std::string_view id) {
  if (!id.starts_with("0x")) return 0;
  return integer_of<std::uint64_t>(id.substr(2), 16).value_or(0);
}

Operation operation_named(std::string_view name) {
  static const std::unordered_map<std::string_view, Operation> operations = {
      {"AllReduce", Operation::all_reduce},
      {"AllGather", Operation::all_gather},
      {"ReduceScatter", Operation::reduce_scatter},
      {"Broadcast", Operation::broadcast},
      {"Reduce", Operation::reduce},
      {"AlltoAll", Operation::all_to_all},
      {"Gather", Operation::gather},
      {"Scatter", Operation::scatter},
      {"Send", Operation::send_recv},
      {"Recv", Operation::send_recv}};
  const auto found = operations.find(name);
  return found == operations.end() ? Operation::unknown : found->second;
}

/// When the host saw the last channel of the kernel end; only verbose logs tell.
Nanoseconds kernel_end(const json& perf) {
  const json& times = object_in(perf, "event_trace_ts");
  const auto channels = times.find("kernel_events");
  if (channels == times.end() || !channels->is_array()) return no_time;
  std::int64_t last_us = -1;
  for (const json& channel : *channels)
    if (channel.is_object()) last_us = std::max(last_us, integer(channel, "kernel_stop_ts", -1));
  return from_microseconds(last_us);
}

enum class LineKind : std::uint8_t { operation, other_record, other_version, damaged };

/// Only the first number of a version says whether old readers can read it.
bool is_known_version(std::string_view version) {
  return version.starts_with("v4.");
}

/// How collectives, and sends and receives, name the same things.
struct PerfKeys {
  const char *name, *sequence, *bytes, *duration, *source;
};
constexpr PerfKeys collective_keys = {"coll", "coll_sn", "coll_msg_size_bytes", "coll_exec_time_us",
                                      "coll_timing_source"};
constexpr PerfKeys exchange_keys = {"p2p", "p2p_sn", "p2p_msg_size_bytes", "p2p_exec_time_us", "p2p_timing_source"};

LineKind read_perf(const json& header, const json& metadata, const json& perf, const PerfKeys& keys,
                   InspectorRecord& record) {
  const std::int64_t duration_us = integer(perf, keys.duration, -1);
  const std::int64_t rank = integer(header, "rank", -1), rank_count = integer(header, "n_ranks", -1);
  const std::int64_t peer = integer(perf, "p2p_peer", -1);
  const std::string name = text(perf, keys.name);
  constexpr std::int64_t most_ranks = 1 << 24;
  record.communicator = communicator_hash(text(header, "id"));
  record.sequence = integer(perf, keys.sequence, -1);
  record.bytes = integer(perf, keys.bytes, -1);
  record.operation = operation_named(name);
  record.end_ns = kernel_end(perf);
  record.dumped_ns = from_microseconds(integer(metadata, "dump_timestamp_us", -1));
  const bool is_exchange = record.operation == Operation::send_recv;
  if (record.communicator == 0 || record.sequence < 0 || duration_us < 0 || duration_us > most_microseconds ||
      rank < 0 || rank_count <= rank || rank_count > most_ranks ||
      (is_exchange && (peer < 0 || peer >= rank_count || record.bytes < 0 || record.bytes > most_bytes_at_once))) {
    return LineKind::damaged;
  }
  record.duration_ns = duration_us * 1'000;
  record.rank = static_cast<std::int32_t>(rank);
  record.rank_count = static_cast<std::int32_t>(rank_count);
  if (is_exchange) {
    record.peer = static_cast<std::int32_t>(peer);
    record.directions = name == "Send" ? Directions::sends : Directions::receives;
  }
  // Times by the host's clock where the GPU's was not there include the launch: they are no duration of the kernel.
  const std::string source = text(perf, keys.source);
  const bool is_usable = record.operation != Operation::unknown && (source.empty() || source == "kernel_gpu");
  return is_usable ? LineKind::operation : LineKind::other_record;
}

LineKind read_line(std::string_view line, InspectorRecord& record) {
  const json document = json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (document.is_discarded() || !document.is_object()) return LineKind::damaged;
  const json& header = object_in(document, "header");
  const json& metadata = object_in(document, "metadata");
  const std::string version = text(metadata, "inspector_output_format_version");
  if (!version.empty() && !is_known_version(version)) return LineKind::other_version;
  const json& collective = object_in(document, "coll_perf");
  if (!collective.empty()) return read_perf(header, metadata, collective, collective_keys, record);
  const json& exchange = object_in(document, "p2p_perf");
  if (!exchange.empty()) return read_perf(header, metadata, exchange, exchange_keys, record);
  return header.empty() ? LineKind::damaged : LineKind::other_record;
}

std::string_view without_domain(std::string_view host) {
  return host.substr(0, host.find('.'));
}

std::vector<std::filesystem::path> log_files(const std::string& directory) {
  std::error_code problem;
  std::vector<std::filesystem::path> files;
  for (auto entry = std::filesystem::directory_iterator(directory, problem);
       !problem && entry != std::filesystem::directory_iterator(); entry.increment(problem)) {
    const std::string name = entry->path().filename().string();
    if (name.find("-pid") != std::string::npos) files.push_back(entry->path());
  }
  if (problem) {
    throw std::runtime_error(fmt::format(
        "--inspector {}: {}, so no collective takes its key from NCCL Inspector; name the directory that NCCL_INSPECTOR_DUMP_DIR named",
        directory, problem.message()));
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::optional<std::filesystem::path> find_log(const std::string& directory, const std::string& host,
                                              std::int32_t process_id) {
  std::vector<std::filesystem::path> of_process, of_host;
  for (const auto& path : log_files(directory)) {
    const std::string name = path.filename().string();
    const std::size_t mark = name.rfind("-pid");
    const std::string_view rest = std::string_view(name).substr(mark + 4);
    if (rest != fmt::format("{}.log", process_id) && rest != fmt::format("{}.jsonl", process_id)) continue;
    of_process.push_back(path);
    if (without_domain(std::string_view(name).substr(0, mark)) == without_domain(host)) of_host.push_back(path);
  }
  const auto& found = host.empty() ? of_process : of_host;
  return found.size() == 1 ? std::optional(found.front()) : std::nullopt;
}

Warning data_loss(std::int64_t count, std::string message) {
  return {Severity::data_loss, WarningSource::trace, count, std::move(message)};
}

}  // namespace

InspectorLog parse_inspector_log(std::string_view log) {
  InspectorLog result;
  std::map<LineKind, std::int64_t> lines;
  while (!log.empty()) {
    const std::string_view line = next_part(log);
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    InspectorRecord record;
    const LineKind kind = read_line(line, record);
    ++lines[kind];
    if (kind == LineKind::operation) result.records.push_back(record);
  }
  if (lines[LineKind::damaged] > 0) {
    result.warnings.push_back(data_loss(
        lines[LineKind::damaged],
        "lines of NCCL Inspector's logs are cut off or damaged: the collectives of these lines take no key from it; let the job end by itself"));
  }
  if (lines[LineKind::other_version] > 0) {
    result.warnings.push_back(data_loss(
        lines[LineKind::other_version],
        "lines of NCCL Inspector's logs have another format than v4: the collectives of these lines take no key from it; log with the plugin of NCCL 2.28 to 2.30"));
  }
  return result;
}

InspectorLog read_inspector_log(const std::string& directory, const std::string& host, std::int32_t process_id) {
  const auto path = find_log(directory, host, process_id);
  InspectorLog missing;
  missing.warnings.push_back(data_loss(
      1,
      "processes have no log of NCCL Inspector (HOST-pidPID.log) or none that can be read: their collectives take no key from it; add the logs of all processes"));
  if (!path) return missing;
  std::ifstream file(*path, std::ios::binary);
  std::ostringstream content;
  content << file.rdbuf();
  if (!file) return missing;
  return parse_inspector_log(content.view());
}

std::string list_inspector_logs(const std::string& directory) {
  std::string list;
  for (const auto& path : log_files(directory)) {
    std::error_code size_problem, time_problem;
    const auto size = std::filesystem::file_size(path, size_problem);
    const auto time = std::filesystem::last_write_time(path, time_problem).time_since_epoch().count();
    list += fmt::format("{}\n{}\n{}\n", path.filename().string(), size_problem ? 0 : size, time_problem ? 0 : time);
  }
  return list;
}

}  // namespace nsys_explain::ingest
