// SPDX-License-Identifier: BSD-3-Clause
// How long a job waits for a client whose connection was lost.
#pragma once

#include <chrono>

namespace troupe::actors {

/// Both ends keep to it where jobs end with their coordinator; where these outlive it, to cluster_view::orphan_s. A connection
/// that was reset is dialled anew in much less.
inline constexpr std::chrono::seconds client_return{5};

} // namespace troupe::actors
