// SPDX-License-Identifier: BSD-3-Clause
// A CUDA library of another build, which a program must refuse before it calls anything else of it.
extern "C" const char* troupe_cuda_build() {
  return "Troupe 0.0.1, interface 000000000000";
}
