// SPDX-License-Identifier: BSD-3-Clause
// Draws parameters and batches, and compares.
#include "tests/tensor/rig.hpp"

#include <algorithm>
#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "tensor/autodiff.hpp"

namespace troupe::testing {

namespace {

std::size_t bytes(std::int64_t elements) {
  return static_cast<std::size_t>(elements * element_bytes);
}

} // namespace

rig::rig(const std::vector<std::string>& layers, const data_format& data, std::int64_t max_rows, bool training)
    : rig(layers, data, {.max_rows = max_rows, .training = training}, kernels::open_backend({})) {}

rig::rig(const std::vector<std::string>& layers, const data_format& data, const plan::options& opts,
         std::unique_ptr<kernels::backend> on)
    : rig(model::build({layers}, data).value(), opts, std::move(on)) {}

rig::rig(model of, const plan::options& opts, std::unique_ptr<kernels::backend> on)
    : queue(std::move(on)), source(std::move(of)), compiled(plan::compile(source, *queue, opts).value()),
      parameters(queue->allocate(bytes(source.layout().floats()))), gradients(queue->allocate(bytes(source.layout().floats()))),
      x(queue->allocate_host(bytes(opts.max_rows * source.sample().elements()))),
      labels(queue->allocate_host(bytes(opts.max_rows * source.label_shape().elements()))) {
  initialize_parameters(source.layout(), 17, parameters.as<float>());
  std::mt19937 random{99};
  std::normal_distribution<float> normal;
  // Biases too: zeros would hide a bias that is not added.
  for (const auto& slot : source.layout().slots)
    for (std::int64_t i = 0; i < slot.elements(); ++i)
      parameters.as<float>()[slot.offset + i] += 0.1F * normal(random);
  std::generate_n(x.as<float>(), opts.max_rows * source.sample().elements(), [&] { return normal(random); });
  const auto& predictions = source.forward().at(source.predictions()).dims;
  const auto classes = static_cast<std::uint32_t>(predictions[predictions.rank() - 1]);
  std::generate_n(labels.as<std::int32_t>(), opts.max_rows * source.label_shape().elements(),
                  [&] { return static_cast<std::int32_t>(random() % classes); });
}

step_args rig::args(std::int64_t rows) {
  return {.parameters = parameters.as<float>(),
          .gradients = gradients.as<float>(),
          .x = x.data(),
          .labels = labels.data(),
          .rows = rows,
          .key = key,
          .gradient_ready = [this](int slot) { ready.push_back(slot); },
          .done = [this] { ++steps_done; }};
}

const step_outcome& rig::step(std::int64_t rows) {
  std::fill_n(gradients.as<float>(), source.layout().floats(), 1e30F);
  ready.clear();
  compiled->enqueue_step(args(rows));
  queue->synchronize();
  return compiled->outcome();
}

const step_outcome& rig::evaluate(std::int64_t rows) {
  compiled->enqueue_evaluation(args(rows));
  queue->synchronize();
  return compiled->outcome();
}

interpreter_inputs rig::plain_inputs(std::int64_t rows, bool training) const {
  interpreter_inputs in{.rows = rows, .parameters = slots_of(source.layout(), parameters.as<float>()), .x = {}, .labels = {}};
  in.x.assign(x.as<float>(), x.as<float>() + rows * source.sample().elements());
  in.labels.assign(labels.as<std::int32_t>(), labels.as<std::int32_t>() + rows * source.label_shape().elements());
  in.key = key;
  in.training = training;
  return in;
}

std::vector<float> rig::flat_gradients() const {
  return {gradients.as<float>(), gradients.as<float>() + source.layout().floats()};
}

double sum_of(const std::vector<double>& values) {
  double sum = 0;
  for (auto v : values)
    sum += v;
  return sum;
}

void expect_step_equals_interpreter(rig& r, std::int64_t rows, closeness how) {
  const auto outcome = r.step(rows);
  auto g = r.source.forward();
  const auto wanted = differentiate(g, r.source.loss(), static_cast<int>(r.source.layout().slots.size()));
  const auto all = interpret(g, r.plain_inputs(rows, true));
  const auto& loss = g.producer(r.source.loss());
  EXPECT_EQ(outcome.rows, rows);
  EXPECT_NEAR(outcome.loss_sum, sum_of(all[static_cast<std::size_t>(loss.outputs[0])]),
              1e-4 * static_cast<double>(outcome.counted));
  EXPECT_EQ(static_cast<double>(outcome.correct), sum_of(all[static_cast<std::size_t>(loss.outputs[2])]));
  EXPECT_TRUE(outcome.finite);
  std::vector<bool> written(static_cast<std::size_t>(r.source.layout().floats()), false);
  const auto* flat = r.gradients.as<float>();
  for (std::size_t s = 0; s < wanted.size(); ++s) {
    if (wanted[s] == value_id::none)
      continue; // the loss does not depend on it: zero, as a gap
    const auto& slot = r.source.layout().slots[s];
    const auto& expected = all[static_cast<std::size_t>(wanted[s])];
    double largest = how.least;
    for (auto e : expected)
      largest = std::max(largest, std::abs(e));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const auto at = static_cast<std::size_t>(slot.offset) + i;
      ASSERT_NEAR(flat[at], expected[i], how.part * largest) << slot.name << " element " << i << ", rows " << rows;
      written[at] = true;
    }
  }
  for (std::size_t i = 0; i < written.size(); ++i)
    if (!written[i]) {
      ASSERT_EQ(flat[i], 0.0F) << "gap at " << i;
    }
}

} // namespace troupe::testing
