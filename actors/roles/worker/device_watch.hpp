// SPDX-License-Identifier: BSD-3-Clause
// Detects the loss of a device, of which an actor that waits for a completion would not hear.
#pragma once

#include <utility>

#include "actors/roles/device.hpp"

namespace troupe::actors {

/// For an actor that feeds a queue and handles `device_check`. At most one message is under way; on the host none.
class device_watch {
public:
  /// The actor waits for the queue from now on.
  template <class Self>
  void begin(Self* self, const kernels::backend& queue) {
    if (!queue.on_host() && !std::exchange(awaited_, true))
      self->delayed_send(self, device_check_interval, device_check{});
  }
  /// A `device_check` has come: throws device_error if the actor still waits and the device is lost.
  template <class Self>
  void check(Self* self, kernels::backend& queue, bool waits) {
    awaited_ = false;
    if (!waits)
      return;
    queue.notify([] {});
    begin(self, queue);
  }

private:
  bool awaited_ = false;
};

} // namespace troupe::actors
