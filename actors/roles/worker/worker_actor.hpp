// SPDX-License-Identifier: BSD-3-Clause
// The worker: parameters in, pushes out, as its protocol machine says.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/messages/role.hpp"
#include "actors/roles/activity.hpp"
#include "actors/roles/assembler.hpp"
#include "actors/roles/codec/parameters_image.hpp"
#include "actors/roles/emulated_link.hpp"
#include "actors/roles/holder/push_inbox.hpp"
#include "actors/roles/training_clock.hpp"
#include "actors/roles/worker/common_replica.hpp"
#include "actors/roles/worker/peer_sender.hpp"
#include "actors/roles/worker/push_sender.hpp"
#include "actors/roles/worker/worker_meter.hpp"
#include "kernels/assert.hpp"
#include "protocols/binding/worker_binding.hpp"
#include "tensor/model.hpp"

namespace troupe::actors {

struct worker_setup {
  protocols::worker_id self;
  protocols::incarnation incarnation{};
  bool keeps_own = false; ///< decentralized: the workers hold the parameters
  bool saves = false;     ///< into checkpoints, what it keeps between rounds
  std::uint64_t seed = 1;
  std::int64_t batch = 1, data_size = 1;
  optimizer_spec optimizer; ///< of local steps
  sample_assignment assignment;
  protocols::inject_spec inject;
  std::shared_ptr<worker_meter> meter;
  std::shared_ptr<const model> net;
  push_setup pushes;
  /// Of a gradient that is summed among workers, by plan::partition_kib; see protocols::worker. None: it is summed at once.
  std::function<std::uint32_t(std::uint32_t kib)> sum_partitions = {};
  std::shared_ptr<params_assembler> receive_buffers; ///< the lane's thread reads parameters into them
  std::shared_ptr<peer_assembler> from_peers;        ///< likewise replicas of other workers
  std::shared_ptr<decoded_parameters> decoder;       ///< none: parameters travel as they are
  /// Writes what all workers have alike into a checkpoint of this version; with where the job goes on.
  std::function<void(protocols::version, const protocols::lead_state&)> save_common = {};
  std::shared_ptr<protocols::worker> machine;
  compute_actor compute;
  loader_actor loader;
  tracer_ptr trace;
  /// If its compute actor is on a device: its queue, for memory only, and the actor's device interface.
  std::shared_ptr<kernels::backend> device = nullptr;
  device_compute_actor device_compute = {};
  wall_clock wall = steady_ns;
  /// Where all workers take the same steps: its parameters. They are on the host, and so is its compute actor.
  std::shared_ptr<common_replica> common = nullptr;
};

/// The plan takes a limited number of rows at once: a longer part is computed in chunks.
struct step_chunk {
  slice rows;
  double weight = 1;
  std::optional<batch> data{};
};
/// A worker's step that is under way.
struct step_state {
  protocols::compute request;
  std::optional<local_update> update;
  bool measures = false; ///< its end brings how far the worker's own parameters are from the newest version
  std::vector<step_chunk> chunks;
  bool computing = false;
  protocols::nanoseconds begun = 0; ///< training time
  kernels::buffer gradient;         ///< of a step on the replica
  copied_factors factors;           ///< of the gradient that is pushed, if it has any
};

/// Parameters of which a part is there.
struct coming_parameters {
  std::uint64_t key = 0, position = 0; ///< as in `params`
  std::size_t slots_told = 0;          ///< so many, the first, the compute actor knows to be there
};

/// Parameters are double-buffered: the next ones are read from the lane, or made of sums among workers, while a step still uses
/// the last. On the host, the next step's forward begins as soon as the first of them are there. On a device, they are uploaded
/// partition by partition as they come, and the next batch while a step computes.
///
/// If step times are emulated, a step's result is kept back until its time has passed, in training time; waiting for data is part
/// of it. While the job is held, no result reaches the machine or the replica: an evaluation then sees the parameters before the
/// step.
class worker_state {
public:
  static inline const char* name = "troupe.worker";

  worker_state(measured_pointer<worker_actor> self, worker_setup setup);
  worker_actor::behavior_type make_behavior();

