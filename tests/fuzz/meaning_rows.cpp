#include <fmt/format.h>

#include "fuzz/meaning.hpp"

/// When things happen, how often, and what is there at all.
namespace nsys_explain::meaning {
namespace {

/// A table whose rows have times; those that a verdict rests on are drawn more often.
std::string some_timed_table(ChangedDatabase& database, Draw& draw) {
  static const std::vector<std::string> often = {"NVTX_EVENTS",
                                                 "NVTX_EVENTS",
                                                 "CUPTI_ACTIVITY_KIND_KERNEL",
                                                 "CUPTI_ACTIVITY_KIND_KERNEL",
                                                 "CUPTI_ACTIVITY_KIND_RUNTIME",
                                                 "CUPTI_ACTIVITY_KIND_RUNTIME",
                                                 "CUPTI_ACTIVITY_KIND_MEMCPY",
                                                 "CUPTI_ACTIVITY_KIND_MEMSET",
                                                 "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
                                                 "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"};
  for (int tries = 0; tries < 4; ++tries) {
    const std::string& table = draw.one_of(often);
    if (draw.percent(90) && database.has_rows(table)) return table;
  }
  const auto all = database.texts(
      "SELECT name FROM sqlite_master m WHERE type = 'table' AND EXISTS (SELECT 1 FROM pragma_table_info(m.name) WHERE "
      "name = 'start') ORDER BY name");
  return all.empty() ? often.front() : draw.one_of(all);
}

std::vector<std::string> timed_tables(ChangedDatabase& database) {
  return database.texts(
      "SELECT name FROM sqlite_master m WHERE type = 'table' AND EXISTS (SELECT 1 FROM pragma_table_info(m.name) WHERE "
      "name = 'start') ORDER BY name");
}

/// SET clauses that give rows other times.
std::string other_times(const std::string& table, Draw& draw) {
  const std::int64_t duration = some_duration_ns(draw);
  const std::string least = fmt::format("(SELECT min(start) FROM \"{}\")", table);
  const std::string most = fmt::format("(SELECT max(end) FROM \"{}\")", table);
  switch (draw.below(14)) {
    case 0:
      return "end = start";
    case 1:
      return "start = end";
    case 2:
      return "start = end, end = start";
    case 3:
    case 4:
      return fmt::format("start = start + {0}, end = end + {0}", duration);
    case 5:
      return fmt::format("end = start + (end - start) * {}", draw.one_of<int>({0, 2, 3, 40, 1'000'000, -1}));
    case 6:
      return fmt::format("start = start - (end - start) * {}", draw.one_of<int>({1, 2, 10}));
    case 7:
      return "end = NULL";
    case 8:
      return fmt::format("start = {0}, end = {0} + {1}", least, draw.one_of<int>({0, 1, 1'000'000}));
    case 9:
      return fmt::format("end = {}", most);
    case 10:
      return fmt::format("start = {}", least);
    case 11:
      return fmt::format("start = {0} + {1} - end, end = {0} + {1} - start", least, most);  // backwards
    case 12:
      return fmt::format("start = start - {0}, end = end - {0}", most);  // negative
    default:
      return draw.percent(50) ? "start = start / 10000000 * 10000000, end = end / 10000000 * 10000000"
                              : fmt::format("end = {}", duration);
  }
}

void change_times(ChangedDatabase& database, Draw& draw) {
  const std::string table = some_timed_table(database, draw);
  const std::string times = other_times(table, draw);
  database.run(fmt::format("UPDATE \"{}\" SET {} WHERE {}", table, times, some_rows(database, table, draw)));
}

/// Step ranges that overlap, nest, leave gaps, or end never.
void change_times_of_steps(ChangedDatabase& database, Draw& draw) {
  const std::string times = other_times("NVTX_EVENTS", draw);
  database.run(fmt::format("UPDATE NVTX_EVENTS SET {} WHERE domainId = 0 AND {} AND {}", times,
                           draw.percent(60) ? "text LIKE 'step %'" : "1", some_rows(database, "NVTX_EVENTS", draw)));
}

/// Everything of the session: late parts are days later, all is negative, faster or slower.
void change_times_of_all(ChangedDatabase& database, Draw& draw) {
  const std::uint64_t kind = draw.below(4), eighth = draw.below(9);
  const std::int64_t duration = some_duration_ns(draw);
  const std::int64_t least = database.number("SELECT min(start) FROM CUPTI_ACTIVITY_KIND_RUNTIME"),
                     most = database.number("SELECT max(start) FROM CUPTI_ACTIVITY_KIND_RUNTIME");
  const std::int64_t middle = least + (most - least) / 8 * static_cast<std::int64_t>(eighth);
  const int factor = draw.one_of<int>({-1, 0, 2, 1'000});
  for (const std::string& table : timed_tables(database)) {
    std::string sql = fmt::format("UPDATE \"{}\" SET ", table);
    if (kind == 0) sql += fmt::format("start = start + {0}, end = end + {0} WHERE start > {1}", duration, middle);
    if (kind == 1) sql += fmt::format("start = start - {0}, end = end - {0}", most + (eighth == 0 ? 0 : duration));
    if (kind == 2) sql += fmt::format("start = start * {0}, end = end * {0}", factor);
    if (kind == 3) sql += fmt::format("start = {0} + {1} - end, end = {0} + {1} - start", least, most);
    database.run(sql);
  }
}

void drop_rows(ChangedDatabase& database, Draw& draw) {
  const std::string table = some_timed_table(database, draw);
  database.run(fmt::format("DELETE FROM \"{}\" WHERE {}", table, some_rows(database, table, draw)));
}

/// What the GPU, or the host, did within the ranges of steps, outside of them, before or after all of them.
void drop_by_steps(ChangedDatabase& database, Draw& draw) {
  database.run(
      "CREATE TEMP TABLE steps AS SELECT start, end FROM NVTX_EVENTS WHERE domainId = 0 AND (text LIKE '%step%' OR text "
      "LIKE '%iter%')");
  const std::string where = draw.one_of<std::string>(
      {"start > (SELECT max(end) FROM steps)", "start > (SELECT max(start) FROM steps)",
       "start < (SELECT min(start) FROM steps)", "start < (SELECT max(start) FROM steps)",
       "start < (SELECT max(end) FROM steps)", "EXISTS (SELECT 1 FROM steps s WHERE t.start BETWEEN s.start AND s.end)",
       "NOT EXISTS (SELECT 1 FROM steps s WHERE t.start BETWEEN s.start AND s.end)"});
  const std::string table = some_timed_table(database, draw);
  database.run(fmt::format("DELETE FROM \"{}\" AS t WHERE {} AND {}", table, where, some_rows(database, table, draw)));
  if (draw.percent(40)) database.run(fmt::format("DELETE FROM CUPTI_ACTIVITY_KIND_RUNTIME AS t WHERE {}", where));
  database.run("DROP TABLE steps");
}

void drop_launches(ChangedDatabase& database, Draw& draw) {
  const std::string names = draw.one_of<std::string>({"%Launch%", "%Synchronize%", "%Memcpy%", "%Event%", "%"});
  database.run(
      fmt::format("DELETE FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE nameId IN (SELECT id FROM StringIds WHERE value LIKE "
                  "'{}') AND {}",
                  names, some_rows(database, "CUPTI_ACTIVITY_KIND_RUNTIME", draw)));
}

void drop_table(ChangedDatabase& database, Draw& draw) {
  const auto tables = database.texts("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name");
  if (tables.empty()) return;
  const std::string table = draw.percent(60) ? some_timed_table(database, draw) : draw.one_of(tables);
  database.run(fmt::format("{} \"{}\"", draw.percent(50) ? "DROP TABLE" : "DELETE FROM", table));
}

/// Rows once more, with another time or place.
void repeat_rows(ChangedDatabase& database, Draw& draw) {
  const std::string table = some_timed_table(database, draw);
  database.run(fmt::format("CREATE TEMP TABLE again AS SELECT * FROM \"{}\" WHERE {} LIMIT 2000", table,
                           some_rows(database, table, draw)));
  const std::string change = draw.one_of<std::string>(
      {"", "start = start + 1, end = end + 1", "deviceId = deviceId + 1", "streamId = streamId + 1",
       "globalTid = globalTid + 1", "correlationId = NULL", "correlationId = correlationId + 1000000",
       fmt::format("start = start + {0}, end = end + {0}", some_duration_ns(draw))});
  if (!change.empty()) database.run("UPDATE again SET " + change);
  database.run(fmt::format("INSERT INTO \"{}\" SELECT * FROM again", table));
  database.run("DROP TABLE again");
}

/// The whole recording happens once more, later.
void repeat_all(ChangedDatabase& database, Draw& draw) {
  const std::int64_t later = draw.one_of<std::int64_t>({100'000'000, 200'000'000, 1'000'000'000, 86'400'000'000'000});
  for (const std::string& table : timed_tables(database)) {
    database.run(fmt::format("CREATE TEMP TABLE again AS SELECT * FROM \"{}\" LIMIT 3000", table));
    database.run(fmt::format("UPDATE again SET start = start + {0}, end = end + {0}", later));
    database.run("UPDATE again SET correlationId = correlationId + 10000000");
    database.run(fmt::format("INSERT INTO \"{}\" SELECT * FROM again", table));
    database.run("DROP TABLE again");
  }
}

void change_correlations(ChangedDatabase& database, Draw& draw) {
  const std::string table = some_timed_table(database, draw);
  const std::string value = draw.one_of<std::string>(
      {"NULL", "0", "1", "-1", "correlationId + 1", "correlationId / 4", "correlationId % 2",
       fmt::format("(SELECT max(correlationId) FROM \"{}\") - correlationId", table), "4294967295", "4294967296",
       "(SELECT max(correlationId) FROM CUPTI_ACTIVITY_KIND_RUNTIME)"});
  database.run(
      fmt::format("UPDATE \"{}\" SET correlationId = {} WHERE {}", table, value, some_rows(database, table, draw)));
}

/// Any number of any event: enumerations, bytes, grids, graphs.
void change_any_number(ChangedDatabase& database, Draw& draw) {
  const std::string table = some_timed_table(database, draw);
  const auto columns = database.texts(fmt::format("SELECT name FROM pragma_table_info('{}')", table));
  if (columns.empty()) return;
  const std::string& column = draw.one_of(columns);
  const std::string value =
      draw.one_of<std::string>({"NULL", "0", "1", "2", "8", "11", "-1", "1000000", "rowid % 2", "rowid % 7",
                                fmt::format("(SELECT \"{}\" FROM \"{}\" LIMIT 1)", column, table),
                                fmt::format("\"{}\" * 1000", column), fmt::format("\"{}\" + rowid % 3", column)});
  database.run(
      fmt::format("UPDATE \"{}\" SET \"{}\" = {} WHERE {}", table, column, value, some_rows(database, table, draw)));
}

}  // namespace

std::vector<RowEdit> edits_of_events() {
  return {{"change times", change_times},
          {"change times", change_times},
          {"change times", change_times},
          {"change times of steps", change_times_of_steps},
          {"change times of steps", change_times_of_steps},
          {"change times of all", change_times_of_all},
          {"drop rows", drop_rows},
          {"drop rows", drop_rows},
          {"drop by steps", drop_by_steps},
          {"drop by steps", drop_by_steps},
          {"drop launches", drop_launches},
          {"drop a table", drop_table},
          {"repeat rows", repeat_rows},
          {"repeat all", repeat_all},
          {"change correlations", change_correlations},
          {"change correlations", change_correlations},
          {"change any number", change_any_number}};
}

}  // namespace nsys_explain::meaning
