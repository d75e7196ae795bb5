// SPDX-License-Identifier: BSD-3-Clause
// CAF's own remote messages between two processes on loopback, to stand beside the lanes.
#pragma once

#include <cstddef>
#include <vector>

namespace troupe::apps {

/// Medians for one size of message.
struct caf_row {
  double gbps = 0;   ///< one way, many in flight, 10^9 bytes of payload a second
  double rtt_us = 0; ///< there and back, one at a time
};

/// Sends one std::string a message, the payload that CAF serialises fastest (floats go element by element, several times
/// slower). Forks the peer, so call it while the process has one thread. Throws std::runtime_error where the peer is not
/// reached.
std::vector<caf_row> bench_caf(const std::vector<std::size_t>& sizes, int repeats);

} // namespace troupe::apps
