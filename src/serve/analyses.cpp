#include "serve/analyses.hpp"

#include <algorithm>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pipeline/tool_rank/job.hpp"
#include "pipeline/tool_rank/own_files.hpp"
#include "pipeline/tool_rank/own_process.hpp"
#include "serve/processes.hpp"
#include "serve/refusal.hpp"
#include "serve/report_tree.hpp"
#include "serve/upload.hpp"

namespace nsys_explain::serve {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kept_analyses = 100;                ///< that are over: their outcome can still be asked for
constexpr std::size_t kept_problems = 4'000;              ///< bytes of what an analysis says, from its end
constexpr auto time_to_end = std::chrono::seconds(60);    ///< after its --timeout; it takes up to 30
constexpr auto time_to_cancel = std::chrono::seconds(5);  ///< from SIGTERM to SIGKILL

bool is_plain_name(std::string_view name, std::size_t longest) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  return !name.empty() && name.size() <= longest && is_letter(name.front()) &&
         std::all_of(name.begin(), name.end(),
                     [&](char c) { return is_letter(c) || c == '.' || c == '-' || c == '_'; });
}

/// Links in it are followed first: what counts is where it leads.
std::string allowed_path(const std::string& path, const std::vector<std::string>& roots) {
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  for (const std::string& root : roots) {
    std::error_code ignored;
    const fs::path real_root = fs::canonical(root, ignored);
    const auto [end, unused] = std::mismatch(real_root.begin(), real_root.end(), real.begin(), real.end());
    if (!error && !ignored && end == real_root.end()) return real.string();
  }
  // The same whether it exists or not: nobody learns what lies elsewhere.
  throw Refusal(403, fmt::format("'{}' lies below no directory of --exports", beginning_of(path)),
                "so this service may not read it", "upload the exports, or start the service with --exports DIRECTORY");
}

std::size_t entries_in(const fs::path& directory) {
  std::error_code error;
  std::size_t count = 0;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error)) ++count;
  return count;
}

/// What an analysis said, by the names that its exports were uploaded with.
std::string without_directory(std::string text, const fs::path& directory) {
  for (const std::string& prefix : {(directory / "exports").string() + '/', directory.string() + '/'}) {
    for (std::size_t at = text.find(prefix); at != std::string::npos; at = text.find(prefix, at))
      text.erase(at, prefix.size());
  }
  return text.size() > kept_problems ? text.substr(text.size() - kept_problems) : text;
}

}  // namespace

enum class AnalysisState { queued, running, done, failed, cancelled };

struct Analyses::Analysis {
  std::int64_t id = 0;
  AnalysisInput input;
  fs::path directory;
  AnalysisState state = AnalysisState::queued;
  std::string message;
  std::size_t exports = 0;  ///< uploaded; 0: paths, which may be directories
  bool is_unwanted = false;
};

Analyses::Analyses(const ServiceOptions& options, std::function<void()> on_report) try
    : options_(options),
      on_report_(std::move(on_report)),
      staging_(options.root, staging_prefix),
      worker_([this] { work(); }) {
} catch (const std::system_error& error) {
  throw Refusal(2, fmt::format("cannot write below {}: {}", options.root, error.code().message()),
                "so no analysis could leave its report there", "correct its permissions, or serve with --read-only");
}

Analyses::~Analyses() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    for (const auto& analysis : analyses_) analysis->is_unwanted = true;
  }
  changed_.notify_all();
  worker_.join();
}

fs::path Analyses::make_upload_directory() {
  std::int64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    number = ++last_upload_;
  }
  fs::path directory = staging_.path() / fmt::format("upload-{}", number);
  std::error_code error;
  if (!fs::create_directory(directory, error) || !fs::create_directory(directory / "exports", error)) {
    throw Refusal(507, "the directory of reports takes no new file", "so nothing can be uploaded",
                  "make room on its disk");
  }
  return directory;
}

void Analyses::check(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  check_while_locked(name);
}

