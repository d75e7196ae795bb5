// SPDX-License-Identifier: BSD-3-Clause
// Lanes with certificates: what goes over them is what goes over plain ones, and strangers of every kind get nothing.
#include <cstring>
#include <random>
#include <stdexcept>
#include <thread>

#include <gmock/gmock.h>
#include <openssl/ssl.h>

#include "protocols/wire/codec.hpp"
#include "tests/actors/certificates.hpp"
#include "tests/actors/lane_harness.hpp"
#include "tests/actors/sockets.hpp"

namespace troupe::actors::net {
namespace {

namespace wire = protocols::wire;
using test::join;
using test::make_buffer;
using test::node;
using test::order;
using test::part;
using testing::HasSubstr;
using tests::authority;
using tests::client_socket;
using tests::identity;

lane_options with(const authority& trusted, const identity& self) {
  lane_options options;
  options.security = {trusted.certificate(), self.certificate, self.key};
  return options;
}

/// Certificates are made once for all tests: each costs processes of the openssl command.
struct certificates {
  authority ours, theirs;
  identity one = ours.sign("one"), two = ours.sign("two"), late = ours.sign_expired("late"), foreign = theirs.sign("foreign");
};

class LaneTls : public testing::Test {
protected:
  LaneTls() {
    if (!made)
      made = std::make_unique<certificates>();
  }
  static void TearDownTestSuite() { made.reset(); }
  static lane_options first() { return with(made->ours, made->one); }
  static lane_options second() { return with(made->ours, made->two); }

