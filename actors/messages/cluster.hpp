// SPDX-License-Identifier: BSD-3-Clause
// Messages between a cluster and its users: nodes that join and leave, clients that submit jobs and watch them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <caf/type_id.hpp>
#include <caf/typed_actor.hpp>

#include "actors/cluster/history.hpp"
#include "actors/messages/fields.hpp"
#include "actors/messages/node.hpp"
#include "actors/run_observer.hpp"
#include "protocols/ledger.hpp"

namespace troupe::actors {

struct kept_jobs;

/// A node introduces itself to the coordinator's node.
struct node_hello {
  std::string name;
  std::string version;
  std::int32_t pid = 0;
  std::vector<std::string> added{};       ///< what its program adds to Troupe: names_of
  std::optional<job_standing> standing{}; ///< what it has of a job whose coordinator was lost
};

/// A node as the cluster's file describes it.
struct node_description {
  std::string name;
  std::string host = "127.0.0.1";
  bool shard = true, worker = true;
  std::vector<std::string> devices{}; ///< on which roles may compute; empty: the file does not say
  std::uint8_t last_resort = 0;       ///< as in member_node
  friend bool operator==(const node_description&, const node_description&) = default;
};

/// Client to cluster: run this job. Answered with its number; its reports go to the client.
struct submit_job {
  actors::job job;
  bool trace = false;
  bool detached = false; ///< it runs without its client, which is told only the number
  bool rounds = false;   ///< its progress tells what each version was made of
};

struct cancel_job {
  std::uint64_t number = 0;
};

/// Cluster to client, while the job cannot start, whenever the reason changes.
struct job_waits {
  std::string reason; ///< "node c has not joined"; empty: it no longer waits
};

struct job_begins {
  std::vector<std::string> nodes;
  std::int64_t data_size = 0; ///< training samples
  bool goes_on = false;       ///< it had begun before, and what was said of it stands
};

struct job_says {
  std::string text;
};

/// Client to cluster, after the result: the final parameters and the trace, piece by piece, then release_job.
struct weights_query {
  std::uint64_t number = 0, offset = 0; ///< in floats
};

struct weights_piece {
  std::vector<float> values; ///< empty: the end
};

struct node_trace_query {
  std::uint64_t number = 0;
  std::uint32_t node = 0; ///< of the job, from 0 on
  std::uint64_t offset = 0;
};

struct node_trace_piece {
  std::string node{};
  trace_chunk events{};
  std::uint32_t nodes = 0; ///< how many traces there are
};

struct release_job {
  std::uint64_t number = 0;
};

/// Client to cluster: report to me too on a job that was submitted `detached`; answered with the job. If it has ended, the result
/// follows. `returns`: I am its submitter, and have lost the coordinator that I submitted it to; then it need not be detached.
struct attach_job {
  std::uint64_t number = 0;
  bool returns = false;
};

/// The submitter of a job. In another process it gets the result without parameters and trace.
using client_actor =
    caf::typed_actor<caf::result<void>(job_waits), caf::result<void>(job_begins), caf::result<void>(progress),
                     caf::result<void>(evaluation_point), caf::result<void>(job_says), caf::result<void>(job_result)>;

/// A trace that is being recorded or was: its job, and the file for it.
struct recording {
  actors::job job;
  std::string file;
};

/// The state of a cluster, for a console.
struct cluster_query {};

struct member_view {
  node_description node;
  bool here = false, leaving = false;
  std::int32_t pid = 0;
  std::uint64_t job = 0; ///< to which its workers belong; 0: none
  node_actor actor{};    ///< null: not here
  std::string last{};    ///< if it was here before: "is gone: connection lost, at 12:03:05"
  double leaving_s = 0;  ///< for how long it has been `leaving`
};

struct job_view {
  std::uint64_t number = 0;
  std::string name, protocol, state; ///< "waits: node c has not joined", "runs"
  double since_s = 0;                ///< how long it has waited, or run
  std::vector<std::string> nodes{};  ///< while it runs
  std::uint64_t steps = 0, samples = 0;
  double epochs = 0;
};

struct cluster_view {
  std::string name;
  std::vector<member_view> members{}; ///< in the file's order, the coordinator's first
  std::vector<job_view> jobs{};       ///< those that run first, then the queue
  double orphan_s = 0; ///< its jobs outlive its coordinator, and wait so long for their clients; 0: they end with it
};

/// To whoever listens at a coordinator's port: which actor is the cluster? The error says that another coordinator leads, or
/// none.
struct leader_query {};

/// Among several coordinators, with a door: that of this member of their council.
struct council_hello {
  std::uint32_t member = 0;
};
/// A message of Raft (protocols/wire/raft.hpp).
struct raft_words {
  std::vector<std::uint64_t> words;
};

/// A node wants to leave: answered when it may.
struct leave_cluster {
  std::string name;
  bool ends = false; ///< it asks itself and then ends; else the operator drains it
  std::string why{}; ///< it ends for this reason, which its job's log shall have
};

/// A drained node shall stay and get jobs again.
struct undrain_node {
  std::string name;
};

/// A cluster, at its coordinator's node: where nodes join and clients submit.
using cluster_actor = caf::typed_actor<
    caf::result<std::uint32_t>(node_hello, node_actor), ///< your number in the cluster
    caf::result<void>(leave_cluster), caf::result<void>(undrain_node), caf::result<std::uint64_t>(submit_job, client_actor),
    caf::result<submit_job>(attach_job, client_actor), caf::result<void>(cancel_job), caf::result<std::string>(actor_order),
    caf::result<std::string>(change_order), caf::result<std::string>(save_order),
    caf::result<recording>(record_order), ///< once ended, the trace is fetched like that of a job that is over
    caf::result<weights_piece>(weights_query), caf::result<node_trace_piece>(node_trace_query), caf::result<void>(release_job),
    caf::result<cluster_view>(cluster_query), caf::result<cluster_report>(inspect_query), caf::result<shards_view>(shards_query),
    caf::result<history>(history_query), caf::result<cluster_probe>(probe_query),
    caf::result<caf::strong_actor_ptr>(leader_query)>; ///< itself

/// At a coordinator's port. A single coordinator's is the cluster itself.
using door_actor = caf::typed_actor<caf::result<caf::strong_actor_ptr>(leader_query)>;
/// Of one of several coordinators.
using council_door = door_actor::extend<caf::result<void>(council_hello, caf::strong_actor_ptr), caf::result<void>(raft_words)>;

/// To itself, from a job's coordinator: it is over.
struct job_finished {
  std::uint64_t number = 0;
  std::shared_ptr<job_result> result;
};

/// To itself: where a job begins that cannot go on as it is, in words, too.
struct job_goes_back {
  std::uint64_t number = 0;
  std::string resume; ///< as in checkpoint_spec
  std::string text;
};

/// To itself, from a job's coordinator: for the history.
struct job_news {
  std::uint64_t number = 0;
  std::variant<job_begins, progress, evaluation_point, job_says> news;
};

/// From a council to the door of its process: this member leads, and these are the decisions so far.
struct council_leads {
  protocols::ledger::state decided;
  std::uint64_t term = 0;
};
/// It does not (any more); who does, where it is known.
struct council_follows {
  std::optional<std::uint32_t> who;
  std::string failed; ///< it takes no part any more: why
};
/// The door of another member is there; null: gone.
struct council_peer {
  std::uint32_t member = 0;
  council_door door{};
};
/// Time passes.
struct council_tick {};
using council_actor =
    ledger_actor::extend<caf::result<void>(raft_words), caf::result<void>(council_peer), caf::result<void>(council_tick)>;
/// What a new leader finds out of the jobs before it serves them.
struct jobs_taken_over {
  std::uint64_t reign = 0;         ///< whose it is
  std::shared_ptr<kept_jobs> kept; ///< null: it cannot serve them
  std::string why_not;
};
using council_door_control = council_door::extend<caf::result<void>(council_leads), caf::result<void>(council_follows),
                                                  caf::result<void>(jobs_taken_over), caf::result<void>(council_peer)>;

using cluster_control =
    cluster_actor::extend<caf::result<void>(job_finished), caf::result<void>(job_goes_back), caf::result<void>(job_news)>;

} // namespace troupe::actors

