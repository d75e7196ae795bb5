// SPDX-License-Identifier: BSD-3-Clause
// Times that both HTTP servers keep.
#pragma once

#include <chrono>

namespace troupe::actors::net {

/// Before the next accept, where one failed: most likely descriptors have run out.
inline constexpr std::chrono::milliseconds pause_after_accept_error{50};
/// What a connection may still take for an answer when its server ends.
inline constexpr std::chrono::seconds last_words{1};

} // namespace troupe::actors::net
