// SPDX-License-Identifier: BSD-3-Clause
// Between lanes and actors: the router hands incoming messages to local actors; proxies send outgoing ones.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/messages/node.hpp"
#include "actors/net/lane.hpp"
#include "actors/roles/holder/holder_core.hpp"
#include "actors/roles/worker/worker_actor.hpp"

namespace troupe::actors {

/// Knows the local roles. Drops a message to a role that is not here: its job is over, or its sender is wrong.
class lane_router final : public net::lane_handler {
public:
  /// `refused`: see on_refused.
  explicit lane_router(
      node_control owner, job_incarnation run = {}, std::function<void(const std::string&)> refused = [](const std::string&) {})
      : owner_(std::move(owner)), run_(run), refused_(std::move(refused)) {}

  /// From now on a message is taken only from the node that holds the role it claims to come from. Called again, where a backup
  /// has taken a shard's place: what is still on its way from the shard is dropped.
  void take_only_from(const job_places& places);
  void add(protocols::worker_id id, params_actor actor, std::shared_ptr<params_assembler> receive_buffers,
           std::shared_ptr<peer_assembler> peers);
  void add(protocols::holder_id id, holder_actor actor, holder_receive_buffers receive_buffers);
  /// Releases every actor.
  void clear();

  void on_up(net::node_id peer, std::uint32_t life) override;
  void on_down(net::node_id peer, std::uint32_t life, const std::string& reason) override;
  void on_silent(net::node_id peer, std::uint32_t life, std::chrono::nanoseconds silent) override;
  std::optional<std::string> fault_of(net::node_id from, const wire::message& head) override;
  kernels::buffer place(net::node_id from, const wire::message& head, std::size_t bytes) override;
  void on_message(net::node_id from, wire::message msg, kernels::buffer payload) override;
  void on_refused(const std::string& reason) override { refused_(reason); }

private:
  struct params_role {
    params_actor actor;
    std::shared_ptr<params_assembler> receive_buffers;
    std::shared_ptr<peer_assembler> peers;
  };
  struct holder_role {
    holder_actor actor;
    holder_receive_buffers receive_buffers;
  };

  /// Of whom a message is, by its own words.
  struct claim {
    enum class standing : std::uint8_t { is_true, was_true, is_false } is = standing::is_true;
    std::string role{};
  };

  claim claim_of(net::node_id from, const wire::message& head) const;
  bool is_outdated(net::node_id from, const wire::message& head) const;
  params_role find(protocols::worker_id id) const;
  holder_role find(protocols::holder_id id) const;

  mutable std::mutex mutex_;
  node_control owner_;
  job_incarnation run_;
  const std::function<void(const std::string&)> refused_;
  std::map<protocols::worker_id, params_role> workers_;
  std::map<protocols::holder_id, holder_role> holders_;
  /// Whence their messages may come, with holder_homes_: of the whole job; empty: not known yet.
  std::map<protocols::worker_id, std::set<net::node_id>> worker_homes_;
  std::map<protocols::holder_id, std::set<net::node_id>> holder_homes_;
  std::map<protocols::holder_id, std::set<net::node_id>> left_; ///< where they were before
  std::atomic<bool> moved_ = false;                             ///< some were elsewhere
};

/// Where a proxy sends.
struct proxy_target {
  std::shared_ptr<net::lane_hub> hub;
  net::node_id node;
  std::int64_t partition_bytes = 1 << 20; ///< of replicas; all else is cut by its sender
  bool by_layers = true;                  ///< those of the first layers first; false: as they come
  /// `round`: of chunks of a sum. By layers, who is ahead holds nobody up: what is left of a round goes before all of the next.
  int priority_of(const wire::range& where, std::uint64_t round = 0) const;
};

/// Sends a message of one worker to another. A standing goes first, and a chunk of a sum by its place, in partitions of
/// `chunk_partition_bytes`; a replica goes last, in the target's.
void send_in_partitions(const proxy_target& target, wire::peer_part head, const kernels::buffer& payload);

/// A remote shard or aggregator as a local actor.
class holder_proxy_state {
public:
  static inline const char* name = "troupe.holder-proxy";
  holder_proxy_state(holder_actor::stateful_pointer<holder_proxy_state>, proxy_target target, protocols::holder_id remote)
      : target_(std::move(target)), remote_(remote) {}
  holder_actor::behavior_type make_behavior();

private:
  proxy_target target_;
  protocols::holder_id remote_;
};
using holder_proxy_impl = holder_actor::stateful_impl<holder_proxy_state>;

/// The workers of a remote node (and the evaluator) as a local actor: a message says for whom it is. What workers send each
/// other comes whole.
class params_proxy_state {
public:
  static inline const char* name = "troupe.worker-proxy";
  params_proxy_state(params_actor::stateful_pointer<params_proxy_state>, proxy_target target) : target_(std::move(target)) {}
  params_actor::behavior_type make_behavior();

private:
  proxy_target target_;
};
using params_proxy_impl = params_actor::stateful_impl<params_proxy_state>;

} // namespace troupe::actors
