// SPDX-License-Identifier: BSD-3-Clause
// Knocking at doors.
#include "actors/cluster/decisions/reach_cluster.hpp"

#include <chrono>
#include <string>

#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>

#include "actors/sockets/ports.hpp"
#include "actors/system.hpp"

namespace troupe::actors {
namespace {

/// The kernel tries for minutes.
constexpr std::chrono::milliseconds silence{1500};
constexpr std::chrono::seconds answer{5};

} // namespace

caf::expected<cluster_actor> reach_cluster(caf::actor_system& system, const coordinator_address& where) {
  if (where.one_of_several && !net::somebody_listens_within(silence, where.host, where.port))
    return caf::make_error(caf::sec::connection_timeout, std::string{"nobody answers there"});
  const auto door = reach<door_actor>(system, where.host, where.port);
  if (!door)
    return door.error();
  caf::expected<cluster_actor> out{caf::make_error(caf::sec::request_timeout)};
  caf::scoped_actor asker{system};
  asker->request(*door, answer, leader_query{})
      .receive([&](const caf::strong_actor_ptr& leader) { out = caf::actor_cast<cluster_actor>(leader); },
               [&](caf::error& e) { out = std::move(e); });
  return out;
}

} // namespace troupe::actors
