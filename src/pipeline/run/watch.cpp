#include "pipeline/run/watch.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <utility>

#include <fmt/format.h>

namespace nsys_explain::pipeline {
namespace {

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

void Watch::keep_watch() {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  const auto elapsed_s = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
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
  say(reason);
  int code = settings_.exit_code;
  if (settings_.last_deed) {
    code = settings_.last_deed();
  } else {
    std::this_thread::sleep_for(std::chrono::seconds(settings_.grace_s));
  }
  // Not MPI_Abort: MPI may be called from the main thread only. A launcher ends all ranks when one leaves without
  // MPI_Finalize.
  std::_Exit(code);
}

void Watch::say(const std::string& reason) {
  const std::scoped_lock lock(doing_mutex_);
  // Of hundreds of tool ranks only those speak that the others wait for.
  if (!settings_.last_deed && !at_work_) return;
  fmt::print(stderr, "nsys-explain-mpi: {} {} ({} \"{}\")\n", settings_.name, reason,
             at_work_ ? "at work in" : "together with the others in", phase_);
  std::fflush(stderr);
}

}  // namespace nsys_explain::pipeline
