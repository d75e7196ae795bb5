// SPDX-License-Identifier: BSD-3-Clause
// Views of shared storage.
#include "tensor/tensor.hpp"

#include "kernels/assert.hpp"

namespace troupe {

tensor tensor::flat_slice(std::int64_t begin, std::int64_t end) const {
  TROUPE_ASSERT(0 <= begin && begin <= end && end <= elements());
  constexpr std::size_t element_bytes = 4;
  auto part =
      storage_.slice(static_cast<std::size_t>(begin) * element_bytes, static_cast<std::size_t>(end - begin) * element_bytes);
  return {shape{end - begin}, type_, std::move(part)};
}

} // namespace troupe
