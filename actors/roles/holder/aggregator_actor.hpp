// SPDX-License-Identifier: BSD-3-Clause
// The aggregator: a holder that sums what the lead named and forwards the sum.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/messages/role.hpp"
#include "actors/roles/drain_before_exit.hpp"
#include "actors/roles/emulated_link.hpp"
#include "actors/roles/holder/holder_core.hpp"
#include "actors/roles/training_clock.hpp"
#include "actors/roles/worker/device_watch.hpp"
#include "kernels/assert.hpp"
#include "protocols/binding/holder_binding.hpp"

namespace troupe::actors {

struct aggregator_setup {
  protocols::holder_place place;
  std::int64_t floats = 0;       ///< of the whole flat array
  protocols::version start = {}; ///< made before
  /// Of the flat array, and of each shard's range: the units of sending to another aggregator, and to shards.
  std::vector<flat_range> partitions;
  std::vector<std::vector<flat_range>> shard_partitions;
  std::shared_ptr<kernels::backend> queue;
  holder_receive_buffers receive_buffers;
  tracer_ptr trace;
  bool sparse = false;            ///< pushes are, and so are sums
  protocols::link_spec link = {}; ///< emulated, incoming; its parents have their own links
  wall_clock wall = steady_ns;
};

/// Reports arrivals upward at once, so that a quorum never waits for it; sums when the lead closes the round, and sends the sum
/// to those that are its parents then.
///
/// Its clock is paused from `pause_order` to `resume_order`.
class aggregator_state {
public:
  static inline const char* name = "troupe.aggregator";

  aggregator_state(measured_pointer<holder_control> self, aggregator_setup setup);
  holder_control::behavior_type make_behavior();
  const std::shared_ptr<kernels::backend>& queue() const { return setup_.queue; }

  // The World of its binding (holder_binding.hpp). It has no lead and no parameters.
  using tensor = kernels::buffer;
  protocols::nanoseconds now() const { return clock_.now(); }
  void pause() {}
  void go_on() {}
  void arm(const protocols::arm_timer&) {}
  template <class Message>
  void tell_lead(const Message& msg) {
    caf::anon_send(peers_->holders[0], msg);
  }
  template <class Order>
  void tell_others(const Order&, protocols::nanoseconds) {}
  void measure(const protocols::measured&, const tensor&);
  void apply(const protocols::close&, const protocols::operands<tensor>&, const std::optional<tensor>&);
  void forward(const protocols::partial& head, const std::optional<tensor>& sum,
               const std::vector<protocols::holder_id>& parents);
  std::optional<tensor> sum_up(const protocols::close& round, const protocols::operands<tensor>& sum,
                               const std::vector<protocols::holder_id>& backups);
  void tell_backups(const std::vector<protocols::holder_id>&, const protocols::decision_record&) {}
  void ask_for_copy(protocols::holder_id, const protocols::copy_request&) {}
  void send_copy(protocols::holder_id, const protocols::shard_piece&) {}
  void install(const protocols::shard_piece&, const tensor&) {}
  void tell_coordinator(const protocols::caught_up&) {}
  void serve(const protocols::send_order&) {}
  void follow(const protocols::send_order&) {}
  tensor parameters() const { return {}; }
  void tell_coordinator(const protocols::report&) {}
  void broken(const std::string& why);
  template <class Message>
  void tells_itself(const Message&) {}
  void decided(const protocols::lead_effects&) {}
  void retains(std::size_t) {}
  static constexpr bool checks() { return debug_build; }

private:
  struct pending_sum {
    protocols::version ver;
    std::uint64_t mark = 0; ///< of core_.held
  };

  actor_report report() const;
  template <class Message>
  void arrive(std::optional<complete<Message>> done);
  void summed(protocols::version ver);
  void send_part(const wire::partial_part& head, const kernels::buffer& part);
  bool is_shard(protocols::holder_id who) const { return who.value < setup_.shard_partitions.size(); }

  measured_pointer<holder_control> self_;
  aggregator_setup setup_;
  holder_core core_;
  protocols::holder_binding<aggregator_state> bound_;
  peers_ptr peers_;
  std::deque<pending_sum> pending_;
  training_clock clock_;
  training_timers timers_;
  emulated_link incoming_;
  device_watch watch_;
};

using aggregator_impl = measured_impl<holder_control, drain_before_exit<holder_control, aggregator_state, aggregator_setup>>;

} // namespace troupe::actors
