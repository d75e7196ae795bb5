// SPDX-License-Identifier: BSD-3-Clause
// From where a job goes on.
#pragma once

#include <stdexcept>

#include "actors/checkpoint/checkpoint_file.hpp"
#include "protocols/wire/state.hpp"

namespace troupe::actors {

/// At rest. Throws std::runtime_error where it cannot be read, or is of another version than the checkpoint.
inline protocols::lead_state lead_of(const checkpoint_manifest& manifest) {
  auto state = protocols::wire::decode_state<protocols::lead_state>(manifest.lead);
  if (!state || state->made != manifest.ver)
    throw std::runtime_error("the checkpoint's manifest does not tell how the job goes on; it is of another program");
  return *std::move(state);
}

} // namespace troupe::actors
