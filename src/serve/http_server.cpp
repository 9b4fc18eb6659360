#include "serve/http_server.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>

#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "model/text.hpp"
#include "serve/refusal.hpp"
#include "serve/requests.hpp"

namespace nsys_explain::serve {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t most_requests = 256;                ///< at once; those beyond wait
constexpr std::size_t most_requests_of_client = 224;      ///< whoever has more is refused, so that others get theirs
constexpr std::size_t most_that_stay = 128;               ///< on their threads for a next request
constexpr int waiting_connections = 1'024;                ///< that the system holds for us
constexpr auto longest_pause = std::chrono::seconds(10);  ///< in which a client neither sends nor takes a byte

/// The socket, for one request: its bytes are counted, its time is measured.
class BoundedStream final : public httplib::Stream {
 public:
  BoundedStream(socket_t socket, const RequestLimits& limits) : socket_(socket), limits_(limits) {}

  /// The headers are there; what follows is the body, of a length that may be unknown.
  void begin_body(std::int64_t most_bytes, std::optional<std::int64_t> length) {
    in_body_ = true;
    limits_.body_bytes = most_bytes;
    body_length_ = length;
  }
  /// Whether the next byte is the first of another request.
  bool is_at_end() const { return !is_exhausted_ && in_body_ && body_length_ == body_bytes_; }

  bool is_readable() const override { return wait(POLLIN, Clock::now()); }
  bool is_writable() const override { return wait(POLLOUT, Clock::now() + longest_pause); }

  ssize_t read(char* bytes, std::size_t count) override {
    const std::int64_t room = in_body_ ? limits_.body_bytes - body_bytes_ : limits_.header_bytes - header_bytes_;
    if (room <= 0) return refuse();
    if (next_ == filled_ && !fill()) return refuse();
    const std::size_t given = std::min({count, filled_ - next_, static_cast<std::size_t>(room)});
    std::copy_n(buffer_.data() + next_, given, bytes);
    next_ += given;
    (in_body_ ? body_bytes_ : header_bytes_) += static_cast<std::int64_t>(given);
    return static_cast<ssize_t>(given);
  }

  ssize_t write(const char* bytes, std::size_t count) override {
    if (written_bytes_ == 0) write_start_ = Clock::now();
    const auto last = write_start_ + limits_.seconds + std::chrono::seconds(written_bytes_ / limits_.bytes_per_second);
    if (!wait(POLLOUT, std::min(last, Clock::now() + longest_pause))) return -1;
    const ssize_t sent = ::send(socket_, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) written_bytes_ += sent;
    return sent;
  }

  void get_remote_ip_and_port(std::string& ip, int& port) const override { name(::getpeername, ip, port); }
  void get_local_ip_and_port(std::string& ip, int& port) const override { name(::getsockname, ip, port); }
  socket_t socket() const override { return socket_; }

  /// Bytes of the next request that came with this one.
  std::string rest() const { return {buffer_.data() + next_, filled_ - next_}; }
  void put_back(const std::string& bytes) {
    filled_ = std::min(bytes.size(), buffer_.size());
    std::copy_n(bytes.data(), filled_, buffer_.data());
  }

 private:
  ssize_t refuse() {
    is_exhausted_ = true;
    return -1;
  }

  Clock::time_point deadline() const {
    return start_ + limits_.seconds + std::chrono::seconds(body_bytes_ / limits_.bytes_per_second);
  }

  bool fill() {
    if (!wait(POLLIN, std::min(deadline(), Clock::now() + longest_pause))) return false;
    const ssize_t count = ::recv(socket_, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    if (count <= 0) return false;
    next_ = 0;
    filled_ = static_cast<std::size_t>(count);
    return true;
  }

  bool wait(short event, Clock::time_point until) const {
    pollfd ready{socket_, event, 0};
    while (true) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
      const int count = ::poll(&ready, 1, static_cast<int>(std::clamp<std::int64_t>(left, 0, 1'000'000)));
      if (count > 0) return (ready.revents & event) != 0;
      if (count == 0 || errno != EINTR) return false;
    }
  }

