// SPDX-License-Identifier: BSD-3-Clause
// The cost of a training step with only the plan and the optimizer: the bare loop that actors are compared with.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/backend.hpp"
#include "tensor/data/data_set.hpp"
#include "tensor/error.hpp"
#include "tensor/model.hpp"
#include "tensor/optimizer.hpp"

namespace troupe {

/// A model that the benchmarks name, its usual batch and its optimizer.
struct bench_model {
  model_spec spec;
  data_format data;
  std::int64_t batch = 0;
  optimizer_spec optimizer{.lr = 0.05, .momentum = 0.9};
};

/// By SGD with momentum, on images:
///   "mlp"          784-1024-1024-10, batch 128
///   "cnn"          conv 32 and conv 64 (3x3), pool 2, 128, 10 on 28x28 images, batch 64
///   "mnist-cnn"    the layers of config/mnist-cnn.toml, batch 256
///   "wide"         twelve of width 4096 with gelu and a head of 10, batch 4096
///   "resnet20"     20 layers with batch norms on 3x32x32 images, batch 128
/// By AdamW, on ids, each of which is predicted from those before:
///   "transformer"  four blocks of width 128 with 4 heads, 128 of 65 ids, a head of its own, batch 16
///   "lstm"         an embedding of 128 and 256 units, 128 of 65 ids, batch 16
///   "gpt2"         GPT-2's 124 million parameters, 64 of 50257 ids, batch 4
result<bench_model> find_bench_model(const std::string& name);
/// Their names.
std::vector<std::string> bench_models();

/// Images of random pixels and random labels, of the model's sample shape, as large as MNIST; or a text of random ids, longer
/// than a cache: gathering a batch reads memory that is in none.
data_pair bench_data(const bench_model& m);

/// A model in training on one queue, and nothing else: gather a shuffled minibatch while the last one is computed, forward,
/// backward, a step of the model's optimizer in place, wait.
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
