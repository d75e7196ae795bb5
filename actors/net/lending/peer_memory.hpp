// SPDX-License-Identifier: BSD-3-Clause
// Payloads that another process of this host and user reads where they lie. Uses no socket.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "protocols/wire/codec.hpp"

namespace troupe::actors::net {

/// What proves to a reader that it reads the right process, and that what this one has lent is still there.
class lent_memory {
public:
  lent_memory();
  lent_memory(const lent_memory&) = delete;
  lent_memory& operator=(const lent_memory&) = delete;

  /// Allows processes of this user to read this one where the system asks for that (Yama).
  protocols::wire::lending offer() const;
  /// Before anything is let go of that the peer has not counted. What it reads from now on is not taken.
  void wipe();

private:
  std::array<std::atomic<std::uint64_t>, 2> secret_;
};

/// The memory of a process that lends (lane.capnp, "Lending"), read by process_vm_readv: one copy, without the lender's help.
class peer_memory {
public:
  /// Nothing: this process must not read that one, or it is another than the one that offered, such as in another container.
  static std::optional<peer_memory> open(const protocols::wire::lending& offer);
  /// Copies what lies at `address` there, and returns why it is not what was lent, if so; `to` holds anything then.
  std::optional<std::string> read(std::uint64_t address, std::span<std::byte> to) const;

private:
  explicit peer_memory(const protocols::wire::lending& offer) : offer_(offer) {}
  protocols::wire::lending offer_;
};

} // namespace troupe::actors::net
