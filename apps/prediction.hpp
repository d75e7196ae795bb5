// SPDX-License-Identifier: BSD-3-Clause
// What a model with saved weights says of samples, in this thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "kernels/backend.hpp"
#include "tensor/error.hpp"
#include "tensor/model.hpp"
#include "tensor/plan.hpp"

namespace troupe::apps {

/// A model, its weights and a plan for some rows at once. The model and the backend must outlive it.
class predictor {
public:
  /// Reads the weights; an error names their file.
  static result<predictor> open(const model& network, const std::string& weights, kernels::backend& queue,
                                std::int64_t most_rows);

  /// Where samples go: `most_rows` of them, of the model's input type.
  void* samples() { return x_.data(); }
  /// Of the first `rows` samples: (rows, predictions of the model). Valid until the next call.
  std::span<const float> predict(std::int64_t rows);

private:
  predictor(kernels::backend& queue, std::unique_ptr<plan> compiled) : queue_(&queue), plan_(std::move(compiled)) {}

  kernels::backend* queue_;
  std::unique_ptr<plan> plan_;
  kernels::buffer parameters_, x_, labels_;
};

} // namespace troupe::apps
