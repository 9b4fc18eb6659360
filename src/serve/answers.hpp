#pragma once

#include <atomic>
#include <list>

#include "serve/processes.hpp"
#include "serve/upload.hpp"

namespace nsys_explain::serve {

/// A store that is gone when it is compared. Its file has a name as long as SentStores lives, since HDF5 asks for it.
struct SentStore {
  std::string name;  ///< as its sender calls it
  Descriptor file;
  std::filesystem::path path;
};

/// Two stores on their way to a disk, to be compared: the fields `before` and `after` of a form.
class SentStores {
 public:
  /// `length`: of the request. Throws Refusal where `directory` has no room for it.
  SentStores(std::filesystem::path directory, UploadRoom& room, std::int64_t length);
  ~SentStores();
  SentStores(const SentStores&) = delete;
  SentStores& operator=(const SentStores&) = delete;

  /// The next part begins. Returns whether to go on; why not, `finish` says.
  bool begin_part(const std::string& field, const std::string& file);
  bool add(std::string_view bytes);
  /// Before, after. Throws Refusal.
  const std::array<SentStore, 2>& finish(bool is_whole) const;

 private:
  bool refuse(Refusal refusal);

  const std::filesystem::path directory_;
  UploadRoom& room_;
  const std::int64_t length_;
  std::array<SentStore, 2> stores_;
  SentStore* current_ = nullptr;
  std::int64_t bytes_ = 0;
  std::optional<Refusal> refusal_;
};

// All that is asked of reports, from wherever: answers are kept for as long as the files are the same.

struct ComparisonReply {
  std::string json, page;
};

class Answers {
 public:
  /// Comparisons are written below `scratch`; empty: none can be made.
  Answers(const std::string& root, std::filesystem::path scratch);

  std::vector<std::string> names();
  /// A report has come: names() is to look again.
  void look_again();

  /// Throws nothing.
  std::shared_ptr<const Reply> ask(const std::string& report, const Json& question);
  /// Throws Refusal.
  std::shared_ptr<const ComparisonReply> compare(const std::string& before, const std::string& after);
  /// Of stores that somebody sent; nothing of it is kept. Throws Refusal.
  std::shared_ptr<const ComparisonReply> compare(const SentStore& before, const SentStore& after);
  /// In the order of names(); those that cannot be read have a name and a `problem`.
  std::vector<Json> summaries();

  /// Where comparisons are written; empty: nowhere.
  const std::filesystem::path& scratch() const { return scratch_; }
  const ReportTree& tree() const { return tree_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Kept {
    std::shared_ptr<const Reply> reply;
    Clock::time_point until;
    std::list<std::string>::iterator use;
  };
  struct KeptComparison {
    std::shared_ptr<const ComparisonReply> reply;  ///< null: it failed
    Clock::time_point until;
  };
  std::string version_of(const std::string& report) const;
  std::shared_ptr<const Reply> kept(const std::string& key);
  void keep(const std::string& key, const std::shared_ptr<const Reply>& reply);
  std::optional<KeptComparison> kept_comparison(const std::string& key);
  void require_scratch() const;
  void require_readable(const std::string& report);
  /// One at a time. Null where it failed.
  std::shared_ptr<const ComparisonReply> compared(const std::string& before, const Descriptor& first,
                                                  const std::string& after, const Descriptor& last) const;

  ReportTree tree_;
  std::filesystem::path scratch_;
  ReaderPool readers_;

  std::mutex names_mutex_;
  std::vector<std::string> names_;
  Clock::time_point names_until_;

  std::mutex kept_mutex_;
  std::map<std::string, Kept> kept_;
  std::list<std::string> uses_;  ///< keys, the latest at the end
  std::size_t kept_bytes_ = 0;

  std::mutex compare_mutex_;        ///< one comparison at a time
  std::atomic<int> comparing_ = 0;  ///< that run or wait
  std::mutex comparisons_mutex_;
  std::map<std::string, KeptComparison> comparisons_;
};

}  // namespace nsys_explain::serve
