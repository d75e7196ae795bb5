// SPDX-License-Identifier: BSD-3-Clause
// Whether a port is free or in use. Does not expose Asio. Both functions block: not for an actor that others wait for.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace troupe::actors::net {

/// Why one cannot listen for lanes at this host and port now; empty if one can.
std::string cannot_listen(const std::string& host, std::uint16_t port);

/// Whether any program accepts connections there.
bool somebody_listens(const std::string& host, std::uint16_t port);
/// The same; a host that does not answer at all is given so long.
bool somebody_listens_within(std::chrono::milliseconds patience, const std::string& host, std::uint16_t port);

} // namespace troupe::actors::net
