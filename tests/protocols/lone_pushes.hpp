// SPDX-License-Identifier: BSD-3-Clause
// Pushes that are applied alone, and the answers to them.
#pragma once

#include "tests/protocols/making.hpp"

namespace troupe::protocols {

inline push lone_push(std::uint32_t worker, std::uint64_t clock = 1, nanoseconds at = 0) {
  return {.epoch = e(1), .id = {w(worker), {}, {clock}}, .gradient = t(100 * clock + worker), .samples = 10, .at = at};
}

/// As many slices as the plan says.
inline send_params answer(std::uint32_t to, std::uint64_t ver, std::uint64_t position, std::uint64_t answers,
                          std::uint32_t epoch = 1) {
  return {.to = {w(to)}, .ver = v(ver), .epoch = e(epoch), .position = position, .period = 1, .answers = {answers}};
}

} // namespace troupe::protocols
