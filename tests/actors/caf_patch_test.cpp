// SPDX-License-Identifier: BSD-3-Clause
// Regression tests of cmake/caf-0.18.7.patch, one for each of its points: what strangers send to CAF's ports must cost nobody
// anything.
#include "tests/actors/certificates.hpp"
#include "tests/actors/sockets.hpp"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/behavior.hpp>
#include <caf/binary_serializer.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/init_global_meta_objects.hpp>
#include <caf/io/basp/header.hpp>
#include <caf/io/middleman.hpp>
#include <caf/openssl/all.hpp>
#include <caf/scoped_actor.hpp>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

/// A message that nobody finishes reading before `open`.
struct held_message {
  template <class Inspector>
  friend bool inspect(Inspector& f, held_message& msg) {
    if constexpr (Inspector::is_loading) {
      reached.release();
      open.acquire();
    }
    return f.object(msg).fields();
  }
  static inline std::binary_semaphore reached{0}, open{0};
};

CAF_BEGIN_TYPE_ID_BLOCK(caf_patch, caf::first_custom_type_id)
CAF_ADD_TYPE_ID(caf_patch, (held_message))
CAF_END_TYPE_ID_BLOCK(caf_patch)

namespace troupe::tests {
namespace {

/// A CAF node; with an identity it speaks TLS to nodes of the same authority only, without one it speaks plain BASP.
class node {
public:
  using settings = std::function<void(caf::actor_system_config&)>;
  explicit node(const settings& also = {}) : config_{nullptr, nullptr, also}, system_{config_} {}
  node(const authority& trusted, const identity& self, const settings& also = {})
      : config_{&trusted, &self, also}, system_{config_} {}

  /// Publishes an actor that answers a number with the next one, on a free port.
  std::uint16_t publish_successor() {
    published_ = system_.spawn([]() -> caf::behavior { return {[](std::int32_t n) { return n + 1; }}; });
    auto port =
        config_.tls ? caf::openssl::publish(published_, 0, "127.0.0.1") : system_.middleman().publish(published_, 0, "127.0.0.1");
    return port ? *port : std::uint16_t{0};
  }

  /// Connects to the actor behind a port.
  testing::AssertionResult join(std::uint16_t port) {
    const auto reached = reach(port);
    return reached ? answers() : reached;
  }

  testing::AssertionResult reach(std::uint16_t port) {
    auto actor = config_.tls ? caf::openssl::remote_actor(system_, "127.0.0.1", port)
                             : system_.middleman().remote_actor("127.0.0.1", port);
    if (!actor)
      return testing::AssertionFailure() << caf::to_string(actor.error());
    remote_ = *actor;
    return testing::AssertionSuccess();
  }

  /// Whether the actor that this node joined still answers.
  testing::AssertionResult answers() {
    auto result = testing::AssertionFailure() << "wrong answer";
    caf::scoped_actor self{system_};
    self->request(remote_, std::chrono::seconds{10}, std::int32_t{41})
        .receive(
            [&](std::int32_t answer) {
              if (answer == 42)
                result = testing::AssertionSuccess();
            },
            [&](const caf::error& why) { result = testing::AssertionFailure() << caf::to_string(why); });
    return result;
  }

  /// Whether a connection to that node stands.
  bool knows(const node& other) {
    bool known = false;
    caf::scoped_actor self{system_};
    self->request(system_.middleman().actor_handle(), caf::infinite, caf::get_atom_v, other.system_.node())
        .receive([&](const caf::node_id&, const std::string&, std::uint16_t port) { known = port != 0; },
                 [](const caf::error& why) { FAIL() << caf::to_string(why); });
    return known;
  }

  caf::actor_id published() const { return published_.id(); }

  ~node() { caf::anon_send_exit(published_, caf::exit_reason::user_shutdown); }

private:
  struct config : caf::actor_system_config {
    config(const authority* trusted, const identity* self, const settings& also) : tls{self != nullptr} {
      set("caf.scheduler.max-threads", 1);
      load<caf::io::middleman>();
      if (tls) {
        load<caf::openssl::manager>();
        openssl_cafile = trusted->certificate();
        openssl_certificate = self->certificate;
        openssl_key = self->key;
      }
      if (also)
        also(*this);
    }
    bool tls;
  };

