// SPDX-License-Identifier: BSD-3-Clause
// Optimizers over a range of the flat parameters, and learning-rate schedules.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/backend.hpp"
#include "tensor/error.hpp"
#include "tensor/layout.hpp"

namespace troupe {

/// `[optimizer]` of a job file.
struct optimizer_spec {
  std::string name = "sgd"; ///< "sgd" | "lars": sgd with a local rate of each matrix (kernels::lars_rate) | "adamw"
  double lr = 0.05;         ///< of the averaged step
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double trust = 0.001; ///< of local rates
  double clip_norm = 0; ///< the largest norm of a gradient, over all that is trained; 0: any
  /// "constant" | "step" (times `gamma` every `step_epochs`) | "cosine" (to `min_lr` at `total_epochs`)
  std::string schedule = "constant";
  double gamma = 0.1, step_epochs = 30, min_lr = 0, total_epochs = 0;
  double warmup_epochs = 0;
  bool scale_with_workers = false;     ///< linear scaling rule (Goyal et al. 2017): lr * workers, ramped over the warm-up
  std::vector<std::string> freeze{};   ///< names of parameters that no step changes; * stands for any text
  std::string weight_decay_on = "all"; ///< "all" | "matrices": parameters of two axes or more
  std::vector<std::string> lr_scale{}; ///< "NAME = FACTOR": times the learning rate; the last one that names a parameter counts
  friend bool operator==(const optimizer_spec&, const optimizer_spec&) = default;
};

/// Learning rate after `epochs` (fractional) of training with `workers` workers. With warm-up it ramps linearly from
/// lr to lr * workers (with scale_with_workers) or from 0 to lr over `warmup_epochs`, then the schedule runs.
double learning_rate(const optimizer_spec& spec, double epochs, int workers);

/// Refuses unusable options: an unknown name, a value out of range (errc::bad_option).
result<void> validate(const optimizer_spec& spec);

/// How each parameter of a model is stepped: `freeze`, `weight_decay_on`, `lr_scale`, and whether it has a rate of its own (under
/// lars, of two axes or more); `spec` has passed validate(). A statistic stays one. An error quotes a pattern that is the name of
/// no trained parameter.
result<void> choose_slots(parameter_layout& layout, const optimizer_spec& spec);

/// The optimizer's state for one range of the flat parameters, on one backend. Not thread-safe. Everything that was enqueued
/// must have run before it is destroyed.
class optimizer {
public:
  /// Zero state for `count` floats in the backend's memory. `spec` has passed validate(). `ranges` cover them, or are none: then
  /// all are stepped alike.
  optimizer(const optimizer_spec& spec, kernels::backend& queue, std::int64_t count, std::vector<update_range> ranges = {});

  /// Enqueues p_out = step(p, sum of terms) at learning rate `lr` and advances the step count. `p_out` may equal `p`.
  /// Any number of steps may be enqueued ahead of the device. Only running further ahead than ever before allocates a little
  /// pinned memory.
  void apply(std::span<const kernels::term> terms, const float* p, float* p_out, double lr);
  /// The same in pieces, so that finished ranges can be sent while the rest is computed: begins a step, then each range of
  /// [0, count) once. Pointers address the whole arrays; of a parameter with a rate of its own, all gradients must be there
  /// before its first range, and the terms of each are those of the whole. Ranges that are not named keep their old state. What
  /// is frozen stays; a statistic becomes p - sum of terms (slot_kind).
  void begin_step(double lr);
  void apply_range(std::span<const kernels::term> terms, const float* p, float* p_out, std::int64_t begin, std::int64_t end);
  /// State back to zero.
  void reset();
  std::int64_t steps() const { return steps_; }
  /// Its buffers of `count` floats by name: "velocity" (or the first moment), "second". Steps that are enqueued write them.
  std::vector<std::pair<std::string, kernels::buffer>> buffers() const;
  /// It goes on after so many steps; the caller fills its buffers, and enqueues that before the next step.
  void resume_after(std::int64_t steps) { steps_ = steps; }

private:
  /// The device reads the scalars when the copy runs, not when it is enqueued: each step has a slot of its own, and a block of
  /// slots is written again once all its copies have run.
  static constexpr std::int64_t slots_per_block = 32;
  float* next_slot();
  void stage_scalars(double lr);
  void apply_alike(const update_range& part, std::span<const kernels::term> terms, const float* p, float* p_out);
  void allocate_rates();
  const float* local_rate(const update_range& piece, std::span<const kernels::term> terms, const float* p);

  optimizer_spec spec_;
  kernels::backend& queue_;
  std::int64_t count_ = 0;
  std::vector<update_range> ranges_;
  std::int64_t steps_ = 0;
  kernels::buffer velocity_, second_;         ///< momentum or first moment; second moment
  kernels::buffer scalars_;                   ///< optimizer_scalar, in the device's memory
  std::vector<kernels::buffer> host_scalars_; ///< in the order of use; the last is being filled
  std::int64_t staged_ = 0;
  std::vector<kernels::term> moved_; ///< the terms of a range; keeps its capacity
  /// Of the ranges that have a rate of their own, by where they begin.
  struct rated {
    bool measured = false; ///< in this step
    float* rate = nullptr; ///< in `rates_`
  };
  std::map<std::int64_t, rated> rated_;
  kernels::buffer rates_;     ///< a float of each
  kernels::buffer gradient_;  ///< the sum of the terms of one, as long as the longest
  kernels::buffer g_squares_; ///< this and the next: of one, as sum_squares writes them
  kernels::buffer p_squares_;
  std::unique_ptr<std::atomic<std::int64_t>> copied_; ///< how many of the staged copies are known to have run
};

} // namespace troupe
