// SPDX-License-Identifier: BSD-3-Clause
// Tensors by ticket: what a machine names and its driver keeps.
#pragma once

#include <map>
#include <optional>
#include <utility>

#include "kernels/assert.hpp"
#include "protocols/effect.hpp"

namespace troupe::protocols {

/// `Tensor` is a handle that is cheap to copy; a default-constructed one is empty.
template <class Tensor>
class ticket_store {
public:
  ticket keep(Tensor tensor) {
    last_ = {last_.value + 1};
    TROUPE_ASSERT(last_ < pushed_sum); // below the reserved tickets
    kept_.emplace(last_, std::move(tensor));
    return last_;
  }
  bool has(ticket name) const { return kept_.contains(name); }
  /// Empty for ticket 0 and for a tensor that is gone.
  Tensor find(ticket name) const {
    const auto found = kept_.find(name);
    return found == kept_.end() ? Tensor{} : found->second;
  }
  /// Returns whether there was one.
  bool replace(ticket name, Tensor by) {
    const auto found = kept_.find(name);
    if (found == kept_.end())
      return false;
    found->second = std::move(by);
    return true;
  }
  /// Returns whether it was there.
  bool drop(ticket name) { return kept_.erase(name) != 0; }
  std::optional<Tensor> take(ticket name) {
    auto found = kept_.extract(name);
    return found ? std::optional{std::move(found.mapped())} : std::nullopt;
  }

private:
  ticket last_;
  std::map<ticket, Tensor> kept_;
};

} // namespace troupe::protocols
