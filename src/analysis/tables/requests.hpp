#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "nsys_explain/model/table.hpp"
#include "nsys_explain/model/time.hpp"

/// What the clients of a server saw: requests as a benchmark or the server itself logged them (--requests).
namespace nsys_explain::analysis {

/// One request. no_time, and -1 for tokens: not in the file, nor to be worked out.
struct Request {
  Nanoseconds arrival_ns = no_time, end_ns = no_time;  ///< of whatever clock the file has
  Nanoseconds first_token_ns = no_time;                ///< from the arrival to the first token
  Nanoseconds latency_ns = no_time;                    ///< from the arrival to the end
  Nanoseconds queue_ns = no_time;                      ///< from the arrival to the start of its work
  std::int64_t prompt_tokens = -1, output_tokens = -1;
};

struct RequestLog {
  std::vector<Request> requests;
  std::int64_t failed = 0;           ///< the file says so
  std::int64_t unusable = 0;         ///< lines without any time, or with times that contradict each other
  Nanoseconds elapsed_ns = no_time;  ///< of the whole benchmark; no_time: from the first arrival to the last end
  Table served_models;               ///< instead of requests, where the file holds a server's counters
};

/// A CSV with a line per request. Columns in any order, by these names and common others (docs/input.md): arrival,
/// start, first_token, end (points in time); ttft, latency, queue_time (durations); prompt_tokens, output_tokens;
/// success. A name may end in its unit (_ns, _us, _ms, _s): without one durations are seconds, and points in time what
/// makes them a time between 2001 and 2286, or seconds. Or the counters of a Triton server. Throws std::runtime_error:
/// problem, why it matters, what to do.
RequestLog parse_requests(std::string_view text);

/// The tables request_totals, request_latencies and served_models; without rows where no file was given.
std::vector<Table> request_tables(const RequestLog& log);

}  // namespace nsys_explain::analysis
