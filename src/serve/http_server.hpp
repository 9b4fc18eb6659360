#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>

#include <httplib.h>

#include "serve/report_tree.hpp"

namespace nsys_explain::serve {

/// Who is at the other end of a socket: an address, or the network of one where a host has very many.
std::string client_of(int socket);

/// Whether a request has begun so far that its headers are there.
bool has_headers(std::string_view begun);

/// Connections between their requests. None of them takes a thread: one that sends is handed on when the headers of a
/// request are there. One that does not send them in time is closed. So is, where too many wait, the one that has
/// waited longest of the client that has the most.
class Connections {
 public:
  using Clock = std::chrono::steady_clock;
  struct Limits {
    std::size_t most = 2'000;
    std::size_t header_bytes = 32'000;          ///< with so many it is handed on, whatever they say
    std::chrono::milliseconds idle{5'000};      ///< until the first byte
    std::chrono::milliseconds headers{10'000};  ///< from there on
  };
  /// `on_request`: the socket, which is the callee's then, and what was read. Called by any thread; must not wait.
  using OnRequest = std::function<void(int, std::string)>;

  Connections(Limits limits, OnRequest on_request);
  ~Connections() { stop(); }
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;

  /// Takes a socket over, with bytes that came already.
  void add(int socket, std::string begun = "");
  /// Closes all that wait, and what is added from now on.
  void stop();

 private:
  struct Waiting {
    int socket = -1;
    std::string client, begun;
    Clock::time_point since;  ///< of the first byte, where there is one
  };
  using Place = std::list<Waiting>::iterator;

  void watch();
  /// Reads what there is. Returns whether it goes on waiting.
  bool read(Waiting& waiting) const;
  bool is_request(const std::string& begun) const { return begun.size() >= limits_.header_bytes || has_headers(begun); }
  void close_late_ones();
  void close_one_too_many();
  Waiting take(Place place);

  const Limits limits_;
  const OnRequest on_request_;
  const Descriptor events_;
  std::mutex mutex_;
  bool is_stopped_ = false;
  std::list<Waiting> waiting_;  ///< in the order in which they came
  std::unordered_map<int, Place> places_;
  std::map<std::string, std::size_t> count_of_client_;
  std::thread thread_;
};

/// What one request may take.
struct RequestLimits {
  std::int64_t header_bytes = 32'000;
  std::int64_t body_bytes = 1'000'000;
  std::chrono::seconds seconds{15};  ///< after its headers; of a longer body, one more for each `bytes_per_second`
  std::int64_t bytes_per_second = 100'000;
};

/// cpp-httplib's server. That takes a thread for each idle connection, waits for slow clients without end, and takes
/// headers and chunked bodies of any length: here all of them have bounds. Every answer forbids framing and foreign
/// scripts.
class HttpServer : public httplib::Server {
 public:
  /// `body_bytes`: how long the body of a request may be.
  explicit HttpServer(std::function<std::int64_t(const httplib::Request&)> body_bytes);

  /// Binds; returns the port. Throws Refusal.
  int bind(const std::string& address, int port);

 private:
  class Requests;
  bool process_and_close_socket(socket_t socket) override;
  /// A request whose headers have begun so, or have come to no end.
  void take_turn(int socket, const std::string& begun);
  /// These return what came of the next request; nothing where the connection ends.
  std::optional<std::string> answer(int socket, const std::string& begun);
  static std::optional<std::string> refuse_turn(int socket);

  std::function<std::int64_t(const httplib::Request&)> body_bytes_;
  Requests* requests_ = nullptr;  ///< the library's, while it listens
  std::mutex turns_mutex_;
  std::atomic<std::size_t> turns_ = 0;                  ///< requests under way
  std::map<std::string, std::size_t> turns_of_client_;  ///< and whose
};

}  // namespace nsys_explain::serve
