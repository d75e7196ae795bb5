// SPDX-License-Identifier: BSD-3-Clause
// The rules of lane.capnp that the schema language cannot say, for sender and receiver alike.
#pragma once

#include "protocols/wire/codec.hpp"

namespace troupe::protocols::wire {

/// What is wrong with a message, or nothing.
std::optional<std::string> find_fault(const message& msg);

} // namespace troupe::protocols::wire
