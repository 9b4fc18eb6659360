#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace nsys_explain::pipeline {

/// Ends the run where it cannot come to an end by itself: at its timeout, whatever a tool rank hangs in, and at SIGTERM
/// (a time limit, or a launcher that lost another rank). Then this tool rank says what it was doing and does a last
/// action, and the process exits, upon which the launcher ends the others. What the run itself does meanwhile goes on,
/// but it publishes and removes nothing any more. The timeout counts from the start of the process.
class Watch {
 public:
  struct Settings {
    std::optional<double> timeout_s;
    std::string name;                  ///< of this tool rank, in messages
    bool always_speaks = true;         ///< also where the others do not wait for this one
    std::function<int()> last_action;  ///< returns the exit code
  };
  /// Starts a thread. There is one watch at a time in a process.
  explicit Watch(Settings settings);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  /// What this tool rank does. `at_work`: by itself, not together with others or waiting for them.
  void doing(const std::string& phase, bool at_work);

  /// Does something that the end of the run must not cut in two. Where the end has begun, this does not return.
  void undisturbed(const std::function<void()>& work);

  /// All is done but to talk about it, and should nobody listen, the run ends with this code. Where the end has begun,
  /// this does not return.
  void done(int exit_code);

 private:
  void keep_watch();
  void end_run(const std::string& reason);  ///< returns only where the run is over
  void say(const std::string& reason);

  const Settings settings_;
  int wake_[2] = {-1, -1};  ///< a pipe: to the thread, from the signal handler ('T') or the destructor ('E')
  std::mutex doing_mutex_, end_mutex_;
  std::string phase_;
  bool at_work_ = false;
  bool is_over_ = false;  ///< the run has come to its end by itself
  std::optional<int> done_with_;
  std::thread thread_;
};

/// Writes to stderr; returns whether somebody reads that. Who does not must not hold up the end of a run. May be called
/// whatever the other threads hang in.
bool say_in_passing(const std::string& text);

}  // namespace nsys_explain::pipeline
