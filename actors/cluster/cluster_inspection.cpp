// SPDX-License-Identifier: BSD-3-Clause
// How a cluster gathers what its nodes say, and how that is asked for.
#include "actors/cluster/cluster_inspection.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include <caf/scoped_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/cluster/cluster_actor.hpp"
#include "actors/errors.hpp"
#include "actors/messages/cluster.hpp"
#include "actors/monitoring/process.hpp"
#include "actors/roles/join_counter.hpp"
#include "actors/roles/training_clock.hpp"

namespace troupe::actors {

namespace {

/// Longer than a node waits for its actors: one that is late is late because of itself.
constexpr std::chrono::milliseconds deadline{1500};

/// A node does not know what the cluster calls it.
void put_names(node_report& said, std::uint64_t job, const std::string& node) {
  said.job = job;
  said.node = node;
  for (auto& actor : said.actors) {
    actor.job = job;
    actor.node = node;
    if (actor.role == "node")
      actor.id = "node " + node;
    else if (actor.parent.empty())
      actor.parent = "node " + node;
  }
}

/// This process has a node's actor only while a job runs.
node_report idle_node(std::int32_t pid, std::int64_t since_ns, std::size_t mailbox) {
  actor_report node{.role = "node", .state = "idle", .since_s = static_cast<double>(steady_ns() - since_ns) * 1e-9};
  node.mailbox = mailbox;
  return {.pid = pid, .resident_bytes = resident_bytes(), .actors = {std::move(node)}};
}

caf::result<cluster_report> page_of(cluster_control::stateful_pointer<cluster_state> self, const node_actor& of,
                                    const inspect_query& query) {
  auto promise = self->make_response_promise<cluster_report>();
  self->request(of, deadline, query)
      .then(
          [promise, query](node_report& said) mutable {
            put_names(said, query.job, query.node);
            promise.deliver(cluster_report{{std::move(said)}});
          },
          [promise](const caf::error& e) mutable { promise.deliver(e); });
  return promise;
}

/// Every actor of every node, and the coordinators; a node that does not answer is named with the reason.
caf::result<cluster_report> ask_all(cluster_control::stateful_pointer<cluster_state> self,
                                    const std::vector<cluster_member>& members, const std::map<std::uint64_t, cluster_job>& jobs,
                                    std::int64_t idle_since_ns) {
  auto promise = self->make_response_promise<cluster_report>();
  const join_counter<cluster_report> all([promise](cluster_report whole) mutable { promise.deliver(std::move(whole)); });
  auto add = [all](node_report&& said, std::uint64_t job, const std::string& node) {
    put_names(said, job, node);
    all->nodes.push_back(std::move(said));
    all.one_less();
  };
  auto ask = [&](const node_actor& actor, std::uint64_t job, const std::string& name) {
    all.one_more();
    if (!actor)
      return add({.silent = "it is gone"}, job, name);
    self->request(actor, deadline, inspect_query{})
        .then([add, job, name](node_report& said) { add(std::move(said), job, name); },
              [add, job, name](const caf::error& e) { add({.silent = explain(e)}, job, name); });
  };
  std::set<std::uint32_t> asked;
  for (const auto& [number, job] : jobs) {
    if (!job.runs())
      continue;
    for (auto member : job.nodes(members)) {
      ask(job.actor_of(member, members), number, members[member].description.name);
      asked.insert(member);
    }
    all.one_more();
    const auto& here = members.front().description.name;
    self->request(job.coordinator, deadline, inspect_query{})
        .then(
            [add, job = number, here](actor_report& said) {
              said.id = "coordinator 0";
              said.role = "coordinator";
              said.parent = "cluster";
              add({.actors = {std::move(said)}}, job, here);
            },
            [all](const caf::error&) { all.one_less(); }); // it has just ended
  }
  for (std::uint32_t i = 0; i < members.size(); ++i)
    if (members[i].actor && !asked.contains(i))
      ask(members[i].actor, 0, members[i].description.name);
  if (!members.front().actor && std::ranges::none_of(jobs, [](const auto& each) { return static_cast<bool>(each.second.own); })) {
    all.one_more();
    add(idle_node(members.front().pid, idle_since_ns, self->mailbox().size()), 0, members.front().description.name);
  }
  all.one_less();
  return promise;
}

} // namespace

caf::result<cluster_report> cluster_state::inspect_all() {
  return ask_all(self_, members_, jobs_, idle_since_ns_);
}

/// The rest of what a node said, handed on.
caf::result<cluster_report> cluster_state::inspect_page(const inspect_query& query) {
  node_actor of;
  if (const auto* member = find(query.node); member != nullptr)
    of = member->actor;
  if (const auto* job = find(query.job); !of && job != nullptr && query.node == members_.front().description.name)
    of = job->own;
  return of ? page_of(self_, of, query) : failure("it is gone");
}

namespace {

class onlooker_state {
public:
  static inline const char* name = "troupe.onlooker";