  config config_;
  caf::actor_system system_;
  caf::actor published_, remote_;
};

/// A line of /proc/self/status, in KiB.
std::int64_t memory_kib(const std::string& name) {
  std::ifstream status{"/proc/self/status"};
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(name + ":"))
      return std::stoll(line.substr(name.size() + 1));
  return -1;
}

/// Makes VmHWM, the peak of the resident size, start again from the present one.
void forget_peak() {
  std::ofstream{"/proc/self/clear_refs"} << "5";
}

template <class... Ts>
std::vector<std::byte> serialized(Ts... values) {
  caf::byte_buffer bytes;
  caf::binary_serializer sink{nullptr, bytes};
  EXPECT_TRUE((sink.apply(values) && ...));
  std::vector<std::byte> result(bytes.size());
  std::memcpy(result.data(), bytes.data(), bytes.size());
  return result;
}

std::vector<std::byte> header_claiming(std::uint32_t payload_bytes, caf::io::basp::message_type operation) {
  const bool handshake = operation == caf::io::basp::message_type::client_handshake;
  return serialized(caf::io::basp::header{operation, 0, payload_bytes, 0, 0, handshake ? 0U : 1U});
}

std::ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator{"/proc/self/fd"}, {});
}

TEST(CafPatch, AClaimOfFourGigabytesCostsLessThanOne) {
  node server;
  const auto port = server.publish_successor();
  ASSERT_NE(port, 0);
  {
    node warm_up; // what the first connection of any kind allocates is not what is measured
    ASSERT_TRUE(warm_up.join(port));
  }

  forget_peak();
  const auto before_kib = memory_kib("VmRSS");
  for (auto operation : {caf::io::basp::message_type::client_handshake, caf::io::basp::message_type::direct_message}) {
    client_socket stranger{port};
    ASSERT_TRUE(stranger.send(header_claiming(std::numeric_limits<std::uint32_t>::max(), operation)));
    EXPECT_TRUE(stranger.closed_by_peer());
  }
  EXPECT_LT(memory_kib("VmHWM") - before_kib, 1024);

  node good;
  EXPECT_TRUE(good.join(port));
}

/// A TLS client of somebody else's; without an identity it shows no certificate.
bool tls_stranger_is_refused(std::uint16_t port, const identity* self) {
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context{SSL_CTX_new(TLS_client_method()), SSL_CTX_free};
  if (self != nullptr) {
    EXPECT_EQ(SSL_CTX_use_certificate_chain_file(context.get(), self->certificate.c_str()), 1);
    EXPECT_EQ(SSL_CTX_use_PrivateKey_file(context.get(), self->key.c_str(), SSL_FILETYPE_PEM), 1);
  }
  client_socket socket{port};
  const std::unique_ptr<SSL, decltype(&SSL_free)> tls{SSL_new(context.get()), SSL_free};
  SSL_set_fd(tls.get(), socket.fd());
  // In TLS 1.3 the client is done before the server has seen its certificate: the refusal comes when it reads.
  char byte = 0;
  const bool refused = SSL_connect(tls.get()) != 1 || SSL_read(tls.get(), &byte, 1) <= 0;
  ERR_clear_error();
  return refused && socket.closed_by_peer();
}

bool plain_stranger_is_refused(std::uint16_t port) {
  client_socket socket{port};
  return socket.send(header_claiming(0, caf::io::basp::message_type::client_handshake)) && socket.closed_by_peer();
}

TEST(CafPatch, TenGoodTlsPeersBetweenTwentyBadOnesAllJoin) {
  const authority ours, theirs;
  const auto foreign = theirs.sign("foreign");
  node server{ours, ours.sign("server")};
  const auto port = server.publish_successor();
  ASSERT_NE(port, 0);

  int strangers = 0;
  auto next_stranger_is_refused = [&] {
    switch (strangers++ % 3) {
    case 0:
      return plain_stranger_is_refused(port);
    case 1:
      return tls_stranger_is_refused(port, nullptr);
    default:
      return tls_stranger_is_refused(port, &foreign);
    }
  };
  std::vector<std::unique_ptr<node>> good;
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(next_stranger_is_refused()) << "before good peer " << i;
    good.push_back(std::make_unique<node>(ours, ours.sign("good" + std::to_string(i))));
    EXPECT_TRUE(good.back()->join(port)) << "good peer " << i;
    EXPECT_TRUE(next_stranger_is_refused()) << "after good peer " << i;
  }
  for (auto& peer : good)
    EXPECT_TRUE(peer->answers()) << "a connection that stood while strangers came and went";
}

