#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "exchange/communicator.hpp"
#include "fuzz/changed_database.hpp"
#include "fuzz/hostile.hpp"
#include "nsys_explain/ingest/discovery.hpp"
#include "pipeline/read/local_traces.hpp"
#include "pipeline/read/trace_records.hpp"
#include "pipeline/tool_rank/job.hpp"
#include "pipeline/tool_rank/memory_budget.hpp"
#include "simulation/exports.hpp"
#include "simulation/job_plan.hpp"
#include "simulation/simulated_job.hpp"

namespace nsys_explain::hostile {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t whole_run_every = 20;  // a whole run takes as long as twenty readings

std::string read_bytes(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_bytes(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

/// An export of the job whose rows are changed, and the tables with rows in it.
struct Base {
  std::string bytes;  ///< of the export to be changed
  fs::path other;     ///< the export of the other rank
  std::map<std::string, std::vector<std::string>> columns;
  std::vector<std::string> tables;  ///< those that a run rests on, several times
};

synth::JobPlan small_job(std::uint64_t kind) {
  synth::JobPlan plan;
  plan.layout = {1, 2, 1, 1, 0};
  plan.workload.steps = 2;
  plan.workload.layers = 1;
  auto& style = plan.export_style;
  using synth::PayloadStyle;
  switch (kind) {
    case 1:
      style.payload = PayloadStyle::hex_text;
      break;
    case 2:
      style.payload = PayloadStyle::json;
      break;
    case 3:
      style.payload = PayloadStyle::dynamic_tables;
      style.nsys_version = "2026.4";
      break;
    case 4:
      style.payload = PayloadStyle::none;
      style.operator_ranges = true;
      break;
    case 5:
      style.advanced_nccl_trace = true;
      style.payload = PayloadStyle::json;
      break;
    case 6:
      style.gpu_metrics = style.nic_metrics = style.switch_metrics = true;
      style.gpu_metrics_period_ns = 2'000'000;
      break;
    case 7:
      style.cpu_sampling_ns = 3'000'000;
      plan.workload.graph_mode = synth::GraphMode::node;
      break;
    case 8:
      style.nsys_version = "2022.4";
      style.payload = PayloadStyle::json;
      plan.workload.graph_mode = synth::GraphMode::whole;
      break;
    case 9:
      style.rank_hint = synth::RankHint::mpi_ranks;
      plan.faults = {synth::parse_fault("late_host:rank=1,pause=2ms,kind=mpi_wait")};
      break;
    default:
      break;
  }
  return plan;
}
constexpr std::uint64_t kinds_of_jobs = 10;

Base make_base(const fs::path& directory, std::uint64_t kind) {
  const synth::JobPlan plan = synth::complete_plan(small_job(kind));
  const auto written = synth::write_exports(synth::simulate(plan), plan, directory.string());
  const fs::path changed = written.back().path;
  Base base;
  base.other = written.front().path;
  {
    ChangedDatabase database(changed);
    if (kind % 2 == 0) {  // exports of other tools may hold NULL anywhere
      database.run("PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = replace(sql, ' NOT NULL', '')");
    }
    for (const std::string& table : database.texts("SELECT name FROM sqlite_master WHERE type = 'table'")) {
      if (database.texts(fmt::format("SELECT 1 FROM \"{}\" LIMIT 1", table)).empty()) continue;
      base.columns[table] = database.texts(fmt::format("SELECT name FROM pragma_table_info('{}')", table));
      const int weight = table.starts_with("ENUM_")                                  ? 0
                         : table.starts_with("CUPTI_") || table.starts_with("NVTX_") ? 4
                                                                                     : 2;
      base.tables.insert(base.tables.end(), static_cast<std::size_t>(weight), table);
    }
  }
  base.bytes = read_bytes(changed);
  fs::remove(changed);
  return base;
}

std::string some_rows(Draw& draw) {
  const std::uint64_t part = draw.one_of<std::uint64_t>({1, 2, 10, 50, 50});
  return part == 1 ? "1" : fmt::format("abs(rowid * {} + {}) % {} = 0", 1 + draw.below(97), draw.below(1'000), part);
}

/// One change that SQL can make.
void change_rows(ChangedDatabase& database, const Base& base, Draw& draw) {
  const std::string& table = draw.one_of(base.tables);
  const std::vector<std::string>& columns = base.columns.at(table);
  const std::string &column = draw.one_of(columns), &other = draw.one_of(columns);
  const std::string update = fmt::format("UPDATE OR IGNORE \"{}\" SET \"{}\" = ", table, column);
  const std::string where = " WHERE " + some_rows(draw);
  switch (draw.below(16)) {
    case 0:
    case 1:
    case 2:
    case 3:
      database.run(update + std::to_string(edge_integer(draw)) + where);
      break;
    case 4:
      database.run(update + "NULL" + where);
      break;
    case 5:
    case 6:
      database.run_with(update + "?" + where, edge_text(draw), draw.percent(30));
      break;
    case 7:
      database.run(update + draw.one_of<std::string>({"1e300", "-0.5", "9e18", "1e-300"}) + where);
      break;
    case 8:
      database.run(update + fmt::format("\"{}\" + {}", column, edge_integer(draw)) + where);
      break;
    case 9:
      database.run(update + fmt::format("\"{}\", \"{}\" = \"{}\"", other, other, column) + where);
      break;  // swapped
    case 10:
      database.run(fmt::format("INSERT OR IGNORE INTO \"{}\" SELECT * FROM \"{}\"{}", table, table, where));
      break;
    case 11:
      database.run(fmt::format("DELETE FROM \"{}\"{}", table, where));
      break;
    case 12: {
      const auto payloads = database.texts(fmt::format("SELECT \"{}\" FROM \"{}\"{} LIMIT 1", column, table, where));
      if (!payloads.empty())
        database.run_with(update + "?" + where, damaged_bytes(payloads.front(), draw), draw.percent(50));
      break;
    }
    case 13:
      database.run(update + "random()" + where);
      break;
    case 14:
      database.run(draw.percent(50)
                       ? fmt::format("ALTER TABLE \"{}\" DROP COLUMN \"{}\"", table, column)
                       : fmt::format("ALTER TABLE \"{}\" RENAME COLUMN \"{}\" TO \"{}2\"", table, column, column));
      break;
    default:
      database.run(draw.percent(50) ? fmt::format("DROP TABLE \"{}\"", table)
                                    : fmt::format("INSERT INTO \"{}\" DEFAULT VALUES", table));
  }
}

/// Payload and schemas, where bytes are read by what other bytes say.
void change_payload(ChangedDatabase& database, const Base& base, Draw& draw) {
  for (const char* column : {"binaryData", "jsonText", "text"}) {
    const std::string where = fmt::format(" WHERE \"{}\" IS NOT NULL AND {}", column, some_rows(draw));
    const auto found = database.texts(fmt::format("SELECT \"{}\" FROM NVTX_EVENTS{} LIMIT 1", column, where));
    if (found.empty() || draw.percent(30)) continue;
    const bool as_blob =
        database.texts(fmt::format("SELECT typeof(\"{}\") FROM NVTX_EVENTS{} LIMIT 1", column, where)).front() ==
        "blob";
    database.run_with(fmt::format("UPDATE NVTX_EVENTS SET \"{}\" = ?{}", column, where),
                      damaged_bytes(found.front(), draw), as_blob);
  }
  const auto schema = base.columns.find("NVTX_PAYLOAD_SCHEMA_ENTRIES");
  if (schema == base.columns.end() || draw.percent(50)) return;
  database.run(fmt::format("UPDATE NVTX_PAYLOAD_SCHEMA_ENTRIES SET \"{}\" = {} WHERE {}", draw.one_of(schema->second),
                           draw.percent(50) ? edge_integer(draw) : static_cast<std::int64_t>(draw.below(64)),
                           some_rows(draw)));
}

class Rows {
 public:
  Rows() {
    for (std::uint64_t kind = 0; kind < kinds_of_jobs; ++kind)
      bases_.push_back(make_base(scratch_.path() / fmt::format("job{}", kind), kind));
  }

  Trial operator()(std::uint64_t seed) {
    Draw draw(seed);
    const Base& base = draw.one_of(bases_);
    const fs::path path = scratch_.path() / "rank_00001.sqlite";
    write_bytes(path, base.bytes);
    {
      ChangedDatabase database(path);
      for (std::uint64_t change = 0, changes = 1 + draw.below(4); change < changes; ++change) {
        if (draw.percent(20)) {
          change_payload(database, base, draw);
        } else {
          change_rows(database, base, draw);
        }
      }
    }
    return seed % whole_run_every == 0 ? whole_run(path, base, draw) : reading(path, draw);
  }

 private:
  Trial reading(const fs::path& path, Draw& draw) const {
    const pipeline::UserOptions options;
    pipeline::TraceRecords records({});
    pipeline::MemoryBudget memory(std::nullopt);
    pipeline::KeptExports exports("nsys");
    const auto discovery = ingest::merge_discoveries({{"here", ingest::discover({path.string()})}});
    pipeline::Progress progress(1, 1, false);
    const auto reader = draw.percent(20) ? ingest::Reader::sqlite : ingest::Reader::automatic;
    const auto traces =
        pipeline::read_local_traces(discovery.traces, {options, records, memory, exports, 0, reader, 1}, progress);
    Trial trial;
    trial.is_refused = traces.empty() || !traces.front().facts.analysed;
    if (trial.is_refused && !traces.empty() && traces.front().facts.input.message.empty())
      trial.problem = "refused without a reason";
    return trial;
  }

  Trial whole_run(const fs::path& path, const Base& base, Draw& draw) const {
    pipeline::JobSpecification job;
    job.inputs = {path.string(), base.other.string()};
    const fs::path out = scratch_.path() / "out";
    fs::remove_all(out);
    job.output_directory = out.string();
    job.overwrite = true;
    job.write_csv = draw.percent(30);
    if (draw.percent(30)) job.perfetto_path = (scratch_.path() / "timeline.json.gz").string();
    if (draw.percent(30)) job.prometheus_path = (scratch_.path() / "metrics.prom").string();
    job.threads = 1;
    std::ostringstream told, problems;
    const int code = pipeline::run(job, exchange::Communicator::serial(), told, problems);
    Trial trial;
    trial.is_whole_run = true;
    trial.is_refused = code != pipeline::all_analysed;
    const bool may_be =
        code == pipeline::all_analysed || code == pipeline::nothing_analysed || code == pipeline::some_inputs_failed;
    if (!may_be) trial.problem = fmt::format("exit code {}: {}", code, problems.str());
    if (may_be && !nlohmann::json::accept(read_bytes(out / "report.json"))) trial.problem = "report.json is no JSON";
    return trial;
  }

  Scratch scratch_;
  std::vector<Base> bases_;
};

}  // namespace

MakeTrials hostile_rows() {
  return [] { return [rows = std::make_shared<Rows>()](std::uint64_t seed) { return (*rows)(seed); }; };
}

}  // namespace nsys_explain::hostile
