// SPDX-License-Identifier: BSD-3-Clause
// The parts together: data, plan and optimizer learn.
#include <gtest/gtest.h>

#include "tensor/data/batch_loader.hpp"
#include "tensor/optimizer.hpp"
#include "tensor/plan.hpp"

namespace troupe {
namespace {

struct training_case {
  std::string name;
  std::vector<std::string> layers;
  optimizer_spec optimizer;
  double accuracy; ///< at least, on the training samples; guessing gives 0.1
};

class Training : public ::testing::TestWithParam<training_case> {};

TEST_P(Training, LearnsDrawnDigits) {
  constexpr std::int64_t samples = 1000, batch_rows = 50;
  constexpr int epochs = 4;
  const auto queue = kernels::open_backend({});
  const auto data = load_data({.train_samples = samples, .test_samples = 10}, 3).value();
  const auto m = model::build({GetParam().layers}, data.train->format()).value();
  const auto compiled = plan::compile(m, *queue, {.max_rows = batch_rows}).value();
  optimizer opt{GetParam().optimizer, *queue, m.layout().floats()};
  batch_loader loader{data.train, 3, [&](std::size_t bytes) { return queue->allocate_host(bytes); }};
  auto p = queue->allocate(static_cast<std::size_t>(m.layout().floats()) * 4);
  auto g = queue->allocate(static_cast<std::size_t>(m.layout().floats()) * 4);
  initialize_parameters(m.layout(), 3, p.as<float>());

  for (std::uint64_t position = 0; position < epochs * samples; position += batch_rows) {
    const auto batch = loader.load(global_batch(position, batch_rows, samples));
    compiled->enqueue_step({.parameters = p.as<float>(),
                            .gradients = g.as<float>(),
                            .x = batch.x.data(),
                            .labels = batch.labels.data(),
                            .rows = batch.rows,
                            .key = {.seed = 3, .stream = 0, .step = position}});
    const kernels::term gradient{g.as<float>(), 1};
    opt.apply({&gradient, 1}, p.as<float>(), p.as<float>(), GetParam().optimizer.lr);
    queue->synchronize();
    ASSERT_TRUE(compiled->outcome().finite);
  }

  std::int64_t correct = 0;
  for (std::int64_t begin = 0; begin < samples; begin += batch_rows) {
    const auto batch = loader.load_in_order(begin, begin + batch_rows);
    compiled->enqueue_evaluation(
        {.parameters = p.as<float>(), .x = batch.x.data(), .labels = batch.labels.data(), .rows = batch.rows});
    queue->synchronize();
    correct += compiled->outcome().correct;
  }
  EXPECT_GE(static_cast<double>(correct) / samples, GetParam().accuracy);
}

INSTANTIATE_TEST_SUITE_P(
    Models, Training,
    ::testing::Values(training_case{"mlp_sgd", {"flatten", "linear 64 relu", "linear 10"}, {.lr = 0.02, .momentum = 0.9}, 0.95},
                      training_case{"mlp_adamw",
                                    {"flatten", "linear 64 gelu", "layernorm", "dropout 0.1", "linear 10"},
                                    {.name = "adamw", .lr = 0.003},
                                    0.95},
                      training_case{"cnn_nesterov",
                                    {"conv 8 3x3 relu stride 2", "pool 2", "flatten", "linear 10"},
                                    {.lr = 0.05, .momentum = 0.9, .nesterov = true},
                                    0.9}),
    [](const auto& info) { return info.param.name; });

} // namespace
} // namespace troupe
