#include "report/side_files.hpp"

#include <cmath>
#include <cstdlib>
#include <numeric>

#include <fmt/format.h>

#include "report/markdown.hpp"
#include "report/report.hpp"
#include "report/text.hpp"

namespace nsys_explain::report {

namespace {

using Align = MarkdownTable::Align;
using Integers = std::vector<std::int64_t>;
using Reals = std::vector<double>;

const Integers& integers(const Table& table, std::string_view name) {
  return column<std::int64_t>(table, name);
}

/// The table, if it has rows.
const Table* filled(const JobReport& report, std::string_view name) {
  const Table* table = find_table(report.tables, name);
  return table != nullptr && table->row_count() > 0 ? table : nullptr;
}

std::string requests_section(const JobReport& report) {
  const Table* totals = filled(report, "request_totals");
  const Table* latencies = find_table(report.tables, "request_latencies");
  if (totals == nullptr || latencies == nullptr) return {};
  const auto integer = [&](const char* name) { return integers(*totals, name).front(); };
  std::string out =
      heading("Requests", "What the clients saw, by the file of --requests. It is not cut to the time of the traces.");
  std::string sentence = counted(integer("requests"), "request");
  if (integer("failed") > 0) sentence += fmt::format(", {} more failed", format_count(integer("failed")));
  if (integer("unusable") > 0)
    sentence += fmt::format(", {} lines hold no time that can be used", format_count(integer("unusable")));
  if (integer("elapsed_ns") >= 0) sentence += fmt::format(", in {}", format_duration(integer("elapsed_ns")));
  const auto rate = [&](const char* name) { return column<double>(*totals, name).front(); };
  if (!std::isnan(rate("requests_per_second")))
    sentence += fmt::format(": {:.2f} requests/s", rate("requests_per_second"));
  if (!std::isnan(rate("output_tokens_per_second")))
    sentence += fmt::format(", {:.1f} output tokens/s", rate("output_tokens_per_second"));
  if (!std::isnan(rate("tokens_per_second")))
    sentence += fmt::format(", {:.1f} tokens/s with prompts", rate("tokens_per_second"));
  out += wrap(sentence + ".", "", "") + '\n';
  MarkdownTable table{{{"latency", Align::left}, {"count"}, {"median"}, {"90%"}, {"99%"}, {"longest"}}, {}};
  for (std::size_t i = 0; i < latencies->row_count(); ++i) {
    const auto real = [&](const char* name) {
      return format_duration(static_cast<Nanoseconds>(column<double>(*latencies, name)[i]));
    };
    table.rows.push_back({std::string(column<std::string>(*latencies, "latency")[i]),
                          format_count(integers(*latencies, "count")[i]), real("median_ns"), real("p90_ns"),
                          real("p99_ns"), format_duration(integers(*latencies, "max_ns")[i])});
  }
  return out + table.to_string();
}

/// Sums of a server's counters, by request of a model. Requests that the cache answered were not executed.
std::string served_models_section(const JobReport& report) {
  const Table* const models = filled(report, "served_models");
  if (models == nullptr) return {};
  MarkdownTable table{{{"model", Align::left},
                       {"requests"},
                       {"failed"},
                       {"batch"},
                       {"request"},
                       {"in queue"},
                       {"input"},
                       {"execution"},
                       {"output"}},
                      {}};
  for (std::size_t i = 0; i < std::min(models->row_count(), shown_rows); ++i) {
    const auto integer = [&](const char* name) { return integers(*models, name)[i]; };
    const auto of_each = [&](const char* name, std::int64_t requests) {
      return requests > 0 ? format_duration(integer(name) / requests) : std::string("-");
    };
    const std::int64_t requests = integer("requests"), executed = requests - integer("cache_hits");
    const double batch = static_cast<double>(integer("inferences")) / static_cast<double>(integer("executions"));
    table.rows.push_back({markdown_code(column<std::string>(*models, "model")[i], 40), format_count(requests),
                          format_count(integer("failed")),
                          integer("executions") > 0 ? fmt::format("{:.1f}", batch) : "-",
                          of_each("request_ns", requests), of_each("queue_ns", requests), of_each("input_ns", executed),
                          of_each("infer_ns", executed), of_each("output_ns", executed)});
  }
  return heading("Served models",
                 "What the server counted (--requests): means of a request, and inferences of an execution (batch).") +
         table.to_string() + rest_note(models->row_count(), table.rows.size(), "table `served_models`");
}

std::string engine_layers_section(const JobReport& report) {
  const Table* const layers = filled(report, "engine_layers");
  if (layers == nullptr) return {};
  std::vector<std::size_t> order(layers->row_count());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const Integers& totals = integers(*layers, "total_ns");
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return totals[a] > totals[b]; });
  MarkdownTable table{{{"layer", Align::left}, {"share"}, {"mean"}, {"median"}}, {}};
  for (const std::size_t i : order) {
    if (table.rows.size() == shown_rows) break;
    const std::int64_t median_ns = integers(*layers, "median_ns")[i];
    table.rows.push_back({markdown_code(column<std::string>(*layers, "layer")[i], 60),
                          fmt::format("{:.1f}%", column<double>(*layers, "share_percent")[i]),
                          format_duration(integers(*layers, "mean_ns")[i]),
                          median_ns < 0 ? "-" : format_duration(median_ns)});
  }
  return heading("Layers of the TensorRT engine",
                 "Times of an iteration, by trtexec (--trt-profile): measured layer by layer, without the traces.") +
         table.to_string() + rest_note(order.size(), table.rows.size(), "table `engine_layers`");
}

