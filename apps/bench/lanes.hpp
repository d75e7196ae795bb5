// SPDX-License-Identifier: BSD-3-Clause
// Lanes beside bare blocking sockets, between two processes on loopback.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "actors/sockets/security.hpp"

namespace troupe::actors::net {

/// Medians, in gigabytes (1e9) of payload per second, each added up once where it comes, and microseconds.
struct lane_row {
  std::size_t bytes = 0;                    ///< one message; above 4 MiB it goes as partitions of 4 MiB
  double lane_gbps = 0, bare_gbps = 0;      ///< one way, as fast as it goes
  double lane_rtt_us = 0, bare_rtt_us = 0;  ///< there and back, one message at a time
  double tls_gbps = 0, tls_rtt_us = 0;      ///< a lane with certificates; 0: none were given
  double open_gbps = 0;                     ///< a lane without a window
  double shm_gbps = 0, shm_rtt_us = 0;      ///< one whose peer reads payloads where they lie, as on one host
  double urgent_ms = 0, open_urgent_ms = 0; ///< an urgent message there and back, while one of these is sent
};

struct lane_bench_options {
  std::vector<std::size_t> sizes{64, 4U << 10U, 64U << 10U, 1U << 20U, 4U << 20U, 64U << 20U}; ///< multiples of 64; up to 64 MiB
  int repeats = 5;                                                                             ///< at least; the median counts
  std::size_t bytes_per_trial = 128U << 20U; ///< about; less for small messages, more for the largest
  std::string congestion = "cubic";          ///< the same on both sides of the comparison
  security files = {};                       ///< with them a second lane, which speaks TLS, takes its turns too
};

/// Forks the peer, so call it before the first thread starts. Lanes and bare sockets take turns, both with TCP_NODELAY and
/// with buffers that are touched beforehand and used again. Throws std::system_error when a socket cannot be opened.
std::vector<lane_row> bench_lanes(const lane_bench_options& options);

} // namespace troupe::actors::net
