// SPDX-License-Identifier: BSD-3-Clause
// Chooses the loops for this processor.
#include "kernels/cpu/loops/table.hpp"

#include "kernels/assert.hpp"

namespace troupe::kernels {

instruction_set best_instruction_set() {
  if (__builtin_cpu_supports("x86-64-v4"))
    return instruction_set::avx512;
  return __builtin_cpu_supports("x86-64-v3") ? instruction_set::avx2 : instruction_set::baseline;
}

std::string_view to_string(instruction_set set) {
  switch (set) {
  case instruction_set::baseline:
    return "SSE2";
  case instruction_set::avx2:
    return "AVX2";
  case instruction_set::avx512:
    return "AVX-512";
  }
  return "";
}

const loop_table& loops_for(instruction_set set) {
  TROUPE_ASSERT(set <= best_instruction_set());
  switch (set) {
  case instruction_set::avx512:
    return loops_avx512::table;
  case instruction_set::avx2:
    return loops_avx2::table;
  case instruction_set::baseline:
    break;
  }
  return loops_baseline::table;
}

} // namespace troupe::kernels
