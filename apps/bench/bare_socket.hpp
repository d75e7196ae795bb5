// SPDX-License-Identifier: BSD-3-Clause
// Plain TCP sockets on loopback and memory to send, to stand beside the lanes.
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "kernels/buffer.hpp"

namespace troupe::actors::net {

/// Owns a blocking socket. Throws std::system_error where there is none.
class bare_socket {
public:
  explicit bare_socket(int descriptor);
  ~bare_socket();
  bare_socket(const bare_socket&) = delete;
  bare_socket& operator=(const bare_socket&) = delete;

  int get() const { return descriptor_; }
  /// Throws std::system_error if the peer is gone.
  void write(const void* data, std::size_t bytes) const;
  /// False at the end of the stream.
  bool read(void* data, std::size_t bytes) const;

private:
  int descriptor_;
};

/// Two ends of one TCP connection on loopback, tuned as a lane's. Throws std::system_error.
std::array<int, 2> tcp_pair(const std::string& congestion);

/// Memory as a job's tensors have it, of which every page is there.
kernels::buffer touched(std::size_t bytes);

} // namespace troupe::actors::net
