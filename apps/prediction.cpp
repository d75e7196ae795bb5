// SPDX-License-Identifier: BSD-3-Clause
// Evaluations whose labels do not count.
#include "apps/prediction.hpp"

#include <algorithm>
#include <utility>

#include "tensor/safetensors.hpp"

namespace troupe::apps {

result<predictor> predictor::open(const model& network, const std::string& weights, kernels::backend& queue,
                                  std::int64_t most_rows) {
  auto compiled = plan::compile(network, queue, {.max_rows = most_rows, .training = false, .predictions = true});
  if (!compiled)
    return compiled.error();
  predictor out(queue, std::move(*compiled));
  out.parameters_ = queue.allocate(static_cast<std::size_t>(network.layout().floats()) * sizeof(float));
  if (const auto loaded = load_safetensors(weights, network.layout(), out.parameters_.as<float>()); !loaded)
    return loaded.error();
  const auto bytes_of = [most_rows](const shape& row) {
    return static_cast<std::size_t>(most_rows * row.elements() * element_bytes);
  };
  out.x_ = queue.allocate_host(bytes_of(network.sample()));
  out.labels_ = queue.allocate_host(bytes_of(network.label_shape()));
  // Labels that are numbers have no such value, and their loss is not looked at.
  std::ranges::fill(out.labels_.span<std::int32_t>(),
                    network.forward().at(network.labels()).type == dtype::i32 ? ignored_label : 0);
  return out;
}

std::span<const float> predictor::predict(std::int64_t rows) {
  step_args args;
  args.parameters = parameters_.as<const float>();
  args.x = x_.data();
  args.labels = labels_.data();
  args.rows = rows;
  args.counted = 0;
  plan_->enqueue_evaluation(args);
  queue_->synchronize();
  return plan_->predictions();
}

} // namespace troupe::apps
