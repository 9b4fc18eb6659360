#include "serve/serve.hpp"

#include <csignal>
#include <istream>
#include <ostream>
#include <thread>

#include <pthread.h>
#include <signal.h>

#include "pipeline/run/own_process.hpp"
#include "serve/refusal.hpp"
#include "serve/service.hpp"

namespace nsys_explain::serve {
namespace {

/// SIGTERM and SIGINT end the service in order. They are blocked in all threads but the one that waits for them.
class OrderlyEnd {
 public:
  OrderlyEnd() {
    ::sigemptyset(&signals_);
    for (const int signal : {SIGTERM, SIGINT}) ::sigaddset(&signals_, signal);
    ::pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
    std::signal(SIGPIPE, SIG_IGN);
  }
  int run(Service& service, std::ostream& out) {
    std::thread waiter([&] {
      int signal = 0;
      ::sigwait(&signals_, &signal);
      service.stop();
    });
    const int code = service.run(out);
    // Where it ended by itself. NOLINTNEXTLINE(bugprone-bad-signal-to-kill-thread): it is blocked, and waited for
    ::pthread_kill(waiter.native_handle(), SIGTERM);
    waiter.join();
    return code;
  }

 private:
  sigset_t signals_{};
};

}  // namespace

int serve(const ServeRequest& request, std::istream& in, std::ostream& out, std::ostream& problems) {
  try {
    if (request.is_reader) return run_reader(request.options.root);
    if (request.speaks_mcp) {
      const ingest::StagingDirectory scratch(std::filesystem::temp_directory_path(), "nsys-explain-serve-");
      Answers answers(request.options.root, scratch.path());
      return run_mcp(answers, in, out);
    }
    OrderlyEnd end;
    Service service(request.options);
    return end.run(service, out);
  } catch (const Refusal& refusal) {
    problems << "nsys-explain-mpi serve: " << refusal.what() << '\n';
    return refusal.status() == 2 ? 2 : 5;
  } catch (const std::exception& error) {
    problems << "nsys-explain-mpi serve: " << pipeline::sentence_of(error) << '\n';
    return 5;
  }
}

}  // namespace nsys_explain::serve
