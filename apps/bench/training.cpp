// SPDX-License-Identifier: BSD-3-Clause
// The bare training loop.
#include "apps/bench/training.hpp"

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kernels/random.hpp"
#include "tensor/data/batch_loader.hpp"
#include "tensor/data/memory_set.hpp"
#include "tensor/data/windows.hpp"
#include "tensor/optimizer.hpp"
#include "tensor/plan.hpp"

namespace troupe {

namespace {

using seconds = std::chrono::duration<double>;
using steady = std::chrono::steady_clock;

constexpr std::int64_t mnist_bytes = 60000 * 28 * 28;
constexpr std::uint64_t seed = 1;

labelled_images random_images(const data_format& data, std::int64_t count, std::uint32_t stream) {
  labelled_images images{data.sample, data.classes, {}, {}};
  const auto pixels = count * data.sample.elements();
  images.pixels.reserve(static_cast<std::size_t>(pixels + 4));
  for (std::uint32_t block = 0; std::ssize(images.pixels) < pixels; ++block)
    for (auto word : kernels::random_block({seed, stream, 0}, block))
      images.pixels.push_back(static_cast<std::uint8_t>(word));
  images.pixels.resize(static_cast<std::size_t>(pixels));
  for (std::int64_t i = 0; i < count; ++i)
    images.labels.push_back(static_cast<std::uint8_t>(kernels::random_below(
        kernels::random_word({seed, stream, 1}, static_cast<std::uint64_t>(i)), static_cast<std::uint32_t>(data.classes))));
  return images;
}

constexpr std::size_t text_ids = 1 << 20;

/// Windows of a text of random ids, one at each place of it.
std::shared_ptr<const data_set> random_text(const data_format& format) {
  std::vector<std::int32_t> ids(text_ids);
  for (std::size_t at = 0; at < ids.size(); ++at)
    ids[at] = static_cast<std::int32_t>(
        kernels::random_below(kernels::random_word({seed, 0, 2}, at), static_cast<std::uint32_t>(format.ids)));
  return make_windows(std::make_shared<ids_in_memory>(std::move(ids)), {.end = text_ids, .context = format.sample[0]},
                      format.classes);
}

data_format ids_of(std::int64_t context, int vocabulary) {
  return {.sample = {context}, .classes = vocabulary, .type = dtype::i32, .ids = vocabulary, .labels = {context}};
}

/// With which models of texts are usually trained.
const optimizer_spec for_text{.name = "adamw", .lr = 1e-3};

std::vector<std::string> wide_layers() {
  std::vector<std::string> layers{"flatten"};
  layers.insert(layers.end(), 12, "linear 4096 gelu");
  layers.emplace_back("linear 10");
  return layers;
}

struct named_model {
  std::string name;
  bench_model entry;
};

/// One at a time: a list of them costs the compiler its view of what is initialized.
std::vector<named_model> make_models() {
  std::vector<named_model> all;
  const auto of_layers = [&all](const char* name, std::vector<std::string> layers, const data_format& data, std::int64_t batch) {
    auto& made = all.emplace_back();
    made.name = name;
    made.entry.spec.layers = std::move(layers);
    made.entry.data = data;
    made.entry.batch = batch;
  };
  of_layers("mlp", mlp_layers({1024, 1024}, 10), {{1, 28, 28}, 10}, 128);
  of_layers("cnn", {"conv 32 3x3 relu", "conv 64 3x3 relu", "pool 2", "flatten", "linear 128 relu", "linear 10"},
            {{1, 28, 28}, 10}, 64);
  of_layers(
      "mnist-cnn",
      {"conv 32 5x5 relu", "pool 2", "conv 64 5x5 relu", "pool 2", "flatten", "dropout 0.3", "linear 128 relu", "linear 10"},
      {{1, 28, 28}, 10}, 256);
  of_layers("wide", wide_layers(), {{1, 64, 64}, 10}, 4096);
  all.back().entry.optimizer.lr = 1e-3; // by 0.05 it diverges, and a shard takes no gradient that is not finite
  of_layers("resnet20", {}, {{3, 32, 32}, 10}, 128);
  all.back().entry.spec.network = {.kind = "resnet", .depth = 20, .width = 16};
  of_layers("transformer",
            {"embedding 128", "positions", "repeat 4 {", "residual {", "layernorm", "attention 4 causal", "}", "residual {",
             "layernorm", "linear 512 gelu", "linear 128", "}", "}", "layernorm", "linear 65"},
            ids_of(128, 65), 16);
  all.back().entry.optimizer = for_text;
  of_layers("lstm", {"embedding 128", "lstm 256", "linear 65"}, ids_of(128, 65), 16);
  all.back().entry.optimizer = for_text;
  of_layers("gpt2", {}, ids_of(64, 50257), 4);
  all.back().entry.spec.network = {.kind = "gpt", .depth = 12, .heads = 12, .width = 768};
  all.back().entry.optimizer = for_text;
  return all;
}

const std::vector<named_model>& models() {
  static const auto all = make_models();
  return all;
}

class bare_loop final : public direct_step_bench {
public:
  bare_loop(kernels::backend& queue, const bench_model& entry, model source, std::int64_t batch_rows, bool prepared)
      : queue_(queue), rows_(batch_rows), source_(std::move(source)),
        plan_(plan::compile(source_, queue, {.max_rows = batch_rows, .capture = !queue.on_host()}).value()),
        lr_(entry.optimizer.lr), optimizer_(entry.optimizer, queue, source_.layout().floats(),
                                            update_ranges(source_.layout(), {0, source_.layout().floats()})),
        data_(bench_data(entry)), loader_(data_.train, seed, [&queue](std::size_t bytes) { return queue.allocate_host(bytes); }) {
    const auto bytes = static_cast<std::size_t>(source_.layout().floats()) * sizeof(float);
    parameters_ = queue.allocate(bytes);
    gradients_ = queue.allocate(bytes);
    auto initial = queue.allocate_host(bytes);
    initialize_parameters(source_.layout(), seed, initial.as<float>());
    queue.copy_from_host(parameters_.data(), initial.data(), bytes);
    queue.synchronize();
    constexpr int most_prepared = 8;
    for (int i = 0; prepared && i < most_prepared; ++i)
      prepared_.push_back(gather());
    for (int i = 0; i < warm_up_steps; ++i)
      step();
  }