  static inline std::unique_ptr<certificates> made;
};

// -- what a lane promises

/// Sends `count` messages of random sizes and priorities, and more from a second thread; returns what came, by clock.
std::map<std::uint64_t, std::vector<std::byte>> exchange(const lane_options& low, const lane_options& high, std::uint32_t seed) {
  node zero(0, low), one(1, high);
  join(zero, one);
  constexpr int count = 200;
  const auto send = [&](std::uint32_t sender) {
    std::minstd_rand random(seed + sender);
    for (int i = 0; i < count; ++i) {
      // Around the sizes of a small frame, a record, an inline write, a batch, and beyond.
      constexpr std::array<std::size_t, 7> around{0, 64, 4096, 16384, 32768, 262144, 1048576};
      const std::size_t bytes = (around[random() % around.size()] + 8 * (random() % 300)) / 64 * 64;
      const std::uint64_t clock = sender * count + static_cast<std::uint64_t>(i);
      if (bytes == 0)
        zero.hub->send(node_id{1}, order(clock), {}, static_cast<int>(random() % 3));
      else
        zero.hub->send(node_id{1}, part(clock, bytes), make_buffer(bytes, static_cast<std::uint32_t>(clock)),
                       static_cast<int>(random() % 3));
    }
  };
  std::thread other([&] { send(1); });
  send(0);
  other.join();
  EXPECT_TRUE(one.seen->wait_messages(2 * count));
  std::map<std::uint64_t, std::vector<std::byte>> come;
  for (const auto& each : one.seen->messages) {
    const auto bytes = each.payload ? each.payload.span<const std::byte>() : std::span<const std::byte>{};
    come.emplace(test::clock_of(each.msg), std::vector(bytes.begin(), bytes.end()));
  }
  return come;
}

TEST_F(LaneTls, RandomFramesArriveByteForByteAsOverAPlainLane) {
  const auto seed = std::random_device{}();
  RecordProperty("seed", std::to_string(seed));
  SCOPED_TRACE(seed);
  const auto plain = exchange({}, {}, seed), secured = exchange(first(), second(), seed);
  EXPECT_EQ(plain.size(), 400U);
  EXPECT_EQ(plain == secured, true);
}

TEST_F(LaneTls, BothEndsSendAtOnce) {
  node zero(0, first()), one(1, second());
  join(zero, one);
  const auto large = make_buffer(8U << 20U);
  for (std::uint64_t i = 0; i < 20; ++i) {
    zero.hub->send(node_id{1}, part(i, large.bytes()), large, 0);
    one.hub->send(node_id{0}, part(i, large.bytes()), large, 0);
  }
  ASSERT_TRUE(one.seen->wait_messages(20));
  ASSERT_TRUE(zero.seen->wait_messages(20));
  for (const auto* seen : {zero.seen.get(), one.seen.get()})
    for (std::uint64_t i = 0; i < 20; ++i) {
      EXPECT_EQ(test::clock_of(seen->messages[i].msg), i);
      EXPECT_TRUE(test::same_bytes(seen->messages[i].payload, large));
    }
}

TEST_F(LaneTls, PayloadIsReadToWhereTheReceiverWantsIt) {
  node zero(0, first()), one(1, second());
  const auto place = make_buffer(1U << 20U, 99);
  one.seen->placement = [&](const wire::message&, std::size_t bytes) { return place.slice(64, bytes); };
  join(zero, one);
  const auto sent = make_buffer(256U << 10U);
  zero.hub->send(node_id{1}, part(1, sent.bytes()), sent, 0);
  ASSERT_TRUE(one.seen->wait_messages(1));
  EXPECT_EQ(one.seen->messages[0].payload.data(), place.data() + 64);
  EXPECT_TRUE(test::same_bytes(one.seen->messages[0].payload, sent));
}

TEST_F(LaneTls, TheReasonForClosingReachesTheOtherEnd) {
  node zero(0, first()), one(1, second());
  join(zero, one);
  one.hub->close(node_id{0}, "enough");
  ASSERT_TRUE(zero.seen->wait_down());
  EXPECT_EQ(zero.seen->down[0].second, "closed by the peer: enough");
}

TEST_F(LaneTls, AnotherJobIsRefusedAtBothEnds) {
  auto other = second();
  other.job_key = 0xabc;
  node zero(0, first()), one(1, other);
  zero.hub->connect(node_id{1}, "127.0.0.1", one.hub->port(), test::patience);
  ASSERT_TRUE(zero.seen->wait_down());
  ASSERT_TRUE(one.seen->wait_refused());
  for (const std::string& reason : {zero.seen->down[0].second, one.seen->refused[0]})
    EXPECT_THAT(reason, HasSubstr("not the same run"));
}

TEST_F(LaneTls, ACertificateOpensALaneToTheNodeThatItNamesAlone) {
  auto low = first(), high = second();
  low.names = high.names = {"one", "two"};
  {
    node zero(0, low), one(1, high);
    join(zero, one);
  }
  high.names = {"somebody", "two"}; // the end that is dialed looks at who dials
  low.names = {"one", "elsewhere"}; // and the other way round
  for (const auto& [dials, accepts] : {std::pair{first(), high}, std::pair{low, second()}}) {
    node zero(0, dials), one(1, accepts);
    zero.hub->connect(node_id{1}, "127.0.0.1", one.hub->port(), test::patience);
    ASSERT_TRUE(zero.seen->wait_down());
    EXPECT_THAT(zero.seen->down[0].second,
                testing::MatchesRegex(
                    ".*its certificate was issued to \"(one|two)\", and it says that it is node \"(somebody|elsewhere)\".*"));
    // The end that was dialed may hear of it a moment later.
    const auto begun = std::chrono::steady_clock::now();
    while (!one.hub->stats().empty() && std::chrono::steady_clock::now() - begun < test::patience)
      std::this_thread::yield();
    EXPECT_TRUE(one.hub->stats().empty());
  }
}

TEST_F(LaneTls, AConsolesCertificateOpensNone) {
  const identity console = made->ours.sign_console("one-at-a-console");
  for (const auto& names : {std::vector<std::string>{}, {"one-at-a-console", "two"}}) {
    auto low = with(made->ours, console), high = second();
    low.names = high.names = names;
    node zero(0, low), one(1, high);
    zero.hub->connect(node_id{1}, "127.0.0.1", one.hub->port(), test::patience);
    ASSERT_TRUE(zero.seen->wait_down());
    ASSERT_TRUE(one.seen->wait_refused());
    for (const std::string& reason : {zero.seen->down[0].second, one.seen->refused[0]})
      EXPECT_THAT(reason, HasSubstr("its certificate, \"one-at-a-console\", is a console's"));
  }
}

TEST_F(LaneTls, EndsWhenItsPeersCertificateIsRevokedAndNoOtherOpens) {
  const authority& ours = made->ours;
  const identity gone = ours.sign("gone");
  auto low = with(ours, gone), high = second();
  high.security.crl = ours / "lanes.crl";
  ours.write_list(high.security.crl);
  node zero(0, low), one(1, high);
  join(zero, one);
  ours.write_list(high.security.crl, {gone});
  ASSERT_TRUE(one.seen->wait_down());
  ASSERT_TRUE(zero.seen->wait_down());
  EXPECT_EQ(one.seen->down[0].second, "the certificate of node gone has been revoked");
  EXPECT_THAT(zero.seen->down[0].second, HasSubstr("the certificate of node gone has been revoked"));
  node again(0, low);
  again.hub->connect(node_id{1}, "127.0.0.1", one.hub->port(), test::patience);
  ASSERT_TRUE(again.seen->wait_down());
  ASSERT_TRUE(one.seen->wait_refused());
  EXPECT_THAT(again.seen->down[0].second, HasSubstr("certificate revoked"));
  EXPECT_THAT(one.seen->refused[0], HasSubstr("its certificate has been revoked"));
}

TEST_F(LaneTls, FilesThatAreReplacedEndNoneAndAreUsedForTheNext) {
  namespace fs = std::filesystem;
  const authority& ours = made->ours;
  auto high = second();
  high.security = {ours / "live-ca.pem", ours / "live.pem", ours / "live.key"};
  const auto put = [](const std::string& from, const std::string& to) {
    fs::copy_file(from, to + ".new", fs::copy_options::overwrite_existing);
    fs::rename(to + ".new", to);
  };
  put(ours.certificate(), high.security.ca);
  put(made->two.certificate, high.security.certificate);
  put(made->two.key, high.security.key);
  node zero(0, first()), two(2, high), newcomer(1, with(made->theirs, made->foreign));
  join(zero, two, 2);
  // From now on both authorities are as good, as while one replaces the other.
  const auto trusted = made->ours / "both-ca.pem";
  {
    std::ofstream both{trusted};
    both << std::ifstream{ours.certificate()}.rdbuf() << std::ifstream{made->theirs.certificate()}.rdbuf();
  }
  const identity renewed = made->theirs.sign("renewed");
  put(trusted, high.security.ca);
  put(renewed.key, high.security.key);
  put(renewed.certificate, high.security.certificate);
  // Until it has looked at its files again, it is refused for good each time.
  const auto until = std::chrono::steady_clock::now() + test::patience;
  for (std::size_t attempt = 1; newcomer.hub->stats().empty() && std::chrono::steady_clock::now() < until; ++attempt) {
    newcomer.hub->connect(node_id{2}, "127.0.0.1", two.hub->port(), test::patience);
    ASSERT_TRUE(newcomer.seen->wait([&] { return newcomer.seen->down.size() + newcomer.seen->up.size() >= attempt; }));
  }
  ASSERT_TRUE(two.seen->wait_up(2));
  zero.hub->send(node_id{2}, part(1, 4096), make_buffer(4096), 0);
  ASSERT_TRUE(two.seen->wait_messages(1));
  const std::lock_guard lock(zero.seen->mutex);
  EXPECT_TRUE(zero.seen->down.empty());
}

TEST_F(LaneTls, AFileThatIsNoneIsNamedWhenTheHubOpens) {
  auto wrong = first();
  wrong.security.key = wrong.security.certificate;
  try {
    node zero(0, wrong);
    FAIL() << "opened";
  } catch (const std::runtime_error& e) {
    EXPECT_THAT(e.what(), HasSubstr(wrong.security.key + " is no key that TLS takes"));
  }
}

// -- strangers

/// Node 2 with a lane from node 1, which must work before and after whatever comes to node 2's port.
class LaneTlsHostile : public LaneTls {
protected:
  void SetUp() override { join(one, two, 2); }
  void TearDown() override {
    const std::size_t before = two.seen->messages.size();
    one.hub->send(node_id{2}, part(77, 4096), make_buffer(4096), 0);
    ASSERT_TRUE(two.seen->wait_messages(before + 1));
    EXPECT_TRUE(test::same_bytes(two.seen->messages.back().payload, make_buffer(4096)));
    const std::lock_guard lock(two.seen->mutex);
    EXPECT_THAT(two.seen->down, testing::Not(testing::Contains(testing::Key(node_id{1}))));
  }
  static lane_options impatient() {
    auto options = second();
    options.handshake_timeout = std::chrono::milliseconds(500);
    return options;
  }
  /// Node 0 with these files dials node 2; why it got no lane, in the words of both ends.
  struct words {
    std::string at_stranger, at_hub;
  };
  words dial_as(const lane_options& stranger) {
    node zero(0, stranger);
    zero.hub->connect(node_id{2}, "127.0.0.1", two.hub->port(), test::patience);
    if (!zero.seen->wait_down() || !two.seen->wait_refused())
      return {"nothing", "nothing"};
    EXPECT_THAT(zero.seen->up, testing::IsEmpty());
    EXPECT_EQ(two.seen->up.size(), 1U);
    return {zero.seen->down[0].second, two.seen->refused[0]};
  }

