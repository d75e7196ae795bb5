// SPDX-License-Identifier: BSD-3-Clause
// The compute actor: one queue of one device, and the plan that runs on it.
#pragma once

#include <deque>
#include <memory>
#include <optional>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/messages/role.hpp"
#include "actors/roles/drain_before_exit.hpp"
#include "actors/roles/holder/role_snapshot.hpp"
#include "actors/roles/worker/batch_buffers.hpp"
#include "actors/roles/worker/device_watch.hpp"
#include "tensor/plan.hpp"

namespace troupe::actors {

struct compute_setup {
  std::shared_ptr<kernels::backend> queue;
  std::shared_ptr<const model> net;
  optimizer_spec local_optimizer;
  std::int64_t max_rows = 1;   ///< of one part
  std::int64_t piece_rows = 0; ///< of these at once, see plan::options
  bool recompute = false;      ///< likewise
  bool factors = false;        ///< likewise
  bool clips_pushes = false;   ///< a gradient that is pushed is clipped by its own norm, as one of an own step is
  /// How many gradient bytes a device completes before it pauses to report them: one partition.
  std::int64_t report_bytes = 1 << 20;
  saved_state start = {};                            ///< of the replica
  bool keeps_replica = false;                        ///< itself, besides its momentum, for checkpoints
  std::uint32_t worker = 0, life = 0;                ///< whose replica it is: an incarnation
  std::string checkpoints = {};                      ///< the folder
  std::function<void(const file_saved&)> saved = {}; ///< thread-safe
};

/// Enqueues one step at a time, part by part, and answers when the device reports that it has run; no thread waits. During
/// backward of a step with a single part it sends `gradient_ready` to the asker. On the host, the forward of the next step may
/// run ahead while its parameters are still coming; no result depends on that. Requests about the worker's replica are enqueued
/// in the order of asking. Spawn it detached on a CPU, whose queue runs work inside the call. A device failure ends the actor
/// with the reason.
///
/// On a device, tensors are uploaded and downloaded in parallel with computing; a step is recorded once for each batch size and
/// pair of blocks, and replayed.
class compute_state {
public:
  static inline const char* name = "troupe.compute";

  compute_state(measured_pointer<device_compute_actor> self, compute_setup setup);
  device_compute_actor::behavior_type make_behavior();
  const std::shared_ptr<kernels::backend>& queue() const { return queue_; }

private:
  /// A sum that the device has not finished.
  struct pending_sum {
    caf::typed_response_promise<sum_result> promise;
    kernels::buffer sum;
    kernels::buffer flag, finite; ///< on the device, on the host
  };
  static constexpr std::uint64_t no_step = 0; ///< `compute_finished` of a sum: steps count from 1

  void go_ahead(const ahead_request& msg);
  bool is_ahead(const kernels::buffer& parameters, const batch& data) const {
    return ahead_.of.parameters == parameters && ahead_.of.data.x == data.x;
  }
  step_args args_of(const kernels::buffer& parameters, const batch& data, std::uint64_t seed);
  caf::result<compute_result> begin(const compute_request& request);
  caf::result<sum_result> sum(const sum_request& msg);
  void keep(const keep_request& msg);
  void write_copied();
  void enqueue_part();
  void part_done();
  /// Whether the step's gradient is clipped by its own norm.
  bool is_clipped() const { return clip_norm_ > 0 && (request_.own || clips_pushes_); }
  void copy_to_measure();
  void finish();
  void sum_done();
  actor_report report() const;
  void notify(compute_finished msg, bool first = false);

  measured_pointer<device_compute_actor> self_;
  std::shared_ptr<kernels::backend> queue_;
  bool foreign_; ///< the model is: its computer may outlive this actor
  std::int64_t floats_, row_predictions_;
  std::unique_ptr<plan> plan_;
  in_flight held_;
  replica replica_;
  double clip_norm_; ///< 0: nothing is clipped
  bool clips_pushes_;
  std::optional<batch_buffers> inputs_; ///< of a device
  std::size_t factor_bytes_ = 0;        ///< of a step's factors, if they are wanted
  recurring_blocks gradient_blocks_;    ///< of a device
  struct {
    ahead_request of;
    kernels::buffer gradient; ///< of its step
    std::int64_t spent_ns = 0;
  } ahead_; ///< of the step that is likely to be the next
  // the step under way; its inputs stay alive until it has run
  compute_request request_;
  worker_actor asker_;
  std::size_t parts_done_ = 0;
  compute_result done_;      ///< its gradients: the sum of the parts that have run
  kernels::buffer gradient_; ///< of the part that runs
  kernels::buffer on_host_;  ///< a device's gradient, to be measured
  std::int64_t started_ns_ = 0;
  caf::typed_response_promise<compute_result> promise_;
  std::deque<pending_sum> sums_;
  struct {
    std::uint32_t worker, life;
    bool whole; ///< the replica itself
    std::string dir;
    std::function<void(const file_saved&)> saved;
    std::deque<std::shared_ptr<role_snapshot>> copying;
  } kept_; ///< for checkpoints
  device_watch watch_;
};

using compute_impl = measured_impl<device_compute_actor, drain_before_exit<device_compute_actor, compute_state, compute_setup>>;

} // namespace troupe::actors
