// SPDX-License-Identifier: BSD-3-Clause
// The table of vectorised loops: one implementation for each instruction set, chosen when the backend opens.
#pragma once

#include <cstdint>
#include <string_view>

#include "kernels/backend.hpp"

namespace troupe::kernels {

/// Instruction sets that the loops are compiled for: x86-64 as it began (SSE2), x86-64-v3 (AVX2, FMA), x86-64-v4 (AVX-512).
enum class instruction_set : std::uint8_t { baseline, avx2, avx512 };

/// Every loop of the CPU backend as a function pointer; each does what the operation of the same name in `backend` says.
///
/// An element's result depends on its operands alone, never on where it lies in a buffer: a partition that starts elsewhere,
/// or a shard that holds half of it, gives the same bits.
struct loop_table {
  void (*fill)(float* y, float value, std::int64_t n);
  void (*unary)(unary_op op, const float* x, float* y, std::int64_t n);
  void (*unary_backward)(unary_op op, const float* x, const float* y, const float* dy, float* dx, std::int64_t n);
  void (*binary)(binary_op op, const float* a, const float* b, float* y, std::int64_t n);
  void (*axpby)(float alpha, const float* x, float beta, float* y, std::int64_t n);
  void (*bias_activation)(const float* x, const float* bias, activation act, float* y, std::int64_t rows, std::int64_t columns);
  void (*dropout)(const float* x, float* y, std::int64_t rows, std::int64_t columns, float rate, random_key key);

  void (*sum_rows)(const float* x, float* y, std::int64_t rows, std::int64_t columns);
  float (*sum)(const float* x, std::int64_t n);
  void (*weighted_sum)(const term* terms, std::int64_t term_count, float* y, std::int64_t n);
  bool (*all_finite)(const float* x, std::int64_t n);

  void (*layernorm)(const float* x, const float* gamma, const float* beta, float epsilon, float* y, float* mean, float* rstd,
                    std::int64_t rows, std::int64_t columns);
  void (*layernorm_backward)(const float* x, const float* gamma, const float* mean, const float* rstd, const float* dy, float* dx,
                             float* dgamma, float* dbeta, std::int64_t rows, std::int64_t columns);
  void (*max_pool)(const window2d& window, const float* x, float* y, std::int32_t* argmax);
  void (*max_pool_backward)(const window2d& window, const std::int32_t* argmax, const float* dy, float* dx);
  void (*avg_pool)(const window2d& window, const float* x, float* y);
  void (*avg_pool_backward)(const window2d& window, const float* dy, float* dx);
  void (*softmax_cross_entropy)(const float* logits, const std::int32_t* labels, float scale, float* loss, float* dlogits,
                                std::int32_t* correct, std::int64_t rows, std::int64_t classes);
  void (*softmax)(const float* x, float* y, std::int64_t rows, std::int64_t columns);

  void (*sgd)(const sgd_args& args, const term* terms, std::int64_t term_count);
  void (*adamw)(const adamw_args& args, const term* terms, std::int64_t term_count);
  void (*delay_compensate)(const delay_compensate_args& args);
  void (*soft_threshold)(const float* x, float threshold, float* y, std::int64_t n);
};

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