void Analyses::check_while_locked(const std::string& name) const {
  if (!is_plain_name(name, 100)) {
    throw Refusal(400, fmt::format("'{}' is no name for a report", beginning_of(name)),
                  "so it could not be found again",
                  "give letters, digits, '.', '-' and '_', at most 100, with a letter or a digit first");
  }
  std::error_code ignored;
  const bool is_coming = std::any_of(analyses_.begin(), analyses_.end(), [&](const auto& analysis) {
    return analysis->input.name == name &&
           (analysis->state == AnalysisState::queued || analysis->state == AnalysisState::running);
  });
  if (is_coming || fs::symlink_status(fs::path(options_.root) / name, ignored).type() != fs::file_type::not_found) {
    throw Refusal(409, fmt::format("there is something named '{}' already", name), "so a new report would replace it",
                  "give another name");
  }
  const auto waiting = std::count_if(analyses_.begin(), analyses_.end(),
                                     [](const auto& a) { return a->state == AnalysisState::queued; });
  if (waiting >= options_.queue)
    throw Refusal(429, fmt::format("{} analyses wait already", waiting), "so this one is not taken", "try again later");
}

nlohmann::ordered_json Analyses::add(AnalysisInput input) {
  for (std::string& path : input.paths) path = allowed_path(path, options_.export_roots);
  auto analysis = std::make_unique<Analysis>();
  analysis->directory = input.directory.empty() ? make_upload_directory() : input.directory;
  analysis->exports = entries_in(analysis->directory / "exports");
  if (analysis->exports == 0 && input.paths.empty()) {
    throw Refusal(400, "no export was given", "so there is nothing to analyse",
                  "upload .sqlite files, or name paths of them");
  }
  const std::lock_guard lock(mutex_);
  check_while_locked(input.name);
  analysis->id = ++last_id_;
  analysis->input = std::move(input);
  while (analyses_.size() > kept_analyses && analyses_.front()->state >= AnalysisState::done) analyses_.pop_front();
  const Analysis& added = *analyses_.emplace_back(std::move(analysis));
  changed_.notify_all();
  return describe(added);
}

nlohmann::ordered_json Analyses::describe(const Analysis& analysis) const {
  constexpr std::array words = {"queued", "running", "done", "failed", "cancelled"};
  nlohmann::ordered_json status = {{"id", analysis.id},
                                   {"name", analysis.input.name},
                                   {"state", words.at(static_cast<std::size_t>(analysis.state))}};
  if (analysis.state == AnalysisState::queued) {
    status["before"] = std::count_if(analyses_.begin(), analyses_.end(), [&](const auto& other) {
      return other->id < analysis.id && other->state <= AnalysisState::running;
    });
  }
  if (analysis.state == AnalysisState::running)
    status["traces_read"] = entries_in(analysis.directory / "report" / "shards");
  if (analysis.exports > 0) status["traces"] = analysis.exports;
  if (!analysis.message.empty()) status["message"] = analysis.message;
  return status;
}

Analyses::Analysis& Analyses::find(std::int64_t id) const {
  for (const auto& analysis : analyses_)
    if (analysis->id == id) return *analysis;
  throw Refusal(404, fmt::format("there is no analysis {}", id), "so nothing is known of it",
                "/api/v1/analyses lists them; those before the service was started are forgotten");
}

nlohmann::ordered_json Analyses::status(std::int64_t id) const {
  const std::lock_guard lock(mutex_);
  return describe(find(id));
}

nlohmann::ordered_json Analyses::all() const {
  const std::lock_guard lock(mutex_);
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const auto& analysis : analyses_) list.push_back(describe(*analysis));
  return {{"analyses", std::move(list)}};
}

nlohmann::ordered_json Analyses::cancel(std::int64_t id) {
  const std::lock_guard lock(mutex_);
  Analysis& analysis = find(id);
  analysis.is_unwanted = true;
  if (analysis.state == AnalysisState::queued) {
    analysis.state = AnalysisState::cancelled;
    std::error_code ignored;
    fs::remove_all(analysis.directory, ignored);
  }
  changed_.notify_all();
  return describe(analysis);
}

/// The end of what an analysis says.
struct Analyses::Said {
  Descriptor reads, writes;
  std::string text;

  Said() {
    std::array<int, 2> ends{-1, -1};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return;  // then it says nothing
    reads = Descriptor(ends[0]);
    writes = Descriptor(ends[1]);
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  }

  /// Takes what there is; waits for the first of it.
  void listen(std::chrono::milliseconds longest) {
    pollfd ready{reads.number(), POLLIN, 0};
    ::poll(&ready, 1, static_cast<int>(longest.count()));
    std::array<char, 4096> bytes{};
    while (reads) {
      const ssize_t count = ::read(reads.number(), bytes.data(), bytes.size());
      if (count < 0) return;
      if (count == 0) reads = Descriptor();
      text.append(bytes.data(), static_cast<std::size_t>(count));
      if (text.size() > 2 * kept_problems) text.erase(0, text.size() - kept_problems);
    }
  }
};

