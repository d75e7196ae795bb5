// SPDX-License-Identifier: BSD-3-Clause
// The vectorised loops, compiled once for each instruction set (kernels/CMakeLists.txt names it in TROUPE_LOOPS).
//
// Nothing here may have external linkage but the table, and nothing may call an inline function of the standard library: the
// linker keeps one copy of such a function, and were it the one compiled with AVX-512, an older processor would stop at it.
// Hence builtins, plain pointers, and own min.
#include <cstdint>
#include <type_traits>

#include <immintrin.h>

#include "kernels/cpu/loops/scratch.hpp"
#include "kernels/cpu/loops/table.hpp"

namespace troupe::kernels::TROUPE_LOOPS {

namespace {

#include "kernels/cpu/loops/math.hpp"

#include "kernels/cpu/loops/lanes.hpp"

#include "kernels/cpu/loops/elementwise.hpp"

#include "kernels/cpu/loops/dropout.hpp"

#include "kernels/cpu/loops/reductions.hpp"

#include "kernels/cpu/loops/softmax.hpp"

#include "kernels/cpu/loops/losses.hpp"

#include "kernels/cpu/loops/normalisation.hpp"

#include "kernels/cpu/loops/channels.hpp"

#include "kernels/cpu/loops/strided.hpp"

#include "kernels/cpu/loops/tokens.hpp"

#include "kernels/cpu/loops/tiles.hpp"

#include "kernels/cpu/loops/attention.hpp"

#include "kernels/cpu/loops/recurrent.hpp"

#include "kernels/cpu/loops/pooling.hpp"

#include "kernels/cpu/loops/optimizers.hpp"

/// The function above for each operation of the table: one that is missing does not compile.
template <class... Ops>
constexpr loop_table_of<Ops...> all_loops(const loop_table_of<Ops...>*) {
  return {{static_cast<void (*)(const Ops&)>(run)}...};
}

} // namespace

constinit const loop_table table = all_loops(static_cast<const loop_table*>(nullptr));

} // namespace troupe::kernels::TROUPE_LOOPS
