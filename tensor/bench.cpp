// SPDX-License-Identifier: BSD-3-Clause
// The bare training loop.
#include "tensor/bench.hpp"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "kernels/random.hpp"
#include "tensor/data/batch_loader.hpp"
#include "tensor/data/memory_set.hpp"
#include "tensor/optimizer.hpp"
#include "tensor/plan.hpp"

namespace troupe {

namespace {

using seconds = std::chrono::duration<double>;
using steady = std::chrono::steady_clock;

constexpr std::int64_t samples = 60000;
constexpr std::uint64_t seed = 1;

labelled_images random_images(const shape& sample, int classes, std::int64_t count, std::uint32_t stream) {
  labelled_images images{sample, classes, {}, {}};
  const auto pixels = count * sample.elements();
  images.pixels.reserve(static_cast<std::size_t>(pixels + 4));
  for (std::uint32_t block = 0; std::ssize(images.pixels) < pixels; ++block)
    for (auto word : kernels::random_block({seed, stream, 0}, block))
      images.pixels.push_back(static_cast<std::uint8_t>(word));
  images.pixels.resize(static_cast<std::size_t>(pixels));
  for (std::int64_t i = 0; i < count; ++i)
    images.labels.push_back(static_cast<std::uint8_t>(kernels::random_below(
        kernels::random_word({seed, stream, 1}, static_cast<std::uint64_t>(i)), static_cast<std::uint32_t>(classes))));
  return images;
}

/// A model in training on one queue.
class bare_loop {
public:
  bare_loop(kernels::backend& queue, const bench_model& what, std::int64_t batch_rows)
      : queue_(queue), rows_(batch_rows), source_(model::build(what.spec, what.sample, what.classes).value()),
        plan_(plan::compile(source_, queue, {.max_rows = batch_rows}).value()),
        optimizer_({.lr = 0.05, .momentum = 0.9}, queue, source_.layout().floats()), data_(bench_data(what)),
        loader_(data_.train, seed, [&queue](std::size_t bytes) { return queue.allocate_host(bytes); }) {
    const auto bytes = static_cast<std::size_t>(source_.layout().floats()) * sizeof(float);
    parameters_ = queue.allocate(bytes);
    gradients_ = queue.allocate(bytes);
    auto initial = queue.allocate_host(bytes);
    initialize_parameters(source_.layout(), seed, initial.as<float>());
    queue.copy_from_host(parameters_.data(), initial.data(), bytes);
    queue.synchronize();
  }

  const plan_cost& cost() const { return plan_->cost(); }

  void step() {
    auto rows = global_batch(position_, rows_, data_.train->size());
    position_ += static_cast<std::uint64_t>(rows.size());
    const auto batch = loader_.load(rows);
    plan_->enqueue_step({.parameters = parameters_.as<float>(),
                         .gradients = gradients_.as<float>(),
                         .x = batch.x.as<float>(),
                         .labels = batch.labels.as<std::int32_t>(),
                         .rows = batch.rows});
    const kernels::term gradient{gradients_.as<float>(), 1};
    optimizer_.apply({&gradient, 1}, parameters_.as<float>(), parameters_.as<float>(), 0.05);
    queue_.synchronize();
    trained_ += batch.rows;
  }

  /// Samples per second over about `length`.
  double measure(seconds length) {
    trained_ = 0;
    const auto begin = steady::now();
    while (steady::now() - begin < length)
      step();
    return static_cast<double>(trained_) / seconds(steady::now() - begin).count();
  }

private:
  kernels::backend& queue_;
  std::int64_t rows_;
  model source_;
  std::unique_ptr<plan> plan_;
  optimizer optimizer_;
  data_pair data_;
  batch_loader loader_;
  kernels::buffer parameters_, gradients_;
  std::uint64_t position_ = 0;
  std::int64_t trained_ = 0;
};

} // namespace

result<bench_model> find_bench_model(const std::string& name) {
  if (name == "mlp")
    return bench_model{{mlp_layers({1024, 1024}, 10)}, {1, 28, 28}, 10, 128};
  if (name == "cnn")
    return bench_model{
        {{"conv 32 3x3 relu", "conv 64 3x3 relu", "pool 2", "flatten", "linear 128 relu", "linear 10"}}, {1, 28, 28}, 10, 64};
  return error{errc::bad_option, fmt::format("there is no benchmark model \"{}\"; \"mlp\" or \"cnn\"", name)};
}

data_pair bench_data(const bench_model& m) {
  return make_image_pair({random_images(m.sample, m.classes, samples, 0), random_images(m.sample, m.classes, 1000, 1)},
                         pixel_scale::standard);
}

result<step_bench_result> bench_direct_step(kernels::backend& queue, const step_bench_options& options) {
  auto what = find_bench_model(options.model);
  if (!what)
    return what.error();
  const auto batch = options.batch == 0 ? what->batch : options.batch;
  if (batch < 1 || options.rounds < 1)
    return error{errc::bad_option,
                 fmt::format("a benchmark needs a batch and rounds from 1 on, got {} and {}", batch, options.rounds)};

  bare_loop loop{queue, *what, batch};
  constexpr int warm_up_steps = 5;
  for (int i = 0; i < warm_up_steps; ++i)
    loop.step();
  std::vector<double> rates;
  for (int round = 0; round < options.rounds; ++round)
    rates.push_back(loop.measure(seconds{options.seconds_per_round}));
  std::ranges::nth_element(rates, rates.begin() + std::ssize(rates) / 2);
  const auto median = rates[rates.size() / 2];
  return step_bench_result{options.model, batch, median, median * loop.cost().flops_per_row * 1e-9};
}

} // namespace troupe
