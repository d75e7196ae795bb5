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

/// Ids that the model reads are below it; 0: it reads numbers.
std::uint32_t vocabulary(const model& m) {
  for (const auto& n : m.forward().nodes())
    if (std::holds_alternative<ops::embedding>(n.op) && n.inputs[0] == m.input())
      return static_cast<std::uint32_t>(m.forward().at(n.inputs[1]).dims[0]);
  return 0;
}

bool classified(const model& m) {
  return m.forward().at(m.labels()).type == dtype::i32;
}

/// As numbers.
std::vector<double> elements(const kernels::buffer& from, std::int64_t count, dtype type) {
  std::vector<double> out(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = type == dtype::i32 ? from.as<std::int32_t>()[i] : static_cast<double>(from.as<float>()[i]);
  return out;
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
  const auto samples = opts.max_rows * source.sample().elements();
  if (const auto ids = vocabulary(source); ids > 0)
    std::generate_n(x.as<std::int32_t>(), samples, [&] { return static_cast<std::int32_t>(random() % ids); });
  else
    std::generate_n(x.as<float>(), samples, [&] { return normal(random); });
  const auto& predictions = source.forward().at(source.predictions()).dims;
  const auto classes = static_cast<std::uint32_t>(predictions[predictions.rank() - 1]);
  const auto count = opts.max_rows * source.label_shape().elements();
  if (classified(source))
    std::generate_n(labels.as<std::int32_t>(), count, [&] { return static_cast<std::int32_t>(random() % classes); });
  else // from 0 to 1, as bce needs them
    std::generate_n(labels.as<float>(), count, [&] { return static_cast<float>(random() % 101) / 100; });
}

step_args rig::args(std::int64_t rows) {
  return {.parameters = parameters.as<float>(),
          .gradients = gradients.as<float>(),
          .x = x.data(),
          .labels = labels.data(),
          .rows = rows,
          .counted = counted(rows),
          .key = key,
          .gradient_ready = [this](int slot) { ready.push_back(slot); },
          .done = [this] { ++steps_done; }};
}

void rig::change_input() {
  if (const auto ids = vocabulary(source); ids > 0)
    x.as<std::int32_t>()[0] = (x.as<std::int32_t>()[0] + 1) % static_cast<std::int32_t>(ids);
  else
    x.as<float>()[0] += 1;
}

std::optional<std::int64_t> rig::counted(std::int64_t rows) const {
  if (!classified(source))
    return {};
  const auto* first = labels.as<std::int32_t>();
  const auto count = rows * source.label_shape().elements();
  return count - std::count(first, first + count, ignored_label);
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
  const auto& g = source.forward();
  in.x = elements(x, rows * source.sample().elements(), g.at(source.input()).type);
  in.labels = elements(labels, rows * source.label_shape().elements(), g.at(source.labels()).type);
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
  const auto wanted = differentiate(g, r.source.loss(), r.source.layout());
  const auto all = interpret(g, r.plain_inputs(rows, true));
  const auto& loss = g.producer(r.source.loss());
  EXPECT_EQ(outcome.rows, rows);
  EXPECT_NEAR(outcome.loss_sum, sum_of(all[static_cast<std::size_t>(loss.outputs[0])]),
              1e-4 * static_cast<double>(outcome.counted));
  EXPECT_EQ(static_cast<double>(outcome.correct),
            loss.outputs.size() > 2 ? sum_of(all[static_cast<std::size_t>(loss.outputs[2])]) : 0);
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
