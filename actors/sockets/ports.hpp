// SPDX-License-Identifier: BSD-3-Clause
// Whether a port is free, or somebody is there. No Asio in it. Both wait: not from an actor that others wait for.
#pragma once

#include <cstdint>
#include <string>

namespace troupe::actors::net {

/// Why nobody can listen for lanes at this host and port now; empty: one could.
std::string cannot_listen(const std::string& host, std::uint16_t port);

/// Whether a connection is accepted there, whoever that may be.
bool somebody_listens(const std::string& host, std::uint16_t port);

} // namespace troupe::actors::net
