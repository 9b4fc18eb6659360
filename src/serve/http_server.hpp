#pragma once

#include <atomic>
#include <optional>

#include <httplib.h>

#include "serve/connections.hpp"

namespace nsys_explain::serve {

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