TEST(CafPatch, StrangersThatHoldEveryDescriptorFailNoProcess) {
  const authority ours;
  node server{ours, ours.sign("server")};
  const auto port = server.publish_successor();
  ASSERT_NE(port, 0);
  std::vector<std::unique_ptr<client_socket>> crowd(8);
  for (auto& each : crowd)
    each = std::make_unique<client_socket>();
  const int next = ::dup(0);
  ::close(next);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  // For two connections, and for one that finds no descriptor to read the certificates with.
  const rlimit almost_none{static_cast<rlim_t>(next) + 3, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &almost_none), 0);
  for (auto& each : crowd)
    each->connect(port);
  EXPECT_TRUE(crowd.back()->closed_by_peer());
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);

  node good{ours, ours.sign("good")};
  EXPECT_TRUE(good.join(port));
}

TEST(CafPatch, AConnectionThatTakesAnEndedOnesDescriptorIsAnswered) {
  using caf::io::basp::header, caf::io::basp::message_type;
  node server, next;
  const auto port = server.publish_successor();
  ASSERT_NE(port, 0);
  const auto before = open_descriptors();
  {
    client_socket stranger{port};
    const auto name = serialized(caf::make_node_id(1, std::string(40, 'a')));
    const auto letter = serialized(std::vector<caf::strong_actor_ptr>{}, caf::make_message(held_message{}));
    ASSERT_TRUE(
        stranger.send(serialized(header{message_type::client_handshake, 0, static_cast<std::uint32_t>(name.size()), 0, 0, 0})));
    ASSERT_TRUE(stranger.send(name));
    ASSERT_TRUE(stranger.send(serialized(
        header{message_type::direct_message, 0, static_cast<std::uint32_t>(letter.size()), 0, 1, server.published()})));
    ASSERT_TRUE(stranger.send(letter));
    held_message::reached.acquire();
  }
  while (open_descriptors() > before)
    std::this_thread::yield(); // the server has not closed the connection yet; it cannot forget it before the message is read
  ASSERT_TRUE(next.reach(port));
  while (!server.knows(next))
    std::this_thread::yield();
  held_message::open.release();
  EXPECT_TRUE(next.answers());
}

/// Waits, at most half a minute, until this process has no more descriptors open than before.
testing::AssertionResult descriptors_come_back(std::ptrdiff_t before) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds{30};
  while (open_descriptors() > before && std::chrono::steady_clock::now() < until)
    std::this_thread::yield();
  if (open_descriptors() <= before)
    return testing::AssertionSuccess();
  return testing::AssertionFailure() << open_descriptors() << " descriptors, before " << before;
}

void few_strangers(caf::actor_system_config& config) {
  config.set("caf.middleman.max-strangers", std::size_t{4});
}

TEST(CafPatch, TheOldestOfTooManyStrangersMakesRoom) {
  const authority ours;
  const auto self = ours.sign("server");
  for (const bool tls : {false, true}) {
    std::unique_ptr<node> server =
        tls ? std::make_unique<node>(ours, self, few_strangers) : std::make_unique<node>(few_strangers);
    const auto port = server->publish_successor();
    std::vector<std::unique_ptr<client_socket>> silent;
    for (int i = 0; i < 6; ++i)
      silent.push_back(std::make_unique<client_socket>(port));
    EXPECT_TRUE(silent[0]->closed_by_peer()) << "TLS " << tls;
    EXPECT_TRUE(silent[1]->closed_by_peer()) << "TLS " << tls;
    std::unique_ptr<node> good = tls ? std::make_unique<node>(ours, ours.sign("good")) : std::make_unique<node>();
    EXPECT_TRUE(good->join(port)) << "TLS " << tls;
    EXPECT_TRUE(silent[2]->closed_by_peer()) << "TLS " << tls; // for the good one
  }
}

TEST(CafPatch, StrangersAreCutWhenTheirTimeIsOverWhateverTheyDo) {
  const authority ours;
  const auto self = ours.sign("server");
  const auto soon = [](caf::actor_system_config& config) {
    config.set("caf.middleman.heartbeat-interval", caf::timespan{std::chrono::milliseconds{10}});
    config.set("caf.middleman.handshake-timeout", caf::timespan{std::chrono::milliseconds{50}});
  };
  for (const bool tls : {false, true}) {
    std::unique_ptr<node> server = tls ? std::make_unique<node>(ours, self, soon) : std::make_unique<node>(soon);
    const auto port = server->publish_successor();
    const client_socket silent, begins;
    const auto before = open_descriptors();
    silent.connect(port);
    begins.connect(port);
    EXPECT_TRUE(begins.send(std::array{std::byte{0x16}, std::byte{3}, std::byte{1}})); // of a header, or of TLS
    EXPECT_TRUE(silent.closed_by_peer()) << "TLS " << tls;
    EXPECT_TRUE(begins.closed_by_peer()) << "TLS " << tls;
    EXPECT_TRUE(descriptors_come_back(before)) << "TLS " << tls;
  }
}

