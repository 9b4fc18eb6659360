#include "serve/child_process.hpp"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string_view>
#include <thread>

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "pipeline/tool_rank/enclosure.hpp"
#include "serve/refusal.hpp"

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
  if (child < 0) {
    throw Refusal(503, "no process could be started", "so nothing is read", "try again later");
  }
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

}  // namespace nsys_explain::serve
