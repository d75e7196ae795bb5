// SPDX-License-Identifier: BSD-3-Clause
// From decisions to a coordinator's state.
#include "protocols/takeover.hpp"

#include "protocols/tree.hpp"

namespace troupe::protocols {

namespace {

std::map<holder_id, bool> backups_of(const tree_shape& shape, const ledger::course& decided) {
  auto out = backups_without(shape, decided.gone);
  for (const auto& [holder, copy] : decided.copies)
    if (!decided.acts(holder))
      out.emplace(holder, copy.whole);
  return out;
}

} // namespace

coordinator_state taken_over(const coordinator_options& options, const ledger::course& decided,
                             const std::map<worker_id, incarnation>& newest, const lead_report& lead) {
  const plan& last = decided.plan;
  coordinator_state out{.protocol = last.protocol,
                        .period = last.period,
                        .lr_scale = last.lr_scale,
                        .gone = last.gone,
                        .plan = last,
                        .evaluating = lead.held,
                        .held = lead.made,
                        .samples = lead.samples,
                        .counted = lead.counted,
                        .backups = backups_of({options.workers, options.shards, last.protocol.fan_in, options.replicas}, decided),
                        .acting = decided.acting,
                        .view = decided.view,
                        .partition_kib = last.partition_kib};
  for (const member who : last.workers)
    out.members.emplace(who.worker, who.incarnation);
  for (const auto& [worker, incarnation] : newest)
    if (const auto in = out.members.find(worker); in == out.members.end())
      out.last_down.emplace(worker, incarnation); // a later one may join
  for (const auto& [worker, incarnation] : out.members)
    if (incarnation.value > 0)
      out.last_down.emplace(worker, protocols::incarnation{incarnation.value - 1});
  return out;
}

std::vector<takes_over> promotions(const tree_shape& shape, const ledger::course& decided) {
  const auto backups = backups_of(shape, decided);
  std::vector<takes_over> out;
  for (const auto& [shard, by] : decided.acting)
    out.push_back(promotion(shape, {.shard = shard, .by = by, .view = decided.view}, backups));
  return out;
}

} // namespace troupe::protocols