void Analyses::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    Analysis* next = nullptr;
    changed_.wait(lock, [&] {
      const auto found = std::find_if(analyses_.begin(), analyses_.end(),
                                      [](const auto& a) { return a->state == AnalysisState::queued; });
      next = found == analyses_.end() ? nullptr : found->get();
      return ends_ || next != nullptr;
    });
    if (ends_) return;
    next->state = AnalysisState::running;
    lock.unlock();
    run(*next);
    lock.lock();
  }
}

void Analyses::run(Analysis& analysis) {
  int code = pipeline::results_not_written;
  Said said;
  try {
    ChildOptions options;
    options.standard_output = options.standard_error = said.writes.number();
    // Events that do not fit lie in files; what the analyses themselves take comes on top.
    options.data_bytes = 2 * options_.analysis_bytes + 1'000'000'000;
    options.environment = {{"TMPDIR", analysis.directory.string()}};
    options.readable = analysis.input.paths;
    options.writable = {analysis.directory.string()};
    const pid_t child = start_own_program(command_line(analysis), options);
    said.writes = Descriptor();
    const int status = watch(analysis, child, said);
    code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  } catch (const std::exception& error) {
    said.text = pipeline::sentence_of(error);
  }
  finish(analysis, code, said.text);
}

std::vector<std::string> Analyses::command_line(const Analysis& analysis) const {
  std::vector<std::string> words;
  if (analysis.exports > 0) words.push_back((analysis.directory / "exports").string());
  words.insert(words.end(), analysis.input.paths.begin(), analysis.input.paths.end());
  for (const std::string& word : {std::string("--out"), (analysis.directory / "report").string(),
                                  std::string("--quiet"), fmt::format("--timeout={}", options_.analysis_seconds),
                                  fmt::format("--memory-limit={}", options_.analysis_bytes)}) {
    words.push_back(word);
  }
  return words;
}

int Analyses::watch(const Analysis& analysis, pid_t child, Said& said) {
  const auto last_moment = Clock::now() + std::chrono::seconds(options_.analysis_seconds) + time_to_end;
  std::optional<Clock::time_point> kill_at;
  while (true) {
    said.listen(std::chrono::milliseconds(50));
    {
      const std::lock_guard lock(mutex_);
      if (analysis.is_unwanted && !kill_at) {
        ::kill(child, SIGTERM);
        kill_at = Clock::now() + (ends_ ? Clock::duration(0) : time_to_cancel);
      }
    }
    if (Clock::now() > kill_at.value_or(last_moment)) ::kill(-child, SIGKILL);
    if (const auto status = poll_for(child)) {
      said.listen(std::chrono::milliseconds(0));
      ::kill(-child, SIGKILL);  // nothing of it goes on
      return *status;
    }
  }
}

void Analyses::finish(Analysis& analysis, int code, const std::string& problems) {
  const bool has_report = code == pipeline::all_analysed || code == pipeline::some_inputs_failed;
  AnalysisState state = AnalysisState::failed;
  std::string message = without_directory(problems, analysis.directory);
  {
    const std::lock_guard lock(mutex_);
    if (analysis.is_unwanted) state = AnalysisState::cancelled;
  }
  if (has_report && state == AnalysisState::failed) {
    const fs::path report = analysis.directory / "report", target = fs::path(options_.root) / analysis.input.name;
    std::error_code ignored;
    fs::remove_all(report / "shards", ignored);
    const int reason = put_in_place(report, target);
    if (reason == 0) {
      state = AnalysisState::done;
    } else {
      message = fmt::format("the report could not be put at its place: {}", std::generic_category().message(reason));
    }
  } else if (state == AnalysisState::failed && message.empty()) {
    message = code > 128
                  ? fmt::format("the analysis was ended by signal {}: it took too much time or memory", code - 128)
                  : fmt::format("the analysis ended with code {}", code);
  }
  std::error_code ignored;
  fs::remove_all(analysis.directory, ignored);
  if (state == AnalysisState::done) on_report_();
  const std::lock_guard lock(mutex_);
  analysis.state = state;
  analysis.message = std::move(message);
}

bool is_export_name(std::string_view name) {
  return is_plain_name(name, 200) && name.ends_with(".sqlite");
}

}  // namespace nsys_explain::serve
