// SPDX-License-Identifier: BSD-3-Clause
// The table of vectorised loops: one implementation for each instruction set, chosen when the backend opens.
#pragma once

#include <cstdint>
#include <string_view>
#include <type_traits>

#include "kernels/cpu/loops/scratch.hpp"
#include "kernels/operation.hpp"

namespace troupe::kernels {

/// Instruction sets that the loops are compiled for: x86-64 as it began (SSE2), x86-64-v3 (AVX2, FMA), x86-64-v4 (AVX-512).
enum class instruction_set : std::uint8_t { baseline, avx2, avx512 };

/// Computes one kind of operation.
template <class Op>
struct loop {
  void (*run)(const Op&);
};

/// The loops of one instruction set, one for each kind of operation.
template <class... Ops>
struct loop_table_of : loop<Ops>... {
  template <class Op>
  requires(std::is_same_v<Op, Ops> || ...) void operator()(const Op& op) const { static_cast<const loop<Op>&>(*this).run(op); }
};

/// Every operation but the products and convolutions, which libraries compute.
///
/// An element's result depends on its operands alone, never on where it lies in a buffer: a partition that starts elsewhere,
/// or a shard that holds half of it, gives the same bits.
using loop_table =
    loop_table_of<fill, unary, unary_backward, binary, broadcast_binary, axpby, copy_strided, bias_activation, dropout, sum_rows,
                  sum, sum_axes, sum_squares, weighted_sum, all_finite, layernorm, layernorm_backward, rmsnorm, rmsnorm_backward,
                  groupnorm, groupnorm_backward, batchnorm, batchnorm_inference, batchnorm_backward, softmax, softmax_backward,
                  max_pool, max_pool_backward, avg_pool, avg_pool_backward, softmax_cross_entropy, mean_squared_error,
                  sigmoid_cross_entropy, embedding, embedding_backward, with_scratch<attention>, with_scratch<attention_backward>,
                  rotary, with_scratch<lstm>, with_scratch<lstm_backward>, with_scratch<gru>, with_scratch<gru_backward>, sgd,
                  lars_rate, adamw, delay_compensate, soft_threshold>;

namespace loops_baseline {
extern const loop_table table;
}
namespace loops_avx2 {
extern const loop_table table;
}
namespace loops_avx512 {
extern const loop_table table;
}

/// The widest set that this processor has.
instruction_set best_instruction_set();
/// "SSE2", "AVX2", "AVX-512".
std::string_view to_string(instruction_set set);
/// The loops for a set; the processor must have it.
const loop_table& loops_for(instruction_set set);

} // namespace troupe::kernels