std::string allocator_section(const JobReport& report) {
  const Table* const summary = filled(report, "allocator_summary");
  const Table* const holders = find_table(report.tables, "allocator_peak");
  if (summary == nullptr || holders == nullptr) return {};
  std::string out = heading(
      "PyTorch's allocator",
      "By the snapshot (--memory-snapshot); not cut to the time of the traces. Over time: table `allocator_memory`.");
  for (std::size_t d = 0; d < summary->row_count(); ++d) {
    const auto integer = [&](const char* name) { return integers(*summary, name)[d]; };
    std::string sentence =
        fmt::format("Device {}: at most {} were in use, {} when the snapshot was taken, and {} held from CUDA",
                    integer("device"), format_bytes(integer("peak_bytes")), format_bytes(integer("final_bytes")),
                    format_bytes(integer("reserved_bytes")));
    if (integer("out_of_memory") > 0)
      sentence += fmt::format("; {} failed for lack of memory", counted(integer("out_of_memory"), "allocation"));
    out += wrap(sentence + ".", "", "") + '\n';
    MarkdownTable table{{{"held the peak", Align::left}, {"blocks"}, {"bytes"}, {"share"}}, {}};
    std::size_t all = 0;
    for (std::size_t i = 0; i < holders->row_count(); ++i) {
      if (integers(*holders, "device")[i] != integer("device") || all++ >= shown_rows) continue;
      const std::string_view stack = column<std::string>(*holders, "stack")[i];
      table.rows.push_back({stack.empty() ? "before the history began" : markdown_code(stack, 100),
                            format_count(integers(*holders, "blocks")[i]), format_bytes(integers(*holders, "bytes")[i]),
                            fmt::format("{:.1f}%", column<double>(*holders, "share_percent")[i])});
    }
    out += table.to_string() + rest_note(all, table.rows.size(), "table `allocator_peak`");
  }
  return out;
}

/// Connections and channels of each transport, within hosts and between them.
std::map<std::pair<std::int64_t, std::string>, std::pair<std::int64_t, std::int64_t>> transports(const Table& table) {
  std::map<std::pair<std::int64_t, std::string>, std::pair<std::int64_t, std::int64_t>> sums;
  for (std::size_t i = 0; i < table.row_count(); ++i) {
    auto& [connections, channels] =
        sums[{integers(table, "same_host")[i], std::string(column<std::string>(table, "transport")[i])}];
    ++connections;
    channels += integers(table, "channels")[i];
  }
  return sums;
}

/// Within a host P2P is NVLink or PCIe without a detour; SHM and the network go through the host.
std::string detours(const JobReport& report, const Table& connections) {
  std::int64_t within = 0, detour = 0;
  for (std::size_t i = 0; i < connections.row_count(); ++i) {
    if (integers(connections, "same_host")[i] != 1) continue;
    ++within;
    detour += std::string_view(column<std::string>(connections, "transport")[i]).starts_with("P2P") ? 0 : 1;
  }
  if (detour == 0) return {};
  std::string text = fmt::format("{} of {} within hosts are not P2P, but go through the host's memory or the network",
                                 format_count(detour), counted(within, "connection"));
  if (report.nvlink.available) text += ", though the traces hold NVLink counters of these GPUs";
  return wrap(text + ".", "", "");
}

std::string nccl_log_section(const JobReport& report) {
  const Table* members = filled(report, "nccl_members");
  const Table* connections = filled(report, "nccl_connections");
  const Table* choices = filled(report, "nccl_choices");
  if (members == nullptr && connections == nullptr && choices == nullptr) return {};
  std::string out = heading(
      "NCCL's own log", "As logged (--nccl-log). All rows: tables `nccl_members`, `nccl_connections`, `nccl_choices`.");
  if (connections != nullptr) {
    MarkdownTable table{{{"members", Align::left}, {"transport", Align::left}, {"connections"}, {"channels"}}, {}};
    for (const auto& [key, sums] : transports(*connections)) {
      const char* where = key.first == 1 ? "on one host" : key.first == 0 ? "on two hosts" : "hosts not known";
      table.rows.push_back({where, markdown_code(key.second, 40), format_count(sums.first), format_count(sums.second)});
    }
    out += table.to_string();
    if (const std::string text = detours(report, *connections); !text.empty()) out += '\n' + text;
  }
  if (choices != nullptr) {
    MarkdownTable table{
        {{"operation", Align::left}, {"bytes"}, {"algorithm", Align::left}, {"protocol", Align::left}, {"times"}}, {}};
    for (std::size_t i = 0; i < std::min(choices->row_count(), shown_rows); ++i) {
      table.rows.push_back({markdown_code(column<std::string>(*choices, "operation")[i], 40),
                            format_count(integers(*choices, "bytes")[i]),
                            markdown_code(column<std::string>(*choices, "algorithm")[i], 40),
                            markdown_code(column<std::string>(*choices, "protocol")[i], 40),
                            format_count(integers(*choices, "count")[i])});
    }
    out += (connections != nullptr ? "\n" : "") + table.to_string() +
           rest_note(choices->row_count(), table.rows.size(), "table `nccl_choices`");
  }
  return out;
}

}  // namespace

