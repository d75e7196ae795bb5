// SPDX-License-Identifier: BSD-3-Clause
// The control plane with certificates: who reaches a published actor, and who does not.
#include <caf/actor.hpp>
#include <caf/behavior.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/scoped_actor.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "actors/cluster/cluster_actor.hpp"
#include "actors/errors.hpp"
#include "actors/messages/dialect.hpp"
#include "actors/roles/rate_limited.hpp"
#include "actors/sockets/strangers.hpp"
#include "actors/system.hpp"
#include "tests/actors/certificates.hpp"

namespace troupe::actors {
namespace {

using tests::authority;
using tests::identity;

/// CAF calls a refusal by the step that met it, and which of the two that is, is a race.
testing::AssertionResult is_refusal(const std::string& answer) {
  if (answer.ends_with("one end does not take the other's certificate"))
    return testing::AssertionSuccess();
  return testing::AssertionFailure() << answer;
}

net::security files(const authority& trusted, const identity& self) {
  return {trusted.certificate(), self.certificate, self.key};
}

/// A process's actor system, as `troupe node` has one.
struct process {
  explicit process(const net::security& security)
      : config({.networked = true, .cluster_key = "lab", .security = security}), system(config) {}

  /// An actor that answers a number with the next one.
  std::uint16_t publish_successor() {
    const caf::actor successor = system.spawn([]() -> caf::behavior { return {[](std::int32_t n) { return n + 1; }}; });
    published = successor;
    const auto port = publish(system, successor, 0, "127.0.0.1");
    return port ? *port : std::uint16_t{0};
  }
  /// The answer, or why there is none.
  std::string ask(std::uint16_t port) {
    const auto remote = reach<caf::actor>(system, "127.0.0.1", port);
    if (!remote)
      return explain(remote.error());
    std::string answer;
    caf::scoped_actor self{system};
    self->request(*remote, std::chrono::seconds{30}, std::int32_t{41})
        .receive([&](std::int32_t n) { answer = std::to_string(n); },
                 [&](const caf::error& why) { answer = caf::to_string(why); });
    return answer;
  }
  ~process() { caf::anon_send_exit(published, caf::exit_reason::user_shutdown); }

  system_config config;
  caf::actor_system system;
  caf::actor published;
};

TEST(SecureSystem, OnlyACertificateOfTheSameAuthorityReachesAnActor) {
  const authority ours, theirs;
  process server(files(ours, ours.sign("server")));
  ASSERT_TRUE(is_secured(server.system));
  const std::uint16_t port = server.publish_successor();
  ASSERT_NE(port, 0);
  const identity foreign = theirs.sign("foreign"), late = ours.sign_expired("late");
  const std::vector<std::pair<std::string, net::security>> strangers{
      {"no certificate", {}},
      {"another authority's", files(theirs, foreign)},
      {"another authority's, that trusts ours", files(ours, foreign)},
      {"an expired one", files(ours, late)},
  };
  for (const auto& [who, security] : strangers) {
    EXPECT_TRUE(is_refusal(process(security).ask(port))) << who;
    EXPECT_EQ(process(files(ours, ours.sign("good"))).ask(port), "42") << "after " << who;
  }
}

/// What was said to a log.
class heard {
public:
  std::function<void(const std::string&)> ear() {
    return [this](const std::string& text) {
      const std::lock_guard guard{mutex_};
      all_.push_back(text);
      more_.notify_all();
    };
  }
  /// The server is told a moment after its client. False: never.
  bool until(const std::string& part) {
    std::unique_lock lock{mutex_};
    return more_.wait_for(lock, std::chrono::seconds{30}, [&] {
      return std::ranges::any_of(all_, [&](const auto& text) { return text.find(part) != std::string::npos; });
    });
  }

private:
  std::mutex mutex_;
  std::condition_variable more_;
  std::vector<std::string> all_;
};

/// A cluster of a, which is its own process, b and c.
class secured_cluster {
public:
  explicit secured_cluster(const authority& ours) : own_(files(ours, ours.sign("a"))) {
    cluster_setup setup{.name = "lab", .nodes = {{.name = "a"}, {.name = "b"}, {.name = "c"}}, .own = {}, .say = log.ear()};
    setup.peers = own_.config.peers();
    cluster_ = own_.system.spawn<cluster_impl>(std::move(setup));
    if (const auto opened = publish(own_.system, cluster_actor{cluster_}, 0, "127.0.0.1"))
      port = *opened;
  }
  secured_cluster(const secured_cluster&) = delete;
  secured_cluster& operator=(const secured_cluster&) = delete;
  ~secured_cluster() { caf::anon_send_exit(cluster_, caf::exit_reason::user_shutdown); }

