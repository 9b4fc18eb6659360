#include "ingest/pages/page_rows.hpp"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <limits>
#include <mutex>
#include <span>
#include <thread>

#include "ingest/pages/table_tree.hpp"

namespace nsys_explain::ingest::pages {
namespace {

/// Bytes read at once. Larger windows are no faster, and every batch decoded ahead holds one.
constexpr std::uint32_t window_bytes = 1 << 18;
/// The one thread that uses the rows cannot keep more busy.
constexpr int most_threads = 8;

/// First start and last end. NULL is the earliest time there is, so rows without a start lie everywhere.
Interval times_of(const PageBatch& batch, const TimeOutputs& outputs) {
  const std::span starts = std::span(batch.columns[outputs.start].integers).first(batch.rows);
  const std::span ends = std::span(batch.columns[outputs.end].integers).first(batch.rows);
  Interval times{std::numeric_limits<Nanoseconds>::max(), std::numeric_limits<Nanoseconds>::min()};
  for (const Nanoseconds start_ns : starts) times.start_ns = std::min(times.start_ns, start_ns);
  for (const Nanoseconds end_ns : ends) times.end_ns = std::max(times.end_ns, end_ns);
  return times;
}

/// Runs decoded by several threads, used by one in order. Run r fills slot r modulo the number of slots, as soon as
/// that slot has been used for its former run; so memory is bounded, and whoever is free decodes the next run.
class OrderedDecoding {
 public:
  OrderedDecoding(const PageFile& file, const PageScan& scan, int threads)
      : file_(file),
        scan_(scan),
        met_(file, scan.root_page),
        leaves_(find_leaves(file, scan.root_page, met_)),
        runs_(divide_into_runs(leaves_, file.page_bytes(), window_bytes)) {
    const auto helpers = std::min<std::size_t>(static_cast<std::size_t>(std::clamp(threads, 1, most_threads)) - 1,
                                               runs_.size() / 4);  // starting a thread takes longer than a few runs
    slots_.resize(helpers == 0 ? 1 : 2 * helpers + 2);
    for (Slot& slot : slots_) slot.batch.columns.resize(scan.outputs);
    try {
      for (std::size_t i = 0; i < helpers; ++i) helpers_.emplace_back([this] { help(); });
    } catch (const std::system_error&) {
      // No more threads to be had: those that run, or the caller alone, do all the work.
    }
  }

  ~OrderedDecoding() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
    for (std::thread& helper : helpers_) helper.join();
  }

  void run(const std::function<void(PageBatch&)>& use) {
    LeafDecoder decoder(file_, scan_);
    std::unique_lock lock(mutex_);
    for (std::size_t run = 0; run < runs_.size(); ++run) {
      Slot& slot = slots_[run % slots_.size()];
      // Where a helper is still at this run, one ahead of it is done meanwhile.
      while (!slot.ready) {
        changed_.wait(lock, [&] { return slot.ready || may_claim(); });
        if (!slot.ready) decode_next(decoder, lock);
      }
      lock.unlock();
      if (slot.failure) std::rethrow_exception(slot.failure);
      for (const std::uint32_t page : slot.batch.overflow_pages) met_.add(page);
      if (slot.batch.rows > 0) use(slot.batch);
      lock.lock();
      slot.ready = false;
      used_ = run + 1;
      changed_.notify_all();
    }
  }

 private:
  struct Slot {
    PageBatch batch;
    std::exception_ptr failure;
    bool ready = false;
  };

  bool may_claim() const { return next_ < runs_.size() && next_ < used_ + slots_.size(); }

  /// May claim; `lock` is held before and after.
  void decode_next(LeafDecoder& decoder, std::unique_lock<std::mutex>& lock) {
    const std::size_t run = next_++;
    lock.unlock();
    decode(decoder, run);
    lock.lock();
    slots_[run % slots_.size()].ready = true;
    changed_.notify_all();
  }

  void decode(LeafDecoder& decoder, std::size_t run) {
    Slot& slot = slots_[run % slots_.size()];
    slot.batch.share_read = static_cast<double>(runs_[run].end) / static_cast<double>(leaves_.size());
    slot.batch.run = run;
    if (scan_.unwanted.size() == runs_.size() && scan_.unwanted[run]) {
      slot.batch.rows = 0;
      slot.batch.overflow_pages.clear();
      return;
    }
    try {
      decoder.decode(std::span(leaves_).subspan(runs_[run].first, runs_[run].end - runs_[run].first), slot.batch);
      if (scan_.times) slot.batch.times = times_of(slot.batch, *scan_.times);
    } catch (...) {
      slot.failure = std::current_exception();
    }
  }

  void help() {
    LeafDecoder decoder(file_, scan_);
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stopped_ || next_ == runs_.size() || may_claim(); });
      if (stopped_ || next_ == runs_.size()) return;
      decode_next(decoder, lock);
    }
  }

  const PageFile& file_;
  const PageScan& scan_;
  PagesMet met_;  ///< in the order of rows, so that what is found does not depend on threads
  std::vector<Leaf> leaves_;
  std::vector<LeafRun> runs_;
  std::vector<Slot> slots_;
  std::vector<std::thread> helpers_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t next_ = 0, used_ = 0;  ///< runs below: claimed by a thread, used and their slots free
  bool stopped_ = false;
};

}  // namespace

void for_each_page_batch(const PageFile& file, const PageScan& scan, int threads,
                         const std::function<void(PageBatch&)>& use) {
  OrderedDecoding(file, scan, threads).run(use);
}

void check_pages(const PageFile& file, PageScan scan, int threads) {
  scan.columns.clear();
  scan.outputs = 0;
  scan.only_checks = true;
  for_each_page_batch(file, scan, threads, [](PageBatch&) {});
}

}  // namespace nsys_explain::ingest::pages