CAF_BEGIN_TYPE_ID_BLOCK(troupe_cluster, caf::id_block::troupe_node::end)

TROUPE_LOCAL_MESSAGE(troupe_cluster, (troupe::actors::job_finished))
TROUPE_LOCAL_MESSAGE(troupe_cluster, (troupe::actors::job_goes_back))
TROUPE_LOCAL_MESSAGE(troupe_cluster, (troupe::actors::job_news))
TROUPE_LOCAL_MESSAGE(troupe_cluster, (troupe::actors::council_leads))
TROUPE_LOCAL_MESSAGE(troupe_cluster, (troupe::actors::council_follows))
TROUPE_LOCAL_MESSAGE(troupe_cluster, (troupe::actors::council_peer))
TROUPE_LOCAL_MESSAGE(troupe_cluster, (troupe::actors::council_tick))
TROUPE_LOCAL_MESSAGE(troupe_cluster, (troupe::actors::jobs_taken_over))

CAF_ADD_TYPE_ID(troupe_cluster, (troupe::actors::node_hello))
CAF_ADD_TYPE_ID(troupe_cluster, (troupe::actors::node_description))
CAF_ADD_TYPE_ID(troupe_cluster, (troupe::actors::submit_job))
CAF_ADD_TYPE_ID(troupe_cluster, (troupe::actors::attach_job))
CAF_ADD_TYPE_ID(troupe_cluster, (troupe::actors::cancel_job))
CAF_ADD_TYPE_ID(troupe_cluster, (troupe::actors::job_waits))
CAF_ADD_TYPE_ID(troupe_cluster, (troupe::actors::job_begins))
CAF_ADD_TYPE_ID(troupe_cluster, (troupe::actors::job_says))
CAF_ADD_TYPE_ID(troupe_cluster, (troupe::actors::weights_query))
CAF_ADD_TYPE_ID(troupe_cluster, (troupe::actors::weights_piece))
CAF_ADD_TYPE_ID(troupe_cluster, (troupe::actors::node_trace_query))
CAF_ADD_TYPE_ID(troupe_cluster, (troupe::actors::node_trace_piece))
CAF_ADD_TYPE_ID(troupe_cluster, (troupe::actors::release_job))
CAF_ADD_TYPE_ID(troupe_cluster, (troupe::actors::recording))
CAF_ADD_TYPE_ID(troupe_cluster, (troupe::actors::cluster_query))
CAF_ADD_TYPE_ID(troupe_cluster, (troupe::actors::member_view))
CAF_ADD_TYPE_ID(troupe_cluster, (troupe::actors::job_view))
CAF_ADD_TYPE_ID(troupe_cluster, (troupe::actors::cluster_view))
CAF_ADD_TYPE_ID(troupe_cluster, (troupe::actors::cluster_probe))
CAF_ADD_TYPE_ID(troupe_cluster, (troupe::actors::leave_cluster))
CAF_ADD_TYPE_ID(troupe_cluster, (troupe::actors::leader_query))
CAF_ADD_TYPE_ID(troupe_cluster, (troupe::actors::council_hello))
CAF_ADD_TYPE_ID(troupe_cluster, (troupe::actors::raft_words))
CAF_ADD_TYPE_ID(troupe_cluster, (troupe::actors::undrain_node))
CAF_ADD_TYPE_ID(troupe_cluster, (troupe::actors::history_query))
CAF_ADD_TYPE_ID(troupe_cluster, (troupe::actors::history))
CAF_ADD_TYPE_ID(troupe_cluster, (troupe::actors::progress))
CAF_ADD_TYPE_ID(troupe_cluster, (troupe::actors::evaluation_point))
CAF_ADD_TYPE_ID(troupe_cluster, (troupe::actors::job_result))
CAF_ADD_TYPE_ID(troupe_cluster, (troupe::actors::client_actor))
CAF_ADD_TYPE_ID(troupe_cluster, (troupe::actors::cluster_actor))

CAF_END_TYPE_ID_BLOCK(troupe_cluster)
