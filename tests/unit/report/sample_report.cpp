#include "sample_report.hpp"

#include <fmt/format.h>

namespace nsys_explain::report {

namespace {

constexpr Nanoseconds ms = 1'000'000;

void add_rank(JobReport& report, std::int32_t rank, Nanoseconds idle_ns, RankSummary waits) {
  const std::string path = fmt::format("traces/rank_{}.sqlite", rank);
  const std::string host = rank < 2 ? "node01" : "node02";
  TraceRankIdentity identity;
  identity.trace_rank = rank;
  identity.rank_source = RankSource::environment;
  identity.key = {path, 281474976710656ULL + static_cast<std::uint64_t>(rank), rank % 2};
  identity.process_id = 4000 + rank;
  identity.process_name = "python3.11";
  identity.host = host;
  identity.gpu_name = "NVIDIA H100 80GB HBM3";
  identity.gpu_uuid = fmt::format("00000000-0000-0000-0000-00000000000{}", rank);
  report.trace_ranks.push_back(identity);
  report.inputs.push_back({path, InputStatus::ok, ""});
  report.sessions.push_back(
      {path, fmt::format("uuid-{}", rank), host, "2025.6.1", 1'700'000'000'000'000'000, no_time, ""});
  waits.trace_rank = rank;
  // 1 s = compute + 200 ms exposed + 50 ms copies + idle
  waits.budget = {.window_start_ns = 5 * ms,
                  .window_ns = 1000 * ms,
                  .compute_ns = 750 * ms - idle_ns,
                  .communication_ns = 300 * ms,
                  .overlapped_ns = 100 * ms,
                  .exposed_communication_ns = 200 * ms,
                  .copy_ns = 50 * ms,
                  .opaque_graph_ns = 0,
                  .idle_ns = idle_ns};
  report.ranks.push_back(waits);
}

void add_clock(JobReport& report) {
  report.clock.sessions = {
      {"traces/rank_0.sqlite", "node01", ClockMethod::collectives, 0, 0, 0, 0},
      {"traces/rank_1.sqlite", "node01", ClockMethod::host_clock, 12'000, 0, 3'000, 0},
      {"traces/rank_2.sqlite", "node02", ClockMethod::collectives, -480'000'123, -12.5, 4'000, 0},
      {"traces/rank_3.sqlite", "node02", ClockMethod::utc, 0, 0, std::nullopt, 1},
  };
  report.clock.pivot_ns = 505 * ms;
  report.clock.residual = {800, 2'500, 9'000, 120};
  report.clock.violations = 1;
}

}  // namespace

JobReport small_report() {
  JobReport report;
  report.epoch_utc_ns = 1'700'000'000'000'000'000;
  add_rank(report, 0, 10 * ms, {.budget = {}, .arrivals = 100, .last_arrivals = 3, .wait_ns = 120 * ms});
  add_rank(report, 1, 20 * ms, {.budget = {}, .arrivals = 100, .last_arrivals = 2, .wait_ns = 118 * ms});
  add_rank(report, 2, 100 * ms,
           {.budget = {},
            .arrivals = 100,
            .last_arrivals = 81,
            .wait_ns = 4 * ms,
            .caused_wait_ns = 320 * ms,
            .own_lateness_ns = 110 * ms,
            .inherited_lateness_ns = 1 * ms});
  add_rank(report, 3, 15 * ms, {.budget = {}, .arrivals = 98, .last_arrivals = 4, .wait_ns = 108 * ms});
  report.inputs[3] = {"traces/rank_3.sqlite", InputStatus::degraded, "no NVTX events; capture with -t cuda,nvtx"};
  report.inputs.push_back({"traces/rank_4.sqlite", InputStatus::failed,
                           "the file is not an SQLite database, so nothing can be read; export it again"});
  add_clock(report);
  report.communicators = {{.name = "0x1f2e3d4c5b6a7988",
                           .key = 0x1f2e3d4c5b6a7988,
                           .trace_ranks = {0, 1, 2, 3},
                           .size = 5,
                           .instances = 90,
                           .complete = 0,
                           .partial = 90,
                           .unmatched_arrivals = 2,
                           .evidence = Evidence::nccl_payload},
                          {.name = "inferred-0",
                           .key = 7,
                           .trace_ranks = {0, 2},
                           .size = 2,
                           .instances = 10,
                           .complete = 10,
                           .partial = 0,
                           .unmatched_arrivals = 0,
                           .evidence = Evidence::order}};
  report.instances = 100;
  report.complete = 10;
  report.partial = 90;
  report.unmatched_arrivals = 2;
  report.by_operation = {{Operation::all_reduce, 90, 90LL << 26, 345 * ms, 45 * ms, 134.2, 214.7},
                         {Operation::all_gather, 10, std::nullopt, 5 * ms, 1 * ms, std::nullopt, std::nullopt}};
  report.stragglers = {{.trace_rank = 2,
                        .pattern = Pattern::persistent,
                        .cause = Cause::slow_kernel,
                        .own_lateness_ns = 110 * ms,
                        .caused_wait_ns = 320 * ms,
                        .last_share = 0.9,
                        .p_value = 1.5e-30,
                        .first_ns = 15 * ms,
                        .last_ns = 990 * ms,
                        .evidence = {"kernel `gemm_f16` takes 1.40 times the median of its peers"}}};
  report.nvlink = {false, "no GPU metrics in the traces"};
  report.findings = {{"no-nccl-payload",
                      FindingSeverity::info,
                      "message sizes are not in all traces",
                      {},
                      "export with `--include-blobs=true`"},
                     {"straggler",
                      FindingSeverity::high,
                      "trace rank 2 makes the others wait",
                      {"last in 81 of 90 collectives", "kernel `gemm_f16` takes 1.40 times the median of its peers"},
                      "compare its clocks and temperature with those of its peers (nvidia-smi -q)"}};
  report.warnings = {{Severity::info, WarningSource::analysis, 1, "trace rank 4 was never captured"},
                     {Severity::data_loss, WarningSource::trace, 1'234, "CUPTI dropped events; use a shorter capture"}};
  report.run = {"2026-01-02T03:04:05Z", "0.1.0", 2, {"login1"}, {{"reading traces", 1.5}}};
  return report;
}

JobReport large_report(int count) {
  JobReport report;
  report.epoch_utc_ns = 1;
  report.instances = report.complete = 1000;
  for (int i = 0; i < count; ++i) {
    add_rank(report, i, i % 100 * ms,
             {.budget = {}, .arrivals = 1000, .last_arrivals = 1, .wait_ns = i, .caused_wait_ns = i});
    report.clock.sessions.push_back({fmt::format("rank_{}", i), "host", ClockMethod::collectives, i, 0, i, 0});
    report.inputs[i].status = InputStatus::degraded;
    report.communicators.push_back(
        {.name = fmt::format("inferred-{}", i), .trace_ranks = {i}, .size = 2, .instances = i});
    report.stragglers.push_back({.trace_rank = i, .caused_wait_ns = i * ms, .evidence = {}});
    report.findings.push_back({"straggler", FindingSeverity::high, fmt::format("finding {}", i), {}, ""});
    report.findings.back().evidence.assign(1000, "evidence");
    report.warnings.push_back({Severity::error, WarningSource::trace, 1, fmt::format("warning {}", i)});
  }
  return report;
}

}  // namespace nsys_explain::report
