// SPDX-License-Identifier: BSD-3-Clause
// The shard: keeps a range of the parameters, applies what the lead decides, serves workers. Shard 0 is the lead.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/messages/role.hpp"
#include "actors/roles/codec/parameters_image.hpp"
#include "actors/roles/codec/parameters_out.hpp"
#include "actors/roles/codec/partition_cuts.hpp"
#include "actors/roles/drain_before_exit.hpp"
#include "actors/roles/emulated_link.hpp"
#include "actors/roles/holder/holder_core.hpp"
#include "actors/roles/holder/parameter_readings.hpp"
#include "actors/roles/holder/role_snapshot.hpp"
#include "actors/roles/holder/shard_copies.hpp"
#include "actors/roles/holder/shard_step.hpp"
#include "actors/roles/training_clock.hpp"
#include "actors/roles/worker/device_watch.hpp"
#include "kernels/assert.hpp"
#include "protocols/binding/holder_binding.hpp"

namespace troupe::actors {

struct shard_setup {
  protocols::holder_place place;
  flat_range range;  ///< of the flat parameters
  bool alone = true; ///< the range is all of them
  std::uint32_t shards = 1;
  std::vector<flat_range> partitions;           ///< of `range`: the units of sending
  partition_cuts::cut_fn partitions_under = {}; ///< likewise, by plan; see there
  kernels::buffer initial;                      ///< the range's initial parameters, in immutable host memory
  std::shared_ptr<kernels::backend> queue;
  optimizer_spec optimizer;
  std::int64_t data_size = 1; ///< samples of an epoch, for the schedule
  holder_receive_buffers receive_buffers;
  std::shared_ptr<protocols::lead> lead; ///< at shard 0; at every shard if the protocol applies each push alone
  bool per_push = false;
  bool counts_alone = false;                            ///< the versions that its workers make; they save them, too
  std::optional<encoded_parameters> codec = {};         ///< none: parameters travel as they are
  std::optional<protocols::lead_succession> leads = {}; ///< instead of both, where versions are made in two phases
  bool catches_up = false;                              ///< it is a backup that has nothing of its shard yet
  saved_state start = {};                               ///< `initial` has the parameters of its version
  std::string checkpoints = {};                         ///< the folder
  std::function<void(const file_saved&)> saved = {};    ///< thread-safe
  std::vector<update_range> ranges = {};                ///< how its floats are stepped; none: all alike
  protocols::link_spec link;                            ///< emulated
  tracer_ptr trace;
  /// At most this many per message to another host: fits the control plane's limit (system.cpp) with room to spare.
  std::uint64_t floats_per_piece = 128 * 1024;
  wall_clock wall = steady_ns;
};

/// The lead's clock is paused from the version at which it holds, once that is made here, until it resumes; the other shards'
/// clocks from `pause_order` to `resume_order`.
///
/// Pushes, partial sums and arrivals come in by the shard's emulated link; its parameters, and a lead's orders, go out by it.
/// Messages that an evaluation waits for are not delayed while the clock is paused.
///
/// A backup of a shard is this actor, too: it takes the steps of its shard, from the sums that come from there. One that comes
/// later copies the shard partition by partition, and takes the steps of those that it has.
///
/// Spawn it detached when its queue is a CPU's. On a device a version is one step over the whole range. When it has run, its
/// partitions go directly to roles on devices of this process, and through host memory to all others. Each apply writes a fresh
/// block, so that readers of the last version keep it, and nothing is copied for workers in this process.
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
  void arm(const protocols::arm_timer& timer) { timers_.arm(timer); }
  template <class Message>
  void tell_lead(const Message& msg) {
    caf::anon_send(peers_->holders[0], msg);
  }
  template <class Order>
  void tell_others(const Order& order, protocols::nanoseconds head_start);
  void apply(const protocols::close& round, const protocols::operands<tensor>& sum, const std::optional<tensor>& backup);
  void forward(const protocols::partial&, const std::optional<tensor>&, const std::vector<protocols::holder_id>&);
  std::optional<tensor> sum_up(const protocols::close& round, const protocols::operands<tensor>& sum,
                               const std::vector<protocols::holder_id>& backups);
  void measure(const protocols::measured& request, const tensor& sum);
  void tell_backups(const std::vector<protocols::holder_id>& backups, const protocols::decision_record& record);
  void ask_for_copy(protocols::holder_id shard, const protocols::copy_request& request) {
    caf::anon_send(peers_->holders[shard.value], request);
  }
  void send_copy(protocols::holder_id backup, protocols::shard_piece part);
  void install(const protocols::shard_piece& part, const tensor& data);
  void tell_coordinator(const protocols::caught_up& notice);
  void introduced(const peers_ptr& peers) {
    if (peers_ = peers; setup_.catches_up && !copies_.catches_up()) // another coordinator may not know it
      caf::anon_send(peers_->coordinator, protocols::caught_up{setup_.place.self});
  }
  void serve(const protocols::send_order& order);
  void follow(const protocols::send_order& order);
  tensor parameters() const { return newest_; }
  void tell_coordinator(const protocols::report& fact);
  void broken(const std::string& why);
  template <class Message>
  void tells_itself(const Message&) {}
  void decided(const protocols::lead_effects&) {}
  void retains(std::size_t) {}
  static constexpr bool checks() { return debug_build; }

private:
  /// An apply that the device has not finished, and the orders to send its result, or that say who sends it.
  struct pending_apply {
    protocols::version ver;
    kernels::buffer parameters;
    std::vector<kernels::buffer> terms{}; ///< alive until it has run
    std::vector<protocols::send_order> then_follow{}, then_send{};
    std::vector<std::shared_ptr<role_snapshot>> snapshots{}; ///< to be written
    std::uint64_t mark = 0;                                  ///< of core_.held
  };

