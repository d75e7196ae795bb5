// SPDX-License-Identifier: BSD-3-Clause
// Puts incoming tensors together where their owner computes: in the host's memory, or in a device's.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "actors/roles/assembler.hpp"
#include "actors/roles/device.hpp"

namespace troupe::actors {

/// How partitions get into a device's memory.
struct device_side {
  std::string name; ///< backend::name()
  std::function<kernels::buffer(std::size_t bytes)> allocate;
  /// Enqueues the copy of a whole block, from host memory or from that of a device of this kind, and sees to it that both stay
  /// alive until it has run.
  std::function<void(const kernels::buffer& to, const kernels::buffer& from, bool from_host)> bring;
  /// Read tensors of the same device where they lie.
  bool shares = true;
};

/// An assembler's owner, on whatever memory. On the host it is the assembler that lanes read into, and nothing else. On a device
/// each partition is brought over as it comes, beside the others of its tensor, so that a tensor that is complete needs no more
/// than what is enqueued already. One thread.
template <class Key>
class tensor_inbox {
public:
  tensor_inbox(std::shared_ptr<assembler<Key>> landing) : landing_(std::move(landing)) {} // NOLINT: an assembler is an inbox
  tensor_inbox(std::shared_ptr<assembler<Key>> landing, device_side device)
      : landing_(std::move(landing)), device_(std::move(device)) {
    parts_ = std::make_unique<assembler<Key>>(
        landing_->whole(), device_->allocate,
        [bring = device_->bring](const kernels::buffer& to, const kernels::buffer& from) { bring(to, from, false); });
  }

  /// Adds a partition; false when it was refused.
  bool add(const Key& key, flat_range where, const kernels::buffer& payload) {
    if (!landing_->add(key, where, payload))
      return false;
    return !parts_ || bring(key, where, payload, true);
  }
  bool add(const Key& key, flat_range where, const device_tensor& payload) {
    if (device_->shares && payload.device == device_->name)
      return parts_->add(key, where, payload.data);
    return bring(key, where, payload.data, false);
  }

  /// The whole tensor once it is complete, in the owner's memory; its entry is gone.
  std::optional<kernels::buffer> take(const Key& key) {
    if (!parts_)
      return landing_->take(key);
    auto whole = parts_->take(key);
    if (whole)
      landing_->drop_if([&](const Key& other) { return other == key; });
    return whole;
  }

  template <class Predicate>
  void drop_if(Predicate obsolete) {
    landing_->drop_if(obsolete);
    if (parts_)
      parts_->drop_if(obsolete);
  }

private:
  bool bring(const Key& key, flat_range where, const kernels::buffer& payload, bool from_host) {
    auto place = parts_->place(key, where);
    if (!place || place.bytes() != payload.bytes() || !parts_->add(key, where, place))
      return false;
    device_->bring(place, payload, from_host);
    return true;
  }

  std::shared_ptr<assembler<Key>> landing_; ///< shared with the lane's thread, which asks it where to read to
  std::optional<device_side> device_;
  std::unique_ptr<assembler<Key>> parts_; ///< in the device's memory
};

} // namespace troupe::actors
