// SPDX-License-Identifier: BSD-3-Clause
// What stands in for oneDNN in a build without it.
#include "kernels/assert.hpp"
#include "kernels/cpu/onednn_gemm.hpp"

namespace troupe::kernels {

bool has_onednn() {
  return false;
}

std::string onednn_version() {
  return {};
}

struct onednn_gemm::state {};

onednn_gemm::onednn_gemm() = default;
onednn_gemm::~onednn_gemm() = default;

void onednn_gemm::run(const gemm&, float*, bool) {
  TROUPE_ASSERT(has_onednn());
}

} // namespace troupe::kernels
