// SPDX-License-Identifier: BSD-3-Clause
// Each C++ value beside its Cap'n Proto struct. Included by this folder's sources only.
#pragma once

#include "protocols/wire/codec.hpp"
#include "protocols/wire/lane.capnp.h"

namespace troupe::protocols::wire {

/// Words of segment 0 that a frame of `body` takes at most.
std::size_t head_words_bound(const content& body);

/// Fills in the union member of `to`; not the payload.
void put(schema::Frame::Builder to, const content& body);

/// Reads the union member of `from`; fails on an unknown one. Values are as they came: find_fault judges them.
/// Throws kj::Exception where the frame's pointers are bad.
result<content> get(schema::Frame::Reader from);

} // namespace troupe::protocols::wire
