// SPDX-License-Identifier: BSD-3-Clause
// Leads and holders that make a version in two phases, for tests of them.
#pragma once

#include <memory>
#include <utility>

#include "protocols/holder.hpp"
#include "protocols/replicated_lead.hpp"
#include "protocols/round_rule.hpp"
#include "protocols/sync_sgd.hpp"
#include "protocols/tree.hpp"
#include "tests/protocols/making.hpp"

namespace troupe::protocols {

inline std::shared_ptr<lead> sync_lead_from(lead_state from) {
  return std::make_shared<lead>(
      std::make_unique<round_rule>([](const protocol_spec&, std::uint64_t) { return std::make_unique<sync_sgd>(); }),
      tree_shape{}, false, std::move(from));
}

/// Shard 0 leads; holder 1 is its backup.
inline replicated_lead first_lead() {
  return {sync_lead_from, {.holders = {h(0), h(1)}}, 0};
}

inline arrival arrived_at(std::uint32_t worker, std::uint64_t clock = 1) {
  return {.holder = h(0), .push = {.epoch = e(1), .id = {w(worker), {}, {clock}}, .base = v(clock - 1), .samples = 10}};
}

inline prepared prepared_by(std::uint32_t holder, const close& round, bool possible = true) {
  return {h(holder), round.ver, round.decision, possible};
}

/// Both workers have pushed.
inline close proposed_by(replicated_lead& subject) {
  subject.on(plan_of(1, {0, 1}));
  subject.on(arrived_at(0));
  return only<close>(subject.on(arrived_at(1)));
}

inline push push_at_holder(std::uint32_t worker) {
  return {.epoch = e(1), .id = {w(worker), {}, {1}}, .gradient = t(100 + worker), .samples = 10};
}

inline close round_of_two(std::uint64_t decision = 1, std::uint64_t view = 0) {
  return {.epoch = e(1),
          .ver = v(1),
          .contributions = {{{w(0), {}, {1}}, 0.5}, {{w(1), {}, {1}}, 0.5}},
          .send_to = {w(0), w(1)},
          .view = view,
          .decision = decision};
}

/// Holder 0 is the only shard, holder 1 its backup.
inline holder copy_of_shard(std::uint32_t self) {
  holder out{holder_tree({2, 1, 0, 2})[self]};
  out.on(plan_of(1, {0, 1}));
  return out;
}

} // namespace troupe::protocols
