#include "serve/http_server.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <string>
#include <utility>
#include <vector>

namespace nsys_explain::serve {
namespace {

using std::chrono::hours;

/// Two ends of a connection within this host, from an address of its own choice.
class Pair {
 public:
  explicit Pair(std::uint32_t from = INADDR_LOOPBACK) {
    const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* const plain = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(listener, plain, length), 0);
    EXPECT_EQ(::listen(listener, 1), 0);
    ::getsockname(listener, plain, &length);
    client = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in own{};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl(from);
    EXPECT_EQ(::bind(client, reinterpret_cast<sockaddr*>(&own), sizeof own), 0);
    EXPECT_EQ(::connect(client, plain, length), 0);
    server = ::accept(listener, nullptr, nullptr);
    ::close(listener);
  }
  ~Pair() { ::close(client); }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  void send(const std::string& text) const {
    EXPECT_EQ(::send(client, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }
  /// Waits for the end of the connection.
  bool is_closed() const {
    char byte = 0;
    return ::recv(client, &byte, 1, 0) <= 0;
  }
  bool is_open() const {
    char byte = 0;
    return ::recv(client, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
  }

  int client = -1, server = -1;
};

/// What is handed on.
class Taken {
 public:
  Connections::OnRequest take() {
    return [this](int socket, std::string begun) { request_.set_value({socket, std::move(begun)}); };
  }
  std::pair<int, std::string> wait() {
    auto request = request_.get_future().get();
    ::close(request.first);
    request_ = {};
    return request;
  }

 private:
  std::promise<std::pair<int, std::string>> request_;
};

Connections::Limits patient(std::size_t most = 100) {
  return {most, 1'000, hours(1), hours(1)};
}

TEST(Connections, AreHandedOnWithTheirHeaders) {
  Taken taken;
  Connections connections(patient(), taken.take());
  const Pair one;
  connections.add(one.server);
  one.send("GET / HTTP/1.1\r\nHost:");
  one.send(" a\r\n\r\nbody");
  EXPECT_THAT(taken.wait(), testing::Pair(one.server, "GET / HTTP/1.1\r\nHost: a\r\n\r\nbody"));
  const Pair next;
  connections.add(next.server, "GET /2 HTTP/1.1\r\n\r\n");
  EXPECT_EQ(taken.wait().second, "GET /2 HTTP/1.1\r\n\r\n") << "which came with the one before";
  const Pair begun;
  connections.add(begun.server, "GET /3 ");
  begun.send("HTTP/1.1\r\n\r\n");
  EXPECT_EQ(taken.wait().second, "GET /3 HTTP/1.1\r\n\r\n");
}

TEST(Connections, AreHandedOnWhereTheirHeadersComeToNoEnd) {
  Taken taken;
  Connections connections(patient(), taken.take());
  const Pair endless;
  connections.add(endless.server);
  endless.send(std::string(2'000, 'a'));
  EXPECT_EQ(taken.wait().second, std::string(1'000, 'a'));
  const Pair half;
  connections.add(half.server);
  half.send("GET /");
  ::shutdown(half.client, SHUT_WR);
  EXPECT_EQ(taken.wait().second, "GET /") << "who may still read";
}

TEST(Connections, OfWhoSendsNothingOrHalfHeadersAreClosedInTime) {
  Taken taken;
  Connections::Limits limits = patient();
  limits.idle = std::chrono::milliseconds(1);
  limits.headers = hours(1);
  {
    Connections connections(limits, taken.take());
    const Pair idle;
    connections.add(idle.server);
    EXPECT_TRUE(idle.is_closed());
  }
  std::swap(limits.idle, limits.headers);
  Connections connections(limits, taken.take());
  const Pair slow, idle, gone;
  for (const Pair* one : {&slow, &idle, &gone}) connections.add(one->server);
  slow.send("GET / HT");
  EXPECT_TRUE(slow.is_closed());
  EXPECT_TRUE(idle.is_open());
  ::shutdown(gone.client, SHUT_WR);
  EXPECT_TRUE(gone.is_closed());
}

TEST(Connections, BeyondTheLimitAreThoseOfTheClientThatHasTheMost) {
  Taken taken;
  Connections connections(patient(4), taken.take());
  const Pair other(INADDR_LOOPBACK + 1);
  connections.add(other.server);
  std::vector<std::unique_ptr<Pair>> many;
  for (int i = 0; i < 10; ++i) connections.add(many.emplace_back(std::make_unique<Pair>())->server);
  for (std::size_t i = 0; i < 7; ++i) EXPECT_TRUE(many[i]->is_closed()) << i;
  for (std::size_t i = 7; i < 10; ++i) EXPECT_TRUE(many[i]->is_open()) << i;
  EXPECT_TRUE(other.is_open()) << "though it came first";
  other.send("GET / HTTP/1.1\r\n\r\n");
  EXPECT_EQ(taken.wait().first, other.server);
}

TEST(Connections, AreClosedWhereItStops) {
  Taken taken;
  Connections connections(patient(), taken.take());
  const Pair before, after;
  connections.add(before.server);
  connections.stop();
  connections.add(after.server);
  EXPECT_TRUE(before.is_closed());
  EXPECT_TRUE(after.is_closed());
}

}  // namespace
}  // namespace nsys_explain::serve
