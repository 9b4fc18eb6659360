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
  report.clock.sessions.resize(4);
  for (int s = 0; s < 4; ++s) {
    SessionClock& session = report.clock.sessions[s];
    session.path = fmt::format("traces/rank_{}.sqlite", s);
    session.host = s < 2 ? "node01" : "node02";
    session.method = ClockMethod::collectives;
    session.uncertainty_ns = 0;
  }
  SessionClock& same_host = report.clock.sessions[1];
  same_host.method = ClockMethod::host_clock;
  same_host.offset_ns = 12'000;
  same_host.uncertainty_ns = 3'000;
  SessionClock& fitted = report.clock.sessions[2];
  fitted.offset_ns = -480'000'123;
  fitted.drift_ppb = -12.5;
  fitted.drift_uncertainty_ppb = 1.25;
  fitted.uncertainty_ns = 4'000;
  fitted.bends = {{5 * ms, 700}, {505 * ms, 0}, {1'005 * ms, -900}};
  SessionClock& unrelated = report.clock.sessions[3];
  unrelated.method = ClockMethod::utc;
  unrelated.uncertainty_ns.reset();
  unrelated.component = 1;
  report.clock.pivot_ns = 505 * ms;
  ClockResidual& residual = report.clock.residual;
  residual.held_out_p50_ns = 800;
  residual.held_out_p90_ns = 2'500;
  residual.held_out_max_ns = 9'000;
  residual.samples = 120;
  residual.histogram = {
      {512, 1'024, 70}, {1'024, 2'048, 20}, {2'048, 4'096, 29}, {4'096, 8'192, 0}, {8'192, 16'384, 1}};
  residual.by_class = {{.operation = Operation::all_reduce,
                        .one_host = false,
                        .from_bytes = 1 << 20,
                        .decides = true,
                        .samples = 120,
                        .p50_ns = 800,
                        .p90_ns = 2'500,
                        .max_ns = 9'000},
                       {.operation = Operation::all_gather,
                        .one_host = true,
                        .from_bytes = -1,
                        .decides = false,
                        .samples = 20,
                        .p50_ns = 2'700,
                        .p90_ns = 25'000,
                        .max_ns = 80'000}};
  report.clock.smallest_skew_ns = 15'000;
  report.clock.violations = 1;
}

}  // namespace

JobReport small_report() {
  JobReport report;
  report.epoch_utc_ns = 1'700'000'000'000'000'000;
  add_rank(report, 0, 10 * ms,
           {.budget = {}, .arrivals = 100, .last_arrivals = 3, .wait_ns = 120 * ms, .bus_bandwidth_gbs = 182.5});
  add_rank(report, 1, 20 * ms,
           {.budget = {}, .arrivals = 100, .last_arrivals = 2, .wait_ns = 118 * ms, .bus_bandwidth_gbs = 182.5});
  add_rank(report, 2, 100 * ms,
           {.budget = {},
            .arrivals = 100,
            .last_arrivals = 81,
            .wait_ns = 4 * ms,
            .caused_wait_ns = 320 * ms,
            .own_lateness_ns = 110 * ms,
            .inherited_lateness_ns = 1 * ms,
            .bus_bandwidth_gbs = 178.25});
  add_rank(report, 3, 15 * ms,
           {.budget = {}, .arrivals = 98, .last_arrivals = 4, .wait_ns = 108 * ms, .bus_bandwidth_gbs = {}});
  report.inputs[3] = {"traces/rank_3.sqlite", InputStatus::degraded, "no NVTX events; capture with -t cuda,nvtx"};
  report.inputs.push_back({"traces/rank_4.sqlite", InputStatus::failed,
                           "the file is not an SQLite database, so nothing can be read; export it again"});
  add_clock(report);
  report.communicators = {{.name = "0x1f2e3d4c5b6a7988",
                           .given_name = {},
                           .key = 0x1f2e3d4c5b6a7988,
                           .trace_ranks = {0, 1, 2, 3},
                           .size = 5,
                           .instances = 90,
                           .complete = 0,
                           .partial = 90,
                           .unmatched_arrivals = 2,
                           .evidence = Evidence::nccl_payload},
                          {.name = "inferred-0",
                           .given_name = {},
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
  report.unjudged = 1;
  report.by_operation = {{Operation::all_reduce, 90, 90LL << 26, 345 * ms, 45 * ms, 134.2, 214.7},
                         {Operation::all_gather, 10, std::nullopt, 5 * ms, 1 * ms, std::nullopt, std::nullopt}};
  Straggler straggler;
  straggler.trace_rank = 2;
  straggler.trace_ranks = {2};
  straggler.cause = Cause::slow_kernel;
  straggler.own_lateness_ns = 110 * ms;
  straggler.caused_wait_ns = 320 * ms;
  straggler.delay_cost_ns = 300 * ms;
  straggler.cost_share = 0.075;
  straggler.gpu_hours_per_day = 7.2;
  straggler.last_share = 0.9;
  straggler.p_value = 1.5e-30;
  straggler.first_step = 0;
  straggler.last_step = 29;
  straggler.first_ns = 15 * ms;
  straggler.last_ns = 990 * ms;
  straggler.evidence = {"kernel `gemm_f16` takes 1.40 times the median of its peers"};
  report.stragglers = {straggler};
  report.delay = {.wait_ns = 350 * ms,
                  .attributed_ns = 300 * ms,
                  .cost_share = 0.075,
                  .gpu_hours_per_day = 7.2,
                  .steps = 30,
                  .step_source = "nvtx"};
  report.nvlink.message = "no GPU metrics in the traces";
  report.findings = {{"straggler",
                      FindingSeverity::high,
                      "rank 2 makes the others wait",
                      {"last in 81 of 90 collectives", "kernel `gemm_f16` takes 1.40 times the median of its peers"},
                      "compare its clocks and temperature with those of its peers (nvidia-smi -q)"},
                     {"no-nccl-payload",
                      FindingSeverity::info,
                      "message sizes are not in all traces",
                      {},
                      "export with `--include-blobs=true`"}};
  report.verdict = {"Rank 2 (GPU 0 on node02) makes the others wait.",
                    "straggler",
                    FindingSeverity::high,
                    true,
                    0.98,
                    report.findings[0].recommendation};
  report.left_out = "Not analysed: 8.1 s before the first step (--whole-run takes all).";
  report.warnings = {{Severity::info, WarningSource::analysis, 1, "rank 4 was never captured"},
                     {Severity::data_loss, WarningSource::trace, 1'234, "CUPTI dropped events; use a shorter capture"}};
  report.run = {"2026-01-02T03:04:05Z", "0.1.0", 2, {"login1"}, 1, {{"reading traces", 1.5, 1000, 64000, 1 << 20}}, {}};
  return report;
}

JobReport large_report(int count) {
  JobReport report;
  report.epoch_utc_ns = 1;
  report.instances = report.complete = 1000;
  for (int i = 0; i < count; ++i) {
    add_rank(report, i, i % 100 * ms,
             {.budget = {},
              .arrivals = 1000,
              .last_arrivals = 1,
              .wait_ns = i,
              .caused_wait_ns = i,
              .bus_bandwidth_gbs = 123.456});
    SessionClock& session = report.clock.sessions.emplace_back();
    session.path = fmt::format("rank_{}", i);
    session.host = "host";
    session.method = ClockMethod::collectives;
    session.offset_ns = i;
    session.uncertainty_ns = i;
    report.inputs[i].status = InputStatus::degraded;
    report.communicators.push_back(
        {.name = fmt::format("inferred-{}", i), .given_name = {}, .trace_ranks = {i}, .size = 2, .instances = i});
    report.stragglers.emplace_back();
    report.stragglers.back().trace_rank = i;
    report.stragglers.back().delay_cost_ns = i * ms;
    report.findings.push_back({"straggler", FindingSeverity::high, fmt::format("finding {}", i), {}, ""});
    report.findings.back().evidence.assign(1000, "evidence");
    report.warnings.push_back({Severity::error, WarningSource::trace, 1, fmt::format("warning {}", i)});
  }
  return report;
}

}  // namespace nsys_explain::report
