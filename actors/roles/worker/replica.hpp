// SPDX-License-Identifier: BSD-3-Clause
// A worker's own parameters, for protocols whose workers take steps themselves.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "actors/checkpoint/saved_state.hpp"
#include "actors/roles/device.hpp"
#include "kernels/backend.hpp"
#include "protocols/binding/operand.hpp"
#include "protocols/squared_norm.hpp"
#include "tensor/optimizer.hpp"

namespace troupe::actors {

/// A tensor in a sum: a given one, the replica's parameters or its dual variable.
using replica_term = protocols::operand<kernels::buffer>;

/// A step on the replica: at the gradient plus proximal (w - anchor) + dual l. See protocols::local_step.
struct local_update {
  kernels::buffer anchor;
  double proximal = 0, dual = 0;
  double momentum = -1; ///< Nesterov's, with its own velocity, instead of the job's optimizer; -1: the job's
  double lr = 0;
  protocols::squared_norm squares{}; ///< of the gradient, which is clipped by them
};

/// Parameters w, optimizer state and, where a protocol has one, the dual variable l (zero at first), flat, in one queue's memory.
/// Everything is enqueued. A block with other holders is never written, so tensors that were handed out do not change.
class replica {
public:
  /// `count` floats. `spec` is the job's optimizer. `held` keeps blocks that enqueued work still uses; a queue on the host needs
  /// none. `ranges`: how each of the floats is stepped; none: all alike.
  replica(kernels::backend& queue, const optimizer_spec& spec, std::int64_t count, in_flight* held = nullptr,
          std::vector<update_range> ranges = {});

  const kernels::buffer& parameters() const { return own_; }
  /// The sum of terms; what is frozen is w's. A single term of weight 1 is shared, not copied.
  kernels::buffer mean(const std::vector<replica_term>& terms);
  /// w = mean(terms), in this range; an empty one is everywhere.
  void mix(const std::vector<replica_term>& terms, flat_range where = {});
  /// l += rho (w - anchor).
  void dual_step(const kernels::buffer& anchor, double rho);
  /// The sum of terms; a single one of weight 1 is shared.
  kernels::buffer sum(const std::vector<replica_term>& terms);
  /// Where to take the gradient of the next step: at w or, with momentum, ahead of it. Call `step` next.
  const kernels::buffer& parameters_for(const local_update& how);
  /// w = optimizer(w, gradient + ...), at the gradient there, which is clipped before the other terms are added.
  void step(const kernels::buffer& gradient, const local_update& how);
  /// Resets the optimizer's state: steps were taken elsewhere meanwhile.
  void forget_momentum();
  const std::vector<update_range>& ranges() const { return ranges_; }
  /// The optimizer's state by name, of `momentum_steps` steps; none before the first step. Steps write the buffers.
  named_buffers momentum() const { return optimizer_ ? optimizer_->buffers() : named_buffers{}; }
  std::int64_t momentum_steps() const { return optimizer_ ? optimizer_->steps() : 0; }
  /// Its parameters and dual variable, as far as there are some: "replica", "dual". Nobody writes the buffers.
  named_buffers itself() const;
  /// It goes on with the momentum of another one, and with what else there is of it. To be called before the first step.
  void resume(const saved_state& from);

private:
  const kernels::buffer& source_of(const replica_term& term);
  void step_with_velocity(const std::vector<kernels::term>& slope, const local_update& how);
  kernels::buffer fresh();
  void keep(const kernels::buffer& block);
  void replace(kernels::buffer& old, kernels::buffer by);

  kernels::backend& queue_;
  in_flight* held_;
  optimizer_spec spec_;
  std::int64_t count_;
  std::vector<update_range> ranges_;
  kernels::buffer own_, dual_;
  kernels::buffer velocity_; ///< of steps with a momentum of their own; none: zero
  kernels::buffer ahead_;    ///< w + momentum v; none: w
  std::optional<optimizer> optimizer_;
};

} // namespace troupe::actors
