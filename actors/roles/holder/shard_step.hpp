// SPDX-License-Identifier: BSD-3-Clause
// How a shard makes a version of its range of the parameters: carries out a `step_rule` on tensors.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/checkpoint/saved_state.hpp"
#include "actors/roles/holder/role_snapshot.hpp"
#include "kernels/backend.hpp"
#include "protocols/message.hpp"
#include "tensor/layout.hpp"
#include "tensor/optimizer.hpp"

namespace troupe::actors {

/// The state of the optimizers that a shard steps with, for `count` floats in one queue's memory. Everything is enqueued.
class shard_step {
public:
  /// `data_size`: samples of an epoch, for the learning-rate schedule. `ranges`: how each of the floats is stepped; none: all
  /// alike.
  shard_step(const optimizer_spec& spec, kernels::backend& queue, std::int64_t count, std::int64_t data_size,
             std::vector<update_range> ranges = {});

  /// Its steps will be on differences, as this rule says: what they keep is there from now on. To be called before the first
  /// step.
  void begin_outer(const protocols::step_rule& how);
  /// Begins the step that `round` describes. After a step of another kind, momentum starts from zero. The optimizer's gradient is
  /// clipped by `round.step.squares`, unless it was when it was compensated.
  void begin(const protocols::close& round);
  /// p_out = the step from p, at the sum of terms, for the elements of `part`; pointers are those of the whole. Each element
  /// once. `p_out` may be `p`.
  void apply(const std::vector<kernels::term>& terms, const protocols::close& round, const float* p, float* p_out,
             flat_range part);
  /// All that the next steps need of those before, by name: "velocity", "second", "outer.velocity", "mean_square".
  named_buffers buffers() const;
  const std::vector<update_range>& ranges() const { return ranges_; }
  /// Of the job's optimizer.
  std::int64_t steps() const { return optimizer_.steps(); }
  /// What the next steps need besides the buffers: a copy of this one takes them, too.
  std::vector<double> memory() const;
  /// It is a copy of the one with this memory, but for what is in its buffers.
  void take(const std::vector<double>& memory);
  /// What a checkpoint has of a shard: these parameters, of `range`, and all that it needs to take the next step from there.
  role_snapshot snapshot(file_saved about, flat_range range, const kernels::buffer& parameters) const;
  /// It goes on where another one was. To be called before the first step; what it reads is enqueued.
  void resume(const saved_state& from);
  /// The gradient, clipped, then compensated for its delay since `backup`, in a block of its own. `p`: the parameters now.
  kernels::buffer compensated(const float* gradient, const float* p, const float* backup, const protocols::close& round);

private:
  named_buffers outer_buffers() const;
  void apply_linear(const std::vector<kernels::term>& terms, const protocols::step_rule& how, const float* p, float* p_out,
                    flat_range part);

  optimizer_spec spec_;
  kernels::backend& queue_;
  std::int64_t count_, data_size_;
  std::vector<update_range> ranges_;
  optimizer optimizer_;
  std::unique_ptr<optimizer> outer_;
  double outer_momentum_ = 0; ///< this and the next: of `outer_`
  bool outer_nesterov_ = false;
  double clip_ = 1;                                  ///< of the step that has begun: what its gradient is multiplied by
  std::vector<std::unique_ptr<optimizer>> past_;     ///< a queue may not have run their steps yet
  std::optional<protocols::step_rule::kind> last_{}; ///< none: the first step is to come
  saved_state from_{};                               ///< what `outer_` begins with
  kernels::buffer mean_square_;                      ///< of gradients, for adaptive delay compensation
};

} // namespace troupe::actors
