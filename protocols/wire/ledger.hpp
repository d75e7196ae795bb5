// SPDX-License-Identifier: BSD-3-Clause
// Decisions about jobs, and what they came to, as bytes and back.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "protocols/ledger.hpp"
#include "protocols/wire/codec.hpp"

namespace troupe::protocols::wire {

/// One Cap'n Proto message: ledger.capnp's Entry, or State. A state within ledger::most_bytes takes less than 1 MiB.
std::vector<std::uint64_t> encode(const ledger::entry& entry);
std::vector<std::uint64_t> encode(const ledger::state& state);

/// Fail where the bytes are cut short or damaged, or where a number does not fit; they allocate no more than a few times the
/// bytes given, and do not throw, except bad_alloc. That the values belong together is for ledger::apply and ledger::sound to
/// judge.
result<ledger::entry> decode_ledger_entry(std::span<const std::uint64_t> words);
result<ledger::state> decode_ledger(std::span<const std::uint64_t> words);

} // namespace troupe::protocols::wire
