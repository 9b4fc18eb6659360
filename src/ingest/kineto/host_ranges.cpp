#include "ingest/kineto/kineto_tables.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <sqlite3.h>

#include "nsys_explain/ingest/ingest.hpp"

namespace nsys_explain::ingest {
ExportWriter::ExportWriter(const std::string& path) {
  check(sqlite3_open_v2(path.c_str(), &handle_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr));
  // A scratch file: it is of no use to anybody but the run that writes it.
  run("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE; BEGIN");
  strings_ = table("StringIds", "id INTEGER PRIMARY KEY, value TEXT");
}

ExportWriter::~ExportWriter() {
  for (sqlite3_stmt* insert : inserts_) sqlite3_finalize(insert);
  sqlite3_close(handle_);
}

void ExportWriter::fail(int code) const {
  throw TraceError(fmt::format(
      "its events cannot be written to the temporary directory ({}), so its ranks are missing; make room there, or set TMPDIR to a larger disk",
      sqlite3_errstr(code)));
}

void ExportWriter::check(int code) const {
  if (code != SQLITE_OK && code != SQLITE_DONE) fail(code);
}

std::int64_t ExportWriter::run(const std::string& sql) {
  check(sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr));
  return sqlite3_changes(handle_);
}

void ExportWriter::for_each(const std::string& sql,
                            const std::function<void(const std::vector<std::int64_t>& row)>& use) {
  sqlite3_stmt* opened = nullptr;
  check(sqlite3_prepare_v2(handle_, sql.c_str(), -1, &opened, nullptr));
  const std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> statement(opened, sqlite3_finalize);
  std::vector<std::int64_t> row(static_cast<std::size_t>(sqlite3_column_count(opened)));
  int code = SQLITE_ROW;
  while ((code = sqlite3_step(opened)) == SQLITE_ROW) {
    for (std::size_t column = 0; column < row.size(); ++column)
      row[column] = sqlite3_column_int64(opened, static_cast<int>(column));
    use(row);
  }
  check(code);
}

std::size_t ExportWriter::table(const std::string& name, const std::string& columns) {
  run(fmt::format("CREATE TABLE {} ({})", name, columns));
  std::string marks = "?";
  for (auto more = std::count(columns.begin(), columns.end(), ','); more > 0; --more) marks += ",?";
  sqlite3_stmt* insert = nullptr;
  check(sqlite3_prepare_v2(handle_, fmt::format("INSERT INTO {} VALUES ({})", name, marks).c_str(), -1, &insert,
                           nullptr));
  inserts_.push_back(insert);
  return inserts_.size() - 1;
}

void ExportWriter::row(std::size_t table, std::initializer_list<Cell> cells) {
  sqlite3_stmt* const insert = inserts_[table];
  int place = 0;
  for (const Cell& cell : cells) {
    ++place;
    if (const auto* number = std::get_if<std::int64_t>(&cell)) {
      sqlite3_bind_int64(insert, place, *number);
    } else if (const auto* text = std::get_if<std::string_view>(&cell)) {
      sqlite3_bind_text64(insert, place, text->data(), text->size(), SQLITE_STATIC, SQLITE_UTF8);
    } else {
      sqlite3_bind_null(insert, place);
    }
  }
  const int code = sqlite3_step(insert);
  sqlite3_reset(insert);
  check(code);
}

std::int64_t ExportWriter::id(const std::string& text) {
  constexpr std::size_t most_known = 1'000'000;  // beyond, each use gets an id of its own
  const auto known = ids_.find(text);
  if (known != ids_.end()) return known->second;
  const std::int64_t id = next_id_++;
  row(strings_, {id, std::string_view(text)});
  if (ids_.size() < most_known) ids_.emplace(text, id);
  return id;
}

void ExportWriter::finish() {
  run("COMMIT");
}

std::string without_address(std::string_view name) {
  constexpr std::string_view mark = " at 0x";
  const std::size_t at = name.find(mark);
  if (at == std::string_view::npos) return std::string(name);
  const std::size_t end = name.find_first_not_of("0123456789abcdefABCDEF", at + mark.size());
  return std::string(name.substr(0, at)) +
         std::string(end == std::string_view::npos ? std::string_view() : name.substr(end));
}

