// SPDX-License-Identifier: BSD-3-Clause
// The cost of a training step with only the plan and the optimizer: the bare loop that actors are compared with.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "kernels/backend.hpp"
#include "tensor/data/data_set.hpp"
#include "tensor/error.hpp"
#include "tensor/model.hpp"

namespace troupe {

/// A model that the benchmarks name, and its usual batch.
struct bench_model {
  model_spec spec;
  data_format data;
  std::int64_t batch = 0;
};

/// "mlp": 784-1024-1024-10, batch 128; "cnn": conv 32 and conv 64 (3x3), pool 2, 128, 10 on 28x28 images, batch 64; "mnist-cnn":
/// the layers of config/mnist-cnn.toml, batch 256; "wide": twelve of width 4096 with gelu and a head of 10, batch 4096.
result<bench_model> find_bench_model(const std::string& name);

/// Images of random pixels and random labels, of the model's sample shape; as large as MNIST, so that gathering a batch reads
/// memory that is in no cache.
data_pair bench_data(const bench_model& m);

/// A model in training on one queue, and nothing else: gather a shuffled minibatch while the last one is computed, forward,
/// backward, SGD with momentum 0.9 in place, wait.
class direct_step_bench {
public:
  struct options {
    std::string model = "mlp";
    std::int64_t batch = 0; ///< 0: the model's usual one
    bool prepared = false;  ///< a few minibatches are gathered beforehand and used in turn: what the step alone costs
  };

  /// `queue` outlives it. A model of another name or a batch below 0 is errc::bad_option.
  static result<std::unique_ptr<direct_step_bench>> open(kernels::backend& queue, const options& opts);
  virtual ~direct_step_bench() = default;

  virtual std::int64_t batch() const = 0;
  /// Of the plan; multiply-adds count two.
  virtual double flops_per_sample() const = 0;
  /// Trains for about this many seconds, at least one step, and returns samples a second.
  virtual double measure(double seconds) = 0;
};

} // namespace troupe