  static protocols::holder_binding<shard_state> bind(shard_state& self, const shard_setup& setup);
  bool is_backup() const { return bound_.machine().place().backup_of.has_value(); }
  void on_sum(const sum_on_host& sum);
  void on_record(const wire::decision_part& head, const kernels::buffer& payload);
  void on_copy(const wire::copy_part& head, const kernels::buffer& payload);
  named_buffers copied_blocks() const;
  void begin();
  void enqueue_done(pending_apply pending, open_span span);
  kernels::buffer place_for(const protocols::close& round) const;
  std::shared_ptr<role_snapshot> snapshot_of(protocols::version ver, const kernels::buffer& parameters);
  void save_newest(protocols::version as);
  void take_name_of(protocols::holder_id shard);
  void applied(protocols::version ver);
  void send_all(protocols::send_order order);
  void to_hosts(protocols::send_order order, std::size_t bytes, const std::function<void(const protocols::send_order&)>& deliver);
  void send_version(const protocols::send_order& order, const kernels::buffer& parameters);
  void send_from_device(protocols::send_order order, const kernels::buffer& parameters);
  parameters_part cut(const kernels::buffer& parameters, flat_range part) const;
  protocols::version marked() const;
  actor_report report() const;
  void arrive(std::optional<complete<protocols::push>> done);
  void arrive(std::optional<complete<protocols::partial>> done);
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
  protocols::version unwritten_;    ///< the newest for a checkpoint that it made as a copy, which writes none
  std::uint64_t pushes_before_ = 0; ///< core_.came.pushes when that version was ready
  std::uint64_t staleness_ = 0;     ///< of the newest version
  lead_tally tally_;                ///< of the job's lead
  std::deque<pending_apply> pending_;
  shard_copies copies_;
  partition_cuts cuts_;
  parameter_readings readings_;
  activity& activity_;
  training_clock clock_;
  training_timers timers_;
  emulated_link incoming_, outgoing_, orders_;
  bool has_plan_ = false;
  std::multiset<protocols::worker_id> on_links_; ///< workers whose pushes or parameters are under way on these
  device_watch watch_;
};

using shard_impl = measured_impl<shard_control, drain_before_exit<shard_control, shard_state, shard_setup>>;

} // namespace troupe::actors