  std::int64_t batch() const override { return rows_; }
  double flops_per_sample() const override { return plan_->cost().flops_per_row; }

  double measure(double length) override {
    trained_ = 0;
    const auto begin = steady::now();
    do
      step();
    while (seconds(steady::now() - begin).count() < length);
    return static_cast<double>(trained_) / seconds(steady::now() - begin).count();
  }

private:
  static constexpr int warm_up_steps = 5;

  troupe::batch gather() {
    auto rows = global_batch(position_, rows_, data_.train->size());
    position_ += static_cast<std::uint64_t>(rows.size());
    return loader_.load(rows);
  }

  troupe::batch next_batch() {
    if (prepared_.empty())
      return gather();
    turn_ = (turn_ + 1) % prepared_.size();
    return prepared_[turn_];
  }

  /// A minibatch, and on a device its copy there.
  struct input {
    troupe::batch host;
    kernels::buffer x, labels;
  };

  /// Uploads the next minibatch while the device computes, into the place of the last but one, which has been used.
  void prefetch() {
    std::swap(now_, next_);
    next_.host = next_batch();
    if (queue_.on_host())
      return;
    for (auto [device, host] : {std::pair{&next_.x, &next_.host.x}, {&next_.labels, &next_.host.labels}}) {
      if (device->bytes() < host->bytes())
        *device = queue_.allocate(host->bytes());
      queue_.upload(device->data(), host->data(), host->bytes());
    }
  }

  void step() {
    if (!next_.host.x)
      prefetch();
    const bool staged = !queue_.on_host();
    const auto rows = next_.host.rows;
    plan_->enqueue_step({.parameters = parameters_.as<float>(),
                         .gradients = gradients_.as<float>(),
                         .x = (staged ? next_.x : next_.host.x).data(),
                         .labels = (staged ? next_.labels : next_.host.labels).data(),
                         .rows = rows,
                         .staged = staged});
    const kernels::term gradient{gradients_.as<float>(), 1};
    optimizer_.apply({&gradient, 1}, parameters_.as<float>(), parameters_.as<float>(), lr_);
    prefetch();
    queue_.synchronize();
    trained_ += rows;
  }

  kernels::backend& queue_;
  std::int64_t rows_;
  model source_;
  std::unique_ptr<plan> plan_;
  double lr_;
  optimizer optimizer_;
  data_pair data_;
  batch_loader loader_;
  kernels::buffer parameters_, gradients_;
  std::vector<troupe::batch> prepared_;
  std::size_t turn_ = 0;
  input now_, next_; ///< what the device computes with, and what comes after it
  std::uint64_t position_ = 0;
  std::int64_t trained_ = 0;
};

} // namespace

std::vector<std::string> bench_models() {
  std::vector<std::string> names;
  for (const named_model& each : models())
    names.push_back(each.name);
  return names;
}

result<bench_model> find_bench_model(const std::string& name) {
  const auto found = std::ranges::find(models(), name, &named_model::name);
  if (found == models().end())
    return error{errc::bad_option,
                 fmt::format("there is no benchmark model \"{}\"; there are {}", name, fmt::join(bench_models(), ", "))};
  return found->entry;
}

data_pair bench_data(const bench_model& m) {
  if (m.data.ids > 0) {
    const auto text = random_text(m.data);
    return {text, text};
  }
  return make_image_pair({random_images(m.data, mnist_bytes / m.data.sample.elements(), 0), random_images(m.data, 1000, 1)},
                         pixel_scale::standard);
}

result<std::unique_ptr<direct_step_bench>> direct_step_bench::open(kernels::backend& queue, const options& opts) {
  auto entry = find_bench_model(opts.model);
  if (!entry)
    return entry.error();
  const auto rows = opts.batch == 0 ? entry->batch : opts.batch;
  if (rows < 1)
    return error{errc::bad_option, fmt::format("a benchmark needs a batch from 1 on, got {}", rows)};
  auto source = model::build(entry->spec, entry->data);
  if (!source)
    return source.error();
  return std::unique_ptr<direct_step_bench>(std::make_unique<bare_loop>(queue, *entry, std::move(*source), rows, opts.prepared));
}

} // namespace troupe
