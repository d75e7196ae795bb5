// SPDX-License-Identifier: BSD-3-Clause
// The requests that start a job on its nodes.
#include "actors/roles/coordinator/nodes/job_start.hpp"

#include <algorithm>
#include <utility>

#include "actors/checkpoint/checkpoint_file.hpp"
#include "actors/checkpoint/job_facts.hpp"
#include "actors/roles/join_counter.hpp"
#include "protocols/catalog.hpp"

namespace troupe::actors {

job_start::job_start(measured_pointer<coordinator_control> self, const coordinator_setup& setup, job_places& places,
                     failed_fn failed, differs_fn differs)
    : self_(self), setup_(setup), places_(places), failed_(std::move(failed)), differs_(std::move(differs)),
      prepared_(setup.nodes.size()) {}

void job_start::begin(std::function<void()> prepared, std::function<void()> started) {
  everywhere(&job_start::prepare, [this, prepared = std::move(prepared), started = std::move(started)] {
    for (std::uint32_t node = 0; node < setup_.nodes.size(); ++node)
      if (const auto text = fault_of(node); !text.empty())
        return differs_(node, text);
    if (const auto& from = setup_.job.checkpoint.resume; !from.empty())
      if (const auto text = other_data(digests_of(first().files), read_manifest(from).data, from); !text.empty())
        return differs_(with_, text);
    prepared();
    everywhere(&job_start::start, started);
  });
}

void job_start::begin_again(std::uint32_t node, const std::vector<node_actor>& here, std::function<void()> started) {
  prepare(node, [this, node, here, started = std::move(started)] {
    if (const auto text = fault_of(node); !text.empty())
      return differs_(node, text);
    struct nothing {};
    const join_counter<nothing> let_go([this, node, started, process = setup_.nodes[node].actor](nothing) {
      if (process == setup_.nodes[node].actor) // else the next one is on its way already
        start(node, started);
    });
    for (const auto& other : here) {
      let_go.one_more();
      self_->request(other, deadline, places_.nodes[node])
          .then([let_go] { let_go.one_less(); }, [let_go](const caf::error&) { let_go.one_less(); });
    }
    let_go.one_less();
  });
}

void job_start::everywhere(void (job_start::*step)(std::uint32_t, std::function<void()>), std::function<void()> done) {
  for (const auto& node : places_.nodes)
    if (!node.absent)
      awaited_.insert(node.node);
  for (const auto node : std::set<std::uint32_t>{awaited_})
    (this->*step)(node, [this, node, done] {
      awaited_.erase(node);
      if (awaited_.empty())
        done();
    });
}

void job_start::prepare(std::uint32_t node, std::function<void()> prepared) {
  std::vector<std::string> names;
  for (const auto& each : setup_.nodes)
    names.push_back(each.name);
  self_
      ->request(setup_.nodes[node].actor, deadline,
                prepare_job{setup_.job_key, node, setup_.job, coordinator_actor{self_}, places_.nodes[node].incarnation,
                            setup_.trace, std::move(names), setup_.rounds, setup_.decided.term, writes_checkpoints(node),
                            setup_.decided.orphan_s})
      .then(
          [this, node, prepared = std::move(prepared), process = setup_.nodes[node].actor](const node_prepared& ready) {
            if (process != setup_.nodes[node].actor)
              return;
            places_.nodes[node].lane_port = ready.lane_port;
            prepared_[node] = ready;
            prepared();
          },
          [this, node, process = setup_.nodes[node].actor](const caf::error& e) {
            if (process == setup_.nodes[node].actor)
              failed_(node, "prepare", e);
          });
}

void job_start::start(std::uint32_t node, std::function<void()> started) {
  self_->request(setup_.nodes[node].actor, deadline, places_)
      .then([started = std::move(started)] { started(); },
            [this, node, process = setup_.nodes[node].actor](const caf::error& e) {
              if (process == setup_.nodes[node].actor)
                failed_(node, "start", e);
            });
}

/// Of its data, or of its folder for checkpoints where it writes any, beside those of the first node; empty: none.
std::string job_start::fault_of(std::uint32_t node) const {
  const auto& own = prepared_[node];
  for (const auto& file : own.files)
    for (const auto& first : prepared_[with_].files)
      if (file.path == first.path && file.wrong.empty() && first.wrong.empty() && file.sha256 != first.sha256)
        return difference(file, first, setup_.nodes[with_].name);
  if (!writes_checkpoints(node))
    return {};
  const auto first =
      std::ranges::find_if(places_.nodes, [this](const auto& each) { return writes_checkpoints(each.node); })->node;
  return actors::fault_of(own.checkpoints, prepared_[first].checkpoints, setup_.nodes[first].name);
}

bool job_start::writes_checkpoints(std::uint32_t node) const {
  if (!setup_.job.checkpoint.enabled())
    return false;
  const auto protocol = protocols::find_protocol(setup_.job.protocol.name, setup_.added);
  return places_.holds_parameters(node) || (protocol && workers_write(setup_.job, *protocol) && places_.has_workers(node));
}

void job_start::was_prepared(std::uint32_t node, const node_prepared& by, bool first) {
  prepared_[node] = by;
  if (first)
    with_ = node;
}

} // namespace troupe::actors
