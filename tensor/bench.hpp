// SPDX-License-Identifier: BSD-3-Clause
// What a training step costs when nothing but the plan and the optimizer runs: the bare loop that actors are compared with.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/backend.hpp"
#include "tensor/data/data_set.hpp"
#include "tensor/error.hpp"
#include "tensor/model.hpp"

namespace troupe {

/// A model that the benchmarks name, and its usual batch.
struct bench_model {
  model_spec spec;
  shape sample;
  int classes = 10;
  std::int64_t batch = 0;
};

/// "mlp": 784-1024-1024-10, batch 128; "cnn": conv 32 and conv 64 (3x3), pool 2, 128, 10 on 28x28 images, batch 64.
result<bench_model> find_bench_model(const std::string& name);

/// Images of random pixels and random labels, of the model's sample shape; as large as MNIST, so that gathering a batch reads
/// memory that is in no cache.
data_pair bench_data(const bench_model& m);

struct step_bench_options {
  std::string model = "mlp";
  std::int64_t batch = 0; ///< 0: the model's usual one
  int rounds = 5;         ///< the result is their median
  double seconds_per_round = 1;
};

struct step_bench_result {
  std::string model;
  std::int64_t batch = 0;
  double samples_per_s = 0;
  double gflops = 0; ///< the plan's floating-point operations over the time, in 10^9 a second
};

/// Trains on `queue` in a loop: gather a shuffled minibatch, forward, backward, SGD with momentum 0.9 in place. A model of
/// another name or a batch below 1 is errc::bad_option.
result<step_bench_result> bench_direct_step(kernels::backend& queue, const step_bench_options& options);

} // namespace troupe
