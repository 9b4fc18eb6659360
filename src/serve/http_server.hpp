#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include <httplib.h>

namespace nsys_explain::serve {

/// What one request may take.
struct RequestLimits {
  std::int64_t header_bytes = 32'000;
  std::int64_t body_bytes = 1'000'000;
  std::chrono::seconds seconds{15};  ///< until it is there; of a longer body, one more for each `bytes_per_second`
  std::int64_t bytes_per_second = 100'000;
};

/// cpp-httplib's server, which waits for slow clients without end and takes headers and chunked bodies of any length,
/// with bounds for all of them. Every answer forbids framing and foreign scripts.
class HttpServer : public httplib::Server {
 public:
  /// `body_bytes`: how long the body of a request may be.
  explicit HttpServer(std::function<std::int64_t(const httplib::Request&)> body_bytes);

  /// Binds; returns the port. Throws Refusal.
  int bind(const std::string& address, int port);

 private:
  bool process_and_close_socket(socket_t socket) override;

  std::function<std::int64_t(const httplib::Request&)> body_bytes_;
};

}  // namespace nsys_explain::serve
