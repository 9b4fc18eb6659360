#include <cstring>

#include <fmt/format.h>

#include "fuzz/meaning.hpp"

/// What ranges, kernels and calls are called, and what NCCL's payloads tell.
namespace nsys_explain::meaning {
namespace {

std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("''") : std::string(1, c);
  return result + "'";
}

/// Ranges to be renamed; often those that count steps already.
std::string some_ranges(ChangedDatabase& database, Draw& draw) {
  const std::string rows = some_rows(database, "NVTX_EVENTS", draw);
  if (draw.percent(40)) return "domainId = 0 AND " + rows;
  if (draw.percent(40)) return "text LIKE 'step %' AND " + rows;
  return rows;
}

void number_ranges(ChangedDatabase& database, Draw& draw) {
  const std::string word = word_for_range(draw);
  const Counting& counting = way_of_counting(draw);
  database.run(
      fmt::format("CREATE TEMP TABLE numbered AS SELECT rowid AS row, row_number() OVER (ORDER BY start) - 1 AS n FROM "
                  "NVTX_EVENTS WHERE {}",
                  some_ranges(database, draw)));
  database.run("CREATE INDEX temp.by_row ON numbered (row)");
  database.run(
      fmt::format("UPDATE NVTX_EVENTS SET textId = NULL, text = (SELECT {} || ({}) FROM numbered WHERE row = "
                  "NVTX_EVENTS.rowid) WHERE rowid IN (SELECT row FROM numbered)",
                  quoted(word), counting.sql));
  database.run("DROP TABLE numbered");
}

/// A string that rows refer to by its number; made where there is none.
std::int64_t string_id(ChangedDatabase& database, const std::string& text) {
  const std::string find = fmt::format("SELECT id FROM StringIds WHERE value = {}", quoted(text));
  if (database.texts(find).empty())
    database.run(fmt::format("INSERT INTO StringIds (id, value) SELECT max(id) + 1, {} FROM StringIds", quoted(text)));
  return database.number(find);
}

void name_ranges(ChangedDatabase& database, Draw& draw) {
  const std::int64_t id = string_id(database, word_for_range(draw));
  database.run(
      fmt::format("UPDATE NVTX_EVENTS SET text = NULL, textId = {} WHERE {}", id, some_ranges(database, draw)));
}

void name_kernels(ChangedDatabase& database, Draw& draw) {
  const std::int64_t id = string_id(database, word_for_kernel(draw));
  const char* nccl = draw.one_of<const char*>({"1", "LIKE", "NOT LIKE"});
  const std::string which =
      *nccl == '1' ? "1" : fmt::format("demangledName IN (SELECT id FROM StringIds WHERE value {} 'nccl%')", nccl);
  database.run(
      fmt::format("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET demangledName = {0}, shortName = {0} WHERE {1} AND {2}", id,
                  which, some_rows(database, "CUPTI_ACTIVITY_KIND_KERNEL", draw)));
}

/// Kernels of one name get another's, and the other way round.
void swap_kernel_names(ChangedDatabase& database, Draw& draw) {
  const std::int64_t kinds = database.number("SELECT count(DISTINCT demangledName) FROM CUPTI_ACTIVITY_KIND_KERNEL");
  if (kinds == 0) return;
  const auto one = [&] {
    return database.number(
        fmt::format("SELECT DISTINCT demangledName FROM CUPTI_ACTIVITY_KIND_KERNEL ORDER BY 1 LIMIT 1 OFFSET {}",
                    draw.below(static_cast<std::uint64_t>(kinds))));
  };
  const std::int64_t first = one(), second = one();
  database.run(
      fmt::format("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET demangledName = {} + {} - demangledName WHERE demangledName "
                  "IN ({}, {})",
                  first, second, first, second));
}

void name_calls(ChangedDatabase& database, Draw& draw) {
  static const std::vector<std::string> names = {"cudaLaunchKernel_v7000",
                                                 "cudaLaunchKernelExC_v11060",
                                                 "cudaGraphLaunch_v10000",
                                                 "cudaMemcpyAsync_v3020",
                                                 "cudaStreamSynchronize_v3020",
                                                 "cudaDeviceSynchronize_v3020",
                                                 "cudaEventSynchronize_v3020",
                                                 "cudaEventRecord_v3020",
                                                 "cudaStreamWaitEvent_v3020",
                                                 "cudaMalloc_v3020",
                                                 "cudaMemcpy_v3020",
                                                 "cuLaunchKernel",
                                                 "cudaStreamBeginCapture_v10000",
                                                 "cudaProfilerStart_v4000",
                                                 "",
                                                 "step 1"};
  database.run(fmt::format("UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET nameId = {} WHERE {}",
                           string_id(database, draw.one_of(names)),
                           some_rows(database, "CUPTI_ACTIVITY_KIND_RUNTIME", draw)));
}

/// One string becomes another, wherever it stands.
void rename_string(ChangedDatabase& database, Draw& draw) {
  const auto strings = static_cast<std::uint64_t>(database.number("SELECT count(*) FROM StringIds"));
  if (strings == 0) return;
  const std::string word = draw.percent(50) ? word_for_range(draw) : word_for_kernel(draw);
  const char* which = draw.one_of<const char*>({"id IN (SELECT demangledName FROM CUPTI_ACTIVITY_KIND_KERNEL)",
                                                "id IN (SELECT nameId FROM CUPTI_ACTIVITY_KIND_RUNTIME)",
                                                "id IN (SELECT textId FROM NVTX_EVENTS)", "1"});
  const std::string one = fmt::format("rowid = (SELECT rowid FROM StringIds LIMIT 1 OFFSET {})", draw.below(strings));
  database.run(fmt::format("UPDATE StringIds SET value = {} WHERE {} AND {}", quoted(word), which,
                           draw.percent(50) ? one : some_rows(database, "StringIds", draw)));
}

/// Ranges become marks, or ranges of another domain or kind.
void change_kinds_of_ranges(ChangedDatabase& database, Draw& draw) {
  const std::string where = " WHERE " + some_rows(database, "NVTX_EVENTS", draw);
  if (draw.percent(50)) {
    database.run(fmt::format("UPDATE NVTX_EVENTS SET eventType = {}{}",
                             draw.one_of<int>({33, 34, 39, 59, 60, 70, 71, 75, 76}), where));
  } else {
    database.run(fmt::format("UPDATE NVTX_EVENTS SET domainId = {}{}", draw.one_of<int>({0, 1, 2, 99}), where));
  }
}

/// A number in NCCL's payloads becomes another: communicators merge or split, sizes, roots and ranks change.
void change_payloads(ChangedDatabase& database, Draw& draw) {
  const std::string where = " WHERE binaryData IS NOT NULL AND " + some_rows(database, "NVTX_EVENTS", draw);
  const auto rows = database.texts("SELECT rowid FROM NVTX_EVENTS" + where);
  if (rows.empty()) return;
  const auto payload = [&](const std::string& row) {
    return database.texts("SELECT binaryData FROM NVTX_EVENTS WHERE rowid = " + row).front();
  };
  const std::string model = payload(draw.one_of(rows));
  const std::size_t header = 32, at = header + 8 * draw.below(3), width = draw.one_of<std::size_t>({4, 8});
  const auto number = draw.one_of<std::uint64_t>({0, 1, 2, 3, 1'000, std::uint64_t{1} << 31, ~std::uint64_t{0}});
  const std::uint64_t kind = draw.below(4);
  for (std::size_t i = 0; i < rows.size() && i < 200; ++i) {
    std::string bytes = payload(rows[i]);
    if (bytes.size() < at + width || model.size() < at + width) continue;
    if (kind == 0) {
      bytes.replace(at, width, model, at, width);
    } else if (kind == 1) {
      std::memcpy(&bytes[at], &number, width);
    } else {
      std::uint64_t value = 0;
      std::memcpy(&value, &bytes[at], width);
      value += kind == 2 ? number : i % 2;  // all alike, or every other
      std::memcpy(&bytes[at], &value, width);
    }
    database.run_with("UPDATE NVTX_EVENTS SET binaryData = ? WHERE rowid = " + rows[i], bytes, true);
  }
}

/// Likewise where payloads are JSON: numbers of one kind become one, or differ.
void change_json_payloads(ChangedDatabase& database, Draw& draw) {
  const std::string key = draw.one_of<std::string>(
      {"NCCL communicator ID", "No. of ranks", "Rank", "CUDA device", "Message size [bytes]", "Root", "Peer rank"});
  const std::string value = draw.one_of<std::string>({"0", "1", "2", "-1", "rowid % 2", "1000000", "NULL", "'x'"});
  database.run(
      fmt::format("UPDATE NVTX_EVENTS SET jsonText = json_set(jsonText, '$.\"{}\"', {}) WHERE jsonText IS NOT "
                  "NULL AND {}",
                  key, value, some_rows(database, "NVTX_EVENTS", draw)));
}

}  // namespace

std::vector<RowEdit> edits_of_names() {
  return {{"number ranges", number_ranges},
          {"number ranges", number_ranges},
          {"number ranges", number_ranges},
          {"name ranges", name_ranges},
          {"name kernels", name_kernels},
          {"swap kernel names", swap_kernel_names},
          {"name calls", name_calls},
          {"rename strings", rename_string},
          {"change kinds of ranges", change_kinds_of_ranges},
          {"change payloads", change_payloads},
          {"change payloads", change_payloads},
          {"change JSON payloads", change_json_payloads}};
}

}  // namespace nsys_explain::meaning