TEST(CafPatch, WhoBreaksTheProtocolKeepsNoDescriptorByStaying) {
  node server;
  const auto port = server.publish_successor();
  const client_socket rude;
  const auto before = open_descriptors();
  rude.connect(port);
  ASSERT_TRUE(rude.send(std::vector<std::byte>(caf::io::basp::header_size, std::byte{0xFF})));
  EXPECT_TRUE(rude.closed_by_peer());
  EXPECT_TRUE(descriptors_come_back(before));
}

TEST(CafPatch, AStrangerAnnouncesNoMoreThanAHandshake) {
  node server;
  const auto port = server.publish_successor();
  const client_socket stranger{port};
  ASSERT_TRUE(stranger.send(header_claiming(1U << 20U, caf::io::basp::message_type::client_handshake)));
  EXPECT_TRUE(stranger.closed_by_peer());
}

TEST(CafPatch, WhoIsNotAdmittedGetsNoByte) {
  const authority ours;
  const auto self = ours.sign("server");
  for (const bool tls : {false, true}) {
    std::atomic<int> asked = 0;
    const auto nobody = [&asked](caf::actor_system_config& config) {
      config.connection_hooks.admits = [&asked](int descriptor) {
        sockaddr_storage peer{};
        socklen_t size = sizeof peer;
        asked += ::getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &size) == 0 ? 1 : 100;
        return false;
      };
    };
    std::unique_ptr<node> server = tls ? std::make_unique<node>(ours, self, nobody) : std::make_unique<node>(nobody);
    const auto port = server->publish_successor();
    const client_socket stranger{port};
    char byte = 0;
    EXPECT_LE(::recv(stranger.fd(), &byte, 1, 0), 0) << "TLS " << tls;
    EXPECT_EQ(asked, 1) << "TLS " << tls;
  }
}

TEST(CafPatch, ATlsConnectionUsesTheContextThatItIsGivenAndIsHeardOfTwice) {
  const authority ours;
  const auto self = ours.sign("server"), wrong = ours.sign("wrong");
  std::atomic<int> contexts = 0, met = 0, parted = 0;
  const auto hooks = [&](caf::actor_system_config& config) {
    config.connection_hooks.tls_context = [&] {
      ++contexts;
      SSL_CTX* const made = SSL_CTX_new(TLS_method());
      EXPECT_EQ(SSL_CTX_load_verify_locations(made, ours.certificate().c_str(), nullptr), 1);
      EXPECT_EQ(SSL_CTX_use_certificate_chain_file(made, self.certificate.c_str()), 1);
      EXPECT_EQ(SSL_CTX_use_PrivateKey_file(made, self.key.c_str(), SSL_FILETYPE_PEM), 1);
      SSL_CTX_set_verify(made, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
      return made;
    };
    config.connection_hooks.tls_met = [&](SSL* connection) {
      X509* const peer = SSL_get1_peer_certificate(connection);
      char name[64] = "";
      X509_NAME_get_text_by_NID(X509_get_subject_name(peer), NID_commonName, name, sizeof name);
      X509_free(peer);
      ++met;
      return std::string{name} == "good";
    };
    config.connection_hooks.tls_parted = [&](SSL* connection) {
      EXPECT_GE(::fcntl(SSL_get_fd(connection), F_GETFD), 0);
      ++parted;
    };
  };
  node server{ours, self, hooks};
  const auto port = server.publish_successor();
  {
    node good{ours, ours.sign("good")};
    EXPECT_TRUE(good.join(port));
    EXPECT_EQ(contexts, 1);
    EXPECT_EQ(met, 1);
    EXPECT_EQ(parted, 0);
  }
  node refused{ours, wrong};
  EXPECT_FALSE(refused.reach(port));
  EXPECT_EQ(met, 2);
  while (parted < 2)
    std::this_thread::yield();
}

} // namespace
} // namespace troupe::tests

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  caf::init_global_meta_objects<caf::id_block::caf_patch>();
  caf::core::init_global_meta_objects();
  caf::io::middleman::init_global_meta_objects();
  return RUN_ALL_TESTS();
}
