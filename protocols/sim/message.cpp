// SPDX-License-Identifier: BSD-3-Clause
// Messages as text and as numbers.
#include "protocols/sim/message.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "protocols/sim/cases.hpp"
#include "protocols/sim/text.hpp"

namespace troupe::protocols::sim {

namespace {

/// Two's complement: the same everywhere.
std::uint64_t whole(std::int64_t number) {
  return static_cast<std::uint64_t>(number);
}

} // namespace

std::string text_of(endpoint who) {
  switch (who.kind) {
  case endpoint::role::coordinator:
    return "coordinator";
  case endpoint::role::evaluator:
    return "evaluator";
  case endpoint::role::lead:
    return who.index == 0 ? "lead" : fmt::format("lead {}", who.index);
  case endpoint::role::holder:
    return fmt::format("holder {}", who.index);
  case endpoint::role::worker:
    return fmt::format("worker {}", who.index);
  }
  return {};
}

std::string text_of(const message& msg) {
  return std::visit(
      cases{
          [](const joined& m) { return fmt::format("joined {}", text_of(m.who)); },
          [](const down& m) { return fmt::format("down {} ({})", text_of(m.who), m.reason); },
          [](const holder_down& m) { return fmt::format("holder_down {} ({})", m.holder.value, m.reason); },
          [](const held& m) { return fmt::format("held v{}, {} samples", m.ver.value, m.samples); },
          [](const evaluated& m) { return fmt::format("evaluated v{}", m.ver.value); },
          [](const report& m) { return text_of(m); },
          [](const hold_order& m) { return text_of(m); },
          [](const resume_order&) { return std::string{"resume"}; },
          [](const fetch_order&) { return std::string{"fetch"}; },
          [](const plan_envelope& m) { return text_of(*m); },
          [](const worker_down& m) {
            return fmt::format("worker_down {}", text_of(member{m.worker, m.incarnation}));
          },
          [](const push_envelope& m) { return text_of(m.head); },
          [](const arrival& m) { return fmt::format("arrival {}", text_of(m.push.id)); },
          [](const close& m) { return text_of(m); },
          [](const send_order& m) { return text_of(m); },
          [](const drop_order& m) { return fmt::format("drop {}", text_of(m.id)); },
          [](const partial_envelope& m) {
            return fmt::format("partial sum for v{}{}", m.head.ver.value, m.sum ? "" : ", empty");
          },
          [](const params_envelope& m) { return text_of(m.head); },
          [](const peer_envelope& m) { return fmt::format("exchange {} of {}", m.head.round, text_of(m.head.from)); },
          [](const computed& m) {
            return fmt::format("computed step {}, {} samples{}", m.step, m.samples, m.finite ? "" : ", not finite");
          },
          [](const computed_partition& m) { return fmt::format("computed partition {} of step {}", m.partition, m.step); },
          [](const expired& m) { return fmt::format("timer {}", m.timer.value); },
          [](const prepared& m) {
            return fmt::format("holder {} is {}prepared for v{}, decision {}", m.holder.value, m.possible ? "" : "not to be ",
                               m.ver.value, m.decision);
          },
          [](const commit_order& m) {
            return fmt::format("{} v{}, decision {}", m.abandoned ? "abandon" : "commit", m.ver.value, m.decision);
          },
          [](const takes_over& m) { return fmt::format("holder {} becomes shard {}", m.by.value, m.shard.value); },
          [](const record_envelope& m) { return fmt::format("record of decision {}", m->decision); },
          [](const new_backup& m) { return fmt::format("holder {} is to back up shard {}", m.holder.value, m.shard.value); },
          [](const admit_order& m) { return fmt::format("admit holder {} at v{}", m.holder.value, m.ver.value); },
          [](const copy_request& m) {
            return fmt::format("holder {} asks for pieces {} of v{}", m.from.value, fmt::join(m.pieces, ", "), m.ver.value);
          },
          [](const piece_envelope& m) { return fmt::format("piece {} of v{}", m.head.piece, m.head.ver.value); },
          [](const caught_up& m) { return fmt::format("holder {} has caught up", m.holder.value); },
      },
      msg);
}

void digest::add(const message& msg) {
  constexpr std::size_t retired = 19; // the number of a kind that is no more: those behind it keep theirs
  add(msg.index() + (msg.index() >= retired ? 1 : 0));
  const auto id = [this](const push_id& of) {
    add(std::uint64_t{of.worker.value} << 32 | of.incarnation.value);
    add(of.clock.value);
  };
  std::visit(cases{
                 [&](const joined& m) { add(std::uint64_t{m.who.worker.value} << 32 | m.who.incarnation.value); },
                 [&](const down& m) { add(std::uint64_t{m.who.worker.value} << 32 | m.who.incarnation.value); },
                 [&](const holder_down& m) { add(m.holder.value); },
                 [&](const held& m) { add(m.ver.value), add(m.samples); },
                 [&](const evaluated& m) { add(m.ver.value); },
                 [&](const report& m) {
                   add(static_cast<std::uint64_t>(m.event)), add(m.ver.value), add(m.worker.value), add(m.samples),
                       add(m.staleness);
                 },
                 [&](const hold_order& m) { add(m.at_samples), add(m.at_version), add(m.now ? 1 : 0); },
                 [](const resume_order&) {},
                 [](const fetch_order&) {},
                 [&](const plan_envelope& m) { add(m->epoch.value), add(m->workers.size()), add(m->period); },
                 [&](const worker_down& m) { add(std::uint64_t{m.worker.value} << 32 | m.incarnation.value); },
                 [&](const push_envelope& m) {
                   id(m.head.id), add(m.head.base.value), add(whole(m.head.samples)), add(m.head.finite ? 1 : 0);
                 },
                 [&](const arrival& m) { id(m.push.id), add(m.holder.value); },
                 [&](const close& m) {
                   add(m.ver.value), add(m.samples_before), add(m.position);
                   for (const contribution& part : m.contributions)
                     id(part.id);
                   for (const worker_id to : m.send_to)
                     add(to.value);
                 },
                 [&](const send_order& m) {
                   add(m.ver.value), add(m.position);
                   for (const worker_id to : m.to)
                     add(to.value);
                 },
                 [&](const drop_order& m) { id(m.id); },
                 [&](const partial_envelope& m) { add(m.head.ver.value), add(m.head.from.value); },
                 [&](const params_envelope& m) {
                   add(m.head.ver.value), add(m.head.position), add(m.head.epoch.value), add(m.from.value);
                 },
                 [&](const peer_envelope& m) { add(m.head.from.worker.value), add(m.head.round); },
                 [&](const computed& m) { add(m.step), add(whole(m.samples)), add(m.finite ? 1 : 0); },
                 [&](const computed_partition& m) { add(m.step), add(m.partition); },
                 [&](const expired& m) { add(m.timer.value); },
                 [&](const prepared& m) { add(m.holder.value), add(m.ver.value), add(m.decision), add(m.possible ? 1 : 0); },
                 [&](const commit_order& m) { add(m.ver.value), add(m.decision); },
                 [&](const takes_over& m) { add(m.shard.value), add(m.by.value), add(m.view); },
                 [&](const record_envelope& m) { add(m->decision), add(m->since.size()); },
                 [&](const new_backup& m) { add(m.holder.value), add(m.shard.value); },
                 [&](const admit_order& m) { add(m.holder.value), add(m.ver.value), add(m.view); },
                 [&](const copy_request& m) { add(m.from.value), add(m.ver.value), add(m.pieces.size()); },
                 [&](const piece_envelope& m) { add(m.head.from.value), add(m.head.ver.value), add(m.head.piece); },
                 [&](const caught_up& m) { add(m.holder.value); },
             },
             msg);
}

} // namespace troupe::protocols::sim
