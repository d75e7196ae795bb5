// SPDX-License-Identifier: BSD-3-Clause
// A simulated cluster without a centre: workers send each other their replicas, and their average is what is evaluated.
#include "protocols/sim/cluster.hpp"

#include <utility>

namespace troupe::protocols::sim {

namespace {

using role = endpoint::role;

} // namespace

void cluster::on_peer(worker_seat& at, const peer_parcel& what) {
  peer_message msg = what.what;
  msg.data = {++at.last_ticket};
  at.replicas.emplace(msg.data, what.data);
  perform(at, at.machine->on(msg));
}

/// To who is gone, or while its own link still sends something else, nothing is sent: the machine hears its message again.
void cluster::send_replica(worker_seat& at, const send_peer& what) {
  const endpoint self{role::worker, at.self.worker.value};
  const bool to_evaluator = what.to == evaluator;
  if (!to_evaluator && (!seat(what.to).alive || network_.busy({at.host, true})))
    return perform(at, at.machine->on(what.what));
  peer_parcel out{what.what, {}};
  if (out.what.weight > 0)
    out.data = at.maths->sum(operands_of(at, {{own_parameters, 1}}));
  const std::uint64_t bytes = out.what.weight > 0 ? options_.model_bytes : 0;
  if (to_evaluator)
    send(self, the_evaluator, std::move(out));
  else
    send(self, {role::worker, what.to.value}, std::move(out), bytes);
}

/// Asked again when somebody has died: who has answered need not, and what is averaged already stands.
void cluster::collect_replicas(version ver) {
  if (ver <= averaged_)
    return;
  collection next{ver, {}};
  for (const member& who : coordinator_.current().workers) {
    auto& replica = next.replicas[who.worker];
    if (collecting_ && collecting_->ver == ver)
      if (const auto known = collecting_->replicas.find(who.worker); known != collecting_->replicas.end())
        replica = std::move(known->second);
    if (!replica)
      send({role::coordinator, 0}, {role::worker, who.worker.value}, fetch_order{ver});
  }
  collecting_ = std::move(next);
  average_if_complete();
}

void cluster::on_collected(const peer_parcel& what) {
  if (!collecting_ || what.what.round != collecting_->ver.value)
    return;
  if (const auto from = collecting_->replicas.find(what.what.from.worker); from != collecting_->replicas.end())
    from->second = what;
  average_if_complete();
}

/// By their weights. Where nobody has a replica yet, all are at the first parameters.
void cluster::average_if_complete() {
  double total = 0;
  std::vector<std::pair<member, step_count>> made;
  for (const auto& [who, replica] : collecting_->replicas) {
    if (!replica)
      return;
    total += replica->what.weight;
    made.emplace_back(replica->what.from, replica->what.made);
  }
  const collection done = *std::exchange(collecting_, std::nullopt);
  averaged_ = done.ver;
  if (total > 0) {
    std::vector<operand> terms;
    for (const auto& [who, replica] : done.replicas)
      if (replica->what.weight > 0)
        terms.push_back({.what = replica->data, .weight = replica->what.weight / total});
    return evaluate_whole(done.ver, maths_.sum(terms), std::move(made));
  }
  std::vector<tensor> ranges;
  for (std::uint32_t shard = 0; shard < options_.job.shards; ++shard)
    ranges.push_back(holders_.at(shard)->maths->parameters());
  evaluate_whole(done.ver, maths_.join(ranges), std::move(made));
}

} // namespace troupe::protocols::sim