  node one{1, first()}, two{2, impatient()};
};

TEST_F(LaneTlsHostile, APlainNodeIsRefusedInPlainWords) {
  const auto [at_stranger, at_hub] = dial_as({});
  EXPECT_THAT(at_stranger, HasSubstr("this lane takes TLS with a certificate of the cluster's authority only"));
  EXPECT_THAT(at_hub, HasSubstr("it speaks no TLS"));
  EXPECT_THAT(at_hub, HasSubstr("connection from 127.0.0.1:"));
}

TEST_F(LaneTlsHostile, ACertificateOfAnotherAuthorityIsRefusedByBoth) {
  const auto [at_stranger, at_hub] = dial_as(with(made->theirs, made->foreign));
  EXPECT_THAT(at_stranger, HasSubstr("its certificate is not of this cluster's authority"));
  EXPECT_THAT(at_hub, HasSubstr("the peer refuses this node's certificate: unknown CA"));
}

TEST_F(LaneTlsHostile, ACertificateOfAnotherAuthorityIsRefusedThoughItsOwnerTrustsOurs) {
  const auto [at_stranger, at_hub] = dial_as(with(made->ours, made->foreign));
  EXPECT_THAT(at_stranger, HasSubstr("the peer refuses this node's certificate: unknown CA"));
  EXPECT_THAT(at_hub, HasSubstr("its certificate is not of this cluster's authority"));
}

TEST_F(LaneTlsHostile, AnExpiredCertificateIsRefused) {
  const auto [at_stranger, at_hub] = dial_as(with(made->ours, made->late));
  EXPECT_THAT(at_stranger, HasSubstr("the peer refuses this node's certificate: certificate expired"));
  EXPECT_THAT(at_hub, HasSubstr("its certificate is refused: certificate has expired"));
}

TEST_F(LaneTlsHostile, NoCertificateIsRefused) {
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context{SSL_CTX_new(TLS_client_method()), SSL_CTX_free};
  const client_socket socket(two.hub->port());
  const std::unique_ptr<SSL, decltype(&SSL_free)> tls{SSL_new(context.get()), SSL_free};
  SSL_set_fd(tls.get(), socket.fd());
  char byte = 0;
  EXPECT_TRUE(SSL_connect(tls.get()) != 1 || SSL_read(tls.get(), &byte, 1) <= 0);
  ASSERT_TRUE(two.seen->wait_refused());
  EXPECT_THAT(two.seen->refused[0], HasSubstr("it shows no certificate"));
}

TEST_F(LaneTlsHostile, SilenceAndHalfAHandshakeAreDroppedAfterTheTimeLimit) {
  const client_socket silent(two.hub->port()), half(two.hub->port());
  const std::array<unsigned char, 6> beginning{0x16, 0x03, 0x01, 0x02, 0x00, 0x01};
  ASSERT_TRUE(half.send(std::as_bytes(std::span(beginning))));
  ASSERT_TRUE(two.seen->wait_refused(2));
  for (const std::string& reason : two.seen->refused)
    EXPECT_THAT(reason, HasSubstr("no hello within 500 ms"));
  EXPECT_TRUE(silent.closed_by_peer());
  EXPECT_TRUE(half.closed_by_peer());
}

TEST_F(LaneTlsHostile, GarbageAndHangingUpAreNamed) {
  const client_socket noise(two.hub->port());
  std::vector<std::byte> bytes(4096, std::byte{0x16});
  ASSERT_TRUE(noise.send(bytes));
  ASSERT_TRUE(two.seen->wait_refused(1));
  EXPECT_THAT(two.seen->refused[0], HasSubstr("it speaks no TLS"));
  { const client_socket gone(two.hub->port()); }
  ASSERT_TRUE(two.seen->wait_refused(2));
  EXPECT_THAT(two.seen->refused[1], HasSubstr("the peer closed the connection"));
}

TEST_F(LaneTlsHostile, ManyStrangersLeaveTheAcceptorWorking) {
  std::vector<std::unique_ptr<client_socket>> crowd;
  for (int i = 0; i < 200; ++i)
    crowd.push_back(std::make_unique<client_socket>(two.hub->port()));
  node zero(0, first());
  join(zero, two, 2);
  EXPECT_TRUE(two.seen->wait_refused(200));
}

TEST_F(LaneTls, ASecuredNodeGivesUpAtAPlainPort) {
  node zero(0, first()), one(1);
  zero.hub->connect(node_id{1}, "127.0.0.1", one.hub->port(), test::patience);
  ASSERT_TRUE(zero.seen->wait_down());
  ASSERT_TRUE(one.seen->wait_refused());
  EXPECT_THAT(zero.seen->down[0].second, HasSubstr("it speaks no TLS"));
  EXPECT_THAT(one.seen->refused[0], HasSubstr("it speaks TLS, and this node has no certificate"));
}

} // namespace
} // namespace troupe::actors::net
