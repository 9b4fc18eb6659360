#include "serve/http_server.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include <netdb.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace nsys_explain::serve {
namespace {

constexpr auto look_time = std::chrono::milliseconds(200);  ///< how late a late one, or the end, may be noticed

void close_connection(int socket) {
  ::shutdown(socket, SHUT_RDWR);
  ::close(socket);
}

void wait_for_event(int events, int operation, int socket) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP | EPOLLONESHOT;
  event.data.fd = socket;
  ::epoll_ctl(events, operation, socket, &event);
}

}  // namespace

std::string client_of(int socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&address), &length) != 0) return "";
  const auto bytes = [](const void* from, std::size_t count) {
    return std::string(static_cast<const char*>(from), count);
  };
  if (address.ss_family == AF_INET) return bytes(&reinterpret_cast<const sockaddr_in&>(address).sin_addr, 4);
  if (address.ss_family != AF_INET6) return "";
  const in6_addr& wide = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&wide)) return bytes(&wide.s6_addr[12], 4);
  return bytes(&wide, 8);  // of the rest a host may choose any
}

bool has_headers(std::string_view begun) {
  return begun.find("\n\r\n") != std::string_view::npos;
}

Connections::Connections(Limits limits, OnRequest on_request)
    : limits_(limits), on_request_(std::move(on_request)), events_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!events_) throw std::system_error(errno, std::generic_category(), "cannot watch connections");
  thread_ = std::thread([this] { watch(); });
}

void Connections::stop() {
  {
    const std::lock_guard lock(mutex_);
    if (is_stopped_) return;
    is_stopped_ = true;
  }
  thread_.join();
  for (const Waiting& one : waiting_) close_connection(one.socket);
  waiting_.clear();
}

void Connections::add(int socket, std::string begun) {
  if (is_request(begun)) return on_request_(socket, std::move(begun));
  std::string client = client_of(socket);
  const std::lock_guard lock(mutex_);
  if (is_stopped_) return close_connection(socket);
  ++count_of_client_[client];
  places_[socket] = waiting_.insert(waiting_.end(), {socket, std::move(client), std::move(begun), Clock::now()});
  wait_for_event(events_.number(), EPOLL_CTL_ADD, socket);
  if (waiting_.size() > limits_.most) close_one_too_many();
}

Connections::Waiting Connections::take(Place place) {
  Waiting taken = std::move(*place);
  ::epoll_ctl(events_.number(), EPOLL_CTL_DEL, taken.socket, nullptr);
  places_.erase(taken.socket);
  waiting_.erase(place);
  const auto count = count_of_client_.find(taken.client);
  if (--count->second == 0) count_of_client_.erase(count);
  return taken;
}

void Connections::close_one_too_many() {
  const auto most = std::max_element(count_of_client_.begin(), count_of_client_.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  const auto oldest = std::find_if(waiting_.begin(), waiting_.end(),
                                   [&, &client = most->first](const Waiting& one) { return one.client == client; });
  close_connection(take(oldest).socket);
}

void Connections::close_late_ones() {
  const auto now = Clock::now();
  for (auto next = waiting_.begin(); next != waiting_.end();) {
    const auto one = next++;
    if (now - one->since > (one->begun.empty() ? limits_.idle : limits_.headers)) close_connection(take(one).socket);
  }
}

bool Connections::read(Waiting& waiting) const {
  std::array<char, 16'384> bytes;
  while (!is_request(waiting.begun)) {
    const std::size_t room = std::min(bytes.size(), limits_.header_bytes - waiting.begun.size());
    const ssize_t count = ::recv(waiting.socket, bytes.data(), room, MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
    if (count <= 0) return false;  // whoever sent half a request may still read
    if (waiting.begun.empty()) waiting.since = Clock::now();
    waiting.begun.append(bytes.data(), static_cast<std::size_t>(count));
  }
  return false;
}

void Connections::watch() {
  std::array<epoll_event, 64> ready{};
  auto next_look = Clock::now() + look_time;
  while (true) {
    const int count = ::epoll_wait(events_.number(), ready.data(), static_cast<int>(ready.size()),
                                   static_cast<int>(look_time.count()));
    std::vector<Waiting> requests;
    {
      const std::lock_guard lock(mutex_);
      if (is_stopped_) return;
      for (int i = 0; i < count; ++i) {
        const auto place = places_.find(ready[static_cast<std::size_t>(i)].data.fd);
        if (place == places_.end()) continue;
        if (read(*place->second)) {
          wait_for_event(events_.number(), EPOLL_CTL_MOD, place->first);
        } else if (place->second->begun.empty()) {
          close_connection(take(place->second).socket);
        } else {
          requests.push_back(take(place->second));
        }
      }
      if (Clock::now() >= next_look) {
        close_late_ones();
        next_look = Clock::now() + look_time;
      }
    }
    for (Waiting& request : requests) on_request_(request.socket, std::move(request.begun));
  }
}

}  // namespace nsys_explain::serve
