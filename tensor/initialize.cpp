// SPDX-License-Identifier: BSD-3-Clause
// Initial parameters, drawn on the host so that every backend starts from the same bits.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/random.hpp"
#include "tensor/model.hpp"

namespace troupe {

namespace {

/// No training step has this number, so only initial weights are drawn with it.
constexpr std::uint64_t before_the_first_step = std::numeric_limits<std::uint64_t>::max();

} // namespace

void initialize_parameters(const parameter_layout& layout, std::uint64_t seed, float* flat) {
  std::fill_n(flat, layout.floats(), 0.0F);
  for (std::size_t i = 0; i < layout.slots.size(); ++i) {
    const auto& slot = layout.slots[i];
    const kernels::random_key key{seed, static_cast<std::uint32_t>(i), before_the_first_step};
    auto draw = [&](auto element) {
      for (std::int64_t e = 0; e < slot.elements(); ++e)
        flat[slot.offset + e] = element(static_cast<std::uint64_t>(e));
    };
    auto draw_normal = [&](double deviation) {
      draw([&](auto e) { return static_cast<float>(deviation * kernels::random_normal(key, e)); });
    };
    auto draw_uniform = [&](double bound) {
      draw([&](auto e) { return static_cast<float>(bound * (2.0 * kernels::random_uniform(key, e) - 1)); });
    };
    const double fan_in = slot.init.fan_in, fan_out = slot.init.fan_out;
    switch (slot.init.how) {
    case initializer::kind::zeros:
      break;
    case initializer::kind::ones:
      draw([](auto) { return 1.0F; });
      break;
    case initializer::kind::he_normal:
      draw_normal(std::sqrt(2 / fan_in));
      break;
    case initializer::kind::normal:
      draw_normal(slot.init.deviation);
      break;
    case initializer::kind::xavier_uniform:
      draw_uniform(std::sqrt(6 / (fan_in + fan_out)));
      break;
    case initializer::kind::uniform_by_fan_in: // PyTorch's for recurrent layers
      draw_uniform(1 / std::sqrt(fan_in));
      break;
    case initializer::kind::given:
      std::ranges::copy(*slot.values, flat + slot.offset);
      break;
    }
  }
}

} // namespace troupe
