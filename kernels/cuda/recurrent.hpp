// SPDX-License-Identifier: BSD-3-Clause
// Recurrent layers on one stream: a product and a kernel of gates for each step.
#pragma once

#include "kernels/cuda/dense.hpp"

namespace troupe::kernels::cuda {

/// The weight's gradient is one product over all steps. One thread at a time.
class recurrent_layers {
public:
  recurrent_layers(cudaStream_t stream, scratch& memory, products& matrices)
      : stream_(stream), memory_(memory), matrices_(matrices) {}

  void run(const lstm& op) { forward(op, 4); }
  void run(const gru& op) { forward(op, 3); }
  void run(const lstm_backward& op);
  void run(const gru_backward& op);

private:
  template <class Op>
  void forward(const Op& op, std::int64_t parts);
  template <class Op, class F>
  void steps_back(const Op& op, std::int64_t parts, float* state, F gate_gradients);
  template <class Op>
  void weight_gradients(const Op& op, std::int64_t parts, const float* gradients);

  cudaStream_t stream_;
  scratch& memory_;
  products& matrices_;
};

} // namespace troupe::kernels::cuda
