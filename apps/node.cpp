// SPDX-License-Identifier: BSD-3-Clause
// `troupe node`: one node of an embedded cluster.
#include <chrono>
#include <cstdio>

#include <caf/actor_system.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/scoped_actor.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include "actors/errors.hpp"
#include "actors/node_actor.hpp"
#include "actors/system.hpp"
#include "actors/version.hpp"
#include "apps/commands.hpp"
#include "apps/config/cluster_file.hpp"
#include "apps/report.hpp"
#include "apps/signals.hpp"

namespace troupe::apps {

namespace {

using namespace std::chrono_literals;

constexpr auto connect_deadline = 20s;
/// A shutdown that hangs is a bug, but must not leave a process behind.
constexpr unsigned shutdown_seconds = 10;

const config::cluster_node* coordinator_of(const config::cluster& cluster) {
  for (const auto& node : cluster.nodes)
    if (node.coordinator)
      return &node;
  return nullptr;
}

/// Tries until the coordinator's node listens or the deadline has passed.
caf::expected<actors::registry_actor> connect(caf::actor_system& system, const config::cluster_node& to, signal_waiter& signals) {
  auto deadline = std::chrono::steady_clock::now() + connect_deadline;
  for (int pause_ms = 50;; pause_ms = std::min(2 * pause_ms, 2000)) {
    auto registry = actors::reach<actors::registry_actor>(system, to.host, to.port);
    if (registry || std::chrono::steady_clock::now() > deadline || signals.wait(pause_ms).interrupted)
      return registry;
  }
}

} // namespace

int node_command(const node_options& options) {
  const auto cluster = config::load_cluster(options.cluster);
  if (!cluster)
    return refuse(cluster.error());
  const auto* self = cluster->find(options.name);
  if (self == nullptr)
    return refuse({{{options.cluster, fmt::format("it has no node \"{}\"; --name takes one of its [[node]] names", options.name)}}});
  if (self->coordinator)
    return refuse({{{options.cluster, "the coordinator's node is started by `troupe run`; nodes that wait for jobs are not there yet"}}});
  const auto& coordinator = *coordinator_of(*cluster);

  signal_waiter signals;
  actors::init_message_types();
  actors::system_config config{{.networked = true, .cluster_key = cluster->name}};
  caf::actor_system system{config};
  auto registry = connect(system, coordinator, signals);
  if (!registry) {
    fmt::print(stderr, "troupe: node {} cannot reach the coordinator at {}:{}: {}\n", self->name, coordinator.host, coordinator.port,
               actors::explain(registry.error()));
    return exit_failed;
  }
  auto node = system.spawn<actors::node_impl>(actors::node_options{self->host, self->lane_port});
  auto watcher = system.spawn([&signals, watched = *registry](caf::event_based_actor* me) {
    me->monitor(watched);
    me->set_down_handler([&signals](const caf::down_msg&) { signals.announce(); });
    return caf::behavior{[](caf::unit_t) {}};
  });
  int code = exit_done;
  {
    caf::scoped_actor asker{system};
    asker->request(*registry, connect_deadline, actors::node_hello{self->name, actors::version, static_cast<std::int32_t>(getpid())},
                   actors::node_actor{node})
      .receive([](std::uint32_t) {},
               [&](const caf::error& e) {
                 fmt::print(stderr, "troupe: node {} was refused: {}\n", self->name, actors::explain(e));
                 code = exit_failed;
               });
  }
  while (code == exit_done) {
    auto woken = signals.wait(-1);
    if (woken.interrupted || woken.announced) // the coordinator is gone: its job is over, or it died
      break;
  }
  alarm(shutdown_seconds);
  caf::anon_send_exit(watcher, caf::exit_reason::user_shutdown);
  caf::anon_send_exit(node, caf::exit_reason::user_shutdown);
  return code;
}

} // namespace troupe::apps
