#include "serve/processes.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pipeline/tool_rank/enclosure.hpp"
#include "pipeline/tool_rank/own_process.hpp"
#include "serve/refusal.hpp"
#include "serve/tools.hpp"

extern char** environ;

namespace nsys_explain::serve {
namespace {

std::vector<std::string> environment_of(const ChildOptions& options) {
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view variable(*entry);
    bool is_replaced = variable.starts_with("NSYS_EXPLAIN_MPI=");
    for (const auto& [name, value] : options.environment) is_replaced |= variable.starts_with(fmt::format("{}=", name));
    if (!is_replaced) variables.emplace_back(variable);
  }
  variables.emplace_back("NSYS_EXPLAIN_MPI=off");
  for (const auto& [name, value] : options.environment) variables.push_back(fmt::format("{}={}", name, value));
  return variables;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (std::string& text : texts) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

#ifdef __SANITIZE_ADDRESS__
constexpr bool is_sanitized = true;  ///< takes all addresses, of which it uses few, and reads all of /proc/self
#else
constexpr bool is_sanitized = false;
#endif

void limit(__rlimit_resource resource, std::int64_t bytes) {
  if (bytes <= 0 || is_sanitized) return;
  const rlimit value{static_cast<rlim_t>(bytes), static_cast<rlim_t>(bytes)};
  ::setrlimit(resource, &value);
}

/// After fork in a process of many threads: system calls only.
[[noreturn]] void be_own_program(const ChildOptions& options, const pipeline::Enclosure& enclosure, pid_t parent,
                                 int nothing, char** arguments, char** variables) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);  // it has died already
  ::setpgid(0, 0);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  const auto place = [&](int from, int to) { ::dup2(from >= 0 ? from : nothing, to); };
  place(options.standard_input, STDIN_FILENO);
  place(options.standard_output, STDOUT_FILENO);
  if (options.standard_error >= 0) place(options.standard_error, STDERR_FILENO);
  for (const int kept : options.kept) ::fcntl(kept, F_SETFD, 0);
  limit(RLIMIT_AS, options.address_space_bytes);
  limit(RLIMIT_DATA, options.data_bytes);
  limit(RLIMIT_CORE, 1);
  if (!is_sanitized) enclosure.enter();
  ::execve("/proc/self/exe", arguments, variables);
  ::_exit(127);
}

}  // namespace

pid_t start_own_program(const std::vector<std::string>& arguments, const ChildOptions& options) {
  std::vector<std::string> words{"nsys-explain-mpi"}, variables = environment_of(options);
  words.insert(words.end(), arguments.begin(), arguments.end());
  const std::vector<char*> word_pointers = pointers(words), variable_pointers = pointers(variables);
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  const pipeline::Enclosure enclosure(options.readable, options.writable, true);
  const pid_t parent = ::getpid(), child = ::fork();
  if (child == 0)
    be_own_program(options, enclosure, parent, nothing, const_cast<char**>(word_pointers.data()),
                   const_cast<char**>(variable_pointers.data()));
  if (nothing >= 0) ::close(nothing);
  if (child < 0) throw Refusal(503, "no process could be started", "so nothing is read", "try again later");
  return child;
}

