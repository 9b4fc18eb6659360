#include <chrono>
#include <iterator>

#include <fmt/format.h>

#include "model/schema/links.hpp"
#include "nsys_explain/model/names.hpp"
#include "nsys_explain/model/utf8.hpp"
#include "report/overview.hpp"
#include "report/report.hpp"
#include "report/text.hpp"

namespace nsys_explain::report {
namespace {

using Labels = std::vector<std::pair<std::string_view, std::string>>;

/// The exposition format: families of samples, each family once, with its labels escaped.
class Exposition {
 public:
  explicit Exposition(std::string_view results) : results_(results) {}

  void begin_family(std::string_view name, std::string_view help) {
    family_ = fmt::format("nsys_explain_{}", name);
    fmt::format_to(std::back_inserter(text_), "# HELP {} {}\n# TYPE {} gauge\n", family_, help, family_);
  }
  template <class Value>
  void add(const Labels& labels, Value value) {
    text_ += fmt::format("{}{{results=\"{}\"", family_, escaped(results_));
    for (const auto& [name, label] : labels) text_ += fmt::format(",{}=\"{}\"", name, escaped(label));
    text_ += fmt::format("}} {}\n", value);
  }
  std::string text() && { return std::move(text_); }

 private:
  static std::string escaped(std::string_view label) {
    std::string result;
    for (const char c : visible_text(valid_utf8(label))) {
      if (c == '\\' || c == '"') result += '\\';
      if (c == '\n') {
        result += "\\n";
      } else {
        result += c;
      }
    }
    return result;
  }

