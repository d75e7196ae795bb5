// SPDX-License-Identifier: BSD-3-Clause
// The metrics server, as Prometheus and strangers speak to it, plainly and with certificates.
#include "actors/http/metrics_server.hpp"

#include <chrono>
#include <cstdlib>
#include <memory>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include "actors/sockets/tls.hpp"
#include "tests/actors/certificates.hpp"
#include "tests/actors/sockets.hpp"

namespace troupe::actors::net {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;
using tests::client_socket;

constexpr std::string_view request = "GET /metrics HTTP/1.1\r\nHost: anything\r\n\r\n";

void say(const client_socket& to, std::string_view text) {
  to.send(std::as_bytes(std::span{text}));
}

/// Whatever comes until the other end closes.
std::string hear(const client_socket& from) {
  std::string all;
  char some[4096];
  for (ssize_t got = 0; (got = ::recv(from.fd(), some, sizeof some, 0)) > 0;)
    all.append(some, static_cast<std::size_t>(got));
  return all;
}

class MetricsServer : public testing::Test {
protected:
  void open(metrics_options options) {
    options.text = [] { return std::string{"up 1\n"}; };
    server_.reset();
    server_ = metrics_server::open(std::move(options));
  }
  void SetUp() override { open({}); }

  std::string ask(std::string_view text) {
    client_socket client{server_->port()};
    say(client, text);
    return hear(client);
  }