std::string side_file_sections(const JobReport& report) {
  return requests_section(report) + served_models_section(report) + engine_layers_section(report) +
         allocator_section(report) + nccl_log_section(report);
}

Json requests_json(const JobReport& report) {
  const Table* totals = filled(report, "request_totals");
  const Table* latencies = find_table(report.tables, "request_latencies");
  if (totals == nullptr || latencies == nullptr) return nullptr;
  Json json = object_of(*totals, 0);
  json["latencies"] = objects_of(*latencies);
  return json;
}

Json nccl_log_json(const JobReport& report) {
  const Table* connections = filled(report, "nccl_connections");
  const Table* members = filled(report, "nccl_members");
  if (connections == nullptr && members == nullptr) return nullptr;
  Json json{{"members", members == nullptr ? 0 : members->row_count()}, {"transports", Json::array()}};
  if (connections == nullptr) return json;
  for (const auto& [key, sums] : transports(*connections)) {
    json["transports"].push_back({{"same_host", key.first < 0 ? Json(nullptr) : Json(key.first == 1)},
                                  {"transport", key.second},
                                  {"connections", sums.first},
                                  {"channels", sums.second}});
  }
  return json;
}

namespace {

struct InspectorSums {
  std::int64_t records = 0, keyed = 0, contradicting = 0, trace_ranks = 0;
  std::int64_t exchanges = 0, keyed_exchanges = 0, compared = 0, disagreeing = 0, largest_difference_ns = 0;
};

std::optional<InspectorSums> sum(const std::vector<Table>& tables) {
  const Table* keys = find_table(tables, "inspector_keys");
  if (keys == nullptr) return std::nullopt;
  const auto total = [&](const char* name) {
    const auto& values = column<std::int64_t>(*keys, name);
    return std::accumulate(values.begin(), values.end(), std::int64_t{0});
  };
  const auto& ranks = column<std::int64_t>(*keys, "trace_rank");
  const std::set<std::int64_t> different(ranks.begin(), ranks.end());
  std::int64_t largest_ns = 0;
  for (const std::int64_t difference_ns : column<std::int64_t>(*keys, "largest_difference_ns"))
    largest_ns = std::max(largest_ns, std::abs(difference_ns));
  return InspectorSums{
      total("records"),   total("keyed"),           total("contradicting"), static_cast<std::int64_t>(different.size()),
      total("exchanges"), total("keyed_exchanges"), total("compared"),      total("disagreeing"),
      largest_ns};
}

}  // namespace

std::optional<Json> inspector_json(const std::vector<Table>& tables) {
  const auto sums = sum(tables);
  if (!sums) return std::nullopt;
  return Json{{"records", sums->records},
              {"keyed", sums->keyed},
              {"contradicting", sums->contradicting},
              {"trace_ranks", sums->trace_ranks},
              {"exchanges", sums->exchanges},
              {"keyed_exchanges", sums->keyed_exchanges},
              {"compared", sums->compared},
              {"disagreeing", sums->disagreeing},
              {"largest_difference_ns", sums->largest_difference_ns}};
}

std::string inspector_sentence(const std::vector<Table>& tables) {
  const auto sums = sum(tables);
  if (!sums) return {};
  std::string sentence = fmt::format("{} of {} took communicator and sequence number from logs of NCCL Inspector ({})",
                                     counted(sums->keyed, "arrival"), counted(sums->trace_ranks, "rank"),
                                     counted(sums->records, "record"));
  if (sums->contradicting > 0) {
    sentence += fmt::format(
        "; {} the trace, and no key was taken from {}",
        sums->contradicting == 1 ? "1 record contradicts" : format_count(sums->contradicting) + " records contradict",
        sums->contradicting == 1 ? "it" : "them");
  }
  sentence += ".";
  if (sums->exchanges > 0) {
    sentence += fmt::format(" {} of {} sends and receives told communicator and peer of their kernel.",
                            format_count(sums->keyed_exchanges), format_count(sums->exchanges));
  }
  if (sums->compared > 0) {
    sentence += fmt::format(
        " {} of {} took another time by the log than by the trace (beyond 30 us; the largest difference of all is {}).",
        format_count(sums->disagreeing), counted(sums->compared, "collective"),
        format_duration(sums->largest_difference_ns));
  }
  return sentence;
}

}  // namespace nsys_explain::report
