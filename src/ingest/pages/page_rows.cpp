#include "ingest/pages/page_rows.hpp"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

namespace nsys_explain::ingest::pages {
namespace {

constexpr std::uint8_t interior_page = 0x05, leaf_page = 0x0D;
constexpr int deepest = 20;  // SQLite's own limit; a cycle would have no depth

class TreeWalk {
 public:
  TreeWalk(const PageFile& file, PagesMet& met) : file_(file), met_(met), pages_(deepest + 1) {}

  std::vector<Leaf> run(std::uint32_t root) {
    const int depth = depth_of(root);
    descend(root, depth, std::numeric_limits<std::int64_t>::max());
    return std::move(leaves_);
  }

 private:
  const std::uint8_t* load(std::uint32_t page, int level) {
    auto& bytes = pages_[static_cast<std::size_t>(level)];
    bytes.resize(file_.page_bytes());
    file_.read(page, 1, bytes.data());
    return bytes.data();
  }

  /// Levels above the leaves, by way of the children on the right.
  int depth_of(std::uint32_t page) {
    for (int depth = 0; depth <= deepest; ++depth) {
      const std::uint8_t* header = load(page, 0) + page_header_at(page);
      if (header[0] == leaf_page) return depth;
      if (header[0] != interior_page) throw PageDamage("not a page of a rowid table", page);
      page = load_be32(header + 8);
    }
    throw PageDamage("the tree is too deep", page);
  }

  void descend(std::uint32_t page, int levels, std::int64_t last) {
    met_.add(page);
    if (levels == 0) {
      leaves_.push_back({page, after_, last});
      after_ = last;
      return;
    }
    const std::uint8_t* bytes = load(page, levels);
    const std::uint8_t* header = bytes + page_header_at(page);
    if (header[0] != interior_page) throw PageDamage("not an interior page of a rowid table", page);
    const std::uint32_t cells = load_be16(header + 3), pointers = page_header_at(page) + 12,
                        usable = file_.usable_bytes();
    // Page 1 has less room than others: its only child may not fit into it.
    if ((cells == 0 && page != 1) || cells > most_cells(file_)) throw PageDamage("impossible number of cells", page);
    std::uint64_t cell_bytes = 0;
    for (std::uint32_t i = 0; i < cells; ++i) {
      const std::uint32_t cell = load_be16(bytes + pointers + std::size_t{2} * i);
      if (cell < pointers + 2 * cells || cell + 5 > usable) throw PageDamage("bad cell pointer", page);
      std::uint64_t key = 0;
      const std::size_t key_bytes = read_varint(bytes + cell + 4, bytes + usable, key);
      if (key_bytes == 0) throw PageDamage("a cell runs past its page", page);
      cell_bytes += 4 + key_bytes;
      const auto greatest = static_cast<std::int64_t>(key);
      if (greatest <= after_ || greatest > last) throw PageDamage("rowids out of order", page);
      descend(load_be32(bytes + cell), levels - 1, greatest);
    }
    require_whole_content(file_, page, bytes, cell_bytes);
    descend(load_be32(header + 8), levels - 1, last);
  }

  const PageFile& file_;
  PagesMet& met_;
  std::vector<std::vector<std::uint8_t>> pages_;  ///< the page being walked on each level
  std::vector<Leaf> leaves_;
  std::int64_t after_ = std::numeric_limits<std::int64_t>::min();
};

}  // namespace

void PagesMet::add(std::uint32_t page) {
  if (page < 1 || page >= met_.size()) throw PageDamage("the file has no such page", page);
  const bool is_of_another = owners_[page] != 0 && owners_[page] != root_page_;
  if (met_[page] || is_of_another) throw PageDamage("a page is used twice", page);
  met_[page] = true;
  owners_[page] = root_page_;
}

std::vector<Leaf> find_leaves(const PageFile& file, std::uint32_t root_page, PagesMet& met) {
  return TreeWalk(file, met).run(root_page);
}

std::vector<LeafRun> divide_into_runs(const std::vector<Leaf>& leaves, std::uint32_t page_bytes,
                                      std::uint32_t window_bytes) {
  constexpr std::uint32_t widest_gap = 8;  // reading over pages of others is cheaper than another call
  const std::uint32_t most_pages = window_bytes / page_bytes;
  std::vector<LeafRun> runs;
  std::uint32_t first_page = 0;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const std::uint32_t page = leaves[i].page;
    const bool continues = !runs.empty() && page > leaves[i - 1].page && page - leaves[i - 1].page <= widest_gap &&
                           page - first_page < most_pages;
    if (!continues) {
      runs.push_back({i, i});
      first_page = page;
    }
    runs.back().end = i + 1;
  }
  return runs;
}

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