  std::unique_ptr<metrics_server> server_;
};

TEST_F(MetricsServer, ServesItsTextAsPrometheusTakesIt) {
  const auto said = ask(request);
  EXPECT_THAT(said, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(said, HasSubstr("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
  EXPECT_THAT(said, HasSubstr("Content-Length: 5\r\n"));
  EXPECT_THAT(said, EndsWith("\r\n\r\nup 1\n"));
  EXPECT_THAT(ask("GET /metrics?name[]=up HTTP/1.1\r\n\r\n"), EndsWith("\r\n\r\nup 1\n"));
}

TEST_F(MetricsServer, NothingElseIsThere) {
  for (const auto* target : {"/", "/metrics/", "/metricsx", "/../etc/passwd", "*"})
    EXPECT_THAT(ask(fmt::format("GET {} HTTP/1.1\r\n\r\n", target)), StartsWith("HTTP/1.1 404 ")) << target;
  for (const auto* method : {"POST", "PUT", "DELETE"})
    EXPECT_THAT(ask(fmt::format("{} /metrics HTTP/1.1\r\nContent-Length: 2\r\n\r\n{{}}", method)),
                AllOf(StartsWith("HTTP/1.1 405 "), HasSubstr("Allow: GET\r\n")))
        << method;
}

TEST_F(MetricsServer, WhatIsNoRequestIsToldSo) {
  EXPECT_THAT(ask("GET /metrics HTTP/1.1\r\nX: " + std::string(100'000, 'x') + "\r\n\r\n"), StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(ask("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a TLS client\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
}

TEST_F(MetricsServer, WhoeverSaysNothingIsLetGo) {
  open({.deadline = 20ms});
  client_socket silent{server_->port()}, half{server_->port()};
  say(half, "GET /metrics HTTP/1.1\r\nHost:");
  EXPECT_TRUE(silent.closed_by_peer());
  EXPECT_TRUE(half.closed_by_peer());
}

TEST_F(MetricsServer, OfTooManyTheOldestMakesRoom) {
  open({.most_connections = 2, .deadline = 1h});
  client_socket oldest{server_->port()}, second{server_->port()};
  EXPECT_THAT(ask(request), EndsWith("up 1\n"));
  EXPECT_TRUE(oldest.closed_by_peer());
  say(second, request);
  EXPECT_THAT(hear(second), EndsWith("up 1\n"));
}

TEST_F(MetricsServer, APortThatIsTakenIsAnError) {
  EXPECT_THROW(metrics_server::open({.port = server_->port()}), std::system_error);
}

TEST_F(MetricsServer, ProgramsThatAreStartedDoNotInheritIt) {
  open({.deadline = 1h});
  client_socket client{server_->port()};
  EXPECT_THAT(ask(request), EndsWith("up 1\n")); // so the other has been accepted, too
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
  EXPECT_GE(found, 2); // who listens, and the connection
}

class SecuredMetricsServer : public MetricsServer {
protected:
  /// Made once. What fails here fails the test, where a failing SetUpTestSuite has it skipped.
  static void make_certificates() {
    ours_ = std::make_unique<tests::authority>();
    theirs_ = std::make_unique<tests::authority>();
    node_ = of(*ours_, "node");
    prometheus_ = of(*ours_, "prometheus");
    const auto stranger = theirs_->sign("stranger");
    foreign_ = {ours_->certificate(), stranger.certificate, stranger.key};
  }
  static void TearDownTestSuite() { ours_.reset(), theirs_.reset(); }
  static security of(const tests::authority& signer, const std::string& name) {
    const auto made = signer.sign(name);
    return {signer.certificate(), made.certificate, made.key};
  }
  void SetUp() override {
    if (!ours_)
      make_certificates();
    open({.security = node_});
  }

  /// What comes over TLS, and in `fault` why it ended.
  std::string ask_as(const security& files, std::string_view text, std::string& fault) {
    const tls_context context{files};
    const client_socket client{server_->port()};
    tls_session session{context, client.fd(), tls_session::role::dials};
    const auto waits = [&](tls_session::outcome how) {
      pollfd ready{client.fd(), static_cast<short>(how == tls_session::outcome::wants_write ? POLLOUT : POLLIN), 0};
      return (how == tls_session::outcome::wants_read || how == tls_session::outcome::wants_write)
             && ::poll(&ready, 1, 30'000) == 1;
    };
    while (waits(session.shake_hands())) {
    }
    const auto part = std::as_bytes(std::span{text});
    if (session.established())
      session.write({&part, 1});
    std::string all;
    std::array<char, 4096> some{};
    for (;;) {
      const auto got = session.read(std::as_writable_bytes(std::span{some}));
      all.append(some.data(), got.bytes);
      if (got.how != tls_session::outcome::done && !waits(got.how))
        break;
    }
    fault = session.fault();
    return all;
  }

  static inline std::unique_ptr<tests::authority> ours_, theirs_;
  static inline security node_, prometheus_, foreign_;
};

TEST_F(SecuredMetricsServer, ServesACertificateOfItsAuthority) {
  std::string fault;
  EXPECT_THAT(ask_as(prometheus_, request, fault), AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), EndsWith("\r\n\r\nup 1\n")));
  EXPECT_EQ(fault, "the peer closed the connection");
}

TEST_F(SecuredMetricsServer, ACertificateOfAnotherGetsNothingAndIsToldWhy) {
  std::string fault;
  EXPECT_EQ(ask_as(foreign_, request, fault), "");
  EXPECT_EQ(fault, "the peer refuses this node's certificate: unknown CA");
}

TEST_F(SecuredMetricsServer, APlainRequestIsToldAboutCertificates) {
  EXPECT_THAT(ask(request), AllOf(StartsWith("HTTP/1.1 400 "),
                                  EndsWith("this cluster has certificates; ask by https, with one of its authority\n")));
}

TEST_F(SecuredMetricsServer, WhoeverStopsInTheHandshakeIsLetGoAndHoldsNobodyUp) {
  open({.security = node_, .deadline = 500ms});
  client_socket silent{server_->port()}, half{server_->port()};
  say(half, std::string_view{"\x16\x03\x01\x02\x00\x01", 6});
  std::string fault;
  EXPECT_THAT(ask_as(prometheus_, request, fault), EndsWith("up 1\n"));
  EXPECT_TRUE(silent.closed_by_peer());
  EXPECT_TRUE(half.closed_by_peer());
}

TEST_F(SecuredMetricsServer, GarbageCostsItsOwnConnection) {
  const auto* chosen = std::getenv("TROUPE_TEST_SEED");
  const auto seed = chosen != nullptr ? std::strtoul(chosen, nullptr, 10) : 1;
  SCOPED_TRACE(fmt::format("TROUPE_TEST_SEED={}", seed));
  std::mt19937 random{static_cast<std::uint32_t>(seed)};
  for (int round = 0; round < 100; ++round) {
    std::string bytes(random() % 300 + 6, '\0');
    for (auto& each : bytes)
      each = static_cast<char>(random());
    if (round % 2 == 0)
      bytes.replace(0, 6, "\x16\x03\x01\x01\x00\x01", 6); // the beginning of a handshake
    client_socket client{server_->port()};
    say(client, bytes);
    ::shutdown(client.fd(), SHUT_WR);
    hear(client);
  }
  std::string fault;
  EXPECT_THAT(ask_as(prometheus_, request, fault), EndsWith("up 1\n"));
}

TEST_F(SecuredMetricsServer, AFileThatTlsDoesNotTakeIsAnError) {
  auto wrong = node_;
  wrong.key = wrong.certificate;
  EXPECT_THROW(metrics_server::open({.security = wrong}), std::runtime_error);
}

} // namespace
} // namespace troupe::actors::net
