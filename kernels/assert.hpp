// SPDX-License-Identifier: BSD-3-Clause
// TROUPE_ASSERT: a broken invariant of ours ends the process with a place and a reason, in release builds too.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace troupe {

/// Whether machines that run for real assert their invariants after each message, too.
#ifdef NDEBUG
inline constexpr bool debug_build = false;
#else
inline constexpr bool debug_build = true;
#endif

} // namespace troupe

#define TROUPE_ASSERT(condition)                                                                                                 \
  do {                                                                                                                           \
    if (!(condition)) [[unlikely]] {                                                                                             \
      std::fprintf(stderr, "%s:%d: broken invariant: %s\n", __FILE__, __LINE__, #condition);                                     \
      std::abort();                                                                                                              \
    }                                                                                                                            \
  } while (false)