  onlooker_state(onlooker_actor::stateful_pointer<onlooker_state> self, cluster_actor cluster, std::chrono::milliseconds patience)
      : self_(self), cluster_(std::move(cluster)), patience_(patience) {}

  onlooker_actor::behavior_type make_behavior() {
    return {[this](caf::get_atom) { return look(); }};
  }

private:
  struct sight {
    cluster_view cluster;
    cluster_report reports;
    caf::error why = {};
  };

  caf::result<cluster_view, cluster_report> look() {
    auto promise = self_->make_response_promise<cluster_view, cluster_report>();
    const join_counter<sight> all([promise](sight whole) mutable {
      if (whole.why)
        promise.deliver(std::move(whole.why));
      else
        promise.deliver(std::move(whole.cluster), std::move(whole.reports));
    });
    auto failed = [all](const caf::error& e) {
      all->why = e;
      all.one_less();
    };
    all.one_more();
    self_->request(cluster_, patience_, cluster_query{})
        .then(
            [all](cluster_view& said) {
              all->cluster = std::move(said);
              all.one_less();
            },
            failed);
    self_->request(cluster_, patience_, inspect_query{})
        .then(
            [this, all](cluster_report& said) {
              all->reports = std::move(said);
              ask_for_the_rest(all);
              all.one_less();
            },
            failed);
    return promise;
  }

  /// All pages at once: while one is packed, another is unpacked.
  void ask_for_the_rest(const join_counter<sight>& all) {
    const auto& nodes = all->reports.nodes;
    for (std::size_t i = 0; i < nodes.size(); ++i)
      for (std::uint32_t page = 1; page < nodes[i].pages; ++page) {
        all.one_more();
        self_->request(cluster_, patience_, inspect_query{page, nodes[i].answer_id, nodes[i].job, nodes[i].node})
            .then(
                [all, i](cluster_report& said) {
                  std::ranges::move(said.nodes.front().actors, std::back_inserter(all->reports.nodes[i].actors));
                  all.one_less();
                },
                [all, i](const caf::error& e) {
                  all->reports.nodes[i].silent = explain(e);
                  all.one_less();
                });
      }
  }

  onlooker_actor::stateful_pointer<onlooker_state> self_;
  cluster_actor cluster_;
  std::chrono::milliseconds patience_;
};

} // namespace

onlooker_actor spawn_onlooker(caf::actor_system& system, cluster_actor cluster, std::chrono::milliseconds patience) {
  return system.spawn<onlooker_actor::stateful_impl<onlooker_state>>(std::move(cluster), patience);
}

caf::expected<cluster_look> inspect_cluster(caf::scoped_actor& asker, const cluster_actor& cluster,
                                            std::chrono::milliseconds patience) {
  caf::expected<cluster_look> out{caf::error{caf::sec::runtime_error}};
  const auto onlooker = spawn_onlooker(asker->home_system(), cluster, patience);
  asker->request(onlooker, caf::infinite, caf::get_atom_v)
      .receive(
          [&](cluster_view& of, cluster_report& all) {
            out = cluster_look{std::move(of), std::move(all)};
          },
          [&](caf::error& e) { out = std::move(e); });
  caf::anon_send_exit(onlooker, caf::exit_reason::user_shutdown);
  return out;
}

} // namespace troupe::actors
