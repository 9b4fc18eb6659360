#include "pipeline/tool_rank/memory_budget.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <system_error>

#include <fmt/format.h>
#include <malloc.h>

#include "report/report.hpp"

namespace nsys_explain::pipeline {

namespace {

// Measured on exports of 300 MB to 1.5 GB (docs/scaling.md, Beyond one machine); what they took lies 2 to 25% below.
constexpr std::int64_t window_bytes = 8 << 20;       ///< pages of the file under way, for each thread
constexpr std::int64_t packed_bytes = 16;            ///< an event
constexpr std::int64_t analysis_bytes = 12;          ///< with one thread, for each event
constexpr std::int64_t analysis_bytes_in_files = 9;  ///< what stays in memory when events lie in files
constexpr std::int64_t bytes_in_files = 26;          ///< what lies there then, of the events and of analyses
constexpr std::int64_t bytes_beside = 5;             ///< for each event, of what a further thread analyses beside
constexpr int most_beside = 3;                       ///< analyses that take much, beside the one that takes most
constexpr std::int64_t other_bytes = 64;             ///< of a row that is not packed, with its analyses
// Beyond those that reading leaves; 2 to 9% above what jobs of 160,000 and 260,000 arrivals took on 1, 2 and 4 tool
// ranks.
constexpr std::int64_t bytes_to_write = 32 << 20;  ///< on rank 0, of any job: HDF5 keeps what it knows of each column
constexpr std::int64_t bytes_per_arrival = 150, bytes_per_replayed_arrival = 550;

// What reading leaves: 2.1 MB of two traces with 7,000 arrivals, 8.5 MB of four with 55,000.
constexpr std::int64_t bytes_left_of_trace = 1 << 20, bytes_left_of_arrival = 110;

/// As --memory-limit takes it: whole MiB.
std::string as_option(std::int64_t bytes) {
  return fmt::format("{}M", (bytes + (1 << 20) - 1) >> 20);
}

/// No two runs hold the same; estimates are off.
std::int64_t with_margin(std::int64_t bytes) {
  return bytes + bytes / 8 + (1 << 20);
}

std::string temporary_directory() {
  std::error_code failure;
  return std::filesystem::temp_directory_path(failure).string();
}

/// Memory of this process that only the end of its use gives back (Linux, proc(5)).
std::int64_t held_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != "RssAnon:") continue;
    std::int64_t kibibytes = 0;
    if (status >> kibibytes) return kibibytes * 1024;
  }
  return 0;
}

std::int64_t held_now() {
  return_freed_memory();
  return held_bytes();
}

}  // namespace

std::int64_t ReadingCost::memory_bytes(int threads, bool in_files) const {
  const std::int64_t of_event = (in_files ? analysis_bytes_in_files : packed_bytes + analysis_bytes) +
                                std::min(threads - 1, most_beside) * bytes_beside;
  return threads * window_bytes + events.packed * of_event + events.others * other_bytes;
}

std::int64_t ReadingCost::file_bytes() const {
  return events.packed * bytes_in_files;
}

bool is_small(const ingest::AssignedTrace& assigned) {
  return assigned.bytes <= 256 << 20;
}

ReadingRound next_round(std::span<const ReadingCost> waiting, int threads, const Room& room) {
  if (waiting.empty()) return {};
  ReadingRound together;
  std::int64_t bytes = 0;
  for (std::size_t count = 1; count <= waiting.size() && waiting[count - 1].is_small; ++count) {
    const int threads_each = std::max(static_cast<int>(static_cast<std::size_t>(threads) / count), 1);
    if (threads_each != together.threads_each || count == 1) {  // few times: what all of them take changes
      bytes = 0;
      for (const ReadingCost& cost : waiting.first(count - 1)) bytes += cost.memory_bytes(threads_each, false);
    }
    bytes += waiting[count - 1].memory_bytes(threads_each, false);
    if (bytes > room.memory_bytes) break;
    together = {count, threads_each, false};
  }
  if (together.traces > 0) return together;
  const ReadingCost& one = waiting.front();
  for (const bool in_files : {false, true}) {
    if (in_files && one.file_bytes() > room.file_bytes) break;
    for (const int threads_each : {threads, 1}) {
      if (one.memory_bytes(threads_each, in_files) <= room.memory_bytes) return {1, threads_each, in_files};
    }
  }
  return {};
}

MemoryBudget::MemoryBudget(std::optional<std::int64_t> limit_bytes)
    : limit_bytes_(limit_bytes), files_(temporary_directory()) {}

Room MemoryBudget::room() const {
  if (!limit_bytes_) return {};
  return {*limit_bytes_ - held_now(), files_.available_bytes()};
}

bool MemoryBudget::can_write() const {
  return room().memory_bytes >= bytes_to_write;
}

