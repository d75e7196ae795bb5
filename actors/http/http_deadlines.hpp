// SPDX-License-Identifier: BSD-3-Clause
// Time limits of both HTTP servers.
#pragma once

#include <chrono>

namespace troupe::actors::net {

/// Pause after a failed accept: most likely descriptors have run out.
inline constexpr std::chrono::milliseconds pause_after_accept_error{50};
/// How long connections may finish an answer when the server ends.
inline constexpr std::chrono::seconds last_words{1};

} // namespace troupe::actors::net
