// SPDX-License-Identifier: BSD-3-Clause
// A small noisy quadratic, whose gradients and losses have closed forms: for tests and large clusters.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "protocols/sim/numerics.hpp"

namespace troupe::protocols::sim {

struct quadratic_options {
  std::vector<double> curvature{1, 0.5, 0.25, 0.1}; ///< a_k > 0
  std::vector<double> minimum{1, -1, 2, -2};        ///< b_k; as many
  double noise = 0.5;                               ///< sample i's own minimum is b_k + noise_ik, uniform in [-noise, noise]
  std::uint64_t seed = 1;
  std::int64_t data_size = 1; ///< sample p is p % data_size of the data
  // The job's optimizer, as `[optimizer]` has it.
  double lr = 0.1, momentum = 0;
  bool nesterov = false, adamw = false;
  double weight_decay = 0;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double clip_norm = 0; ///< 0: not clipped
  /// The rate after so many epochs with so many workers; absent: `lr`.
  std::function<double(double epochs, std::uint32_t workers)> learning_rate{};
};

/// Sample i's loss is 1/2 sum_k a_k (x_k - b_k - noise_ik)^2; x begins at 0. Steps are those of `sgd` and `adamw` in
/// kernels/operation.hpp, in double; a test in tests/apps holds both against each other. The training loss is the mean over the
/// noise's distribution, the test loss that without noise; there is no accuracy. Delay compensation: the running mean square
/// starts at 0, decays by 0.95 a step, and 1e-7 is added to it.
class quadratic final : public numerics {
public:
  explicit quadratic(quadratic_options options) : options_(std::move(options)) {}

  std::unique_ptr<worker_numerics> make_worker(member self) override;
  std::unique_ptr<shard_numerics> make_shard(std::uint32_t index, std::uint32_t shards) override;
  tensor slice(const tensor& whole, std::uint32_t index, std::uint32_t shards) override;
  tensor join(std::span<const tensor> ranges, std::uint32_t index, std::uint32_t shards) override;
  tensor sum(std::span<const operand> terms) override;
  evaluation evaluate(const tensor& whole) override;

private:
  quadratic_options options_;
};

/// The elements of a tensor of `quadratic`.
std::span<const double> elements_of(const tensor& vector);

} // namespace troupe::protocols::sim
