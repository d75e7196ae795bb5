// SPDX-License-Identifier: BSD-3-Clause
// How a backup that catches up (catch_up) copies its shard: parts of the holder.
#pragma once

#include "protocols/holder.hpp"

namespace troupe::protocols {

/// Of a backup: asks for a few of the pieces that are not here, where no order waits and none is asked for.
void ask_for_copies(holder_effects& out, const holder_place& place, holder_state& state);
/// Likewise: for those that it has asked for and not got.
void ask_again(holder_effects& out, const holder_place& place, const holder_state& state);
/// Of a shard: answers those whom it has admitted as they were, once it has made their version: then it has heard all orders that
/// they have not.
void answer_requests(holder_effects& out, const holder_place& place, holder_state& state);

} // namespace troupe::protocols