  heard log;
  std::uint16_t port = 0;

private:
  process own_;
  cluster_control cluster_;
};

/// What the cluster answers to a process that wants to join under this name.
std::string answer_to(const net::security& own, std::uint16_t port, const std::string& name) {
  process client(own);
  const auto cluster = reach<cluster_actor>(client.system, "127.0.0.1", port);
  if (!cluster)
    return explain(cluster.error());
  const auto node = client.system.spawn<node_impl>(node_options{});
  std::string answer;
  caf::scoped_actor self{client.system};
  self->request(*cluster, std::chrono::seconds{30}, node_hello{.name = name, .version = message_dialect(), .pid = 1},
                node_actor{node})
      .receive([&](std::uint32_t number) { answer = fmt::format("joined as {}", number); },
               [&](const caf::error& why) { answer = explain(why); });
  self->request(*cluster, std::chrono::seconds{30}, cluster_query{})
      .receive([](const cluster_view&) {}, [&](const caf::error& why) { answer += ", may not look: " + explain(why); });
  caf::anon_send_exit(node, caf::exit_reason::user_shutdown);
  return answer;
}

TEST(SecureSystem, ANodeJoinsUnderTheNameInItsCertificateAndNoOther) {
  using testing::HasSubstr;
  const authority ours;
  secured_cluster cluster(ours);
  ASSERT_NE(cluster.port, 0);
  const auto b = files(ours, ours.sign("b")), console = files(ours, ours.sign_console("user"));
  EXPECT_THAT(
      answer_to(b, cluster.port, "c"),
      HasSubstr("its certificate was issued to \"b\", and it says that it is node \"c\"; start it under its own name, or make "
                "a certificate by `troupe certs issue FOLDER --node c`"));
  EXPECT_TRUE(cluster.log.until("turns away node \"c\": its certificate was issued to \"b\""));
  EXPECT_THAT(answer_to(console, cluster.port, "c"), HasSubstr("its certificate, \"user\", is a console's"));
  EXPECT_TRUE(cluster.log.until("turns away node \"c\": its certificate, \"user\", is a console's"));
  EXPECT_EQ(answer_to(b, cluster.port, "b"), "joined as 1");
}

/// Why certificates keep this client out; empty: they do not.
std::string kept_out(const net::security& own, std::uint16_t port) {
  const process client(own);
  return what_keeps_out(client.system, caf::sec::disconnect_during_handshake, "127.0.0.1", port);
}

TEST(SecureSystem, WhoseCertificateIsRevokedIsDisconnectedAndOthersAreNot) {
  const authority ours;
  const auto list = ours / "list.crl";
  ours.write_list(list);
  auto own = files(ours, ours.sign("server"));
  own.crl = list;
  process server(own);
  const auto port = server.publish_successor();
  const identity b = ours.sign("b");
  process revoked(files(ours, b)), good(files(ours, ours.sign("c")));
  const auto remote = reach<caf::actor>(revoked.system, "127.0.0.1", port),
             kept = reach<caf::actor>(good.system, "127.0.0.1", port);
  ASSERT_TRUE(remote && kept);
  EXPECT_EQ(server.config.end_revoked(), std::vector<std::string>{});
  ours.write_list(list, {b});
  std::vector<std::string> ended;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds{30};
  while (ended.empty() && std::chrono::steady_clock::now() < until)
    ended = server.config.end_revoked(); // looks at its files once a second
  EXPECT_EQ(ended, std::vector<std::string>{"b"});
  caf::scoped_actor asker{revoked.system};
  asker->monitor(*remote);
  asker->receive([](const caf::down_msg&) {});
  EXPECT_EQ(good.ask(port), "42");
  EXPECT_THAT(kept_out(files(ours, b), port), testing::HasSubstr("certificate revoked"));
}

TEST(SecureSystem, WhoIsKeptOutIsToldWhyAndSoIsWhoeverKeepsThemOut) {
  using testing::HasSubstr;
  const authority ours, theirs;
  heard log;
  const net::refusal_watch watch{log.ear()};
  process server(files(ours, ours.sign("server")));
  const auto port = server.publish_successor();
  const identity foreign = theirs.sign("foreign");
  EXPECT_THAT(kept_out({}, port), HasSubstr("this cluster asks for certificates; none given"));
  EXPECT_TRUE(log.until("connection from 127.0.0.1: it shows no certificate"));
  EXPECT_THAT(kept_out(files(theirs, foreign), port), HasSubstr("its certificate is not of this cluster's authority"));
  EXPECT_THAT(kept_out(files(ours, foreign), port), HasSubstr("the peer refuses this node's certificate: unknown CA"));
  EXPECT_TRUE(log.until("connection from 127.0.0.1: its certificate is not of this cluster's authority"));
  EXPECT_EQ(kept_out(files(ours, ours.sign("client")), port), "");
}

TEST(SecureSystem, AnInsecureClusterIsNamedToWhoeverHasCertificates) {
  const authority ours;
  process plain({});
  const auto port = plain.publish_successor();
  EXPECT_THAT(kept_out(files(ours, ours.sign("client")), port),
              testing::HasSubstr("it speaks no TLS: that end has no certificates"));
  EXPECT_EQ(kept_out({}, port), "");
}

TEST(SecureSystem, WhereNobodyListensCertificatesAreNotBlamed) {
  const authority ours;
  std::uint16_t port = 0;
  {
    process gone({});
    port = gone.publish_successor();
  }
  EXPECT_EQ(kept_out({}, port), "");
  EXPECT_EQ(kept_out(files(ours, ours.sign("client")), port), "");
}

TEST(Seldom, SaysTheFirstAndThenHowManyThereWere) {
  std::vector<std::string> said;
  rate_limited say{[&](const std::string& text) { said.push_back(text); }};
  const auto start = rate_limited::clock::now();
  for (int ms = 0; ms < 10'000; ms += 1000)
    say("a", start + std::chrono::milliseconds{ms});
  EXPECT_THAT(said, testing::ElementsAre("a"));
  say("b", start + rate_limited::pause);
  say("c", start + 2 * rate_limited::pause);
  EXPECT_THAT(said, testing::ElementsAre("a", "b (and 9 more since the last)", "c"));
}

TEST(SecureSystem, AFileThatIsNoneIsNamedBeforeAnythingStarts) {
  const authority ours;
  auto wrong = files(ours, ours.sign("one"));
  wrong.key = ours.sign("two").key;
  try {
    system_config config({.networked = true, .cluster_key = "lab", .security = wrong});
    FAIL() << "accepted";
  } catch (const std::runtime_error& e) {
    EXPECT_EQ(std::string(e.what()), wrong.key + " is no key that TLS takes: key values mismatch");
  }
}

TEST(SecureSystem, ASecuredProcessTrustsNoPlainServerAndNoneOfAnotherAuthority) {
  const authority ours, theirs;
  process plain({}), foreign(files(theirs, theirs.sign("foreign")));
  ASSERT_FALSE(is_secured(plain.system));
  process client(files(ours, ours.sign("client")));
  EXPECT_TRUE(is_refusal(client.ask(foreign.publish_successor())));
  EXPECT_TRUE(is_refusal(client.ask(plain.publish_successor())));
}

} // namespace
} // namespace troupe::actors
