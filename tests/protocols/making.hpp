// SPDX-License-Identifier: BSD-3-Clause
// Short ways to write down messages and effects in tests, and effects as text.
#pragma once

#include <initializer_list>
#include <ostream>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "protocols/effect.hpp"

namespace troupe::protocols {

inline worker_id w(std::uint32_t n) {
  return {n};
}
inline joined join(std::uint32_t worker, std::uint32_t incarnation = 0) {
  return {{w(worker), {incarnation}}};
}
inline holder_id h(std::uint32_t n) {
  return {n};
}
inline version v(std::uint64_t n) {
  return {n};
}
inline ticket t(std::uint64_t n) {
  return {n};
}
inline plan_epoch e(std::uint32_t n) {
  return {n};
}

/// Life 0 of each worker.
inline plan plan_of(std::uint32_t epoch, std::initializer_list<std::uint32_t> workers, std::int64_t batch = 10,
                    std::int64_t data_size = 1000) {
  plan out{.epoch = {epoch}, .batch = batch, .data_size = data_size};
  for (const std::uint32_t worker : workers)
    out.workers.push_back({{worker}, {}});
  return out;
}

/// The effects of one kind, in order.
template <class What, class Effect>
std::vector<What> all(const std::vector<Effect>& effects) {
  std::vector<What> out;
  for (const Effect& effect : effects)
    if (const auto* found = std::get_if<What>(&effect))
      out.push_back(*found);
  return out;
}

/// The only effect of this kind, or a default one that equals nothing sensible.
template <class What, class Effect>
What only(const std::vector<Effect>& effects) {
  const auto found = all<What>(effects);
  return found.size() == 1 ? found.front() : What{};
}

template <class What, class Effect>
std::size_t count(const std::vector<Effect>& effects) {
  return all<What>(effects).size();
}

} // namespace troupe::protocols
