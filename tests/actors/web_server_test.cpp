// SPDX-License-Identifier: BSD-3-Clause
// The web server, as browsers and strangers speak to it.
#include "actors/http/web_server.hpp"

#include <chrono>
#include <cstdlib>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "tests/actors/sockets.hpp"

namespace troupe::actors::net {
namespace {

using namespace std::chrono_literals;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using tests::client_socket;

void say(const client_socket& to, std::string_view text) {
  to.send(std::as_bytes(std::span{text}));
}

/// What comes until `enough` says so, or until the other end closes.
template <class Enough>
std::string hear(const client_socket& from, Enough enough) {
  std::string all;
  char some[4096];
  while (!enough(all)) {
    const auto got = ::recv(from.fd(), some, sizeof some, 0);
    if (got <= 0)
      break;
    all.append(some, static_cast<std::size_t>(got));
  }
  return all;
}
std::string hear_all(const client_socket& from) {
  return hear(from, [](const std::string&) { return false; });
}
/// Up to this text.
std::string hear_to(const client_socket& from, std::string_view end) {
  return hear(from, [end](const std::string& all) { return all.ends_with(end); });
}

class WebServer : public testing::Test {
protected:
  std::string ask(std::string_view request) {
    client_socket client{server_->port()};
    say(client, request);
    return hear_all(client);
  }
  std::string get(std::string_view target, std::string_view host = "localhost") {
    return ask(fmt::format("GET {} HTTP/1.1\r\nHost: {}\r\n\r\n", target, host));
  }
  /// The first line of the answer: of events more would come for ever.
  std::string status(std::string_view target, std::string_view host) {
    client_socket client{server_->port()};
    say(client, fmt::format("GET {} HTTP/1.1\r\nHost: {}\r\n\r\n", target, host));
    return hear(client, [](const std::string& all) { return all.find("\r\n") != std::string::npos; });
  }
  /// Asks until the server has room for one more, for half a minute; empty: it never had.
  std::string ask_until_there_is_room() {
    const auto end = std::chrono::steady_clock::now() + 30s;
    std::string said;
    while (said.empty() && std::chrono::steady_clock::now() < end)
      said = ask("HEAD /snapshot HTTP/1.1\r\nHost: localhost\r\n\r\n");
    return said;
  }
  void open(web_options options) {
    options.address.port = 0;
    options.page = "<style>b{}</style><script>x</script>";
    server_.reset();
    server_ = std::move(*open_web_server(std::move(options)));
  }
  void SetUp() override { open({}); }

