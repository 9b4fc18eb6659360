#include "pipeline/tool_rank/watch.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <future>
#include <limits>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "report/text.hpp"

namespace nsys_explain::pipeline {
namespace {

using Clock = std::chrono::steady_clock;

/// To start MPI may take long, too.
const Clock::time_point process_start = Clock::now();

/// Where the signal handler writes; -1: nobody watches.
std::atomic<int> wake_descriptor = -1;

void tell_watch(char what) {
  const int descriptor = wake_descriptor;
  if (descriptor >= 0 && ::write(descriptor, &what, 1) < 0) return;  // a full pipe has woken it already
}

extern "C" void on_terminate(int /*signal*/) {
  const int before = errno;
  tell_watch('T');
  errno = before;
}

void handle_sigterm(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGTERM, &action, nullptr);
}

/// Not through stdio, which another thread may hold that hangs in it. Returns whether all was taken.
bool write_to_stderr(std::string_view text) {
  sigset_t broken_pipe;
  ::sigemptyset(&broken_pipe);
  ::sigaddset(&broken_pipe, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &broken_pipe, nullptr);  // to this thread it is an error like others
  while (!text.empty()) {
    const ssize_t taken = ::write(STDERR_FILENO, text.data(), text.size());
    if (taken < 0 && errno != EINTR) return false;
    text.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(taken, 0)));
  }
  return true;
}

}  // namespace

Watch::Watch(Settings settings) : settings_(std::move(settings)) {
  if (::pipe2(wake_, O_CLOEXEC | O_NONBLOCK) != 0) return;  // out of descriptors: the run will say so
  wake_descriptor = wake_[1];
  handle_sigterm(on_terminate);
  thread_ = std::thread([this] { keep_watch(); });
}

Watch::~Watch() {
  undisturbed([this] { is_over_ = true; });
  if (!thread_.joinable()) return;
  handle_sigterm(SIG_DFL);
  tell_watch('E');
  thread_.join();
  wake_descriptor = -1;
  ::close(wake_[0]);
  ::close(wake_[1]);
}

void Watch::doing(const std::string& phase, bool at_work) {
  const std::scoped_lock lock(doing_mutex_);
  phase_ = phase;
  at_work_ = at_work;
}

void Watch::undisturbed(const std::function<void()>& work) {
  const std::scoped_lock lock(end_mutex_);
  work();
}

void Watch::done(int exit_code) {
  undisturbed([&] { done_with_ = exit_code; });
}

void Watch::keep_watch() {
  const auto elapsed_s = [&] { return std::chrono::duration<double>(Clock::now() - process_start).count(); };
  constexpr double never = std::numeric_limits<double>::infinity();
  double timeout_s = settings_.timeout_s.value_or(never);
  for (;;) {
    // Now and then it wakes for nothing: poll counts milliseconds in an int.
    const double left_ms = std::ceil((timeout_s - elapsed_s()) * 1000);
    const int wait_ms = static_cast<int>(std::clamp(left_ms, 0.0, 1e9));
    struct pollfd wake {
      wake_[0], POLLIN, 0
    };
    const int ready = ::poll(&wake, 1, wait_ms);
    char what = 0;
    if (ready > 0 && ::read(wake_[0], &what, 1) == 1) {
      if (what == 'E') return;
      end_run("got SIGTERM");
    } else if (elapsed_s() >= timeout_s) {
      end_run(fmt::format("is not done after the {} s of --timeout", timeout_s));
      timeout_s = never;
    }
  }
}

void Watch::end_run(const std::string& reason) {
  // Held to the exit: who would not be disturbed waits for it.
  const std::scoped_lock lock(end_mutex_);
  if (is_over_) return;
  if (done_with_) std::_Exit(*done_with_);
  say(reason);
  // Not MPI_Abort: MPI may be called from the main thread only. A launcher ends all ranks when one leaves without
  // MPI_Finalize.
  std::_Exit(settings_.last_action());
}

void Watch::say(const std::string& reason) {
  const std::scoped_lock lock(doing_mutex_);
  // Of hundreds of tool ranks only those speak that the others wait for.
  if (!settings_.always_speaks && !at_work_) return;
  say_in_passing(fmt::format("nsys-explain-mpi: {} {} ({} \"{}\")\n", settings_.name, reason,
                             at_work_ ? "at work in" : "together with the others in", phase_));
}

bool say_in_passing(const std::string& text) {
  // Nothing tells beforehand whether a write will wait: another thread of its own does. Who reads takes a message at
  // once; a second is more than that, and once is enough.
  static std::atomic<bool> nobody_reads = false;
  if (nobody_reads) return false;
  auto written = std::make_shared<std::promise<bool>>();
  std::future<bool> is_written = written->get_future();
  try {
    std::thread([text = report::visible_text(text), written] { written->set_value(write_to_stderr(text)); }).detach();
  } catch (const std::system_error&) {
    return false;  // no thread to be had
  }
  nobody_reads = is_written.wait_for(std::chrono::seconds(1)) != std::future_status::ready || !is_written.get();
  return !nobody_reads;
}

}  // namespace nsys_explain::pipeline
