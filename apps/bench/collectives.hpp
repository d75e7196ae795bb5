// SPDX-License-Identifier: BSD-3-Clause
// Sums among processes over lanes beside bare sockets that move as many bytes, on one host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "protocols/collective/schedule.hpp"

namespace troupe::actors::net {

/// One algorithm at one size. A call takes as long as its slowest process; medians.
struct collective_row {
  protocols::collective::algorithm which{};
  std::size_t bytes = 0; ///< of the float32 numbers that each process has
  double us = 0;         ///< of a call, sums made
  double bare_us = 0;    ///< of bare sockets: each process sends 2 (P - 1) / P of the bytes, and sums nothing
  std::uint32_t procs = 0;
  /// The bytes that the cheapest algorithm has a process send, in 10^9 a second: what a slower one would have to move as fast.
  double bus_gbps() const { return gbps_of(us); }
  double bare_gbps() const { return gbps_of(bare_us); }

private:
  double gbps_of(double microseconds) const {
    return 2.0 * (procs - 1) / procs * static_cast<double>(bytes) / microseconds * 1e-3;
  }
};

struct collective_bench_options {
  std::uint32_t procs = 2; ///< 2 to 16
  std::vector<protocols::collective::algorithm> algorithms{
      protocols::collective::algorithm::direct, protocols::collective::algorithm::ring, protocols::collective::algorithm::halving,
      protocols::collective::algorithm::tree};
  std::vector<std::size_t> sizes{4U << 10U, 64U << 10U, 1U << 20U, 4U << 20U, 16U << 20U, 64U << 20U}; ///< multiples of 64
  std::size_t bytes_per_trial = 256U << 20U; ///< about; 5 calls at least, 200 at most
  std::string congestion = "cubic";          ///< the same on both sides of the comparison
  bool shared_memory = true;                 ///< lane_options
};

/// Forks the processes, so call it before the first thread starts; each performs a `collective::reduction` over a lane_hub of its
/// own, as workers of `allreduce` do: chunks go out and are joined and added by the same functions. Algorithms and bare sockets
/// take turns, and a barrier in shared memory begins each call. Every element of every sum is compared with what it must be.
/// Throws std::runtime_error with the reason if one is not, or if a process fails.
std::vector<collective_row> bench_collectives(const collective_bench_options& options);

} // namespace troupe::actors::net
