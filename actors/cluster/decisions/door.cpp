// SPDX-License-Identifier: BSD-3-Clause
// Doors that find each other.
#include "actors/cluster/decisions/door.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include <caf/event_based_actor.hpp>
#include <caf/io/middleman.hpp>
#include <fmt/format.h>

#include "actors/cluster/decisions/council.hpp"
#include "actors/errors.hpp"
#include "actors/sockets/ports.hpp"
#include "actors/system.hpp"

namespace troupe::actors {
namespace {

constexpr std::chrono::milliseconds between_knocks{200}, longest_knock{1500};

std::vector<std::string> names_of_members(const std::vector<peer_address>& members) {
  std::vector<std::string> out;
  for (const auto& each : members)
    out.push_back(each.name);
  return out;
}

/// May read checkpoints, so not on the door's thread, and not on its council's, which must be heard from.
caf::behavior take_over(caf::event_based_actor* self, const council_door_control& door, const council_leads& decided,
                        const std::string& folder, std::chrono::milliseconds orphan, std::uint64_t reign) {
  jobs_taken_over out{reign, {}, {}};
  try {
    out.kept = kept_jobs_of(decided.decided, folder, orphan);
    out.kept->term = decided.term;
  } catch (const std::exception& e) {
    out.why_not = e.what();
  }
  self->send(door, std::move(out));
  return {};
}

/// Blocks, so it has a thread of its own.
caf::behavior knock(caf::event_based_actor* self, const council_door_control& door, std::uint32_t member,
                    const peer_address& at) {
  council_peer out{member, {}};
  if (net::somebody_listens_within(longest_knock, at.host, at.port))
    if (const auto found = reach<council_door>(self->home_system(), at.host, at.port))
      out.door = *found;
  self->send(door, std::move(out));
  return {};
}

} // namespace

door_state::door_state(council_door_control::stateful_pointer<door_state> self, door_setup setup)
    : self_(self), setup_(std::move(setup)) {
  end_with_reason(*self);
  council_ = self_->spawn<council_impl, caf::detached + caf::linked>(
      council_setup{setup_.journal, setup_.self, names_of_members(setup_.members), council_door_control{self_}},
      std::move(setup_.ledger));
  self_->set_down_handler([this](const caf::down_msg& msg) { part(msg.source); });
  self_->set_exit_handler([this](const caf::exit_msg& msg) {
    end_cluster();
    self_->quit(msg.reason);
  });
  for (std::uint32_t member = setup_.self + 1; member < setup_.members.size(); ++member)
    dial(member);
}

council_door_control::behavior_type door_state::make_behavior() {
  return {
      [this](leader_query) { return leader(); },
      [this](const council_hello& msg, const caf::strong_actor_ptr& at) { greet(msg.member, at); },
      [this](const raft_words& msg) {
        if (is_peer(self_->current_sender()))
          self_->send(council_, msg);
      },
      [this](const council_leads& msg) { lead(msg); },
      [this](const council_follows& msg) { follow(msg); },
      [this](const jobs_taken_over& msg) {
        if (msg.reign == reign_)
          begin(msg);
      },
      [this](const council_peer& msg) { answered(msg); },
  };
}

/// One of two dials, so that there is one connection between them.
void door_state::dial(std::uint32_t member) {
  self_->spawn<caf::detached>(knock, council_door_control{self_}, member, setup_.members[member]);
}

void door_state::answered(const council_peer& msg) {
  if (!msg.door) {
    self_->run_delayed(between_knocks, [this, member = msg.member] { dial(member); });
    return;
  }
  meet(msg.member, msg.door);
  self_->send(msg.door, council_hello{setup_.self}, caf::strong_actor_ptr{self_->ctrl()});
}

/// Where there are certificates, it must show that of the coordinator that it says it is.
void door_state::greet(std::uint32_t member, const caf::strong_actor_ptr& at) {
  if (!at || member >= setup_.members.size() || member == setup_.self)
    return;
  const auto door = caf::actor_cast<council_door>(at);
  if (!setup_.cluster.peers)
    return meet(member, door);
  self_->request(self_->system().middleman().actor_handle(), caf::infinite, caf::get_atom_v, door.node())
      .then(
          [this, member, door](const caf::node_id&, const std::string& address, std::uint16_t port) {
            const auto& name = setup_.members[member].name;
            const auto known = port == 0 ? std::nullopt : setup_.cluster.peers->at(address, port);
            const auto why = known ? net::why_not_node(*known, name) : "it shows no certificate";
            if (why.empty())
              meet(member, door);
            else
              say(fmt::format("turns away who says that it is coordinator {}: {}", name, why));
          },
          [](const caf::error&) {});
}

bool door_state::is_peer(const caf::strong_actor_ptr& who) const {
  return std::ranges::any_of(peers_, [&](const auto& each) { return each.second && who && each.second.node() == who->node(); });
}

void door_state::meet(std::uint32_t member, const council_door& door) {
  if (const auto known = peers_.find(member); known != peers_.end() && known->second)
    self_->demonitor(known->second);
  peers_[member] = door;
  self_->monitor(door);
  self_->send(council_, council_peer{member, door});
}

void door_state::part(const caf::actor_addr& who) {
  if (cluster_ && cluster_.address() == who) {
    cluster_ = nullptr;
    state_ = "the cluster's actor has ended; start this coordinator's node again";
    say(state_);
  }
  for (auto& [member, door] : peers_)
    if (door && door.address() == who) {
      door = nullptr;
      self_->send(council_, council_peer{member, {}});
      if (member > setup_.self)
        dial(member);
    }
}

void door_state::lead(const council_leads& decided) {
  say("leads the coordinators; it takes over what they have decided");
  state_ = fmt::format("node {} takes the jobs over", setup_.members[setup_.self].name);
  self_->spawn<caf::detached>(take_over, council_door_control{self_}, decided, setup_.journal, setup_.orphan, ++reign_);
}

void door_state::begin(const jobs_taken_over& msg) {
  if (!msg.kept) {
    state_ = fmt::format("node {} leads, and cannot serve the cluster: {}", setup_.members[setup_.self].name, msg.why_not);
    return say(state_);
  }
  auto setup = setup_.cluster;
  setup.kept = msg.kept;
  setup.kept->council = caf::actor_cast<ledger_actor>(council_);
  end_cluster();
  cluster_ = cluster_actor{self_->spawn<cluster_impl, caf::monitored>(std::move(setup))};
}

void door_state::follow(const council_follows& msg) {
  ++reign_;
  end_cluster();
  const auto& own = setup_.members[setup_.self].name;
  state_ =
      !msg.failed.empty() ? msg.failed
      : msg.who
          ? fmt::format("node {} leads", setup_.members[*msg.who].name)
          : fmt::format("node {} does not lead, and knows nobody who does; a majority of the coordinators must be there", own);
  say(!msg.failed.empty() ? msg.failed
      : msg.who           ? fmt::format("follows; node {} leads", setup_.members[*msg.who].name)
                          : "knows of no leader");
}

void door_state::end_cluster() {
  if (cluster_)
    self_->send_exit(cluster_, caf::exit_reason::user_shutdown);
  cluster_ = nullptr;
}

caf::result<caf::strong_actor_ptr> door_state::leader() const {
  if (!cluster_)
    return failure(state_);
  return caf::actor_cast<caf::strong_actor_ptr>(cluster_);
}

} // namespace troupe::actors
