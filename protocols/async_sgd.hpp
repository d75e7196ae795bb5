// SPDX-License-Identifier: BSD-3-Clause
// Asynchronous SGD (Downpour: Dean et al. 2012): no worker waits for another.
#pragma once

#include "protocols/protocol.hpp"
#include "protocols/push_rule.hpp"

namespace troupe::protocols {

/// Each push is applied as it comes, at learning rate lr * samples / (n B), and its worker is answered at once. Its staleness,
/// the number of versions made since its parameters were sent, is about n - 1 at equal speeds. The rate's factor is ours: n
/// pushes together step as far as synchronous SGD's one.
class async_sgd : public push_rule {};

inline protocol async_protocol() {
  return {.name = "async",
          .summary = "asynchronous SGD: every gradient is applied as it comes",
          .round_is_full = "each push alone; learning rate times samples / (n B)",
          .recipients = "the pusher, at once",
          .pays_when = "speeds differ, and stale gradients do little harm",
          .per_push = true,
          .resumable = true,
          .make_rule = [](const protocol_spec&, std::uint64_t) { return std::make_unique<async_sgd>(); },
          .make_worker = own_slice_worker_maker()};
}

} // namespace troupe::protocols
