// SPDX-License-Identifier: BSD-3-Clause
// A node's part of a job: its data and model, its lanes, and its roles.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <caf/system_messages.hpp>

#include "actors/checkpoint/first_parameters.hpp"
#include "actors/extensions.hpp"
#include "actors/messages/node.hpp"
#include "actors/monitoring/metrics.hpp"
#include "actors/node/parts/local_roles.hpp"
#include "actors/node/parts/unheard.hpp"
#include "actors/roles/activity.hpp"
#include "actors/roles/lane_router.hpp"
#include "actors/roles/worker/worker_actor.hpp"
#include "actors/sockets/security.hpp"
#include "protocols/catalog.hpp"
#include "protocols/tree.hpp"

namespace troupe::actors {

/// Where a node's lanes listen, and to whom.
struct node_options {
  std::string host = "127.0.0.1";
  std::uint16_t lane_port = 0;                    ///< 0: any free port; unused by a job's first node, which only connects
  net::security security = {};                    ///< if set, lanes speak TLS
  extensions added = {};                          ///< to this program
  std::shared_ptr<metrics_registry> metrics = {}; ///< for the counts of its lanes; may be null
  std::size_t credit_bytes = net::lane_options{}.credit_bytes;             ///< of each of its lanes
  std::size_t window_bytes = net::lane_options{}.window_bytes;             ///< likewise; see net::lane_options
  bool shared_memory = true;                                               ///< likewise
  std::string congestion{};                                                ///< likewise
  std::function<void(const std::string&)> say = [](const std::string&) {}; ///< writes to its log; on any thread
  std::function<void(const std::string&)> refused = [](const std::string&) {
  }; ///< reports refused connections (lane.hpp); on any thread
};

/// Exists from the order to prepare until the job is stopped. The destructor answers pending requests, ends the roles and closes
/// the lanes. Used on its node's thread only.
class node_job {
public:
  /// What a node keeps that begins its part of a job anew.
  struct kept {
    data_loaded data;
    tracer_ptr trace;
  };

  /// Opens the lanes, and loads the data on another thread unless they are kept. Throws std::runtime_error if the lanes' port is
  /// taken.
  node_job(measured_pointer<node_control> self, const node_options& where, const prepare_job& order,
           std::optional<kept> from = {});
  node_job(const node_job&) = delete;
  node_job& operator=(const node_job&) = delete;
  ~node_job();

  /// Answered when the data are loaded.
  caf::result<node_prepared> prepared();
  /// Spawns the roles and connects the lanes; answered when they are up.
  caf::result<void> start(const job_places& places);
  void on_data(const data_loaded& msg);
  void on_lane(const lane_event& msg);
  /// A node has come back as a new process.
  void on_back(const node_place& msg);
  caf::result<void> on_backup(const role_place& msg); ///< it comes, perhaps on this node
  /// The evaluator has another node.
  caf::result<void> on_evaluator(const evaluator_place& msg);
  /// Reports the death to the coordinator if it is a role's.
  void on_down(const caf::down_msg& msg);
  /// Carries out an operator's order to one role.
  caf::result<void> carry_out(const role_order& msg);
  void on_saved(const part_saved& msg);
  /// None is left; the roles go on for whoever coordinates the job next.
  void coordinator_is_lost() { coordinator_ = nullptr; }
  std::chrono::milliseconds outlives_coordinator() const; ///< 0: they end with it
  /// What is here for the next one; none: it is not started, or ends with its coordinator.
  std::optional<job_standing> standing() const;
  caf::result<adopted_part> adopt(const coordinator_actor& next);
  std::uint64_t key() const { return run_.job_key; }
  /// For another part in the same job; nothing if the data are not loaded yet, or the order is of another job.
  std::optional<kept> keep_for(const prepare_job& next) const;