  std::string results_, family_, text_;
};

double ratio(Nanoseconds part_ns, Nanoseconds whole_ns) {
  return whole_ns > 0 ? static_cast<double>(part_ns) / static_cast<double>(whole_ns) : 0;
}

void add_job(Exposition& exposition, const JobReport& report, const Overview& overview) {
  exposition.begin_family("run_info", "Always 1; the version that made the report.");
  exposition.add({{"version", report.run.tool_version}}, 1);
  exposition.begin_family("inputs", "Traces by their fate.");
  exposition.add({{"status", "ok"}}, overview.inputs_ok);
  exposition.add({{"status", "degraded"}}, overview.inputs_degraded);
  exposition.add({{"status", "failed"}}, overview.inputs_failed);
  exposition.begin_family("trace_ranks", "Ranks of the job that were analysed.");
  exposition.add({}, report.trace_ranks.size());
  exposition.begin_family("wait_ratio", "Waiting in collectives / GPU time of all ranks.");
  // Without a trace rank a 0 would read as a job in which nobody waits.
  if (!report.trace_ranks.empty()) exposition.add({}, ratio(overview.wait_ns, overview.window_ns));
  exposition.begin_family("findings", "Findings by severity.");
  for (std::size_t severity = 0; severity < overview.findings.size(); ++severity) {
    exposition.add({{"severity", std::string(severity_name(static_cast<FindingSeverity>(severity)))}},
                   overview.findings[severity]);
  }
}

/// "2026-07-01T12:00:00Z" as seconds since 1970; empty where it is none.
std::optional<std::int64_t> seconds_since_1970(const std::string& date_utc) {
  int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0;
  if (std::sscanf(date_utc.c_str(), "%d-%d-%dT%d:%d:%dZ", &year, &month, &day, &hour, &minute, &second) != 6)
    return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok()) return std::nullopt;
  return std::chrono::sys_days(date).time_since_epoch().count() * std::int64_t{86'400} + std::int64_t{hour} * 3600 +
         std::int64_t{minute} * 60 + second;
}

/// When and how the run ended: a gate must tell a stale file from a new one, and a failed run from a calm one.
void add_end(Exposition& exposition, const RunFacts& run, int exit_code) {
  exposition.begin_family(
      "exit_code",
      "Of the run; 0: all inputs were analysed, 2: wrong usage, 3: none held GPU work, 4: some are missing, 5: results could not be written.");
  exposition.add({}, exit_code);
  const std::optional<std::int64_t> time = seconds_since_1970(run.date_utc);
  if (!time) return;
  exposition.begin_family("run_timestamp_seconds", "When the run ended, seconds since 1970.");
  exposition.add({}, *time);
}

/// What fixing the finding of the verdict saves, and how much of the time was judged: absent where nobody knows.
void add_verdict(Exposition& exposition, const JobVerdict& verdict) {
  exposition.begin_family("verdict", "Always 1; what the run comes to, and the finding that says so.");
  exposition.add({{"finding", verdict.finding},
                  {"severity", std::string(severity_name(verdict.severity))},
                  {"complete", verdict.complete ? "true" : "false"},
                  {"text", verdict.text}},
                 1);
  if (verdict.judged_share) {
    exposition.begin_family("judged_ratio", "Time in which the lateness of every rank could be seen / analysed time.");
    exposition.add({}, *verdict.judged_share);
  }
  if (!verdict.mended) return;
  const WhatIf& fixed = *verdict.mended;
  exposition.begin_family(
      "saving_ratio",
      "Elapsed time that fixing the verdict's finding saves / elapsed time; bound: of the 95% interval.");
  exposition.add({{"bound", "none"}}, fixed.saved_share);
  if (fixed.low_share) exposition.add({{"bound", "low"}}, *fixed.low_share);
  if (fixed.high_share) exposition.add({{"bound", "high"}}, *fixed.high_share);
  exposition.begin_family("step_seconds", "Mean of a step: as it is, and with the verdict's finding fixed.");
  exposition.add({{"as", "measured"}}, static_cast<double>(fixed.step_ns_before) / 1e9);
  exposition.add({{"as", "fixed"}}, static_cast<double>(fixed.step_ns_after) / 1e9);
}

void add_stragglers(Exposition& exposition, const JobReport& report, const Overview& overview) {
  exposition.begin_family("stragglers", "Ranks and places that make the others wait.");
  if (!report.trace_ranks.empty()) exposition.add({}, overview.stragglers.size());
  if (overview.stragglers.empty()) return;
  exposition.begin_family("straggler_cost_ratio", "Elapsed time that fixing a straggler saves / elapsed time.");
  for (const Straggler& straggler : overview.stragglers) {
    const TraceRankIdentity* identity = find_identity(report, straggler.trace_rank);
    exposition.add({{"trace_rank", fmt::to_string(straggler.trace_rank)},
                    {"level", std::string(level_name(straggler.level))},
                    {"place", straggler.place},
                    {"host", identity == nullptr ? "" : identity->host},
                    {"gpu", identity == nullptr ? "" : fmt::to_string(identity->key.device_id)},
                    {"gpu_uuid", identity == nullptr ? "" : identity->gpu_uuid},
                    {"pattern", std::string(pattern_name(straggler.pattern))},
                    {"cause", std::string(cause_name(straggler.cause))}},
                   straggler.cost_share);
  }
}

void add_clock(Exposition& exposition, const ClockResidual& residual) {
  if (!residual.held_out_p50_ns) return;
  exposition.begin_family("clock_residual_seconds", "Disagreement of matched ends that were held out of the fit.");
  for (const auto& [quantile, value_ns] :
       {std::pair("0.5", residual.held_out_p50_ns), std::pair("0.9", residual.held_out_p90_ns),
        std::pair("1", residual.held_out_max_ns)}) {
    if (value_ns) exposition.add({{"quantile", quantile}}, static_cast<double>(*value_ns) / 1e9);
  }
}

Operation operation_of(std::string_view name) {
  for (int value = 0; value <= static_cast<int>(Operation::barrier); ++value)
    if (operation_name(static_cast<Operation>(value)) == name) return static_cast<Operation>(value);
  return Operation::unknown;
}

/// Communicators of one shape together: a job may have thousands of them.
void add_bandwidths(Exposition& exposition, const JobReport& report) {
  const Table* table = find_table(report.tables, schema::bandwidth);
  if (table == nullptr || table->row_count() == 0) return;
  using Class = std::tuple<std::string, std::int64_t, std::int64_t, std::int64_t>;
  struct Sums {
    std::int64_t bytes = 0, transfer_ns = 0;
  };
  std::map<Class, Sums> classes;
  for (std::size_t row = 0; row < table->row_count(); ++row) {
    Sums& sums =
        classes[{column(*table, schema::bandwidth.operation)[row], column(*table, schema::bandwidth.from_bytes)[row],
                 column(*table, schema::bandwidth.members)[row], column(*table, schema::bandwidth.nodes)[row]}];
    sums.bytes += column(*table, schema::bandwidth.bytes)[row];
    sums.transfer_ns += column(*table, schema::bandwidth.transfer_ns)[row];
  }
  exposition.begin_family(
      "bus_bandwidth_bytes_per_second",
      "Bus bandwidth of collectives once every member is there: operation, size from this power of two, members, nodes.");
  for (const auto& [key, sums] : classes) {
    const auto& [operation, from_bytes, members, nodes] = key;
    if (sums.transfer_ns <= 0) continue;
    exposition.add({{"operation", operation},
                    {"from_bytes", fmt::to_string(from_bytes)},
                    {"members", fmt::to_string(members)},
                    {"nodes", fmt::to_string(nodes)}},
                   bus_bandwidth_factor(operation_of(operation), members) * static_cast<double>(sums.bytes) /
                       static_cast<double>(sums.transfer_ns) * 1e9);
  }
}

}  // namespace

std::string to_prometheus(const JobReport& report, std::string_view output_directory, int exit_code) {
  const Overview overview = overview_of(report);
  Exposition exposition(output_directory);
  add_job(exposition, report, overview);
  add_end(exposition, report.run, exit_code);
  add_verdict(exposition, report.verdict);
  add_stragglers(exposition, report, overview);
  add_clock(exposition, report.clock.residual);
  add_bandwidths(exposition, report);
  return std::move(exposition).text();
}

}  // namespace nsys_explain::report
