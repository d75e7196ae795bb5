// SPDX-License-Identifier: BSD-3-Clause
// The router and the proxies.
#include "actors/roles/lane_router.hpp"

#include "protocols/overloaded.hpp"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

namespace troupe::actors {

namespace {

flat_range flat(const wire::range& r) {
  return {r.begin, r.end};
}

/// Small messages first.
constexpr int small_message = 0;
/// The same for all partitions of a replica, so that a sender's replicas arrive one after the other.
constexpr int replica_priority = std::numeric_limits<int>::max();
/// A copy of a shard is in nobody's way.
constexpr int copy_priority = replica_priority;

} // namespace

/// Partitions in layer order, because the first layers are needed first (ByteScheduler, SOSP 2019). Once in 2^14 rounds one does
/// not go before the next, which costs a moment and nothing else.
int proxy_target::priority_of(const wire::range& where, std::uint64_t round) const {
  constexpr int place_bits = 16, round_bits = 14;
  if (!by_layers)
    return 1;
  const auto place = std::min<std::int64_t>(where.begin >> 16, (1 << place_bits) - 1);
  return 1 + (static_cast<int>(round % (1U << round_bits)) << place_bits | static_cast<int>(place));
}

void lane_router::add(protocols::worker_id id, params_actor actor, std::shared_ptr<params_assembler> receive_buffers,
                      std::shared_ptr<peer_assembler> peers) {
  std::lock_guard guard{mutex_};
  workers_[id] = {std::move(actor), std::move(receive_buffers), std::move(peers)};
}

void lane_router::add(protocols::holder_id id, holder_actor actor, holder_receive_buffers receive_buffers) {
  std::lock_guard guard{mutex_};
  holders_[id] = {std::move(actor), std::move(receive_buffers)};
}

void lane_router::clear() {
  std::lock_guard guard{mutex_};
  workers_.clear();
  holders_.clear();
  owner_ = nullptr;
}

lane_router::params_role lane_router::find(protocols::worker_id id) const {
  std::lock_guard guard{mutex_};
  auto found = workers_.find(id);
  return found == workers_.end() ? params_role{} : found->second;
}

lane_router::holder_role lane_router::find(protocols::holder_id id) const {
  std::lock_guard guard{mutex_};
  auto found = holders_.find(id);
  return found == holders_.end() ? holder_role{} : found->second;
}

void lane_router::on_up(net::node_id peer, std::uint32_t life) {
  std::lock_guard guard{mutex_};
  if (owner_)
    caf::anon_send(owner_, lane_event{run_, peer.value, life, lane_event::kind::up});
}

void lane_router::on_down(net::node_id peer, std::uint32_t life, const std::string& reason) {
  std::lock_guard guard{mutex_};
  if (owner_)
    caf::anon_send(owner_, lane_event{run_, peer.value, life, lane_event::kind::down, reason});
}

void lane_router::on_silent(net::node_id peer, std::uint32_t life, std::chrono::nanoseconds silent) {
  std::lock_guard guard{mutex_};
  if (owner_)
    caf::anon_send(owner_, lane_event{run_, peer.value, life, lane_event::kind::silent,
                                      fmt::format("silent for {:.1f} s", std::chrono::duration<double>(silent).count())});
}

void lane_router::take_only_from(const job_places& places) {
  std::lock_guard guard{mutex_};
  for (const auto& worker : places.workers)
    worker_homes_[{worker.index}] = {net::node_id{worker.node}};
  moved_ = !holder_homes_.empty();
  for (const auto& [holder, homes] : holder_homes_)
    left_[holder].insert(homes.begin(), homes.end());
  for (const auto& holder : places.holders)
    if (holder.node != nowhere) // else it may still speak from where it was: a backup that is a shard now
      holder_homes_[{holder.index}] = {net::node_id{holder.node}};
  // A backup may speak for its shard before this node has heard that it takes the shard's place.
  for (const auto& holder : places.holders)
    if (holder.backup_of)
      holder_homes_[{*holder.backup_of}].insert(net::node_id{holder.node});
}

lane_router::claim lane_router::claim_of(net::node_id from, const wire::message& head) const {
  std::lock_guard guard{mutex_};
  const auto lives = [&](const auto& homes, const auto& left, auto role, std::string_view kind) -> claim {
    const auto is_in = [&](const auto& all) {
      const auto known = all.find(role);
      return known != all.end() && known->second.contains(from);
    };
    if ((holder_homes_.empty() && worker_homes_.empty()) || is_in(homes))
      return {};
    return {is_in(left) ? claim::standing::was_true : claim::standing::is_false, fmt::format("{} {}", kind, role.value)};
  };
  const auto worker = [&](protocols::worker_id id) { return lives(worker_homes_, worker_homes_, id, "worker"); };
  const auto holder = [&](protocols::holder_id id) { return lives(holder_homes_, left_, id, "holder"); };
  return std::visit(
      overloaded{
          [&](const wire::push_part& m) { return worker(m.id.worker); },
          [&](const wire::push_end& m) { return worker(m.push.id.worker); },
          [&](const wire::params_part& m) { return holder(m.from); }, [&](const wire::partial_part& m) { return holder(m.from); },
          [&](const wire::peer_part& m) { return worker(m.message.from.worker); },
          [&](const wire::addressed<protocols::arrival>& m) { return holder(m.message.holder); },
          [&](const wire::addressed<protocols::prepared>& m) { return holder(m.message.holder); },
          [&](const wire::addressed<protocols::copy_request>& m) { return holder(m.message.from); },
          [&](const wire::copy_part& m) { return holder(m.from); }, [&](const auto&) { return holder({0}); }, // the lead's orders
      },
      head);
}

std::optional<std::string> lane_router::fault_of(net::node_id from, const wire::message& head) {
  const auto says = claim_of(from, head);
  if (says.is != claim::standing::is_false)
    return {};
  return fmt::format("node {} speaks for {}, which is not there", from.value, says.role);
}

/// It was on its way when another one took the place of the shard that it is from.
bool lane_router::is_outdated(net::node_id from, const wire::message& head) const {
  return moved_ && claim_of(from, head).is == claim::standing::was_true;
}

kernels::buffer lane_router::place(net::node_id from, const wire::message& head, std::size_t) {
  if (is_outdated(from, head))
    return {};
  return std::visit(
      overloaded{
          // The first that is here has room for all of them.
          [this](const wire::params_part& m) -> kernels::buffer {
            if (m.as != kernels::form::fp32)
              return {};
            for (const auto to : m.to)
              if (const auto role = find(to); role.receive_buffers)
                return role.receive_buffers->place(m.params.key, flat(m.where));
            return {};
          },
          [this](const wire::push_part& m) -> kernels::buffer {
            if (m.as != kernels::form::fp32) // its holder decodes it to there
              return {};
            auto role = find(m.to);
            return role.receive_buffers.pushes ? role.receive_buffers.pushes->place(m.id, flat(m.where)) : kernels::buffer{};
          },
          [this](const wire::partial_part& m) -> kernels::buffer {
            auto role = find(m.to);
            return role.receive_buffers.partials && !m.empty && m.as == kernels::form::fp32
                       ? role.receive_buffers.partials->place({m.from, m.ver, m.decision}, flat(m.where))
                       : kernels::buffer{};
          },
          [this](const wire::peer_part& m) -> kernels::buffer {
            auto role = find(m.to);
            if (m.message.is != protocols::peer_message::kind::replica)
              return {}; // of no use but to its receiver
            return role.peers ? role.peers->place({m.message.from, m.message.round}, flat(m.where)) : kernels::buffer{};
          },
          [](const auto&) -> kernels::buffer { return {}; },
      },
      head);
}

void lane_router::on_message(net::node_id from, wire::message msg, kernels::buffer payload) {
  if (is_outdated(from, msg))
    return;
  std::visit(overloaded{
                 [&](const wire::params_part& m) {
                   for (const auto to : m.to)
                     caf::anon_send(find(to).actor, m, payload);
                 },
                 [&](const wire::push_part& m) { caf::anon_send(find(m.to).actor, m, std::move(payload)); },
                 [&](const wire::partial_part& m) { caf::anon_send(find(m.to).actor, m, std::move(payload)); },
                 [&](const wire::push_end& m) { caf::anon_send(find(m.to).actor, m); },
                 [&](const wire::peer_part& m) { caf::anon_send(find(m.to).actor, m, std::move(payload)); },
                 [&](const wire::decision_part& m) { caf::anon_send(find(m.to).actor, m, std::move(payload)); },
                 [&](const wire::copy_part& m) { caf::anon_send(find(m.to).actor, m, std::move(payload)); },
                 [&](const auto& m) { caf::anon_send(find(m.to).actor, m.message); },
             },
             std::move(msg));
}

holder_actor::behavior_type holder_proxy_state::make_behavior() {
  return {
      [this](wire::push_part& head, const kernels::buffer& payload) {
        head.to = remote_;
        target_.hub->send(target_.node, head, payload, target_.priority_of(head.where));
      },
      [this](wire::push_end& end) {
        end.to = remote_;
        target_.hub->send(target_.node, end, {}, small_message);
      },
      [this](wire::partial_part& head, const kernels::buffer& payload) {
        head.to = remote_;
        target_.hub->send(target_.node, head, payload, target_.priority_of(head.where));
      },
      [this](const protocols::arrival& msg) {
        target_.hub->send(target_.node, wire::addressed<protocols::arrival>{remote_, msg}, {}, small_message);
      },
      [this](const protocols::close& msg) {
        target_.hub->send(target_.node, wire::addressed<protocols::close>{remote_, msg}, {}, small_message);
      },
      [this](const protocols::send_order& msg) {
        target_.hub->send(target_.node, wire::addressed<protocols::send_order>{remote_, msg}, {}, small_message);
      },
      [this](const protocols::drop_order& msg) {
        target_.hub->send(target_.node, wire::addressed<protocols::drop_order>{remote_, msg}, {}, small_message);
      },
      [this](const protocols::prepared& msg) {
        target_.hub->send(target_.node, wire::addressed<protocols::prepared>{remote_, msg}, {}, small_message);
      },
      [this](const protocols::commit_order& msg) {
        target_.hub->send(target_.node, wire::addressed<protocols::commit_order>{remote_, msg}, {}, small_message);
      },
      [this](wire::decision_part& head, const kernels::buffer& payload) {
        head.to = remote_;
        target_.hub->send(target_.node, head, payload, small_message);
      },
      [this](const protocols::admit_order& msg) {
        target_.hub->send(target_.node, wire::addressed<protocols::admit_order>{remote_, msg}, {}, small_message);
      },
      [this](const protocols::copy_request& msg) {
        target_.hub->send(target_.node, wire::addressed<protocols::copy_request>{remote_, msg}, {}, small_message);
      },
      [this](wire::copy_part& head, const kernels::buffer& payload) {
        head.to = remote_;
        target_.hub->send(target_.node, head, payload, copy_priority);
      },
  };
}

void send_in_partitions(const proxy_target& target, wire::peer_part head, const kernels::buffer& payload) {
  using kind = protocols::peer_message::kind;
  const auto whole = flat(head.where);
  const bool waited_for = head.message.is == kind::chunk || head.message.is == kind::standing;
  const auto priority_of = [&](const wire::range& where) {
    return head.message.is == kind::chunk ? target.priority_of(where, head.message.round)
           : waited_for                   ? small_message
                                          : replica_priority;
  };
  if (whole.size() == 0 || head.as != kernels::form::fp32) { // what is encoded is a partition already
    target.hub->send(target.node, head, payload, priority_of(head.where));
    return;
  }
  for (const auto part : cut_into_partitions(whole, waited_for ? chunk_partition_bytes : target.partition_bytes)) {
    head.where = {part.begin, part.end};
    target.hub->send(target.node, head,
                     payload.slice(static_cast<std::size_t>(part.begin - whole.begin) * sizeof(float),
                                   static_cast<std::size_t>(part.size()) * sizeof(float)),
                     priority_of(head.where));
  }
}

params_actor::behavior_type params_proxy_state::make_behavior() {
  return {
      [this](const wire::params_part& head, const kernels::buffer& payload) {
        target_.hub->send(target_.node, head, payload, target_.priority_of(head.where));
      },
      [this](const wire::peer_part& head, const kernels::buffer& payload) { send_in_partitions(target_, head, payload); },
  };
}

} // namespace troupe::actors
