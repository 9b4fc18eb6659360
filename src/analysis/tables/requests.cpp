#include "analysis/tables/side_files.hpp"

#include <cmath>
#include <stdexcept>

#include <fmt/format.h>

#include "analysis/statistics/delimited_text.hpp"
#include "analysis/statistics/statistics.hpp"

namespace nsys_explain::analysis {
namespace {

enum class RequestField { arrival, start, first_token, end, ttft, latency, queue, prompt, output, success, elapsed };

constexpr std::int64_t most_tokens = std::int64_t{1} << 32;  // sums of so many do not overflow
constexpr double latest_ns = 4e18;                           // of points in time: in the year 2096

/// A column: what it holds, and nanoseconds in its unit; 0: no unit is named.
struct RequestColumn {
  RequestField field;
  double unit_ns = 0;
};

std::string lower_name(std::string_view column) {
  std::string name;
  for (const char c : column) {
    if (c == '(' || c == '[') break;
    name += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c == ' ' || c == '-' || c == '.' ? '_' : c;
  }
  while (!name.empty() && name.back() == '_') name.pop_back();
  return name;
}

double unit_of(std::string_view unit) {
  if (unit == "ns") return 1;
  if (unit == "us") return 1e3;
  if (unit == "ms") return 1e6;
  return unit == "s" || unit == "sec" || unit == "seconds" ? 1e9 : 0;
}

std::optional<RequestField> request_field(std::string_view name) {
  static const std::map<std::string_view, RequestField> fields = {{"arrival", RequestField::arrival},
                                                                  {"arrival_time", RequestField::arrival},
                                                                  {"submit_time", RequestField::arrival},
                                                                  {"request_time", RequestField::arrival},
                                                                  {"send_time", RequestField::arrival},
                                                                  {"start_time", RequestField::arrival},
                                                                  {"start_times", RequestField::arrival},
                                                                  {"start", RequestField::start},
                                                                  {"scheduled", RequestField::start},
                                                                  {"scheduled_time", RequestField::start},
                                                                  {"first_scheduled_time", RequestField::start},
                                                                  {"prefill_start", RequestField::start},
                                                                  {"first_token", RequestField::first_token},
                                                                  {"first_token_time", RequestField::first_token},
                                                                  {"end", RequestField::end},
                                                                  {"end_time", RequestField::end},
                                                                  {"finish", RequestField::end},
                                                                  {"finish_time", RequestField::end},
                                                                  {"finished_time", RequestField::end},
                                                                  {"completion_time", RequestField::end},
                                                                  {"ttft", RequestField::ttft},
                                                                  {"time_to_first_token", RequestField::ttft},
                                                                  {"latency", RequestField::latency},
                                                                  {"e2e_latency", RequestField::latency},
                                                                  {"e2el", RequestField::latency},
                                                                  {"request_latency", RequestField::latency},
                                                                  {"queue_time", RequestField::queue},
                                                                  {"time_in_queue", RequestField::queue},
                                                                  {"waiting_time", RequestField::queue},
                                                                  {"prompt_tokens", RequestField::prompt},
                                                                  {"input_tokens", RequestField::prompt},
                                                                  {"prompt_len", RequestField::prompt},
                                                                  {"input_len", RequestField::prompt},
                                                                  {"num_prompt_tokens", RequestField::prompt},
                                                                  {"output_tokens", RequestField::output},
                                                                  {"completion_tokens", RequestField::output},
                                                                  {"generated_tokens", RequestField::output},
                                                                  {"output_len", RequestField::output},
                                                                  {"num_generation_tokens", RequestField::output},
                                                                  {"success", RequestField::success},
                                                                  {"benchmark_duration", RequestField::elapsed}};
  const auto found = fields.find(name);
  return found == fields.end() ? std::nullopt : std::optional(found->second);
}

/// "TTFT (ms)", "arrival_us", "Request Latency [s]".
std::optional<RequestColumn> request_column(std::string_view header) {
  const std::string name = lower_name(header);
  double unit_ns = 0;
  if (const std::size_t bracket = header.find_first_of("(["); bracket != std::string_view::npos) {
    const std::string_view rest = header.substr(bracket + 1);
    unit_ns = unit_of(rest.substr(0, rest.find_first_of(")]")));
  }
  if (const auto field = request_field(name)) return RequestColumn{*field, unit_ns};
  const std::size_t last = name.rfind('_');
  if (last == std::string::npos || unit_of(std::string_view(name).substr(last + 1)) == 0) return std::nullopt;
  const auto field = request_field(std::string_view(name).substr(0, last));
  return field ? std::optional(RequestColumn{*field, unit_of(std::string_view(name).substr(last + 1))}) : std::nullopt;
}

bool is_point_in_time(RequestField field) {
  return field == RequestField::arrival || field == RequestField::start || field == RequestField::first_token ||
         field == RequestField::end;
}

/// no_time where it is no number, negative, or too late.
Nanoseconds request_time(const std::string& text, const RequestColumn& column) {
  const auto number = parse_number(text);
  if (!number || *number < 0) return no_time;
  double unit_ns = column.unit_ns > 0 ? column.unit_ns : 1e9;
  if (column.unit_ns == 0 && is_point_in_time(column.field))
    for (double value = *number; value >= 1e10 && unit_ns > 1; value /= 1e3) unit_ns /= 1e3;
  const double time_ns = *number * unit_ns;
  return time_ns < latest_ns ? static_cast<Nanoseconds>(std::llround(time_ns)) : no_time;
}

std::int64_t token_count(const std::string& text) {
  const auto number = parse_number(text);
  return number && *number >= 0 && *number <= static_cast<double>(most_tokens) ? std::llround(*number) : -1;
}

bool says_no(std::string_view text) {
  return text == "0" || text == "false" || text == "False" || text == "FALSE" || text == "no";
}

Nanoseconds between_times(Nanoseconds from_ns, Nanoseconds to_ns) {
  return from_ns == no_time || to_ns == no_time ? no_time : to_ns - from_ns;
}

/// One line, its times as they stand there.
struct RequestLine {
  Request request;
  Nanoseconds start_ns = no_time, first_token_at_ns = no_time;
  bool failed = false;
};

RequestLine read_request(const std::vector<std::optional<RequestColumn>>& columns, const std::vector<std::string>& row,
                         RequestLog& log) {
  RequestLine line;
  Request& request = line.request;
  for (std::size_t c = 0; c < std::min(columns.size(), row.size()); ++c) {
    if (!columns[c]) continue;
    const auto time_ns = [&] { return request_time(row[c], *columns[c]); };
    switch (columns[c]->field) {
      case RequestField::arrival:
        request.arrival_ns = time_ns();
        break;
      case RequestField::start:
        line.start_ns = time_ns();
        break;
      case RequestField::first_token:
        line.first_token_at_ns = time_ns();
        break;
      case RequestField::end:
        request.end_ns = time_ns();
        break;
      case RequestField::ttft:
        request.first_token_ns = time_ns();
        break;
      case RequestField::latency:
        request.latency_ns = time_ns();
        break;
      case RequestField::queue:
        request.queue_ns = time_ns();
        break;
      case RequestField::prompt:
        request.prompt_tokens = token_count(row[c]);
        break;
      case RequestField::output:
        request.output_tokens = token_count(row[c]);
        break;
      case RequestField::success:
        line.failed = says_no(row[c]);
        break;
      case RequestField::elapsed:
        log.elapsed_ns = std::max(log.elapsed_ns, time_ns());
        break;
    }
  }
  return line;
}

/// What follows from the points in time; false where nothing is known, they contradict each other, or it took longer
/// than `longest_ns`.
bool complete_request(RequestLine& line, Nanoseconds longest_ns) {
  Request& request = line.request;
  const auto take = [](Nanoseconds& duration_ns, Nanoseconds worked_out_ns) {
    if (duration_ns == no_time) duration_ns = worked_out_ns;
    return duration_ns == no_time || duration_ns >= 0;
  };
  if (request.end_ns == no_time && request.arrival_ns != no_time && request.latency_ns != no_time)
    request.end_ns = request.arrival_ns + request.latency_ns;
  const bool is_sound = take(request.queue_ns, between_times(request.arrival_ns, line.start_ns)) &&
                        take(request.first_token_ns, between_times(request.arrival_ns, line.first_token_at_ns)) &&
                        take(request.latency_ns, between_times(request.arrival_ns, request.end_ns));
  const bool is_ordered = request.latency_ns == no_time || request.first_token_ns == no_time ||
                          request.first_token_ns <= request.latency_ns;
  const bool is_short = std::max({request.queue_ns, request.first_token_ns, request.latency_ns}) <= longest_ns;
  return is_sound && is_ordered && is_short && (request.latency_ns != no_time || request.first_token_ns != no_time);
}

void add_latencies(RowWriter& row, std::string_view name, std::vector<std::int64_t> values) {
  if (values.empty()) return;
  row << name;
  write_statistics(row, summarise(std::span(values)));
}

/// From the first arrival to the last end.
Nanoseconds elapsed_time(const RequestLog& log) {
  if (log.elapsed_ns != no_time) return log.elapsed_ns;
  Nanoseconds first_ns = std::numeric_limits<Nanoseconds>::max(), last_ns = no_time;
  for (const Request& request : log.requests) {
    if (request.arrival_ns == no_time || request.end_ns == no_time) return no_time;
    first_ns = std::min(first_ns, request.arrival_ns);
    last_ns = std::max(last_ns, request.end_ns);
  }
  return last_ns == no_time || last_ns <= first_ns ? no_time : last_ns - first_ns;
}

Table latencies_table(const RequestLog& log) {
  TableSchema schema{"request_latencies",
                     "How long the requests of --requests took",
                     {{"latency", ColumnKind::text, "",
                       "time_to_first_token, time_per_output_token (after the first), end_to_end or queueing"}}};
  for (ColumnSchema& column : statistics_columns("ns")) schema.columns.push_back(std::move(column));
  Table table = make_table(std::move(schema));
  std::vector<std::int64_t> first, per_token, whole, queue;
  for (const Request& request : log.requests) {
    if (request.first_token_ns != no_time) first.push_back(request.first_token_ns);
    if (request.latency_ns != no_time) whole.push_back(request.latency_ns);
    if (request.queue_ns != no_time) queue.push_back(request.queue_ns);
    if (request.first_token_ns != no_time && request.latency_ns != no_time && request.output_tokens > 1)
      per_token.push_back((request.latency_ns - request.first_token_ns) / (request.output_tokens - 1));
  }
  RowWriter row(table);
  add_latencies(row, "time_to_first_token", std::move(first));
  add_latencies(row, "time_per_output_token", std::move(per_token));
  add_latencies(row, "end_to_end", std::move(whole));
  add_latencies(row, "queueing", std::move(queue));
  return table;
}

Table totals_table(const RequestLog& log) {
  Table table = make_table(
      {"request_totals",
       "All requests of --requests together",
       {{"requests", ColumnKind::integer, "", "those with a time; failed ones not counted"},
        {"failed", ColumnKind::integer, "", "the file says that they did not succeed"},
        {"unusable", ColumnKind::integer, "", "lines without a time, or whose times contradict"},
        {"prompt_tokens", ColumnKind::integer, "", "-1: not known of all"},
        {"output_tokens", ColumnKind::integer, "", "-1: not known of all"},
        {"elapsed_ns", ColumnKind::integer, "ns", "first arrival to last end, or what the file says; -1: not known"},
        {"requests_per_second", ColumnKind::real, "1/s", "NaN: not known"},
        {"output_tokens_per_second", ColumnKind::real, "1/s", "NaN: not known"},
        {"tokens_per_second", ColumnKind::real, "1/s", "of prompts and outputs; NaN: not known"}}});
  if (log.requests.empty() && log.failed + log.unusable == 0) return table;
  std::int64_t prompt = 0, output = 0;
  for (const Request& request : log.requests) {
    prompt = prompt < 0 || request.prompt_tokens < 0 ? -1 : prompt + request.prompt_tokens;
    output = output < 0 || request.output_tokens < 0 ? -1 : output + request.output_tokens;
  }
  const Nanoseconds elapsed_ns = elapsed_time(log);
  const auto rate = [&](std::int64_t count) {
    return count < 0 || elapsed_ns == no_time ? std::nan("")
                                              : static_cast<double>(count) * 1e9 / static_cast<double>(elapsed_ns);
  };
  const auto requests = static_cast<std::int64_t>(log.requests.size());
  RowWriter(table) << requests << log.failed << log.unusable << prompt << output
                   << (elapsed_ns == no_time ? -1 : elapsed_ns) << rate(requests) << rate(output)
                   << rate(prompt < 0 || output < 0 ? -1 : prompt + output);
  return table;
}

}  // namespace

RequestLog parse_requests(std::string_view text) {
  RequestLog log;
  if (Table served = served_models_table(text); served.row_count() > 0) {
    log.served_models = std::move(served);
    return log;
  }
  const auto rows = parse_csv(text);
  std::vector<std::optional<RequestColumn>> columns;
  if (!rows.empty())
    for (const std::string& header : rows.front()) columns.push_back(request_column(header));
  const auto has = [&](RequestField field) {
    return std::any_of(columns.begin(), columns.end(), [&](const auto& c) { return c && c->field == field; });
  };
  const bool tells_times = has(RequestField::arrival) && (has(RequestField::end) || has(RequestField::first_token));
  if (!tells_times && !has(RequestField::ttft) && !has(RequestField::latency)) {
    throw std::runtime_error(
        "its first line names neither arrival and end of requests, nor ttft or latency, so nothing can be said about them; write a line 'arrival,first_token,end,prompt_tokens,output_tokens' and one for each request, or give what vllm bench serve --save-result --save-detailed writes");
  }
  const auto longest_ns = static_cast<Nanoseconds>(latest_ns / static_cast<double>(rows.size()));  // sums fit
  for (std::size_t r = 1; r < rows.size(); ++r) {
    RequestLine line = read_request(columns, rows[r], log);
    if (line.failed) {
      ++log.failed;
    } else if (complete_request(line, longest_ns)) {
      log.requests.push_back(line.request);
    } else {
      ++log.unusable;
    }
  }
  if (log.unusable > 0 && log.requests.empty()) {
    throw std::runtime_error(fmt::format(
        "none of its {} lines has a time that can be read, so nothing can be said about requests; times are numbers, in seconds or in the unit that the column's name ends in",
        rows.size() - 1));
  }
  if (log.elapsed_ns <= 0) log.elapsed_ns = no_time;
  return log;
}

std::vector<Table> request_tables(const RequestLog& log) {
  return {totals_table(log), latencies_table(log),
          log.served_models.columns.empty() ? served_models_table({}) : log.served_models};
}

}  // namespace nsys_explain::analysis