  // The World of its binding (worker_binding.hpp).
  using tensor = kernels::buffer;
  /// A part of a tensor, and where it belongs. Payload: a buffer in host memory, or a device_tensor.
  template <class Payload>
  struct piece {
    flat_range where;
    Payload data;
    kernels::form as = kernels::form::fp32; ///< of parameters, with the next two, and of chunks
    protocols::version base{};
    protocols::holder_id from{};
  };
  template <class Payload>
  std::optional<tensor> join(const protocols::params& head, const piece<Payload>& part);
  template <class Payload>
  std::optional<tensor> join(const protocols::peer_message& head, const piece<Payload>& part);
  void adopt(protocols::version ver, const tensor& parameters);
  void save(protocols::version ver, const protocols::kept_replica& kept, protocols::operands<tensor> replica);
  void save_all(protocols::version ver, const protocols::worker_course& course, const protocols::plan& plan) {
    setup_.save_common(ver, protocols::at_rest(plan, ver, course));
  }
  void begin(const protocols::compute& request, const protocols::plan& plan, const protocols::local_step* own);
  void sum_by(std::uint32_t kib);
  void mix(protocols::operands<tensor> terms) { self_->send(setup_.compute, mix_request{std::move(terms)}); }
  void dual(double rho) { self_->send(setup_.compute, dual_request{anchor_, rho}); }
  void send(const protocols::push& push, std::optional<tensor> gradient);
  void send(const protocols::push& push, protocols::operands<tensor> sum, bool keep);
  void push_again(std::optional<protocols::holder_id> to) { pushes_.send_again(to); }
  bool reaches(protocols::worker_id who) const { return to_peers_.reaches(who); }
  void send(const protocols::send_peer& effect);
  tensor send_chunk(const protocols::send_peer& effect, const tensor& of) {
    exchange_.begins(clock_.now());
    setup_.common->each_part(effect, of, step_.factors,
                             [this](const auto& head, const auto& data) { to_peers_.send(head, data); });
    return of;
  }
  tensor add_up(const tensor& to, const protocols::segment_range& part, const protocols::operands<tensor>& sum) {
    setup_.common->add_up(to, part, sum);
    return to;
  }
  void take_step(const protocols::take_step& order, const tensor& sum);
  void undo_steps() {
    setup_.common->undo_steps();
    coming_.reset();
  }
  void mix_common(const protocols::segment_range& part, double own) {
    self_->send(setup_.compute, mix_request{setup_.common->mean_with(own), setup_.common->where(part)});
  }
  void take_state(protocols::version ver, const tensor& from);
  void refused(const std::string& why);
  void broken(const std::string& why) { activity_.failed(why); }
  static constexpr bool checks() { return debug_build; }

private:
  actor_report report() const;
  void on(const protocols::plan& msg);
  void on_batch(loaded_batch& loaded);
  void load();
  void prefetch();
  void ask_for(const slice& rows);
  void go_ahead();
  void compute();
  void on_gradient(const gradient_ready& msg);
  void on_computed(compute_result& result);
  void compute_failed(const caf::error& e);
  void finish_step();
  void answer(protocols::computed done);
  void send_push(const protocols::push& push, const kernels::buffer& gradient, bool keep = false);
  void send_parts(const protocols::push& push, const kernels::buffer& gradient, bool keep);
  kernels::buffer from_host(const kernels::buffer& values);
  template <class Key>
  tensor_inbox<Key> inbox_of(const std::shared_ptr<assembler<Key>>& receive_buffers);

  measured_pointer<worker_actor> self_;
  worker_setup setup_;
  peers_ptr peers_;
  std::shared_ptr<recurring_blocks> blocks_; ///< of a device: for incoming parameters
  tensor_inbox<std::uint64_t> parameters_in_;
  tensor_inbox<peer_key> replicas_in_;
  chunk_inbox chunks_in_;
  std::uint64_t refused_ = 0; ///< messages of peers
  protocols::worker_binding<worker_state> bound_;
  kernels::buffer anchor_;                                  ///< adopted last; none once they are pushed
  std::optional<coming_parameters> coming_{};               ///< the newest
  std::map<protocols::holder_id, std::uint64_t> sent_keys_; ///< of parameters: the newest of which each shard has sent a part
  step_state step_;
  std::optional<protocols::computed> finished_; ///< waits for its emulated time, or for the end of a hold
  std::optional<tensor> gradient_;              ///< its gradient, if that is pushed as it is
  activity& activity_;
  protocols::version adopted_;   ///< version of the parameters in use
  protocols::clock_tick pushed_; ///< the clock of its newest push
  std::uint64_t bytes_pushed_ = 0;
  std::int64_t computed_ns_ = 0;              ///< duration of the last step, including emulated time
  std::int64_t begun_ns_ = 0, queued_ns_ = 0; ///< when the step was requested, and how long it waited for its batch
  exchange_watch exchange_;
  training_clock clock_;
  training_timers timers_;
  own_timer step_over_; ///< fires when its emulated time has passed
  own_timer crash_;
  peer_sender to_peers_;
  push_sender pushes_;
  partition_slots summed_;                 ///< of a gradient that is summed among workers, by their only target
  std::optional<std::uint32_t> summed_by_; ///< plan::partition_kib of these; none: they were not looked for
  worker_track track_;
  std::optional<loaded_batch> next_batch_;
  std::optional<slice> asked_for_;
};

using worker_impl = measured_impl<worker_actor, worker_state>;

} // namespace troupe::actors
