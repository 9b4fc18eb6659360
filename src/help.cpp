#include "help.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include <fmt/format.h>

namespace nsys_explain {
namespace {

struct Topic {
  std::string_view name, heading, about, text;
};

constexpr std::array topics = {
    Topic{"capture", "TRACES", "how to record and export traces",
          R"(  capture   nsys profile -t cuda,nvtx --cuda-graph-trace=node -o rank_%q{SLURM_PROCID}_%h ...
  export    nsys export --type sqlite --include-blobs=true --include-json=true rank_0.nsys-rep
  The blobs hold NCCL's message sizes and communicators; without them collectives are matched by order, and the
  report says so. nsys 2022.1 to 2026.x are read. Inputs are never changed.)"},
    Topic{
        "ranks", "RANKS", "how trace ranks get their numbers, racks",
        R"(  The number of a trace rank comes from the first of these that knows it: --rank-map and --rank-regex, the export's
  MPI_RANKS, NCCL's records, the environment (RANK, OMPI_COMM_WORLD_RANK, PMIX_RANK, PMI_RANK, SLURM_PROCID,
  MV2_COMM_WORLD_RANK), the file name, the order of the files. The report names the source.
  A rank map has lines 'PATTERN RANK' or 'PATTERN PID DEVICE RANK'; '#' starts a comment.
  Of several jobs, or attempts after a restart, the largest is analysed, unless --job-of names a file of another, or
  FILE:PID a process of it; a rank map makes all traces one job.
  A topology file has lines 'HOST RACK'; without one the rack is what comes before the last number of a host name
  that holds two.)"},
    Topic{
        "part", "A PART OF THE RUN", "a window of time, ranges, steps",
        R"(  By default the steady steps are analysed: without start-up, slow first steps, and what follows the last one; the
  report says what is left out. --whole-run takes all that was recorded.
  --filter-time counts from the earliest session start, by UTC; --filter-nvtx, --steps and --skip-warmup take host time
  from NVTX ranges, and the GPU work launched in it whenever it runs. Several at once must all hold. INDEX counts from 0;
  DOMAIN * is any, none is the default one. Steps are ranges such as 'step 12', 'ProfilerStep#12' or 'iteration 12';
  forward, backward, optimizer, prefill and decode are recognised, too. A phase map names others: lines
  'PHASE PATTERN' with a regular expression, for example 'step ^it=(\d+)'; '#' starts a comment. Regular expressions
  are RE2's: those of Perl without lookaround and backreferences.)"},
    Topic{
        "evidence", "OTHER EVIDENCE", "files of other tools",
        R"(  --ncu         of a report ncu --import REPORT.ncu-rep --csv --page raw > FILE; else the command below: tables
                roofline, kernel_stalls and kernel_occupancy
  --cublas-log  CUBLAS_LOGINFO_DBG=1 CUBLAS_LOGDEST_DBG=FILE, CUBLASLT_LOG_LEVEL=5 CUBLASLT_LOG_FILE=FILE: 2MNK FLOPs
  --inspector   NCCL_PROFILER_PLUGIN=libnccl-profiler-inspector.so NCCL_INSPECTOR_ENABLE=1 NCCL_INSPECTOR_DUMP_VERBOSE=1
                NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS=100000 NCCL_INSPECTOR_DUMP_DIR=DIR
  --requests    a line 'arrival,first_token,end,prompt_tokens,output_tokens' and one per request, in seconds; or what
                vllm bench serve --save-result --save-detailed writes; or curl -s localhost:8002/metrics >> FILE, before
                and after, of a Triton server
  --trt-profile trtexec --loadEngine=ENGINE --dumpProfile --separateProfileRun --exportProfile=FILE
  --memory-snapshot  torch.cuda.memory._record_memory_history() at the start, and at the end
                json.dump(torch.cuda.memory._snapshot(), open(FILE, "w"), default=str); pickles are not read
  --nccl-log    NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,GRAPH,P2P,SHM,NET,TUNING NCCL_DEBUG_FILE=nccl.%h.%p
  --gpu-peaks   lines such as 'fp16=900 bandwidth=3350 H100 80GB' (TFLOP/s, dense; GB/s)
  --nvml        nvidia-smi --query-gpu=timestamp,uuid,index,clocks.current.sm,clocks.max.sm,
                clocks_event_reasons.active,utilization.gpu,power.draw,temperature.gpu --format=csv -lms 100 > FILE

ncu --csv --page raw --log-file FILE --launch-skip 1000 --launch-count 200 --section WarpStateStats --metrics \
sm__throughput.avg.pct_of_peak_sustained_elapsed,gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed,\
dram__bytes_read.sum,dram__bytes_write.sum,lts__t_sector_hit_rate.pct,\
sm__warps_active.avg.pct_of_peak_sustained_active,sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active,\
smsp__sass_thread_inst_executed_op_dadd_pred_on.sum,smsp__sass_thread_inst_executed_op_dmul_pred_on.sum,\
smsp__sass_thread_inst_executed_op_dfma_pred_on.sum,smsp__sass_thread_inst_executed_op_fadd_pred_on.sum,\
smsp__sass_thread_inst_executed_op_fmul_pred_on.sum,smsp__sass_thread_inst_executed_op_ffma_pred_on.sum,\
smsp__sass_thread_inst_executed_op_hadd_pred_on.sum,smsp__sass_thread_inst_executed_op_hmul_pred_on.sum,\
smsp__sass_thread_inst_executed_op_hfma_pred_on.sum,l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum,\
l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio,\
l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio PROGRAM)"},
    Topic{"outputs", "OUTPUTS", "files of a run",
          R"(  report.md      verdict, findings, tables: for a terminal, a pull request, an e-mail
  report.json    summaries for scripts, schema_version 1.0
  store.h5       every matched collective, for notebooks: a group per table, a dataset per column with unit and
                 description. In Python:
                   import h5py, pandas as pd
                   t = h5py.File("report/store.h5")["collective_instances"]
                   df = pd.DataFrame({c: t[c].asstr()[()] if h5py.check_string_dtype(t[c].dtype) else t[c][()] for c in t})
  tables/*.csv   the same tables (--csv)
  --perfetto F   a timeline of all trace ranks on the job clock: open it in ui.perfetto.dev
  shards/        while a run goes on, and where it was cut off: what was read, for merge or for the same run once more
  Results do not depend on the number of tool ranks or threads nor on the order of the inputs; only `run` in report.json and
  the group /run do.)"},
    Topic{"environment", "ENVIRONMENT", "variables",
          R"(  NSYS_EXPLAIN_MPI=on|off   initialise MPI or not, whatever the environment says about a launcher
  TMPDIR                    private copies of traces that have a write-ahead log beside them, events that --memory-limit
                            keeps out of memory)"},
};

constexpr std::string_view examples =
    R"(EXAMPLES
  nsys-explain-mpi traces/*.sqlite --out report
  mpirun -n 4 nsys-explain-mpi traces/*.sqlite --out report
  srun --mpi=pmix nsys-explain-mpi '/local/traces/*.sqlite' --out report      (quoted: expanded on every node)
  nsys-explain-mpi traces --rank-regex 'rank(\d+)' --require-ranks 64 --csv --out report

COMMANDS
  nsys-explain-mpi show report [...]      looks into the results of a run; show --help tells more
  nsys-explain-mpi compare before after      what changed, beyond the noise
  nsys-explain-mpi diff before after TABLE   a table of both, row by row
  nsys-explain-mpi merge report/shards --out report      finishes a run that was cut off
  nsys-explain-mpi serve reports      shows many reports: pages, answers for programs and for assistants)";

constexpr std::string_view exit_codes =
    R"(EXIT CODES
  0  all inputs analysed (and, with --require-ranks, all ranks seen)
  2  wrong usage
  3  no input could be analysed
  4  some inputs failed or hold another job, or ranks are missing, or the run was cut off (--timeout, SIGTERM); the
     rest was analysed and reported (nothing was where the traces found cannot hold the ranks of --require-ranks)
  5  results could not be written, or nothing could be reported when the run was cut off)";

/// Insertions, deletions and replacements of characters, and swaps of neighbours, that make one word another
/// (optimal string alignment).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0U : 1U)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

}  // namespace

const char* const description =
    R"(nsys-explain-mpi - explain why a multi-GPU job is slow, from its Nsight Systems traces

Reads the SQLite exports of one job (one file per rank or per node), puts them on one clock, matches the NCCL
collectives of all ranks, and says who makes the others wait, by how much, what it costs and how sure that is.
Runs by itself, or under mpirun or srun, where each rank reads the traces that its node can see.)";

std::string help_footer() {
  std::string text = fmt::format("\n{}\n\nTOPICS (--help TOPIC; --help all)\n", examples);
  for (const Topic& topic : topics) text += fmt::format("  {:<13}{}\n", topic.name, topic.about);
  return fmt::format("{}\n{}", text, exit_codes);
}

std::vector<std::string> help_topics() {
  std::vector<std::string> names{"all"};
  for (const Topic& topic : topics) names.emplace_back(topic.name);
  return names;
}

std::optional<std::string> help_topic(std::string_view name) {
  std::string text;
  for (const Topic& topic : topics) {
    if (topic.name != name && name != "all") continue;
    if (!text.empty()) text += '\n';
    text += fmt::format("{}\n{}\n", topic.heading, topic.text);
  }
  if (text.empty()) return std::nullopt;
  return text;
}

std::string suggestion(std::string_view mistyped, const std::vector<std::string>& known) {
  const auto distance = [&](const std::string& word) { return edit_distance(mistyped, word); };
  const auto nearest = std::min_element(known.begin(), known.end(), [&](const std::string& a, const std::string& b) {
    return distance(a) < distance(b);
  });
  // A third of the letters: further off, two words have nothing to do with each other.
  if (nearest == known.end() || 3 * distance(*nearest) > mistyped.size()) return "";
  return fmt::format(" (did you mean {}?)", *nearest);
}

}  // namespace nsys_explain
