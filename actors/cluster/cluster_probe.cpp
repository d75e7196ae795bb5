// SPDX-License-Identifier: BSD-3-Clause
// The cluster asks all of its nodes what they have, before a job.
#include <algorithm>
#include <utility>

#include <caf/event_based_actor.hpp>

#include "actors/cluster/cluster_actor.hpp"
#include "actors/errors.hpp"
#include "actors/roles/clock_estimate.hpp"
#include "actors/roles/join_counter.hpp"

namespace troupe::actors {

namespace {

/// A clock is read at once. Whoever did not do that is not asked for more, so that one that is stopped costs no longer than this.
constexpr std::chrono::milliseconds clock_deadline{2500};
/// 4 GB of data, the most that a set may have, from a slow disk.
constexpr std::chrono::seconds look_deadline{60};
/// The first message to a node may wait for its connection, and any for a busy moment: the shortest round trip tells most.
constexpr int clock_readings = 3;

/// Takes over what a node says of itself, and keeps what the cluster knows.
void fill(node_probe& known, node_probe&& said) {
  said.node = known.node;
  said.host = known.host;
  said.here = known.here;
  said.job = known.job;
  said.round_trip_s = known.round_trip_s;
  said.clock_ahead_s = known.clock_ahead_s;
  known = std::move(said);
}

/// Reads the clock of node `at` again and again, then has it look around.
struct probing {
  cluster_control::stateful_pointer<cluster_state> self;
  join_counter<cluster_probe> all;
  std::size_t at;
  node_actor node;
  probe_query query;
  clock_estimate clock{};

  node_probe& known() const { return all->nodes[at]; }
  void fail(const caf::error& e) const {
    known().silent = explain(e);
    all.one_less();
  }

  void read_clock(int left) {
    if (left == 0) {
      known().round_trip_s = static_cast<double>(clock.round_trip_ns) * 1e-9;
      known().clock_ahead_s = static_cast<double>(clock.ahead_ns) * 1e-9;
      return look();
    }
    const auto sent = steady_ns();
    const auto sent_wall = wall_clock_ns();
    self->request(node, clock_deadline, wall_clock_query{})
        .then(
            [me = *this, left, sent, sent_wall](const clock_reading& theirs) mutable {
              me.clock.take(sent_wall, theirs.wall_ns, steady_ns() - sent);
              me.read_clock(left - 1);
            },
            [me = *this](const caf::error& e) { me.fail(e); });
  }

  void look() const {
    self->request(node, look_deadline, query)
        .then(
            [me = *this](node_probe& said) {
              fill(me.known(), std::move(said));
              me.all.one_less();
            },
            [me = *this](const caf::error& e) { me.fail(e); });
  }
};

/// `here`: the coordinator's own node.
caf::result<cluster_probe> probe_all(cluster_control::stateful_pointer<cluster_state> self, const std::string& cluster,
                                     const std::vector<cluster_member>& members, const node_actor& here,
                                     const probe_query& query) {
  auto promise = self->make_response_promise<cluster_probe>();
  const join_counter<cluster_probe> all([promise](cluster_probe whole) mutable { promise.deliver(std::move(whole)); });
  all->name = cluster;
  for (const auto& member : members) {
    const bool own = &member == &members.front();
    all->nodes.push_back(
        {.node = member.description.name, .host = member.description.host, .here = own || member.actor, .job = member.job});
    if (!own && !member.actor) {
      all->nodes.back().silent = member.last.empty() ? "has not joined" : member.last;
      continue;
    }
    all.one_more();
    probing one{self, all, all->nodes.size() - 1, own ? here : member.actor, query};
    if (!member.description.shard && !(query.workers_write && member.description.worker))
      one.query.checkpoints.clear();
    if (own)
      one.look();
    else
      one.read_clock(clock_readings);
  }
  all.one_less();
  return promise;
}

} // namespace

/// Here every job has a node of its own, but for one of several coordinators. One that runs has the lanes' port; without any, one
/// that is gone when it has answered.
caf::result<cluster_probe> cluster_state::probe(const probe_query& query) {
  auto here = setup_.node;
  for (const auto& [number, job] : jobs_)
    if (job.own)
      here = job.own;
  if (!here)
    here = self_->spawn<node_impl>(setup_.own);
  return probe_all(self_, setup_.name, members_, here, query);
}

} // namespace troupe::actors
