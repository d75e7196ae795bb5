// SPDX-License-Identifier: BSD-3-Clause
// The aggregator: a holder that sums what the lead named and forwards the sum.
#pragma once

#include <deque>
#include <memory>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/device_watch.hpp"
#include "actors/emulated_link.hpp"
#include "actors/holder_core.hpp"
#include "actors/messages/role.hpp"
#include "actors/outliving.hpp"
#include "actors/training_clock.hpp"

namespace troupe::actors {

struct aggregator_setup {
  protocols::holder_place place;
  std::int64_t floats = 0; ///< of the whole flat array
  /// The partitions that each parent takes, in the order of `place.parents`.
  std::vector<std::vector<flat_range>> partitions;
  std::shared_ptr<kernels::backend> queue;
  holder_landing landing;
  tracer_ptr trace;
  protocols::link_spec link = {}; ///< emulated: of its host, inwards; whoever takes its sums has a link of its own
  wall_clock wall = steady_ns;
};

/// Reports arrivals upward at once, so that a quorum never waits for it; sums when the lead closes the round.
///
/// Its clock stands still from `pause_order` to `resume_order`.
class aggregator_state {
public:
  static inline const char* name = "troupe.aggregator";

  aggregator_state(measured_pointer<holder_control> self, aggregator_setup setup);
  holder_control::behavior_type make_behavior();
  const std::shared_ptr<kernels::backend>& queue() const { return setup_.queue; }

private:
  /// The emulated link's; the machine has none.
  static constexpr protocols::timer_id incoming_timer{1};

  struct pending_sum {
    protocols::version ver;
    kernels::buffer sum; ///< empty: none of the children counted
    std::vector<kernels::buffer> terms;
    std::uint64_t mark = 0; ///< of core_.held
  };

  actor_report report() const;
  template <class Complete>
  void arrive(const std::optional<Complete>& complete);
  void perform(const protocols::holder_effects& effects);
  void forward(const protocols::forward& what);
  void summed(protocols::version ver);
  void send_part(const wire::partial_part& head, const kernels::buffer& part);

  measured_pointer<holder_control> self_;
  aggregator_setup setup_;
  holder_core core_;
  peers_ptr peers_;
  std::deque<pending_sum> pending_;
  training_clock clock_;
  training_timers timers_;
  emulated_link incoming_;
  device_watch watch_;
};

using aggregator_impl = measured_impl<holder_control, outliving<holder_control, aggregator_state, aggregator_setup>>;

} // namespace troupe::actors