  std::unique_ptr<web_server> server_;
};

TEST_F(WebServer, ServesThePageWithAPolicyThatNamesItsOwnScriptAlone) {
  const auto said = get("/");
  EXPECT_THAT(said, StartsWith("HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n"));
  EXPECT_THAT(said, EndsWith("\r\n\r\n<style>b{}</style><script>x</script>"));
  // printf x | openssl dgst -sha256 -binary | base64
  EXPECT_THAT(said, HasSubstr("script-src 'sha256-LXEWQrcmsEQBYnyp+6wy9chTD7GQPMTbAiWHF5IaSIE='"));
  EXPECT_THAT(said, HasSubstr("default-src 'none'"));
  EXPECT_THAT(said, Not(HasSubstr("unsafe-inline")));
}

TEST_F(WebServer, SnapshotIsWhatWasPublishedLast) {
  EXPECT_THAT(get("/snapshot"), EndsWith("\r\n\r\n{}"));
  server_->publish(R"({"a":1})");
  server_->publish(R"({"a":2})");
  EXPECT_THAT(get("/snapshot"), EndsWith("\r\n\r\n{\"a\":2}"));
}

TEST_F(WebServer, ASubscriberHearsWhatIsKnownAndWhatComes) {
  server_->publish("1");
  client_socket client{server_->port()};
  say(client, "GET /events HTTP/1.1\r\nHost: 127.0.0.1:9\r\n\r\n");
  const auto first = hear_to(client, "data: 1\n\n");
  EXPECT_THAT(first, StartsWith("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"));
  server_->publish("2");
  EXPECT_EQ(hear_to(client, "data: 2\n\n"), "data: 2\n\n");
}

TEST_F(WebServer, TheEndGivesSubscribersTheLastWord) {
  client_socket client{server_->port()};
  say(client, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
  hear_to(client, "data: {}\n\n");
  server_->publish("last");
  server_.reset();
  EXPECT_EQ(hear_all(client), "data: last\n\n");
}

TEST_F(WebServer, OnlyNamesOfThisMachineAreServed) {
  for (const auto* host : {"localhost", "127.0.0.1:8080", "127.1.2.3", "[::1]:99", "[::1]"})
    EXPECT_THAT(status("/snapshot", host), StartsWith("HTTP/1.1 200 ")) << host;
  for (const auto* host : {"evil.example", "10.0.0.1:8080", "localhost.evil.example", "127.0.0.1.evil.example", "localhost:x", "",
                           "[::2]", "127.0.0.1:80@evil.example"})
    for (const auto* target : {"/", "/snapshot", "/events"})
      EXPECT_THAT(status(target, host), StartsWith("HTTP/1.1 421 ")) << target << " of " << host;
  EXPECT_THAT(ask("GET / HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(ask("GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
}

TEST_F(WebServer, NothingElseIsThereAndNothingCanBeChanged) {
  for (const auto* target : {"/../etc/passwd", "/snapshot/", "/favicon.ico", "*", "http://evil.example/"})
    EXPECT_THAT(get(target), StartsWith("HTTP/1.1 404 ")) << target;
  for (const auto* method : {"POST", "PUT", "DELETE", "OPTIONS", "PATCH"})
    EXPECT_THAT(ask(fmt::format("{} /snapshot HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{{}}", method)),
                testing::AllOf(StartsWith("HTTP/1.1 405 "), HasSubstr("Allow: GET, HEAD\r\n")))
        << method;
  EXPECT_THAT(ask("HEAD /snapshot HTTP/1.1\r\nHost: localhost\r\n\r\n"),
              testing::AllOf(HasSubstr("Content-Length: 2\r\n"), EndsWith("\r\n\r\n")));
}

TEST_F(WebServer, ARequestThatIsTooLongIsRefused) {
  EXPECT_THAT(ask("GET / HTTP/1.1\r\nHost: localhost\r\nX: " + std::string(100'000, 'x') + "\r\n\r\n"),
              StartsWith("HTTP/1.1 431 "));
}

TEST_F(WebServer, GarbageCostsItsOwnConnection) {
  const auto* chosen = std::getenv("TROUPE_TEST_SEED");
  const auto seed = chosen ? std::strtoul(chosen, nullptr, 10) : 1;
  SCOPED_TRACE(fmt::format("TROUPE_TEST_SEED={}", seed));
  std::mt19937 random{static_cast<std::uint32_t>(seed)};
  const std::string good = "GET /events HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n";
  for (int round = 0; round < 200; ++round) {
    auto bytes = good;
    for (auto flips = random() % 8 + 1; flips > 0; --flips)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    bytes.resize(random() % bytes.size() + 1);
    client_socket client{server_->port()};
    say(client, bytes);
    ::shutdown(client.fd(), SHUT_WR);
    hear_all(client);
  }
  EXPECT_THAT(ask("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a TLS client\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(get("/snapshot"), StartsWith("HTTP/1.1 200 "));
}

TEST_F(WebServer, WhoeverSaysNothingIsLetGo) {
  open({.request_timeout = 20ms});
  client_socket silent{server_->port()}, half{server_->port()};
  say(half, "GET / HTTP/1.1\r\nHost:");
  EXPECT_TRUE(silent.closed_by_peer());
  EXPECT_TRUE(half.closed_by_peer());
}

TEST_F(WebServer, ASubscriberThatDoesNotReadHoldsNobodyUp) {
  client_socket deaf{server_->port()}, reader{server_->port()};
  for (const auto* each : {&deaf, &reader})
    say(*each, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
  hear_to(reader, "data: {}\n\n");
  const std::string big(8 << 20, 'x'); // more than the kernel takes for somebody who does not read
  server_->publish(big);
  EXPECT_EQ(hear_to(reader, "\n\n").size(), big.size() + 8);
}

TEST_F(WebServer, ASubscriberThatDoesNotReadIsDropped) {
  open({.most_connections = 1, .request_timeout = 50ms});
  const std::string big(32 << 20, 'x'); // more than the kernel takes for somebody who does not read
  server_->publish(big);
  std::unique_ptr<client_socket> deaf;
  do { // one that asks too late is let go, which is no matter here
    deaf = std::make_unique<client_socket>(server_->port());
    say(*deaf, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
  } while (hear(*deaf, [](const std::string& all) { return !all.empty(); }).empty());
  // It reads no more. There is room again once it is dropped, and not before.
  EXPECT_THAT(ask_until_there_is_room(), StartsWith("HTTP/1.1 200 "));
  EXPECT_LT(hear_all(*deaf).size(), big.size() - 4096); // what the kernel had taken, and then the end
}

TEST_F(WebServer, TooManyConnectionsAreClosedAndRoomComesBack) {
  open({.most_connections = 2});
  {
    client_socket one{server_->port()}, two{server_->port()};
    for (const auto* each : {&one, &two}) {
      say(*each, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
      hear_to(*each, "data: {}\n\n");
    }
    EXPECT_EQ(get("/snapshot"), "");
  }
  // That the two are gone is noticed soon; until then newcomers are closed.
  EXPECT_THAT(ask_until_there_is_room(), StartsWith("HTTP/1.1 200 "));
}

TEST_F(WebServer, APortThatIsTakenIsSaidWithARemedy) {
  const auto second = open_web_server({.address = {.port = server_->port()}});
  ASSERT_FALSE(second);
  EXPECT_THAT(
      second.error().text,
      HasSubstr(fmt::format("cannot listen on 127.0.0.1:{} (Address already in use); name another port", server_->port())));
}

TEST_F(WebServer, ProgramsThatAreStartedDoNotInheritIt) {
  client_socket client{server_->port()};
  say(client, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
  hear_to(client, "data: {}\n\n");
  int found = 0;
  for (int descriptor = 3; descriptor < 256; ++descriptor) {
    sockaddr_in here{};
    socklen_t size = sizeof here;
    if (::getsockname(descriptor, reinterpret_cast<sockaddr*>(&here), &size) == 0 && here.sin_family == AF_INET
        && ntohs(here.sin_port) == server_->port()) {
      ++found;
      EXPECT_NE(::fcntl(descriptor, F_GETFD) & FD_CLOEXEC, 0);
    }
  }
  EXPECT_EQ(found, 2); // who listens, and the connection
}

TEST(WebAddress, IsOfThisMachine) {
  const auto address = [](const char* text) { return *parse_web_address(text); };
  EXPECT_EQ(address(""), (web_address{"127.0.0.1", 8080}));
  EXPECT_EQ(address("9000"), (web_address{"127.0.0.1", 9000}));
  EXPECT_EQ(address("localhost:0"), (web_address{"127.0.0.1", 0}));
  EXPECT_EQ(address("127.0.0.2"), (web_address{"127.0.0.2", 8080}));
  EXPECT_EQ(address("[::1]:80"), (web_address{"::1", 80}));
  EXPECT_EQ(address("::1"), (web_address{"::1", 8080}));
  EXPECT_EQ(url_of({"::1", 80}), "http://[::1]:80/");
}

TEST(WebAddress, OthersAreRefusedWithARemedy) {
  const auto why = [](const char* text) { return parse_web_address(text).error().text; };
  EXPECT_THAT(why("0.0.0.0:80"),
              HasSubstr("0.0.0.0 is no loopback address, and the page has no password; leave it out, and from another "
                        "machine forward the port: ssh -L 80:127.0.0.1:80 THIS_HOST"));
  EXPECT_THAT(why("10.0.0.1"), HasSubstr("no loopback address"));
  EXPECT_THAT(why("[::]:80"), HasSubstr("no loopback address"));
  for (const auto* text : {"127.0.0.1:", "127.0.0.1:99999", "localhost:80x", ":-1"})
    EXPECT_THAT(why(text), HasSubstr("is no port; 0 to 65535, or none for 8080")) << text;
  for (const auto* text : {"example.org", "job.toml", "[::1", "[::1]80", "a:1:b"})
    EXPECT_THAT(why(text), HasSubstr("is no address")) << text;
}

} // namespace
} // namespace troupe::actors::net
