// SPDX-License-Identifier: BSD-3-Clause
// All operations of a backend, as values: their meaning, the memory that they read and write, and their cost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "kernels/activation.hpp"
#include "kernels/operations/elementwise.hpp"
#include "kernels/operations/losses.hpp"
#include "kernels/operations/normalisation.hpp"
#include "kernels/operations/optimizers.hpp"
#include "kernels/operations/pooling.hpp"
#include "kernels/operations/products.hpp"
#include "kernels/operations/reductions.hpp"
#include "kernels/operations/sequences.hpp"
#include "kernels/random_key.hpp"

namespace troupe::kernels {

// Each operation is a struct of its operands, by families in kernels/operations. Pointers are addresses in the device's memory;
// matrices are row-major. `inputs` and `outputs` call each(pointer, elements) for every array that it reads and writes, null
// where one was not asked for. Where nothing else is said, a result lies over an operand entirely or not at all.
//
// `accumulate` adds gradients of parameters to what is there, for weights that are used twice and for steps of several parts.

/// The closed set. Every implementation visits it, so a missing operation does not compile.
using operation = std::variant<
    // products
    gemm, batched_gemm, conv2d, conv2d_backward,
    // elementwise
    fill, unary, unary_backward, binary, broadcast_binary, axpby, copy_strided, bias_activation, dropout,
    // reductions
    sum_rows, sum, sum_axes, sum_squares, weighted_sum, all_finite,
    // normalisation
    layernorm, layernorm_backward, rmsnorm, rmsnorm_backward, groupnorm, groupnorm_backward, batchnorm, batchnorm_inference,
    batchnorm_backward, softmax, softmax_backward,
    // pooling
    max_pool, max_pool_backward, avg_pool, avg_pool_backward,
    // losses
    softmax_cross_entropy, mean_squared_error, sigmoid_cross_entropy,
    // sequences
    embedding, embedding_backward, attention, attention_backward, rotary, lstm, lstm_backward, gru, gru_backward,
    // optimizers
    sgd, lars_rate, adamw, delay_compensate, soft_threshold>;

/// Calls each(pointer, elements) for every array that the operation reads.
template <class F>
void each_input(const operation& op, F each) {
  const auto present = [&](const auto* begin, std::int64_t elements) {
    if (begin)
      each(begin, elements);
  };
  std::visit([&](const auto& own) { own.inputs(present); }, op);
}

/// Calls each(pointer, elements) for every array that the operation writes.
template <class F>
void each_output(const operation& op, F each) {
  const auto present = [&](auto* begin, std::int64_t elements) {
    if (begin)
      each(begin, elements);
  };
  std::visit([&](const auto& own) { own.outputs(present); }, op);
}

/// "gemm": a literal.
const char* name_of(const operation& op);
/// Floating-point operations. A multiply-add of a product counts two. Everything else counts one for each element of its first
/// result: small beside the products, and there is no agreed count for an exponential.
double flops(const operation& op);
/// Bytes that it reads and writes, each array once.
double bytes_moved(const operation& op);
/// Asserts the caller's promises about shapes and pointers (TROUPE_ASSERT).
void validate(const operation& op);

class backend;

/// An operation that is enqueued later, with its own copy of the terms that it refers to.
class kept_operation {
public:
  explicit kept_operation(const operation& op);
  void enqueue_on(backend& queue) const;

private:
  operation op_;
  std::vector<term> terms_;
};

} // namespace troupe::kernels
