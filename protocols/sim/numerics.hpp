// SPDX-License-Identifier: BSD-3-Clause
// What the simulator asks of mathematics: it knows no tensor itself.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "protocols/binding/operand.hpp"
#include "protocols/effect.hpp"
#include "protocols/push_budget.hpp"

namespace troupe::protocols::sim {

/// A tensor that never changes once it is handed out. An implementation derives its own from it and casts back: one numerics'
/// tensors are given to that one alone. Null is a tensor too, where an implementation needs none.
struct tensor_data {
  virtual ~tensor_data() = default;
};
using tensor = std::shared_ptr<const tensor_data>;

using operand = protocols::operand<tensor>;

/// One cut of a global batch.
struct batch_part {
  std::uint64_t begin = 0, end = 0; ///< samples handed out since the start: sample p is p % N of epoch p / N
  std::uint32_t index = 0;          ///< which cut
  double weight = 1;                ///< of the mean gradient over this part
};

/// The samples of one step: parts of the global batch of `samples` samples at `position`, cut into `cuts`.
struct batch {
  std::uint64_t step = 0; ///< the worker's own count, from 1
  std::uint64_t position = 0, samples = 0;
  std::uint32_t cuts = 1;
  std::uint32_t workers = 1; ///< n of the plan that it is a step of
  std::vector<batch_part> parts{};
};

/// Where the samples of a computation are, under the plan of its work.
batch batch_of(const compute& order, const plan& current);

struct gradient {
  tensor value{};  ///< sum over the parts of weight times the mean gradient over the part's samples
  double loss = 0; ///< mean over all samples, as far as their labels count
  bool finite = true;
  double ignored = 0;     ///< as in protocols::push
  squared_norm squares{}; ///< likewise
};

/// What the holders get of a push.
struct encoded_push {
  tensor value{};
  std::optional<std::uint64_t> bytes{}; ///< as it travels, all of it; none: as many as its form takes on average
};

/// How a worker takes a step on its own parameters: see protocols::local_step.
struct local_step_rule {
  double proximal = 0, dual = 0;
  double momentum = -1; ///< EAMSGD's; -1: the job's own optimizer
};

/// One life of one worker: whole tensors.
class worker_numerics {
public:
  virtual ~worker_numerics() = default;
  /// The gradient at `parameters`.
  virtual gradient gradient_at(const tensor& parameters, const batch& of) = 0;
  /// From now on the anchor: what a proximal term pulls to, and what a dual step measures from.
  virtual void adopt(const tensor& parameters) = 0;
  /// A step on its own parameters, at the gradient there or ahead of them; the returned `value` is null. The learning-rate
  /// schedule goes by `of.position`, the linear scaling rule by `of.workers`.
  virtual gradient local_step(const batch& of, const local_step_rule& how) = 0;
  /// Its own parameters = sum of terms.
  virtual void mix(std::span<const operand> terms) = 0;
  /// Dual variable += rho (own - anchor); it is zero before the first.
  virtual void dual(double rho) = 0;
  /// Sum of terms, of which some are its own.
  virtual tensor sum(std::span<const operand> terms) = 0;
  /// Steps were taken elsewhere meanwhile: the optimizer begins anew.
  virtual void forget_momentum() = 0;
  /// What the holders get of what this push has: a codec may lose some of it, where it has a budget all but `how_dense`. Asked
  /// once for each push.
  virtual encoded_push encoded(const push& head, const tensor& pushed, const std::optional<push_density>& how_dense) {
    (void)head, (void)how_dense;
    return {pushed};
  }
  /// What a peer gets of this segment of a sum, one of `chunk.part.of`; for the same segment of a round again: the same.
  virtual tensor encoded(const peer_message& chunk, collective::cargo cargo_kind, std::uint32_t segment, const tensor& sent) {
    (void)chunk, (void)cargo_kind, (void)segment;
    return sent;
  }
  /// Where workers sum: this version is there, made of what was encoded for it.
  virtual void made(version ver) { (void)ver; }
};

/// One shard's range of the parameters, and the state of the optimizers that make its versions.
class shard_numerics {
public:
  virtual ~shard_numerics() = default;
  virtual tensor parameters() const = 0; ///< the newest version's
  /// Where parameters travel encoded: the image that workers have, after it was moved to the newest version, this one.
  virtual tensor move_image(version) { return parameters(); }
  /// The next version, from the sum of terms, as `how.step` says; `backup` is the tensor that `how.compensate` names. Momentum
  /// starts from zero where the step before was of another kind.
  virtual void step(std::span<const operand> sum, const close& how, const tensor& backup) = 0;
  /// Of this shard's part of a sum, where sums are clipped.
  virtual squared_norm squares_of(const tensor&) const { return {}; }
  /// Another one in the same state, for a backup that catches up; null where there are none.
  virtual std::unique_ptr<shard_numerics> clone() const { return nullptr; }
  /// The same in the same state, and most probably in no other.
  virtual std::uint64_t fingerprint() const { return 0; }
};

struct evaluation {
  double train_loss = 0, test_loss = 0, test_accuracy = 0;
  std::optional<double> validation_loss{}; ///< of what is held out, if anything is
};

/// One simulated job's mathematics.
class numerics {
public:
  virtual ~numerics() = default;
  virtual std::unique_ptr<worker_numerics> make_worker(member self) = 0;
  /// Shard `index` of `shards`, at the job's initial parameters.
  virtual std::unique_ptr<shard_numerics> make_shard(std::uint32_t index, std::uint32_t shards) = 0;
  /// A shard's range of a whole tensor; the range of one of so many shards, by itself the whole, from its ranges in their order.
  virtual tensor slice(const tensor& whole, std::uint32_t index, std::uint32_t shards) = 0;
  virtual tensor join(std::span<const tensor> ranges, std::uint32_t index = 0, std::uint32_t shards = 1) = 0;
  /// Sum of terms at an aggregator: whole tensors.
  virtual tensor sum(std::span<const operand> terms) = 0;
  virtual evaluation evaluate(const tensor& whole) = 0;
};

} // namespace troupe::protocols::sim
