// SPDX-License-Identifier: BSD-3-Clause
// The vectorised loops, compiled once for each instruction set (kernels/CMakeLists.txt names it in TROUPE_LOOPS).
//
// Nothing here may have external linkage but the table, and nothing may call an inline function of the standard library: the
// linker keeps one copy of such a function, and were it the one compiled with AVX-512, an older processor would stop at it.
// Hence builtins, plain pointers, and own min.
#include <cstdint>

#include <immintrin.h>

#include "kernels/cpu/loops/table.hpp"

namespace troupe::kernels::TROUPE_LOOPS {

namespace {

#include "kernels/cpu/loops/math.hpp"

#include "kernels/cpu/loops/lanes.hpp"

#include "kernels/cpu/loops/elementwise.hpp"

#include "kernels/cpu/loops/dropout.hpp"

#include "kernels/cpu/loops/reductions.hpp"

#include "kernels/cpu/loops/softmax.hpp"

#include "kernels/cpu/loops/layernorm.hpp"

#include "kernels/cpu/loops/pooling.hpp"

#include "kernels/cpu/loops/optimizers.hpp"

} // namespace

const loop_table table = {
    .fill = fill,
    .unary = unary,
    .unary_backward = unary_backward,
    .binary = binary,
    .axpby = axpby,
    .bias_activation = bias_activation,
    .dropout = dropout,
    .sum_rows = sum_rows,
    .sum = sum,
    .weighted_sum = weighted_sum,
    .all_finite = all_finite,
    .layernorm = layernorm,
    .layernorm_backward = layernorm_backward,
    .max_pool = max_pool,
    .max_pool_backward = max_pool_backward,
    .avg_pool = avg_pool,
    .avg_pool_backward = avg_pool_backward,
    .softmax_cross_entropy = softmax_cross_entropy,
    .softmax = softmax,
    .sgd = sgd,
    .adamw = adamw,
    .delay_compensate = delay_compensate,
    .soft_threshold = soft_threshold,
};

} // namespace troupe::kernels::TROUPE_LOOPS