  const local_roles& roles() const { return roles_; }
  /// What this node has to know of an order before its roles do.
  void note(const protocols::takes_over& msg);
  void note(const protocols::plan& msg) {
    if (msg.epoch > plan_.epoch)
      plan_ = msg;
  }
  void note(const protocols::holder_down& msg) { places_.lose(msg.holder), roles_.end_holder(msg.holder.value); }
  template <class Order>
  void note(const Order&) {}
  bool decentralized() const { return protocol_.decentralized; }
  bool reduces() const { return static_cast<bool>(protocol_.reduces); }

  std::string own_id() const { return "node " + name_of(number_); }
  /// The name of a node of this job.
  std::string name_of(std::uint32_t node) const;
  /// Adds the node's own state to its report.
  void describe(actor_report& out) const;
  const std::vector<shown_actor>& shown() const { return shown_; }
  /// Empty if the job has one node.
  std::vector<net::lane_stats> lanes() const { return hub_ ? hub_->stats() : std::vector<net::lane_stats>{}; }
  bool has_lanes() const { return hub_ != nullptr; }
  /// Without the memory of the process.
  node_totals totals() const;
  shards_view shards() const;
  tracer& trace() const { return *trace_; }

private:
  void open_lanes();
  void dial(std::uint32_t peer);
  void start_if_ready();
  std::vector<peer_unreachable> unreachable() const;
  /// Also for the actors that end with a worker, by its reason.
  void note_end(const std::string& id, const std::string& why);

  // node_roles.cpp
  void spawn_roles();
  std::function<void(const file_saved&)> for_coordinator() const;
  void spawn_holders();
  void spawn_holder(const role_place& where, const first_parameters& source, kernels::buffer& first);
  holder_actor proxy_of(const role_place& holder);
  void spawn_worker(std::uint32_t index, std::uint32_t incarnation);
  void restart_worker(std::uint32_t index, std::uint32_t incarnation);
  void spawn_evaluator();
  void replace_evaluator(const std::string& why);
  void introduce();
  /// `role`: the device's role, as in a trace.
  std::shared_ptr<kernels::backend> open_queue(const std::string& device, std::optional<std::uint32_t> role = std::nullopt) const;

  // Known from the beginning.
  measured_pointer<node_control> self_;
  const node_options& where_;
  actors::job job_;
  std::uint32_t number_; ///< of this node in the job
  job_incarnation run_;
  coordinator_actor coordinator_; ///< null: it is lost
  double orphan_s_;
  std::vector<std::string> names_; ///< of the nodes
  protocols::protocol protocol_;
  std::vector<protocols::holder_place> tree_;
  bool traces_devices_, records_rounds_; ///< expensive, so only for whole jobs
  tracer_ptr trace_;
  std::shared_ptr<lane_router> router_; ///< null, as the hub, in a job of one node
  std::shared_ptr<net::lane_hub> hub_;
  std::set<std::uint32_t> lanes_up_; ///< peers
  caf::typed_response_promise<node_prepared> preparing_;

  protocols::plan plan_; ///< the newest
  unheard unheard_;

  // With the data.
  node_prepared prepared_;
  data_loaded loaded_;
  std::shared_ptr<const model> net_;
  std::vector<flat_range> shard_ranges_;

  // With the start.
  job_places places_;
  std::set<std::uint32_t> lanes_needed_; ///< peers
  local_roles roles_;
  std::vector<shown_actor> shown_; ///< roles and their helpers, in the order of spawning
  std::map<protocols::worker_id, std::shared_ptr<params_assembler>> receive_buffers_; ///< of this node's workers
  std::map<protocols::holder_id, local_device_holder> local_device_holders_;          ///< on this node
  std::map<protocols::worker_id, local_device_worker> local_device_workers_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, holder_actor> proxies_; ///< by node and holder; one keeps messages in order
  std::shared_ptr<worker_meter> meter_ = std::make_shared<worker_meter>();  ///< of the workers
  caf::typed_response_promise<void> starting_;
};

} // namespace troupe::actors