int wait_for(pid_t process) {
  int status = 0;
  while (::waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

int wait_for(pid_t process, std::chrono::seconds longest) {
  const auto last = std::chrono::steady_clock::now() + longest;
  while (std::chrono::steady_clock::now() < last) {
    if (const auto status = poll_for(process)) return *status;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ::kill(-process, SIGKILL);
  return wait_for(process);
}

std::optional<int> poll_for(pid_t process) {
  int status = 0;
  return ::waitpid(process, &status, WNOHANG) == process ? std::optional(status) : std::nullopt;
}

namespace {

constexpr std::size_t open_reports = 4;  ///< of each reader
constexpr time_t longest_answer_s = 30;
constexpr std::int64_t reader_memory_bytes = 4'000'000'000;
constexpr std::uint64_t most_reply_bytes = 1'000'000'000;
/// Ten times what a report costs that lets its reader wait: others are answered in between.
constexpr auto broken_time = std::chrono::minutes(5);
constexpr std::size_t most_broken = 1'000;

/// A message on the socket: its status, its length, its bytes.
struct Header {
  std::uint64_t status = 0, bytes = 0;
};

bool send_all(int socket, const void* bytes, std::size_t count) {
  const char* next = static_cast<const char*>(bytes);
  while (count > 0) {
    const ssize_t sent = ::send(socket, next, count, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    next += sent;
    count -= static_cast<std::size_t>(sent);
  }
  return true;
}

bool receive_all(int socket, void* bytes, std::size_t count) {
  char* next = static_cast<char*>(bytes);
  while (count > 0) {
    const ssize_t got = ::recv(socket, next, count, 0);
    if (got <= 0) return false;
    next += got;
    count -= static_cast<std::size_t>(got);
  }
  return true;
}

bool send_message(int socket, int status, const std::string& body) {
  const Header header{static_cast<std::uint64_t>(status), body.size()};
  return send_all(socket, &header, sizeof header) && send_all(socket, body.data(), body.size());
}

bool receive_message(int socket, Reply& message) {
  Header header;
  if (!receive_all(socket, &header, sizeof header) || header.bytes > most_reply_bytes) return false;
  message.status = static_cast<int>(header.status);
  message.body.resize(header.bytes);
  return receive_all(socket, message.body.data(), message.body.size());
}

std::vector<std::pair<std::string, std::string>> pairs_of(const Json& list) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const Json& pair : list) pairs.emplace_back(pair.at(0).get<std::string>(), pair.at(1).get<std::string>());
  return pairs;
}

std::string dumped(const Json& answer) {
  return answer.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

std::string answer_of(Report& report, const Json& request) {
  const std::string ask = request.at("ask");
  if (ask == "summary") return dumped(summary_answer(report));
  if (ask == "verdict") return dumped(verdict_answer(report));
  if (ask == "findings") return dumped(findings_answer(report));
  if (ask == "what_if") return dumped(what_if_answer(report));
  if (ask == "capture_advice") return dumped(capture_advice_answer(report));
  if (ask == "tables") return dumped(tables_answer(report));
  if (ask == "table")
    return dumped(table_answer(report, request.at("table"), parse_table_query(pairs_of(request.at("parameters")))));
  if (ask == "tool") return tool_answer(report, request.at("tool"), request.at("arguments"));
  throw std::logic_error("no such question");
}

}  // namespace

Report& ReaderAnswers::open(const std::string& name) {
  const auto found =
      std::find_if(reports_.begin(), reports_.end(), [&](const auto& report) { return report->name() == name; });
  if (found != reports_.end()) {
    std::unique_ptr<Report> report = std::move(*found);
    reports_.erase(found);
    if (report->is_current(tree_)) return *reports_.emplace_back(std::move(report));
  }
  if (reports_.size() >= open_reports) reports_.erase(reports_.begin());
  return *reports_.emplace_back(std::make_unique<Report>(tree_, name));
}

Reply ReaderAnswers::answer(const std::string& text) {
  try {
    const Json request = Json::parse(text);
    return {200, answer_of(open(request.at("report")), request)};
  } catch (const Refusal& refusal) {
    return {refusal.status(), error_json(refusal)};
  } catch (const std::exception& error) {
    reports_.clear();
    return {503, error_json(refusal_of(503, pipeline::sentence_of(error)))};
  }
}

int run_reader(const std::string& root) {
  ReaderAnswers answers(root);
  Reply request;
  while (receive_message(STDIN_FILENO, request)) {
    const Reply reply = answers.answer(request.body);
    if (!send_message(STDIN_FILENO, reply.status, reply.body)) break;
  }
  return 0;
}

struct ReaderPool::Reader {
  std::mutex in_use;
  Descriptor socket;
  pid_t process = -1;
  std::map<std::string, std::chrono::steady_clock::time_point> broken;  ///< versions of reports, and until when

  ~Reader() { stop(); }

  void start(const std::string& root) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) throw std::runtime_error("no socket");
    socket = Descriptor(ends[0]);
    const Descriptor other(ends[1]);
    const timeval longest{longest_answer_s, 0};
    for (const int way : {SO_RCVTIMEO, SO_SNDTIMEO}) ::setsockopt(ends[0], SOL_SOCKET, way, &longest, sizeof longest);
    ChildOptions options;
    options.standard_input = ends[1];
    options.address_space_bytes = reader_memory_bytes;
    options.readable = {root};
    process = start_own_program({"serve", "--reader", root}, options);
  }

  /// It holds nothing that needs an orderly end.
  void stop() {
    if (process > 0) {
      ::kill(process, SIGKILL);
      wait_for(process);
    }
    process = -1;
    socket = Descriptor();
  }
};

ReaderPool::ReaderPool(std::string root, std::size_t processes) : root_(std::move(root)) {
  for (std::size_t i = 0; i < processes; ++i) readers_.push_back(std::make_unique<Reader>());
}

ReaderPool::~ReaderPool() = default;

Reply ReaderPool::ask(const std::string& report, const std::string& version, const Json& request) {
  Reader& reader = *readers_[std::hash<std::string>()(report) % readers_.size()];
  const std::lock_guard lock(reader.in_use);
  const auto known = reader.broken.find(version);
  if (known == reader.broken.end() || known->second < std::chrono::steady_clock::now()) {
    if (reader.process > 0 && poll_for(reader.process))
      reader.process = -1;  // while nobody asked: not the report's fault
    if (reader.process < 0) reader.start(root_);
    Reply reply;
    if (send_message(reader.socket.number(), 0, request.dump(-1, ' ', false, Json::error_handler_t::replace)) &&
        receive_message(reader.socket.number(), reply)) {
      return reply;
    }
    reader.stop();
    if (reader.broken.size() >= most_broken) reader.broken.clear();
    reader.broken[version] = std::chrono::steady_clock::now() + broken_time;
  }
  throw Refusal(
      503,
      fmt::format("the report '{}' is damaged so badly that reading it crashed or did not end", beginning_of(report)),
      "so no number of it can be trusted", "run the analysis again");
}

}  // namespace nsys_explain::serve
