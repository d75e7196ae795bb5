// SPDX-License-Identifier: BSD-3-Clause
// TLS over a pair of sockets, step by step: partial writes, renewed keys, the end of a stream.
#include "actors/sockets/tls.hpp"

#include <array>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/actors/certificates.hpp"

namespace troupe::actors::net {
namespace {

using outcome = tls_session::outcome;

class TlsSession : public testing::Test {
protected:
  static void TearDownTestSuite() { signer.reset(); }
  /// Made once. What fails here fails the test, where a failing SetUpTestSuite has it skipped.
  static const security& made_files() {
    if (!signer) {
      signer = std::make_unique<tests::authority>();
      const auto self = signer->sign("self");
      files = {signer->certificate(), self.certificate, self.key};
    }
    return files;
  }

  TlsSession() { EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()), 0); }
  ~TlsSession() override {
    for (const int end : ends)
      if (end >= 0)
        ::close(end);
  }
  void open(std::uint64_t records_per_key = 1U << 20U) {
    low = std::make_unique<tls_session>(context, ends[0], tls_session::role::dials, records_per_key);
    high = std::make_unique<tls_session>(context, ends[1], tls_session::role::accepts, records_per_key);
    for (int i = 0; i < 10 && !(low->established() && high->established()); ++i)
      for (auto* end : {low.get(), high.get()})
        if (!end->established())
          end->shake_hands();
    ASSERT_TRUE(low->established() && high->established());
  }

  static inline std::unique_ptr<tests::authority> signer;
  static inline security files;
  const tls_context context{made_files()};
  std::array<int, 2> ends{-1, -1};
  std::unique_ptr<tls_session> low, high;
};

/// The rest of `bytes` from `at` on, cut into parts of random sizes; the cuts depend on `at` alone, as those of a batch do.
std::vector<std::span<const std::byte>> parts_of(std::span<const std::byte> bytes, std::size_t at) {
  std::vector<std::span<const std::byte>> parts;
  while (at < bytes.size()) {
    const std::size_t cut = std::min(bytes.size(), (at / 7001 + 1) * 7001);
    parts.push_back(bytes.subspan(at, cut - at));
    at = cut;
  }
  return parts;
}

TEST_F(TlsSession, AStreamSurvivesFullSocketsAndRenewedKeys) {
  open(3);
  const auto seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::minstd_rand random(seed);
  std::vector<std::byte> sent(4U << 20U), come;
  for (auto& each : sent)
    each = static_cast<std::byte>(random());
  std::size_t written = 0, stalls = 0;
  std::vector<std::byte> some(50'000);
  while (come.size() < sent.size() || low->holds_back()) {
    // Until the socket is full: then the other end reads some, never all.
    while (written < sent.size() || low->holds_back()) {
      const auto [how, bytes] = low->write(parts_of(sent, written));
      if (how == outcome::wants_write) {
        ++stalls;
        break;
      }
      ASSERT_EQ(how, outcome::done) << low->fault();
      written += bytes;
    }
    for (unsigned i = 0; i < 1 + random() % 5; ++i) {
      const auto [how, bytes] = high->read(std::span(some).first(1 + random() % some.size()));
      if (how == outcome::wants_read)
        break;
      ASSERT_EQ(how, outcome::done) << high->fault();
      come.insert(come.end(), some.begin(), some.begin() + static_cast<std::ptrdiff_t>(bytes));
    }
  }
  EXPECT_EQ(come == sent, true);
  EXPECT_GT(stalls, 0U);
}

TEST_F(TlsSession, WhatIsWrittenIsNotReadableOnTheWay) {
  open();
  const std::string secret(1000, 's');
  const auto plain = std::as_bytes(std::span(secret));
  ASSERT_EQ(low->write(std::array{plain}).bytes, secret.size());
  std::string seen(4096, '\0');
  const auto count = ::recv(ends[1], seen.data(), seen.size(), MSG_PEEK);
  ASSERT_GT(count, 1000);
  EXPECT_EQ(seen.find("sss"), std::string::npos);
}

TEST_F(TlsSession, AChangedByteEndsTheConnection) {
  open();
  const std::string text(1000, 's');
  low->write(std::array{std::as_bytes(std::span(text))});
  std::array<char, 4096> sealed{};
  const auto count = ::recv(ends[1], sealed.data(), sealed.size(), 0);
  sealed[500] = static_cast<char>(sealed[500] ^ 1);
  ASSERT_EQ(::send(ends[0], sealed.data(), static_cast<std::size_t>(count), 0), count);
  std::array<std::byte, 1000> into;
  EXPECT_EQ(high->read(into).how, outcome::refused);
  EXPECT_EQ(high->fault(), "TLS failed: decryption failed or bad record mac");
  EXPECT_EQ(high->write(std::array{std::as_bytes(std::span(text))}).how, outcome::ended);
}

TEST_F(TlsSession, AnEndWithoutAWordIsAnEnd) {
  open();
  ::close(std::exchange(ends[0], -1));
  std::array<std::byte, 10> into;
  EXPECT_EQ(high->read(into).how, outcome::ended);
  EXPECT_EQ(high->fault(), "the peer closed the connection");
  const std::string text = "into nowhere"; // no SIGPIPE either
  EXPECT_EQ(high->write(std::array{std::as_bytes(std::span(text))}).how, outcome::ended);
}

} // namespace
} // namespace troupe::actors::net
