/* SPDX-License-Identifier: BSD-3-Clause */
/* The program `troupe` on top of the library, for packages that have both: one copy of the code. */
#include "apps/library/troupe.h"

int main(int argc, char** argv) {
  return troupe_main(argc, argv);
}