HostRanges::HostRanges(ExportWriter& writer)
    : writer_(writer),
      ranges_(writer.table("host_ranges",
                           "start INTEGER, end INTEGER, globalTid INTEGER, nameId INTEGER, collective INTEGER, "
                           "textId INTEGER, jsonText TEXT")),
      contexts_(writer.table("call_contexts", "call INTEGER PRIMARY KEY, chain INTEGER, collective INTEGER")),
      chains_(writer.table("CUDA_CALLCHAINS",
                           "id INTEGER, symbol INTEGER, module INTEGER, unresolved INTEGER, stackDepth INTEGER")) {}

void HostRanges::add_function(std::int64_t start_ns, std::int64_t end_ns, std::int64_t global_tid,
                              const std::string& name) {
  has_functions_ = true;
  writer_.row(ranges_, {start_ns, end_ns, global_tid, writer_.id(without_address(name)), Cell(), Cell(), Cell()});
}

void HostRanges::add_collective(std::int64_t start_ns, std::int64_t end_ns, std::int64_t global_tid,
                                const CollectiveCall& call) {
  writer_.row(ranges_, {start_ns, end_ns, global_tid, Cell(), ++collectives_, writer_.id(call.label),
                        std::string_view(call.payload)});
}

std::int64_t HostRanges::chain_of(const std::vector<Open>& open) {
  constexpr std::size_t most_frames = 64;
  std::vector<std::int64_t> names;
  for (auto one = open.rbegin(); one != open.rend() && names.size() < most_frames; ++one)
    if (one->name > 0) names.push_back(one->name);
  if (names.empty()) return 0;
  const auto [chain, is_new] = chain_ids_.try_emplace(names, static_cast<std::int64_t>(chain_ids_.size()) + 1);
  std::int64_t depth = 0;
  for (const std::int64_t name : names)
    if (is_new) writer_.row(chains_, {chain->second, name, writer_.id("Python"), std::int64_t{0}, depth++});
  return chain->second;
}

/// In the order of time by thread; of what begins at the same time the longer comes first, and a call last.
void HostRanges::write_contexts() {
  std::vector<Open> open;
  std::int64_t thread = -1;
  writer_.for_each(
      "SELECT globalTid, start, end, 0, ifnull(nameId, 0), ifnull(collective, 0), 0, rowid FROM host_ranges "
      "UNION ALL SELECT globalTid, start, end, rowid, 0, 0, 1, rowid FROM CUPTI_ACTIVITY_KIND_RUNTIME "
      "ORDER BY 1, 2, 7, 3 DESC, 8",
      [&](const std::vector<std::int64_t>& row) {
        if (std::exchange(thread, row[0]) != row[0]) open.clear();
        std::erase_if(open, [&](const Open& one) { return one.end <= row[1]; });
        if (row[3] == 0) return open.push_back({row[2], row[4], row[5]});
        std::int64_t collective = 0;
        for (const Open& one : open) collective = one.collective > 0 ? one.collective : collective;
        const std::int64_t chain = chain_of(open);
        if (chain > 0 || collective > 0)
          writer_.row(contexts_,
                      {row[3], chain > 0 ? Cell(chain) : Cell(), collective > 0 ? Cell(collective) : Cell()});
      });
}

std::int64_t HostRanges::finish() {
  std::int64_t told = 0;
  if (has_functions_ || collectives_ > 0) write_contexts();
  if (has_functions_)
    writer_.run(
        "UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET callchainId = c.chain FROM call_contexts c "
        "WHERE c.call = CUPTI_ACTIVITY_KIND_RUNTIME.rowid AND c.chain IS NOT NULL");
  if (collectives_ > 0)
    told = writer_.run(
        "UPDATE collective_kernels SET textId = h.textId, jsonText = h.jsonText FROM (SELECT c.collective, "
        "min(k.rowid) AS kernel FROM call_contexts c JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON r.rowid = c.call "
        "JOIN collective_kernels k ON k.correlationId = r.correlationId WHERE c.collective IS NOT NULL "
        "GROUP BY c.collective HAVING count(*) = 1) l JOIN host_ranges h ON h.collective = l.collective "
        "WHERE collective_kernels.rowid = l.kernel AND collective_kernels.textId IS NULL");
  writer_.run("DROP TABLE host_ranges; DROP TABLE call_contexts");
  if (!has_functions_) writer_.run("DROP TABLE CUDA_CALLCHAINS");
  return told;
}

}  // namespace nsys_explain::ingest