void MemoryBudget::refuse(const ingest::AssignedTrace& assigned, const ReadingCost& cost, std::int64_t enough) const {
  const Room room = this->room();
  const bool fits_in_files = cost.file_bytes() <= room.file_bytes;
  const std::int64_t needed = std::max(cost.memory_bytes(1, fits_in_files), bytes_to_write);
  const std::int64_t held = *limit_bytes_ - room.memory_bytes;
  throw std::runtime_error(fmt::format(
      "{} holds some {:.1f} million events, and to read it and write a report takes {} beside the {} held already: more than --memory-limit {} allows, so nothing more was read; give a limit of {} for each tool rank{}{}",
      assigned.name, static_cast<double>(cost.events.packed + cost.events.others) / 1e6, report::format_bytes(needed),
      report::format_bytes(held), report::format_bytes(*limit_bytes_), as_option(enough),
      held > needed ? ", or use more tool ranks" : "",
      fits_in_files ? ""
                    : fmt::format(", or set TMPDIR to a disk with room for {} ({} has {}), where events can lie",
                                  report::format_bytes(cost.file_bytes()), files_.directory(),
                                  report::format_bytes(room.file_bytes))));
}

std::int64_t MemoryBudget::limit_for(std::span<const ReadingCost> waiting, int tool_ranks) const {
  const std::int64_t file_bytes = files_.available_bytes();
  std::int64_t most = 0, left = 0, arrivals = 0;
  for (const ReadingCost& cost : waiting) {
    most = std::max(most, cost.memory_bytes(1, cost.file_bytes() <= file_bytes));
    left += bytes_left_of_trace + cost.arrivals * bytes_left_of_arrival;
    arrivals += cost.arrivals;
  }
  const std::int64_t all = arrivals * tool_ranks;
  const std::int64_t after = Arrivals{arrivals, std::min(all, most_replayed_arrivals), true}.bytes();
  return with_margin(held_now() + left + std::max(most, after));
}

std::int64_t MemoryBudget::Arrivals::bytes() const {
  // First one, then the other.
  return own * bytes_per_arrival + std::max(replayed * bytes_per_replayed_arrival, writes ? bytes_to_write : 0);
}

std::int64_t MemoryBudget::limit_for(const Arrivals& arrivals) const {
  return with_margin(held_now() + arrivals.bytes());
}

void MemoryBudget::require_for(const Arrivals& arrivals, std::int64_t enough) const {
  if (!limit_bytes_) return;
  const Room room = this->room();
  if (arrivals.bytes() <= room.memory_bytes) return;
  throw std::runtime_error(fmt::format(
      "{} arrivals at collectives for each tool rank{} take {} to be matched and analysed, beside the {} held already: more than --memory-limit {} allows, so the run ends here; give a limit of {}, or use more tool ranks or a part of the run (--steps, --filter-time); with --cache the traces need not be read again",
      arrivals.own, arrivals.replayed > 0 ? fmt::format(", of which one replays all {},", arrivals.replayed) : "",
      report::format_bytes(arrivals.bytes()), report::format_bytes(*limit_bytes_ - room.memory_bytes),
      report::format_bytes(*limit_bytes_), as_option(enough)));
}

MemoryBudget::EventPlace::EventPlace(MemoryBudget& budget, bool in_files, const std::string& trace)
    : before_(in_files ? std::pmr::set_default_resource(&budget.files_) : std::pmr::get_default_resource()) {
  if (in_files) budget.traces_in_files_.insert(trace);
}

MemoryBudget::EventPlace::~EventPlace() {
  std::pmr::set_default_resource(before_);
}

ReadingCost cost_of(const ingest::AssignedTrace& assigned, const MemoryBudget& budget) {
  return {budget.limit_bytes() ? ingest::count_events(assigned.path) : ingest::EventCounts(), is_small(assigned)};
}

#if defined(__GLIBC__)
void keep_freed_memory(int threads) {
  constexpr int never = std::numeric_limits<int>::max();
  constexpr int never_trim = -1;           // mallopt(3): more than 2 GB may be free
  constexpr int threads_at_one_arena = 4;  // more would wait for each other too often
  // What one thread frees, its next analysis takes. Of several, others cut it up meanwhile, and large arrays no longer
  // fit: those return to the system.
  constexpr int large_bytes = 8 << 20;
  ::mallopt(M_ARENA_MAX, std::max(threads / threads_at_one_arena, 1));
  ::mallopt(M_MMAP_THRESHOLD, threads > 1 ? large_bytes : never);
  ::mallopt(M_TRIM_THRESHOLD, never_trim);
}

void return_freed_memory() {
  ::malloc_trim(0);
}
#else
void keep_freed_memory(int) {}
void return_freed_memory() {}
#endif

}  // namespace nsys_explain::pipeline
