// SPDX-License-Identifier: BSD-3-Clause
// A cluster that outlives its jobs: its nodes, its queue, and the jobs that run on it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/cluster/admission.hpp"
#include "actors/cluster/answers/cluster_answers.hpp"
#include "actors/cluster/cluster_job.hpp"
#include "actors/cluster/cluster_member.hpp"
#include "actors/cluster/decisions/job_decisions.hpp"
#include "actors/cluster/decisions/succession.hpp"
#include "actors/cluster/gang.hpp"
#include "actors/cluster/history.hpp"
#include "actors/node/node_actor.hpp"

namespace troupe::actors {

struct cluster_setup {
  std::string name;
  std::vector<node_description> nodes;                                     ///< the coordinator's, which is this process, first
  node_options own;                                                        ///< of this node's lanes
  std::function<void(const std::string&)> say = [](const std::string&) {}; ///< what a log should have; on the actor's thread
  /// Whose certificates its connections show (system_config::peers); null: there are none, and names are believed.
  std::shared_ptr<const net::tls_peers> peers{};
  /// The journal, and the jobs of before; null: there is none, and the jobs end with this process.
  std::shared_ptr<kept_jobs> kept{};
  /// Of one of several coordinators: its node, which is a member as others are. Null: each job has one of its own here.
  node_actor node{};
};

/// Admits the nodes that its file names. Jobs start in the order of their coming, each as a gang: on all the nodes that it needs
/// or not yet. One that waits keeps what it needs of the nodes that are here, and those behind it start on the others; one that
/// would not start though all that are here were free keeps none. Each job has a coordinator here; what that does goes to the
/// client that submitted the job, whose end ends it, but for a detached job. One whose connection is lost may come back for a
/// while. A node that is lost and comes back joins its job again.
///
/// A single coordinator's process takes part in any number of jobs at once, with a node for each. Where jobs outlive it, it does
/// so only where no other node may.
///
/// With a journal the jobs outlive this process: the next one that leads has the same queue. A job whose nodes come back with
/// their parts goes on where it is; any other is started again. A job has been submitted, begins, and has ended, once that is on
/// the disk. One that is not detached waits for its client then.
class cluster_state : private succession::owner {
public:
  static inline const char* name = "troupe.cluster";

  cluster_state(cluster_control::stateful_pointer<cluster_state> self, cluster_setup setup);
  cluster_control::behavior_type make_behavior();

private:
  caf::result<std::uint32_t> join(const node_hello& hello, const node_actor& node);
  caf::result<void> leave(const leave_cluster& msg);
  caf::result<void> undrain(const std::string& node);
  void come_back(std::uint32_t number);
  void take_part(std::uint32_t number, const cluster_job& job, std::ptrdiff_t place);
  void grow();
  void let_go(cluster_member& member);
  caf::result<std::uint64_t> submit(const submit_job& submission, const client_actor& client);
  caf::result<submit_job> attach(const attach_job& msg, const client_actor& client);
  void hear(const job_news& msg);
  template <class Order>
  caf::result<std::string> pass_on(const Order& msg);
  void cancel(std::uint64_t number, const std::string& reason);
  void start_what_fits() override;
  void wait(cluster_job& job, const std::string& reason);
  void start(cluster_job& job, std::vector<std::uint32_t> gang);
  void begin(std::uint64_t number, std::vector<member_node> nodes, const std::vector<std::string>& names);
  coordinator_control coordinate(cluster_job& job, std::vector<member_node> nodes, const std::vector<std::string>& names,
                                 const std::optional<protocols::ledger::course>& taken_over = {});
  void keep(cluster_job kept);
  void begin_again(kept_jobs& kept);
  void go_on(cluster_job& job, std::vector<member_node> nodes, const returning_job& back) override;
  void release(cluster_job& job) override;
  void enqueue(std::uint64_t number, const submit_job& submission, const client_actor& client);
  void finished(const job_finished& msg);
  void start_later(cluster_job& job, const job_result& why);
  void conclude(std::uint64_t number, job_result result);
  void free_nodes_of(std::uint64_t number);
  void forget(std::uint64_t number);
  void forget_the_detached();
  void await_client(const cluster_job& job);
  void on_down(const caf::down_msg& msg);
  /// To the log and to whoever asks later.
  void say(const std::string& text);
  void say(std::uint64_t job, const std::string& text) override;
  cluster_job* find(std::uint64_t number);
  cluster_member* find(const std::string& node);

  // cluster_inspection.cpp
  caf::result<cluster_report> inspect_all();
  caf::result<cluster_report> inspect_page(const inspect_query& query);

  // cluster_probe.cpp
  caf::result<cluster_probe> probe(const probe_query& query);

  cluster_control::stateful_pointer<cluster_state> self_;
  cluster_setup setup_;
  admission admission_;
  std::vector<cluster_member> members_;       ///< in the file's order, this process first
  std::map<std::uint64_t, cluster_job> jobs_; ///< by number: in the order of their coming
  std::uint64_t last_number_ = 0;
  history_book history_;
  cluster_answers answers_;
  succession succession_;
  job_decisions decisions_;
  std::int64_t idle_since_ns_ = 0; ///< this process has had no job since
};

using cluster_impl = cluster_control::stateful_impl<cluster_state>;

} // namespace troupe::actors
