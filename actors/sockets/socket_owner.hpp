// SPDX-License-Identifier: BSD-3-Clause
// Whose process holds the other end of a connection within this host. Does not use Asio.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace troupe::actors::net {

/// Where the owner of a socket is looked up.
enum class owner_source : std::uint8_t {
  kernel, ///< NETLINK_SOCK_DIAG, one socket by its addresses
  table   ///< /proc/net/tcp and tcp6, for a system without the former
};

/// The user whose process holds the other end of this connected TCP socket. Nothing: no process of this host does (any more), or
/// the source does not tell. The end of a connection that its process has closed belongs to nobody.
std::optional<std::uint32_t> user_at_other_end(int descriptor, owner_source from);

/// Why this connection is not to be taken: its other end is not of a process of this process's user, or of root. As words that
/// follow "turns away a "; empty: it is closed already, which deserves no word; nothing: it may be taken. For listeners on
/// loopback. Asks the kernel, else the table. Takes microseconds, or milliseconds where it reads the table; thread-safe.
std::optional<std::string> foreign_user(int descriptor);

} // namespace troupe::actors::net
