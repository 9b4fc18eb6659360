#include <fmt/format.h>

#include "fuzz/meaning.hpp"

/// Where things happen: threads, processes, streams, devices, hosts, sessions.
namespace nsys_explain::meaning {
namespace {

const std::vector<std::string>& activities() {
  static const std::vector<std::string> tables = {
      "CUPTI_ACTIVITY_KIND_KERNEL",          "CUPTI_ACTIVITY_KIND_MEMCPY",      "CUPTI_ACTIVITY_KIND_MEMSET",
      "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "CUPTI_ACTIVITY_KIND_CUDA_EVENT"};
  return tables;
}

/// Streams, devices, contexts or processes of GPU work; in one table, or in all.
void move_gpu_work(ChangedDatabase& database, Draw& draw) {
  const std::string column = draw.one_of<std::string>({"streamId", "deviceId", "deviceId", "contextId", "globalPid"});
  const std::string value = draw.one_of<std::string>(
      {"0", "1", "7", "rowid % 2", "rowid % 3", fmt::format("{} + 1", column), fmt::format("{} + 16777216", column),
       fmt::format("{} + rowid % 2 * 16777216", column), "NULL", "-1", "rowid", "1000000"});
  const bool in_all = draw.percent(60);
  const std::string one = draw.one_of(activities());
  for (const std::string& table : activities()) {
    if (!in_all && table != one) continue;
    database.run(fmt::format("UPDATE {} SET {} = {} WHERE {}", table, column, value, some_rows(database, table, draw)));
  }
}

void move_host_work(ChangedDatabase& database, Draw& draw) {
  const std::string value = draw.one_of<std::string>(
      {"globalTid + 1", "globalTid + 16777216", "globalTid / 16777216 * 16777216", "globalTid + rowid % 2",
       "globalTid + rowid % 3 * 16777216", "globalTid + rowid % 2 * 281474976710656",
       "(SELECT min(globalTid) FROM CUPTI_ACTIVITY_KIND_RUNTIME)", "0", "NULL", "rowid", "-1"});
  for (const char* table : {"CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"}) {
    if (draw.percent(40)) continue;
    database.run(fmt::format("UPDATE {} SET globalTid = {} WHERE {}", table, value, some_rows(database, table, draw)));
  }
}

/// Everything of a process gets another number; or two processes get one.
void renumber_processes(ChangedDatabase& database, Draw& draw) {
  const std::int64_t by = draw.one_of<std::int64_t>({16'777'216, -16'777'216, 281'474'976'710'656, 0});
  for (const std::string& table : database.texts("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1")) {
    for (const char* column : {"globalTid", "globalPid", "endGlobalTid"}) {
      database.run(by == 0 ? fmt::format("UPDATE \"{0}\" SET {1} = {1} % 16777216 + 16777216", table, column)
                           : fmt::format("UPDATE \"{}\" SET {} = {} + {}", table, column, column, by));
    }
  }
}

/// A second device that copies some of the first one's work: only later, only after the last step, or all of it.
void add_device(ChangedDatabase& database, Draw& draw) {
  const std::string where = draw.one_of<std::string>(
      {"1", "start > (SELECT max(start) FROM NVTX_EVENTS WHERE domainId = 0)",
       "start > (SELECT max(end) FROM NVTX_EVENTS WHERE domainId = 0 AND text LIKE 'step %')", "rowid % 50 = 0",
       "demangledName IN (SELECT id FROM StringIds WHERE value LIKE 'nccl%')"});
  const std::string later = draw.one_of<std::string>(
      {"", ", start = start + 1000000000, end = end + 1000000000",
       ", start = start + (SELECT max(end) - min(start) FROM CUPTI_ACTIVITY_KIND_KERNEL), end = end + (SELECT max(end) "
       "- min(start) FROM CUPTI_ACTIVITY_KIND_KERNEL)"});
  const int device = draw.one_of<int>({1, 1, 3, 0, -1});
  const std::string correlation = draw.percent(50) ? ", correlationId = correlationId + 5000000" : "";
  const bool with_calls = draw.percent(50);
  for (const char* table : {"CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME"}) {
    const bool is_call = std::string(table) == "CUPTI_ACTIVITY_KIND_RUNTIME";
    if (is_call && !with_calls) continue;
    database.run(
        fmt::format("CREATE TEMP TABLE other AS SELECT * FROM {} WHERE {} LIMIT 3000", table, is_call ? "1" : where));
    database.run(is_call ? fmt::format("UPDATE other SET eventClass = eventClass{}{}", later, correlation)
                         : fmt::format("UPDATE other SET deviceId = {}{}{}", device, later, correlation));
    database.run(fmt::format("INSERT INTO {} SELECT * FROM other", table));
    database.run("DROP TABLE other");
  }
  if (draw.percent(50))
    database.run(
        fmt::format("INSERT INTO TARGET_INFO_CUDA_DEVICE (gpuId, cudaId, pid) SELECT gpuId + 1, {}, pid FROM "
                    "TARGET_INFO_CUDA_DEVICE",
                    device));
}

/// What tells GPUs apart.
void change_gpus(ChangedDatabase& database, Draw& draw) {
  const std::string table = draw.percent(60) ? "TARGET_INFO_GPU" : "TARGET_INFO_CUDA_DEVICE";
  const std::string change = draw.one_of<std::string>({"uuid = '00000000-0000-0000-0000-000000000000'",
                                                       "uuid = ''",
                                                       "uuid = NULL",
                                                       "busLocation = '0000:00:00.0'",
                                                       "busLocation = NULL",
                                                       "name = ''",
                                                       "name = 'AMD Instinct MI300X'",
                                                       "id = id + 1",
                                                       "id = 0",
                                                       "vmId = 0",
                                                       "smCount = 0",
                                                       "memoryBandwidth = 0",
                                                       "clockRate = -1",
                                                       "cuDevice = 5",
                                                       "pid = 1",
                                                       "pid = pid + 1",
                                                       "gpuId = 9",
                                                       "cudaId = cudaId + 1",
                                                       "cudaId = 0",
                                                       "pid = NULL",
                                                       "totalMemory = 0"});
  database.run(fmt::format("UPDATE {} SET {} WHERE {}", table, change, some_rows(database, table, draw)));
}

/// What the environment says about ranks.
void change_environment(ChangedDatabase& database, Draw& draw) {
  const std::string value =
      draw.one_of<std::string>({"0", "1", "2", "7", "-1", "", "x", "99999999999999999999", "1000000", "3 "});
  const std::string name = draw.one_of<std::string>(
      {"RANK", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "SLURM_PROCID", "PMIX_RANK",
       "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS", "MASTER_ADDR", "CUDA_VISIBLE_DEVICES"});
  const std::string text = fmt::format("{}=\"{}\"", name, value);
  if (draw.percent(30)) {
    database.run(fmt::format(
        "INSERT INTO META_DATA_CAPTURE (name, value) SELECT name, '{}' FROM META_DATA_CAPTURE WHERE value LIKE 'RANK=%'",
        text));
  } else {
    database.run(draw.percent(80)
                     ? fmt::format("UPDATE META_DATA_CAPTURE SET value = '{}' WHERE value LIKE '{}=%'", text, name)
                     : fmt::format("DELETE FROM META_DATA_CAPTURE WHERE value LIKE '{}=%'", name));
  }
}

/// When the session began, how long it was, on which host.
void change_session(ChangedDatabase& database, Draw& draw) {
  const std::int64_t duration = some_duration_ns(draw);
  switch (draw.below(8)) {
    case 0:
    case 1:
      return database.run(
          fmt::format("UPDATE TARGET_INFO_SESSION_START_TIME SET utcEpochNs = utcEpochNs + {}", duration));
    case 2:
      return database.run(
          fmt::format("UPDATE TARGET_INFO_SESSION_START_TIME SET utcEpochNs = {}", draw.one_of<int>({0, 1, -1})));
    case 3:
      return database.run("DELETE FROM TARGET_INFO_SESSION_START_TIME");
    case 4:
      return database.run(fmt::format("UPDATE ANALYSIS_DETAILS SET {} = {}",
                                      draw.one_of<std::string>({"duration", "startTime", "stopTime"}), duration));
    case 5:
      return database.run(
          fmt::format("UPDATE TARGET_INFO_SYSTEM_ENV SET value = '{}' WHERE name LIKE '%{}%'",
                      draw.one_of<std::string>({"", "host-a", "0", "18446744073709551615"}),
                      draw.one_of<std::string>({"host", "Host", "Clock", "Time", "Cpu", "Uuid", "Env", ""})));
    case 6:
      return database.run("INSERT INTO TARGET_INFO_SESSION_START_TIME SELECT * FROM TARGET_INFO_SESSION_START_TIME");
    default:
      return database.run(fmt::format("UPDATE PROCESSES SET {}",
                                      draw.one_of<std::string>({"pid = 1", "name = 'python'", "globalPid = 0"})));
  }
}

}  // namespace

std::vector<RowEdit> edits_of_places() {
  return {{"move GPU work", move_gpu_work},
          {"move GPU work", move_gpu_work},
          {"move host work", move_host_work},
          {"move host work", move_host_work},
          {"renumber processes", renumber_processes},
          {"add a device", add_device},
          {"add a device", add_device},
          {"change GPUs", change_gpus},
          {"change the environment", change_environment},
          {"change the session", change_session},
          {"change the session", change_session}};
}

std::string edit_export(ChangedDatabase& database, Draw& draw) {
  static const std::vector<RowEdit> all = [] {
    std::vector<RowEdit> edits = edits_of_names();
    for (const auto& more : {edits_of_events(), edits_of_places()}) edits.insert(edits.end(), more.begin(), more.end());
    return edits;
  }();
  const RowEdit& one = draw.one_of(all);
  one.edit(database, draw);
  return one.name;
}

}  // namespace nsys_explain::meaning
