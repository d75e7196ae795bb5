// SPDX-License-Identifier: BSD-3-Clause
// Asynchronous SGD (Downpour: Dean et al. 2012): nobody waits for anybody.
#pragma once

#include "protocols/push_rule.hpp"

namespace troupe::protocols {

/// Each push is applied as it comes, at learning rate lr * samples / (n B), and its worker is answered at once. Its staleness,
/// the number of versions made since its parameters were sent, is about n - 1 at equal speeds. The rate's factor is ours: n
/// pushes together step as far as synchronous SGD's one.
class async_sgd : public push_rule {};

} // namespace troupe::protocols
