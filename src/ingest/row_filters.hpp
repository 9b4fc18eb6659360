#pragma once

#include <utility>

#include "ingest/metadata.hpp"
#include "nsys_explain/model/time.hpp"

/// What rows say of times and sizes, and which of them cannot be true.
namespace nsys_explain::ingest {

/// How times in the file become trace time: trace time = time in the file - shift_ns.
///
/// Plain exports count from the session start: shift 0. `nsys export --ts-shift=S` adds S to every time; it is taken
/// off again. `--ts-normalize=true` writes UTC; the session start is taken off, so that
/// Session::utc_start_ns + trace time = UTC holds for every export, exactly. (Where vClock data corrected the times,
/// the corrected UTC is kept: the session start is then only a constant that is taken off and added again.)
struct TimeBase {
  Nanoseconds shift_ns = 0;
  Nanoseconds earliest_ns = 0, latest_ns = 0;  ///< trace times outside cannot be true
  Nanoseconds longest_ns = 0;                  ///< no event can last longer
};

/// Fills utc_start_ns and system_clock_ns of the session and derives the time base.
TimeBase read_time_base(const Database& database, const Metadata& metadata, Session& session,
                        std::vector<Warning>& warnings);

/// Brings the times of one table on trace time and counts rows that cannot be believed, which are left out.
class TimeFilter {
 public:
  TimeFilter(const TimeBase& base, std::string table) : base_(base), table_(std::move(table)) {}

  /// Trace time of one row. Empty: the row is to be left out.
  std::optional<Interval> accept(std::int64_t start_ns, std::int64_t end_ns);
  /// The same where the end may be missing (NULL): it is then no_time.
  std::optional<Interval> accept_open(std::int64_t start_ns, std::int64_t end_ns);

  std::int64_t accepted() const { return accepted_; }
  std::int64_t rejected() const { return reversed_ + implausible_; }
  /// Adds a warning for each kind of row left out. Throws TraceError where most rows were: the times are absurd.
  void report(std::vector<Warning>& warnings) const;

 private:
  TimeBase base_;
  std::string table_;
  std::int64_t accepted_ = 0, reversed_ = 0, implausible_ = 0;
};

/// Bytes of one copy, set, allocation or message: eight times the memory that a GPU can address today (GB200: 480 GB).
inline constexpr std::int64_t most_bytes_at_once = std::int64_t{1} << 42;

/// Takes the sizes of one table's rows and counts those that cannot be true. All that it lets through add up to a
/// number, however many rows there are.
class SizeFilter {
 public:
  explicit SizeFilter(std::string table) : table_(std::move(table)) {}

  /// The size, 0 for NULL, and 0 where it cannot be true.
  std::int64_t accept(std::int64_t bytes);
  /// Adds a warning where there were such.
  void report(std::vector<Warning>& warnings) const;

 private:
  std::string table_;
  std::int64_t sum_ = 0, implausible_ = 0;
};

}  // namespace nsys_explain::ingest
