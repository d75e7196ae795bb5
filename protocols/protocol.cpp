// SPDX-License-Identifier: BSD-3-Clause
// What protocols have in common.
#include "protocols/protocol.hpp"

#include <algorithm>
#include <utility>

#include "protocols/round_rule.hpp"

namespace troupe::protocols {

footprint footprint::combined_with(const footprint& other) const {
  return {.replica = replica || other.replica,
          .replica_goes_on = replica_goes_on || other.replica_goes_on,
          .pushed_replica = pushed_replica || other.pushed_replica,
          .velocity = velocity || other.velocity,
          .dual = dual || other.dual,
          .backups = backups || other.backups,
          .outer_momentum = outer_momentum || other.outer_momentum,
          .parts = std::max(parts, other.parts)};
}

bool protocol::sums_gradients(const protocol_spec& spec) const {
  return !per_push && !decentralized && (candidates || !keeps || !keeps(spec).replica);
}

std::uint32_t protocol::period_of(const protocol_spec& spec) const {
  return period ? static_cast<std::uint32_t>(period->of(spec)) : 1;
}

protocol round_protocol(protocol draft) {
  if (!draft.task)
    draft.task = [](const protocol_spec&) { return std::make_unique<gradient_task>(); };
  draft.make_rule = [policy = draft.policy](const protocol_spec&, std::uint64_t seed) {
    return std::make_unique<round_rule>(policy, seed);
  };
  draft.make_worker = params_worker_maker(draft.task, true);
  return draft;
}

} // namespace troupe::protocols