  template <class Ask>
  void name(Ask ask, std::string& ip, int& port) const {
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    std::array<char, NI_MAXHOST> host{};
    std::array<char, NI_MAXSERV> service{};
    auto* const plain = reinterpret_cast<sockaddr*>(&address);
    if (ask(socket_, plain, &length) != 0 || ::getnameinfo(plain, length, host.data(), host.size(), service.data(),
                                                           service.size(), NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
      return;
    }
    ip = host.data();
    port = std::atoi(service.data());
  }

  const socket_t socket_;
  RequestLimits limits_;
  const Clock::time_point start_ = Clock::now();
  std::array<char, 65'536> buffer_;
  std::size_t next_ = 0, filled_ = 0;
  std::int64_t header_bytes_ = 0, body_bytes_ = 0, written_bytes_ = 0;
  std::optional<std::int64_t> body_length_;
  Clock::time_point write_start_;
  bool in_body_ = false, is_exhausted_ = false;
};

/// Nothing where it is sent in chunks, or said in a way that two programs could understand differently.
std::optional<std::int64_t> body_length(const httplib::Request& request) {
  if (request.has_header("Transfer-Encoding") || request.get_header_value_count("Content-Length") > 1)
    return std::nullopt;
  if (!request.has_header("Content-Length")) return 0;
  const auto length = integer_of(request.get_header_value("Content-Length"));
  return length && *length >= 0 ? length : std::nullopt;
}

/// Lets a client that still sends read its answer: else the system would take it back.
void let_finish(socket_t socket) {
  ::shutdown(socket, SHUT_WR);
  std::array<char, 65'536> bytes;
  const auto last = Clock::now() + std::chrono::seconds(2);
  pollfd ready{socket, POLLIN, 0};
  while (Clock::now() < last && ::poll(&ready, 1, 200) > 0 &&
         ::recv(socket, bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) {
  }
}

/// Takes what comes within a moment. Returns whether that is the headers of a request.
bool receive_soon(int socket, std::string& begun) {
  constexpr int moment_ms = 20;  // whoever asks one thing after the other takes less
  std::array<char, 16'384> bytes;
  pollfd ready{socket, POLLIN, 0};
  if (!begun.empty() || ::poll(&ready, 1, moment_ms) <= 0) return false;
  const ssize_t count = ::recv(socket, bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (count > 0) begun.assign(bytes.data(), static_cast<std::size_t>(count));
  return has_headers(begun);
}

/// What the library would make of these needs more care than it takes: ranges multiply an answer, encodings a body, and
/// it knows media types in small letters only.
void make_plain(httplib::Request& request) {
  request.ranges.clear();
  for (const char* name : {"Range", "Content-Encoding", "Accept-Encoding"}) request.headers.erase(name);
  const auto type = request.headers.find("Content-Type");
  if (type != request.headers.end()) type->second = plain_media_type(type->second);
}

/// Some of the files that this process may have open: most of the others are of requests and of reports.
std::size_t most_waiting() {
  rlimit files{};
  const std::size_t most = Connections::Limits().most;
  return ::getrlimit(RLIMIT_NOFILE, &files) == 0 ? std::min<std::size_t>(most, files.rlim_cur / 3) : most;
}

}  // namespace

/// Connections as the library hands them on, requests as threads take them.
class HttpServer::Requests final : public httplib::TaskQueue {
 public:
  explicit Requests(HttpServer& server) : server_(server), workers_(most_requests) {}

  Connections& connections() { return connections_; }
  void enqueue(std::function<void()> take_connection) override { take_connection(); }
  void shutdown() override {
    connections_.stop();
    workers_.shutdown();
  }

 private:
  HttpServer& server_;
  httplib::ThreadPool workers_;
  Connections connections_{
      {.most = most_waiting()}, [this](int socket, std::string begun) {
        workers_.enqueue([this, socket, begun = std::move(begun)] { server_.take_turn(socket, begun); });
      }};
};

HttpServer::HttpServer(std::function<std::int64_t(const httplib::Request&)> body_bytes)
    : body_bytes_(std::move(body_bytes)) {
  new_task_queue = [this] { return requests_ = new Requests(*this); };
  set_tcp_nodelay(true);
  set_keep_alive_max_count(1'000'000);
  set_default_headers({{"X-Content-Type-Options", "nosniff"},
                       {"X-Frame-Options", "DENY"},
                       {"Referrer-Policy", "same-origin"},  // else a form of our own would come from nowhere
                       {"Cross-Origin-Resource-Policy", "same-origin"},
                       {"Cross-Origin-Opener-Policy", "same-origin"},
                       {"Cache-Control", "no-store"}});
}

int HttpServer::bind(const std::string& address, int port) {
  const bool is_bound = port == 0 ? (port = bind_to_any_port(address)) > 0 : bind_to_port(address, port);
  if (!is_bound) {
    throw Refusal(2, fmt::format("cannot listen at {}:{}", address, port), "so nobody could ask",
                  "give an address of this host and a port that is free: --listen ADDRESS:PORT");
  }
  // The library lets five connections wait.
  ::listen(svr_sock_, waiting_connections);
  return port;
}

bool HttpServer::process_and_close_socket(socket_t socket) {
  requests_->connections().add(socket);
  return true;
}

void HttpServer::take_turn(int socket, const std::string& begun) {
  const std::string client = client_of(socket);
  bool has_turn = false;
  {
    const std::lock_guard lock(turns_mutex_);
    ++turns_;
    has_turn = turns_of_client_[client]++ < most_requests_of_client;
  }
  std::optional<std::string> rest;
  if (svr_sock_ != INVALID_SOCKET) rest = has_turn ? answer(socket, begun) : refuse_turn(socket);
  while (rest && svr_sock_ != INVALID_SOCKET && turns_ < most_that_stay && receive_soon(socket, *rest))
    rest = answer(socket, *rest);
  {
    const std::lock_guard lock(turns_mutex_);
    --turns_;
    const auto turns = turns_of_client_.find(client);
    if (--turns->second == 0) turns_of_client_.erase(turns);
  }
  if (rest) return requests_->connections().add(socket, std::move(*rest));
  ::shutdown(socket, SHUT_RDWR);
  ::close(socket);
}

std::optional<std::string> HttpServer::answer(int socket, const std::string& begun) {
  BoundedStream stream(socket, {});
  stream.put_back(begun);
  bool is_closed = false;
  const bool is_answered = process_request(stream, false, is_closed, [&](httplib::Request& request) {
    make_plain(request);
    stream.begin_body(body_bytes_(request), body_length(request));
  });
  if (is_answered && !is_closed && stream.is_at_end()) return stream.rest();
  if (!stream.is_at_end()) let_finish(socket);
  return std::nullopt;
}

std::optional<std::string> HttpServer::refuse_turn(int socket) {
  const std::string body = error_json({503, "too many requests of this address are under way",
                                       "so this one is not taken", "try again later, with fewer at a time"});
  const std::string reply = fmt::format(
      "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: {}\r\n"
      "Content-Security-Policy: default-src 'none'; frame-ancestors 'none'\r\nX-Frame-Options: DENY\r\n"
      "X-Content-Type-Options: nosniff\r\nRetry-After: 10\r\nConnection: close\r\n\r\n{}",
      body.size(), body);
  ::send(socket, reply.data(), reply.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  return std::nullopt;
}

}  // namespace nsys_explain::serve
