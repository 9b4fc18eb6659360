#include "serve/answers.hpp"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pipeline/tool_rank/own_files.hpp"
#include "pipeline/tool_rank/own_process.hpp"
#include "serve/refusal.hpp"

namespace nsys_explain::serve {
namespace {

constexpr std::size_t longest_shown_name = 60;

Refusal no_disk() {
  return {507, "the disk of temporary files has no room for these stores", "so they cannot be compared",
          "make room there, or run nsys-explain-mpi compare where they lie"};
}

}  // namespace

SentStores::SentStores(std::filesystem::path directory, UploadRoom& room, std::int64_t length)
    : directory_(std::move(directory)), room_(room), length_(length) {
  if (!room_.claim(length)) throw no_disk();
}

SentStores::~SentStores() {
  room_.release(length_);
  std::error_code ignored;
  for (const SentStore& store : stores_)
    if (!store.path.empty()) std::filesystem::remove(store.path, ignored);
}

bool SentStores::refuse(Refusal refusal) {
  if (!refusal_) refusal_ = std::move(refusal);
  return false;
}

bool SentStores::begin_part(const std::string& field, const std::string& file) {
  current_ = field == "before" ? &stores_[0] : field == "after" ? &stores_[1] : nullptr;
  if (current_ == nullptr || current_->file)
    return refuse({400, fmt::format("'{}' is no field of this form, or comes twice", beginning_of(field)),
                   "so nothing is compared", "send the files 'before' and 'after'"});
  std::string path = (directory_ / "store-XXXXXX").string();
  current_->file = Descriptor(::mkostemp(path.data(), O_CLOEXEC));
  if (!current_->file) return refuse(no_disk());
  current_->path = path;
  current_->name = fmt::format("{} ({})", beginning_of(file, longest_shown_name), field);
  return true;
}

bool SentStores::add(std::string_view bytes) {
  bytes_ += static_cast<std::int64_t>(bytes.size());
  if (bytes_ > length_) return refuse(no_disk());
  while (!bytes.empty()) {
    const ssize_t count = ::write(current_->file.number(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return refuse(no_disk());
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

const std::array<SentStore, 2>& SentStores::finish(bool is_whole) const {
  if (refusal_) throw Refusal(*refusal_);
  if (!is_whole || !stores_[0].file || !stores_[1].file)
    throw Refusal(400, "the stores were cut off, came too slowly, or are no form with 'before' and 'after'",
                  "so nothing is compared", "send both again, as curl -F before=@a/store.h5 -F after=@b/store.h5 does");
  return stores_;
}

namespace {

namespace fs = std::filesystem;

constexpr std::size_t reader_processes = 2;
constexpr std::size_t most_kept_bytes = 64'000'000, largest_kept_bytes = 4'000'000, most_comparisons = 32;
constexpr auto names_time = std::chrono::seconds(1), failure_time = std::chrono::seconds(30);
/// Of one comparison, which takes 250 ms for two reports of 1,024 trace ranks.
constexpr auto longest_comparison = std::chrono::seconds(30), failed_comparison_time = std::chrono::seconds(300);
constexpr std::int64_t comparison_memory_bytes = 4'000'000'000;
constexpr int most_waiting_comparisons = 16;  ///< of 256 connections: the others stay free for other questions

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string stamp_text(const Stamp& stamp) {
  return fmt::format("{}.{}.{}.{}", stamp.device, stamp.inode, stamp.changed_ns, stamp.bytes);
}

/// Labels of `compare` have commas between them.
std::string label(std::string name) {
  std::replace(name.begin(), name.end(), ',', ' ');
  return name;
}

/// Counts who is in here.
class Entered {
 public:
  explicit Entered(std::atomic<int>& count) : count_(count), number_(++count) {}
  ~Entered() { --count_; }
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;
  int number() const { return number_; }

 private:
  std::atomic<int>& count_;
  int number_;
};

}  // namespace

Answers::Answers(const std::string& root, fs::path scratch)
    : tree_(root), scratch_(std::move(scratch)), readers_(root, reader_processes) {}

std::vector<std::string> Answers::names() {
  const std::lock_guard lock(names_mutex_);
  if (Clock::now() >= names_until_) {
    const auto start = Clock::now();
    names_ = tree_.names();
    // A tree of very many directories is not looked through all the time.
    names_until_ = Clock::now() + std::max<Clock::duration>(names_time, 20 * (Clock::now() - start));
  }
  return names_;
}

void Answers::look_again() {
  const std::lock_guard lock(names_mutex_);
  names_until_ = {};
}

std::string Answers::version_of(const std::string& report) const {
  return stamp_text(stamp_of(tree_.open_file(report, pipeline::store_name).number())) + '/' +
         stamp_text(stamp_of(tree_.open_file(report, pipeline::json_name).number()));
}

std::shared_ptr<const Reply> Answers::kept(const std::string& key) {
  const std::lock_guard lock(kept_mutex_);
  const auto found = kept_.find(key);
  if (found == kept_.end() || Clock::now() >= found->second.until) return nullptr;
  uses_.splice(uses_.end(), uses_, found->second.use);
  return found->second.reply;
}

void Answers::keep(const std::string& key, const std::shared_ptr<const Reply>& reply) {
  if (reply->body.size() > largest_kept_bytes) return;
  const std::lock_guard lock(kept_mutex_);
  const auto until = reply->status < 500 ? Clock::time_point::max() : Clock::now() + failure_time;
  const auto bytes_of = [](const std::string& name, const Kept& entry) {
    return 2 * name.size() + entry.reply->body.size();
  };
  if (const auto old = kept_.find(key); old != kept_.end()) {
    kept_bytes_ -= bytes_of(key, old->second);
    uses_.erase(old->second.use);
    kept_.erase(old);
  }
  const auto added = kept_.emplace(key, Kept{reply, until, uses_.insert(uses_.end(), key)}).first;
  kept_bytes_ += bytes_of(key, added->second);
  while (kept_bytes_ > most_kept_bytes) {
    const auto oldest = kept_.find(uses_.front());
    kept_bytes_ -= bytes_of(oldest->first, oldest->second);
    kept_.erase(oldest);
    uses_.pop_front();
  }
}

std::shared_ptr<const Reply> Answers::ask(const std::string& report, const Json& question) {
  try {
    Json request = question;
    request["report"] = report;
    const std::string version = version_of(report);
    const std::string key = version + request.dump(-1, ' ', false, Json::error_handler_t::replace);
    if (auto reply = kept(key)) return reply;
    std::shared_ptr<const Reply> reply;
    try {
      reply = std::make_shared<const Reply>(readers_.ask(report, version, request));
    } catch (const Refusal& refusal) {
      reply = std::make_shared<const Reply>(Reply{refusal.status(), error_json(refusal)});
    }
    keep(key, reply);
    return reply;
  } catch (const Refusal& refusal) {
    return std::make_shared<const Reply>(Reply{refusal.status(), error_json(refusal)});
  } catch (const std::exception& error) {
    return std::make_shared<const Reply>(Reply{503, error_json(refusal_of(503, pipeline::sentence_of(error)))});
  }
}

std::vector<Json> Answers::summaries() {
  std::vector<Json> list;
  for (const std::string& name : names()) {
    const auto reply = ask(name, {{"ask", "summary"}});
    if (reply->status == 404) continue;  // it went away
    Json summary = Json::parse(reply->body, nullptr, false);
    if (reply->status != 200) summary = {{"name", name}, {"problem", summary.at("error").at("problem")}};
    list.push_back(std::move(summary));
  }
  return list;
}

/// What its reader refuses is not compared: the refusal names what is wrong, and is kept.
void Answers::require_readable(const std::string& report) {
  const auto reply = ask(report, {{"ask", "tables"}});
  if (reply->status == 200) return;
  const Json error = Json::parse(reply->body).at("error");
  throw Refusal(reply->status, error.at("problem"), error.at("why"), error.at("what_to_do"));
}

std::shared_ptr<const ComparisonReply> Answers::compared(const std::string& before, const Descriptor& first,
                                                         const std::string& after, const Descriptor& last) const {
  const fs::path directory = scratch_ / "comparison";
  std::error_code ignored;
  fs::remove_all(directory, ignored);
  ChildOptions options;
  options.kept = {first.number(), last.number()};
  options.address_space_bytes = comparison_memory_bytes;
  options.readable = {first.path(), last.path()};
  options.writable = {scratch_.string()};
  const int status = wait_for(start_own_program({"compare", first.path(), last.path(), "--out", directory.string(),
                                                 fmt::format("--labels={},{}", label(before), label(after))},
                                                options),
                              longest_comparison);
  auto reply = std::make_shared<ComparisonReply>();
  reply->json = text_of(directory / pipeline::comparison_json_name);
  reply->page = text_of(directory / "compare.html");
  fs::remove_all(directory, ignored);
  if (!WIFEXITED(status) || reply->json.empty()) return nullptr;
  return reply;
}

std::optional<Answers::KeptComparison> Answers::kept_comparison(const std::string& key) {
  const std::lock_guard lock(comparisons_mutex_);
  const auto found = comparisons_.find(key);
  return found == comparisons_.end() || Clock::now() >= found->second.until ? std::nullopt
                                                                            : std::optional(found->second);
}

namespace {

Refusal too_many_wait() {
  return {429, fmt::format("{} comparisons wait already", most_waiting_comparisons), "so this one is not made",
          "try again later"};
}

}  // namespace

void Answers::require_scratch() const {
  if (!scratch_.empty()) return;
  throw Refusal(503, "this service has no place for files of its own", "so it cannot compare",
                "set TMPDIR to a directory that it may write");
}

std::shared_ptr<const ComparisonReply> Answers::compare(const SentStore& before, const SentStore& after) {
  require_scratch();
  const Entered entered(comparing_);
  if (entered.number() > most_waiting_comparisons) throw too_many_wait();
  const std::lock_guard one_at_a_time(compare_mutex_);
  if (auto reply = compared(before.name, before.file, after.name, after.file)) return reply;
  throw Refusal(400,
                fmt::format("'{}' and '{}' cannot be compared", beginning_of(before.name), beginning_of(after.name)),
                "so nothing is known of what changed", "send the store.h5 of two reports");
}

std::shared_ptr<const ComparisonReply> Answers::compare(const std::string& before, const std::string& after) {
  require_scratch();
  const Descriptor first = tree_.open_file(before, pipeline::store_name),
                   last = tree_.open_file(after, pipeline::store_name);
  for (const std::string& report : {before, after}) require_readable(report);
  const std::string key = fmt::format("{} {} {} {}", stamp_text(stamp_of(first.number())), before,
                                      stamp_text(stamp_of(last.number())), after);
  std::optional<KeptComparison> made = kept_comparison(key);
  if (!made) {
    const Entered entered(comparing_);
    if (entered.number() > most_waiting_comparisons) throw too_many_wait();
    const std::lock_guard one_at_a_time(compare_mutex_);
    made = kept_comparison(key);  // by who was before
    if (!made) {
      auto reply = compared(before, first, after, last);
      made = {reply, reply ? Clock::time_point::max() : Clock::now() + failed_comparison_time};
      const std::lock_guard lock(comparisons_mutex_);
      if (comparisons_.size() >= most_comparisons) comparisons_.clear();
      comparisons_.insert_or_assign(key, *made);
    }
  }
  if (made->reply) return made->reply;
  throw Refusal(503, fmt::format("'{}' and '{}' cannot be compared", beginning_of(before), beginning_of(after)),
                "so nothing is known of what changed",
                "look at each report by itself: one of their stores may be damaged, or larger than any should be");
}

}  // namespace nsys_explain::serve
