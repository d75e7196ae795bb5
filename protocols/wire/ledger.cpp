// SPDX-License-Identifier: BSD-3-Clause
// Which struct of ledger.capnp belongs to which value.
#include "protocols/wire/ledger.hpp"

#include "protocols/wire/fields.hpp"
#include "protocols/wire/ledger.capnp.h"

namespace troupe::protocols::wire {

std::vector<std::uint64_t> encode(const ledger::entry& entry) {
  return fields::encode<ledgered::Entry>(entry);
}
std::vector<std::uint64_t> encode(const ledger::state& state) {
  return fields::encode<ledgered::State>(state);
}
result<ledger::entry> decode_ledger_entry(std::span<const std::uint64_t> words) {
  return fields::decode<ledgered::Entry, ledger::entry>(words, "a decision about a job");
}
result<ledger::state> decode_ledger(std::span<const std::uint64_t> words) {
  return fields::decode<ledgered::State, ledger::state>(words, "the ledger of jobs");
}

} // namespace troupe::protocols::wire
