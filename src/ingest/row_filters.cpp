#include "ingest/row_filters.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "ingest/table_scan.hpp"
#include "nsys_explain/ingest/ingest.hpp"

namespace nsys_explain::ingest {
namespace {

constexpr Nanoseconds second_ns = 1'000'000'000;
constexpr Nanoseconds year_ns = 31'557'600 * second_ns;
constexpr Nanoseconds decade_ns = 10 * year_ns;
/// 2000-01-01 and 2100-01-01: a session outside was recorded by a host without a clock.
constexpr Nanoseconds first_utc_ns = 946'684'800 * second_ns;
constexpr Nanoseconds last_utc_ns = 4'102'444'800 * second_ns;

struct SessionStart {
  Nanoseconds utc_ns = no_time;
  Nanoseconds system_clock_ns = no_time;
  bool is_contradicted = false;
};

/// One row is expected; of several the earliest counts.
SessionStart read_session_start(const Database& database) {
  SessionStart start;
  TableScan scan(database, "TARGET_INFO_SESSION_START_TIME");
  const auto utc = scan.integer("utcEpochNs", Presence::required);
  const auto system_clock = scan.integer("systemClockNs");
  scan.for_each_batch([&](std::size_t rows) {
    for (std::size_t row = 0; row < rows; ++row) {
      if (start.utc_ns != no_time && utc[row] != no_time && utc[row] != start.utc_ns) start.is_contradicted = true;
      if (start.utc_ns != no_time && (utc[row] == no_time || utc[row] >= start.utc_ns)) continue;
      start.utc_ns = utc[row];
      start.system_clock_ns = system_clock[row];
    }
  });
  return start;
}

Nanoseconds read_capture_duration(const Database& database) {
  Nanoseconds longest = 0;
  TableScan scan(database, "ANALYSIS_DETAILS");
  const auto duration = scan.integer("duration");
  scan.for_each_batch([&](std::size_t rows) {
    for (std::size_t row = 0; row < rows; ++row) longest = std::max(longest, duration[row]);
  });
  return longest;
}

void warn(std::vector<Warning>& warnings, Severity severity, std::string message) {
  warnings.push_back({severity, WarningSource::trace, 1, std::move(message)});
}

}  // namespace

TimeBase read_time_base(const Database& database, const Metadata& metadata, Session& session,
                        std::vector<Warning>& warnings) {
  const SessionStart start = read_session_start(database);
  if (start.is_contradicted) {
    warn(
        warnings, Severity::info,
        "the export tells several session starts: the earliest is used, so times may be off by a constant; export one report at a time");
  }
  const bool believable = start.utc_ns >= first_utc_ns && start.utc_ns <= last_utc_ns;
  if (believable) {
    session.utc_start_ns = start.utc_ns;
    session.system_clock_ns = start.system_clock_ns;
  } else {
    warn(
        warnings, Severity::data_loss,
        "the export does not tell when the session started: it can be compared with other traces only through matched collectives; export with a current nsys");
  }
  TimeBase base{metadata.time_shift_ns, -decade_ns, decade_ns, decade_ns};
  if (metadata.times_are_utc && believable) {
    base.shift_ns += start.utc_ns;
  } else if (metadata.times_are_utc) {
    // Nothing to take off: trace time is UTC itself.
    session.utc_start_ns = 0;
    base.earliest_ns = first_utc_ns;
    base.latest_ns = last_utc_ns;
  }
  const Nanoseconds duration = read_capture_duration(database);
  if (duration > 0 && duration < year_ns) base.longest_ns = std::max(10 * duration, 60 * second_ns);
  if (metadata.time_shift_ns != 0) {
    warn(
        warnings, Severity::info,
        fmt::format(
            "the export was written with a time shift of {} ns: it is taken off again, so that times count from the session start",
            metadata.time_shift_ns));
  }
  return base;
}

std::optional<Interval> TimeFilter::accept(std::int64_t start_ns, std::int64_t end_ns) {
  if (end_ns != no_time) return accept_open(start_ns, end_ns);
  ++implausible_;
  return std::nullopt;
}

std::optional<Interval> TimeFilter::accept_open(std::int64_t start_ns, std::int64_t end_ns) {
  const bool is_open = end_ns == no_time;
  Interval time{no_time, no_time};
  const bool overflows = start_ns == no_time || __builtin_sub_overflow(start_ns, base_.shift_ns, &time.start_ns) ||
                         (!is_open && __builtin_sub_overflow(end_ns, base_.shift_ns, &time.end_ns));
  const auto outside = [&](Nanoseconds t) { return t < base_.earliest_ns || t > base_.latest_ns; };
  if (overflows || outside(time.start_ns) || (!is_open && outside(time.end_ns))) {
    ++implausible_;
    return std::nullopt;
  }
  if (!is_open && time.end_ns < time.start_ns) {
    ++reversed_;
    return std::nullopt;
  }
  if (!is_open && time.end_ns - time.start_ns > base_.longest_ns) {
    ++implausible_;
    return std::nullopt;
  }
  ++accepted_;
  return time;
}

void TimeFilter::report(std::vector<Warning>& warnings) const {
  if (implausible_ > accepted_) {
    throw TraceError(fmt::format(
        "{} of {} rows of table {} have times that cannot be true (years before or after the session, or longer than it): nothing derived from them would be; export the report again, without --ts-shift",
        implausible_, implausible_ + reversed_ + accepted_, table_));
  }
  const auto left_out = [&](std::int64_t count, const char* what) {
    if (count == 0) return;
    warnings.push_back(
        {Severity::data_loss, WarningSource::trace, count,
         fmt::format(
             "rows of table {} {}: they are left out, sums are short by them; if there are many, export the report again",
             table_, what)});
  };
  left_out(reversed_, "end before they start");
  left_out(implausible_, "have no time or one that cannot be true");
}

std::int64_t SizeFilter::accept(std::int64_t bytes) {
  constexpr std::int64_t largest_sum = std::int64_t{1} << 60;  // of a few tables together it is still a number
  if (bytes == no_time) return 0;
  if (bytes < 0 || bytes > most_bytes_at_once || sum_ > largest_sum - bytes) {
    ++implausible_;
    return 0;
  }
  sum_ += bytes;
  return bytes;
}

void SizeFilter::report(std::vector<Warning>& warnings) const {
  if (implausible_ == 0) return;
  warnings.push_back(
      {Severity::data_loss, WarningSource::trace, implausible_,
       fmt::format(
           "rows of table {} have a size that cannot be true (negative, or terabytes at once): they count with 0 bytes, sums are short by them; export the report again",
           table_)});
}

}  // namespace nsys_explain::ingest
