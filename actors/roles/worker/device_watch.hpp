// SPDX-License-Identifier: BSD-3-Clause
// Hears of the loss of a device: what waits for a completion would not.
#pragma once

#include <utility>

#include "actors/roles/device.hpp"

namespace troupe::actors {

/// Of an actor that feeds a queue and has a handler of `device_check`. One message is on its way at most; on the host none is.
class device_watch {
public:
  /// The actor waits for the queue from now on.
  template <class Self>
  void begin(Self* self, const kernels::backend& queue) {
    if (!queue.on_host() && !std::exchange(awaited_, true))
      self->delayed_send(self, device_check_interval, device_check{});
  }
  /// A `device_check` has come: throws device_error if the actor waits still and the device is lost.
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
