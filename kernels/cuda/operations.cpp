// SPDX-License-Identifier: BSD-3-Clause
// The CUDA backend's mathematics: enqueues kernels and notes which memory they write.
#include <algorithm>

#include "kernels/cuda/cuda_backend.hpp"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/recurrent.hpp"

namespace troupe::kernels::cuda {

namespace {

/// Enqueues an operation on a stream.
class launcher {
public:
  launcher(cudaStream_t stream, scratch& memory, products& matrices, convolution_library& convolutions)
      : stream_(stream), memory_(memory), matrices_(matrices), convolutions_(convolutions), recurrent_(stream, memory, matrices) {
  }

  /// A kernel of ours, with the scratch memory that it wants.
  template <class Op>
  void operator()(const Op& op) const {
    if constexpr (requires { scratch_floats(op); })
      cuda::enqueue(stream_, op, memory_.get(scratch::reduction, scratch_floats(op)));
    else
      cuda::enqueue(stream_, op);
  }

  void operator()(const gemm& op) const { matrices_.multiply(op); }
  void operator()(const batched_gemm& op) const { matrices_.multiply(op); }
  void operator()(const lstm& op) const { recurrent_.run(op); }
  void operator()(const lstm_backward& op) const { recurrent_.run(op); }
  void operator()(const gru& op) const { recurrent_.run(op); }
  void operator()(const gru_backward& op) const { recurrent_.run(op); }
  void operator()(const conv2d& op) const {
    if (op.window.n > 0)
      convolutions_.forward(op);
  }
  void operator()(const conv2d_backward& op) const { convolutions_.backward(op); }

  void operator()(weighted_sum op) const {
    const float* carry = nullptr; // y itself after the first piece: it may be the first term, but no other
    for (auto rest = op.terms; !rest.empty(); rest = rest.subspan(op.terms.size())) {
      op.terms = rest.first(std::min(rest.size(), terms_at_once));
      cuda::enqueue(stream_, op, carry);
      carry = op.y;
    }
  }
  void operator()(sgd op) const { with_carry(op); }
  void operator()(adamw op) const { with_carry(op); }

private:
  /// All but the last few of the terms are summed into scratch: what the kernel with the last few starts from.
  template <class Op>
  void with_carry(Op& op) const {
    float* carry = nullptr;
    for (; op.terms.size() > terms_at_once; op.terms = op.terms.subspan(terms_at_once)) {
      float* sum = memory_.get(scratch::carry, op.count);
      cuda::enqueue(stream_, weighted_sum{.terms = op.terms.first(terms_at_once), .y = sum, .count = op.count}, carry);
      carry = sum;
    }
    cuda::enqueue(stream_, op, carry);
  }

  cudaStream_t stream_;
  scratch& memory_;
  products& matrices_;
  convolution_library& convolutions_;
  mutable recurrent_layers recurrent_;
};

} // namespace

void cuda_backend::enqueue(const operation& op) {
  validate(op);
  timed(compute_, {.name = name_of(op)}, [&] { std::visit(launcher(compute_, scratch_, products_, *convolutions_), op); });
  each_output(op, [this](const auto* begin, std::int64_t elements) {
    shadows_.written(begin, static_cast<std::size_t>(elements) * sizeof *begin);
  });
}

} // namespace troupe::kernels::cuda
