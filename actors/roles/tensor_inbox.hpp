// SPDX-License-Identifier: BSD-3-Clause
// Assembles incoming tensors where their owner computes: in host memory or on a device.
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
  /// Enqueues the copy of a whole block, from host memory or from a device of this kind, and keeps both alive until it has run.
  std::function<void(const kernels::buffer& to, const kernels::buffer& from, bool from_host)> upload;
  /// Whether tensors on the same device are read in place.
  bool shares = true;
};

/// An assembler for any memory. On the host it is just the assembler that lanes read into. On a device each partition is uploaded
/// as it comes, so that a complete tensor only waits for copies that are already enqueued. One thread.
template <class Key>
class tensor_inbox {
public:
  tensor_inbox(std::shared_ptr<assembler<Key>> receive_buffers)
      : receive_buffers_(std::move(receive_buffers)) {} // NOLINT: an assembler is an inbox
  tensor_inbox(std::shared_ptr<assembler<Key>> receive_buffers, device_side device)
      : receive_buffers_(std::move(receive_buffers)), device_(std::move(device)) {
    parts_ = std::make_unique<assembler<Key>>(
        receive_buffers_->whole(), device_->allocate,
        [upload = device_->upload](const kernels::buffer& to, const kernels::buffer& from) { upload(to, from, false); });
  }

  /// Host memory to make a partition in that `add` is then given; empty when it does not fit.
  kernels::buffer place(const Key& key, flat_range where) { return receive_buffers_->place(key, where); }

  /// Adds a partition; false if it was refused.
  bool add(const Key& key, flat_range where, const kernels::buffer& payload) {
    if (!receive_buffers_->add(key, where, payload))
      return false;
    return !parts_ || upload(key, where, payload, true);
  }
  bool add(const Key& key, flat_range where, const device_tensor& payload) {
    if (device_->shares && payload.device == device_->name)
      return parts_->add(key, where, payload.data);
    return upload(key, where, payload.data, false);
  }

  /// In host memory.
  incomplete_array so_far(const Key& key) const { return receive_buffers_->so_far(key); }

  /// The whole tensor once it is complete, in the owner's memory; its entry is gone.
  std::optional<kernels::buffer> take(const Key& key) {
    if (!parts_)
      return receive_buffers_->take(key);
    auto whole = parts_->take(key);
    if (whole)
      receive_buffers_->drop_if([&](const Key& other) { return other == key; });
    return whole;
  }

  template <class Predicate>
  void drop_if(Predicate obsolete) {
    receive_buffers_->drop_if(obsolete);
    if (parts_)
      parts_->drop_if(obsolete);
  }

private:
  bool upload(const Key& key, flat_range where, const kernels::buffer& payload, bool from_host) {
    auto place = parts_->place(key, where);
    if (!place || place.bytes() != payload.bytes() || !parts_->add(key, where, place))
      return false;
    device_->upload(place, payload, from_host);
    return true;
  }

  std::shared_ptr<assembler<Key>> receive_buffers_; ///< on the host; shared with the lane's thread, which reads into it
  std::optional<device_side> device_;
  std::unique_ptr<assembler<Key>> parts_; ///< in the device's memory
};

} // namespace troupe::actors
