// SPDX-License-Identifier: BSD-3-Clause
// The shard: keeps a range of the parameters, applies what the lead decides, serves workers. Shard 0 is the lead.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/messages/role.hpp"
#include "actors/roles/emulated_link.hpp"
#include "actors/roles/holder/holder_core.hpp"
#include "actors/roles/holder/shard_step.hpp"
#include "actors/roles/outliving.hpp"
#include "actors/roles/training_clock.hpp"
#include "actors/roles/worker/device_watch.hpp"
#include "kernels/assert.hpp"
#include "protocols/binding/holder_binding.hpp"

namespace troupe::actors {

struct shard_setup {
  protocols::holder_place place;
  flat_range range;                   ///< of the flat parameters
  bool alone = true;                  ///< the range is all of them
  std::vector<flat_range> partitions; ///< of `range`: the units of sending
  kernels::buffer initial;            ///< the range's first parameters, in host memory that nobody writes any more
  std::shared_ptr<kernels::backend> queue;
  optimizer_spec optimizer;
  std::int64_t data_size = 1; ///< samples of an epoch, for the schedule
  holder_landing landing;
  std::map<protocols::worker_id, protocols::holder_id> through = {}; ///< children in whose sums workers' pushes come
  std::shared_ptr<protocols::lead> lead; ///< at shard 0; of a protocol that applies each push alone, at every shard
  bool per_push = false;
  protocols::link_spec link; ///< emulated
  tracer_ptr trace;
  /// That a message to another host holds at most: what fits the control plane's (system.cpp), with room to spare.
  std::uint64_t floats_per_piece = 128 * 1024;
  wall_clock wall = steady_ns;
};

/// The lead's clock stands still from the version at which it holds, once that is made here, until it goes on; the other shards'
/// from `pause_order` to `resume_order`.
///
/// Over an emulated link what others send (pushes, partial sums, arrivals) comes in by the shard's own; its parameters, and a
/// lead's orders, go out by it. Nothing that an evaluation waits for is delayed while the clock stands still.
///
/// Spawn it detached when its queue is a CPU's. On a device a version is one step over the whole range; when it has run, its
/// partitions go to roles on devices of this process as they lie, and through host memory, one after the other, to all others.
/// Parameters are versions: each apply writes a fresh block, so that whoever
/// still reads the last version keeps it, and nothing is copied for workers in this process.
class shard_state {
public:
  static inline const char* name = "troupe.shard";

  shard_state(measured_pointer<shard_control> self, shard_setup setup);
  shard_control::behavior_type make_behavior();
  const std::shared_ptr<kernels::backend>& queue() const { return setup_.queue; }

  // The World of its binding (holder_binding.hpp).
  using tensor = kernels::buffer;
  protocols::nanoseconds now() const { return clock_.now(); }
  void pause();
  void go_on() { run(clock_, timers_, true); }
  void arm(const protocols::arm_timer& what) { timers_.arm(what); }
  void tell_lead(const protocols::arrival& what) { caf::anon_send(peers_->holders[0], what); }
  template <class Order>
  void tell_others(const Order& order, protocols::nanoseconds head_start);
  void apply(const protocols::close& round, const protocols::operands<tensor>& sum, const std::optional<tensor>& backup);
  void forward(const protocols::close&, const protocols::operands<tensor>&);
  void serve(const protocols::send_order& order);
  tensor parameters() const { return newest_; }
  void tell_coordinator(const protocols::report& what);
  void broken(const std::string& what);
  template <class Message>
  void tells_itself(const Message&) {}
  void decided(const protocols::lead_effects&) {}
  void retains(std::size_t) {}
  static constexpr bool checks() { return debug_build; }

private:
  /// An apply that the device has not finished, and whom to send its result.
  struct pending_apply {
    protocols::version ver;
    kernels::buffer parameters;
    std::vector<kernels::buffer> terms; ///< alive until it has run
    std::vector<protocols::send_order> then_send;
    std::uint64_t mark = 0; ///< of core_.held
  };

  /// A partition of some version.
  struct piece {
    protocols::holder_id from;
    flat_range where;
    kernels::buffer data;
  };

  /// A version that somebody beyond this process is in the middle of reading.
  struct reading {
    caf::actor_addr who;
    protocols::version ver;
    kernels::buffer parameters;
  };

  void begin();
  open_span span_of(const protocols::close& round, std::size_t terms) const;
  void enqueue_done(pending_apply what, open_span span);
  kernels::buffer place_for(const protocols::close& round) const;
  void applied(protocols::version ver);
  void send_all(protocols::send_order order);
  void send_version(const protocols::send_order& order, const kernels::buffer& parameters);
  void send_from_device(protocols::send_order order, const kernels::buffer& parameters);
  piece cut(const kernels::buffer& parameters, flat_range part) const;
  static wire::params_part head_of(const protocols::send_order& order, const piece& what, protocols::worker_id to);
  static void send(const role_peers& peers, const protocols::send_order& order, const piece& what);
  caf::result<parameters_piece> read(const parameters_query& what);
  void deliver(const piece_landed& piece);
  actor_report report() const;
  std::string who_brings_push_of(protocols::worker_id worker) const;
  void arrive(std::optional<complete<protocols::push>> what);
  void arrive(std::optional<complete<protocols::partial>> what);
  void transmit(emulated_link& over, protocols::worker_id whose, std::size_t bytes, std::function<void()> deliver);

  measured_pointer<shard_control> self_;
  shard_setup setup_;
  holder_core core_;
  protocols::holder_binding<shard_state> bound_;
  shard_step step_;
  peers_ptr peers_;
  kernels::buffer newest_; ///< the result of the newest apply, finished or not
  kernels::buffer ready_;  ///< the newest finished one
  protocols::version ready_version_;
  std::uint64_t pushes_before_ = 0; ///< of core_.came.pushes: when that version was ready
  std::uint64_t staleness_ = 0;     ///< of the newest version
  std::deque<pending_apply> pending_;
  std::deque<reading> readings_;                                                      ///< the newest last
  std::map<std::uint64_t, caf::typed_response_promise<parameters_piece>> unanswered_; ///< by the number of the piece
  std::uint64_t last_piece_ = 0;
  activity& activity_;
  training_clock clock_;
  training_timers timers_;
  emulated_link incoming_, outgoing_, orders_;
  std::multiset<protocols::worker_id> on_links_; ///< whose pushes, or parameters, are under way on these
  device_watch watch_;
};

using shard_impl = measured_impl<shard_control, outliving<shard_control, shard_state, shard_setup>>;

} // namespace troupe::actors
