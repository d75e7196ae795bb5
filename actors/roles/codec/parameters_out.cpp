// SPDX-License-Identifier: BSD-3-Clause
// Heads, and who is on which host.
#include "actors/roles/codec/parameters_out.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include <caf/send.hpp>

namespace troupe::actors {

protocols::wire::params_part head_of(const protocols::send_order& order, protocols::holder_id from, const parameters_part& part,
                                     std::vector<protocols::worker_id> to) {
  return {std::move(to),
          from,
          {order.epoch, order.ver, order.key, order.position, order.period, part.marked, {}},
          {part.where.begin, part.where.end},
          part.as,
          part.base,
          part.sparse_bytes()};
}

void send_part(const role_peers& peers, const protocols::send_order& order, protocols::holder_id from,
               const parameters_part& part) {
  std::map<params_actor, std::vector<protocols::worker_id>> receivers;
  for (const auto to : order.to)
    receivers[to == protocols::evaluator ? peers.evaluator : peers.workers.at(to.value)].push_back(to);
  for (auto& [receiver, who] : receivers)
    caf::anon_send(receiver, head_of(order, from, part, std::move(who)), part.data);
}

void send_parts(const role_peers& peers, const protocols::send_order& order, protocols::holder_id from,
                const std::vector<parameters_part>& parts) {
  for (const auto& each : parts)
    send_part(peers, order, from, each);
}

std::optional<protocols::send_order> evaluators_part_of(protocols::send_order order) {
  if (std::ranges::count(order.to, protocols::evaluator) == 0)
    return {};
  order.to = {protocols::evaluator};
  return order;
}

std::size_t bytes_of(const std::vector<parameters_part>& parts) {
  std::size_t out = 0;
  for (const auto& each : parts)
    out += each.data.bytes();
  return out;
}

std::vector<std::vector<protocols::worker_id>> hosts_of(const std::vector<protocols::worker_id>& to,
                                                        const std::optional<protocols::tree_shape>& tree) {
  std::vector<std::vector<protocols::worker_id>> out;
  std::map<std::uint32_t, std::size_t> known; // by block
  for (const auto who : to) {
    const auto block = tree ? protocols::block_of(tree->blocks, who) : std::nullopt;
    const auto at = block ? known.try_emplace(*block, out.size()).first->second : out.size();
    if (at == out.size())
      out.emplace_back();
    out[at].push_back(who);
  }
  return out;
}

} // namespace troupe::actors
