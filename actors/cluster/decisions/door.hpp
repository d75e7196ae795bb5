// SPDX-License-Identifier: BSD-3-Clause
// The door of one of several coordinators: who knocks there is told which actor is the cluster, if that is here.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/cluster/cluster_actor.hpp"
#include "actors/journal/durable_ledger.hpp"
#include "actors/messages/cluster.hpp"

namespace troupe::actors {

/// Another coordinator.
struct peer_address {
  std::string name, host;
  std::uint16_t port = 0;
};
struct door_setup {
  cluster_setup cluster;              ///< of which this process, should it lead, is the coordinator; without `kept`
  std::string journal;                ///< folder
  std::chrono::milliseconds orphan{}; ///< how long jobs wait for their clients
  std::vector<peer_address> members;  ///< all of them, in the file's order
  std::uint32_t self = 0;             ///< this one's number
  std::shared_ptr<durable_ledger> ledger;
};

/// Listens for the others, and dials those with a higher number; has its council decide who leads. When that is this one, it
/// takes the jobs over, and the cluster's actor begins here; when it is no more, that ends, and its nodes and clients look for
/// the next.
class door_state {
public:
  static inline const char* name = "troupe.door";

  door_state(council_door_control::stateful_pointer<door_state> self, door_setup setup);
  council_door_control::behavior_type make_behavior();

private:
  void dial(std::uint32_t member);
  void answered(const council_peer& msg);
  void greet(std::uint32_t member, const caf::strong_actor_ptr& at);
  bool is_peer(const caf::strong_actor_ptr& who) const;
  void meet(std::uint32_t member, const council_door& door);
  void part(const caf::actor_addr& who);
  void lead(const council_leads& decided);
  void follow(const council_follows& msg);
  void begin(const jobs_taken_over& msg);
  void end_cluster();
  caf::result<caf::strong_actor_ptr> leader() const;
  void say(const std::string& text) const { setup_.cluster.say(text); }

  council_door_control::stateful_pointer<door_state> self_;
  door_setup setup_;
  council_actor council_;
  std::map<std::uint32_t, council_door> peers_;
  cluster_actor cluster_{}; ///< null: this one does not lead
  std::uint64_t reign_ = 0; ///< how often it has begun, or ceased, to lead
  std::string state_ = "no coordinator leads yet; a majority of them must be there";
};

using door_impl = council_door_control::stateful_impl<door_state>;

} // namespace troupe::actors
