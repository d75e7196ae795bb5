// SPDX-License-Identifier: BSD-3-Clause
// What a node has of the job that it works for: its data and model, its lanes, and the roles that live here.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <caf/system_messages.hpp>

#include "actors/extensions.hpp"
#include "actors/messages/node.hpp"
#include "actors/monitoring/metrics.hpp"
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
  std::uint16_t lane_port = 0; ///< 0: any free port; of no use to the first node of a job, which connects to the others
  net::security security = {}; ///< with it lanes speak TLS
  extensions added = {};       ///< by this program
  std::shared_ptr<metrics_board> metrics = {};                 ///< has the counts of its lanes; null: nobody wants them
  std::size_t credit_bytes = net::lane_options{}.credit_bytes; ///< of each of its lanes
  std::function<void(const std::string&)> say = [](const std::string&) {}; ///< what its log should have; on any thread
  std::function<void(const std::string&)> refused = [](const std::string&) {
  }; ///< whom its lanes turned away (lane.hpp); on any thread
};

/// From the order to prepare until the job is stopped; nothing of it outlives that. Its end answers whoever still waits for it,
/// ends the roles and closes the lanes. On its node's thread alone.
class node_job {
public:
  /// Opens the lanes, and has the data loaded by a thread of their own. Throws std::runtime_error where the lanes' port is taken.
  node_job(measured_pointer<node_control> self, const node_options& where, const prepare_job& order);
  node_job(const node_job&) = delete;
  node_job& operator=(const node_job&) = delete;
  ~node_job();

  /// Answered when the data are here.
  caf::result<node_prepared> prepared();
  /// Spawns the roles and connects the lanes; answered when they are up.
  caf::result<void> start(const job_places& places);
  void on_data(const data_loaded& msg);
  void on_lane(const lane_event& msg);
  /// A node has come back as a new process.
  void on_back(const node_place& msg);
  /// A role has died, perhaps: its coordinator is told.
  void on_down(const caf::down_msg& msg);
  /// What a person wants of one role.
  caf::result<void> carry_out(const role_order& msg);
  bool is_led_by(const caf::actor_addr& who) const { return coordinator_ && coordinator_.address() == who; }

  template <class Message>
  void tell_holders(const Message& msg) const {
    for (const auto& [number, holder] : roles_.holders)
      caf::anon_send(holder, msg);
  }
  template <class Message>
  void tell_workers(const Message& msg) const {
    for (const auto& [number, worker] : roles_.workers)
      caf::anon_send(worker, msg);
  }
  template <class Message>
  void tell_evaluator(const Message& msg) const {
    if (roles_.evaluator)
      caf::anon_send(roles_.evaluator, msg);
  }
  /// The first shard, where it lives here; else null.
  holder_control lead() const;
  bool centreless() const { return protocol_.centreless; }

  std::string own_id() const { return "node " + name_of(number_); }
  /// Of a node of this job.
  std::string name_of(std::uint32_t node) const;
  /// Adds what the node says of itself.
  void describe(actor_report& out) const;
  const std::vector<shown_actor>& shown() const { return shown_; }
  /// None where the job has one node.
  std::vector<net::lane_stats> lanes() const { return hub_ ? hub_->stats() : std::vector<net::lane_stats>{}; }
  bool has_lanes() const { return hub_ != nullptr; }
  /// But for the memory of the process.
  node_totals totals() const;
  shards_view shards() const;
  tracer& trace() const { return *trace_; }

private:
  struct roles {
    std::map<std::uint32_t, worker_actor> workers;
    std::map<std::uint32_t, holder_control> holders;
    std::map<std::uint32_t, parameters_actor> shards; ///< of the holders
    evaluator_actor evaluator;
  };

  void open_lanes();
  void started();
  void dial(std::uint32_t peer);
  bool lanes_ready() const;
  std::set<std::uint32_t> lanes_needed() const;
  /// Those that end with a worker end with its reason.
  void note_end(const std::string& id, const std::string& why);

  // node_roles.cpp
  void spawn_roles();
  kernels::buffer first_parameters(kernels::backend& queue) const;
  void spawn_holders();
  void spawn_worker(std::uint32_t index, std::uint32_t life);
  void restart_worker(std::uint32_t index, std::uint32_t life);
  void spawn_evaluator();
  void introduce();
  std::function<bool(protocols::worker_id)> who_is_behind() const;
  /// `role`: whose it is, as in a trace.
  std::shared_ptr<kernels::backend> open_queue(const std::string& device, std::optional<std::uint32_t> role = std::nullopt) const;

  static constexpr std::int64_t partition_bytes = 1 << 20; ///< the unit of sending

  // Known from the beginning.
  measured_pointer<node_control> self_;
  const node_options& where_;
  job what_;
  std::uint32_t number_; ///< of this node in the job
  job_life of_;
  coordinator_actor coordinator_;
  std::vector<std::string> names_; ///< of the nodes
  protocols::protocol protocol_;
  std::vector<protocols::holder_place> tree_;
  bool traces_devices_; ///< that costs, and is for the whole of a job
  tracer_ptr trace_;
  std::shared_ptr<lane_router> router_; ///< null, as the hub, in a job of one node
  std::shared_ptr<net::lane_hub> hub_;
  std::set<std::uint32_t> lanes_up_;
  std::set<std::uint32_t> renewed_; ///< whose old lane is being closed for a new one
  caf::typed_response_promise<node_prepared> preparing_;

  // With the data.
  data_pair data_;
  std::shared_ptr<const model> net_;
  std::vector<flat_range> shard_ranges_;

  // With the start.
  job_places places_;
  roles roles_;
  std::vector<shown_actor> shown_; ///< the same, in the order of spawning, with those that they bring along
  std::map<protocols::worker_id, std::shared_ptr<params_assembler>> landings_; ///< of this node's workers
  std::map<protocols::holder_id, near_holder> near_holders_;                   ///< as landings_
  std::map<protocols::worker_id, near_worker> near_workers_;
  std::shared_ptr<emulation_meter> meter_ = std::make_shared<emulation_meter>(); ///< of the workers
  caf::typed_response_promise<void> starting_;
};

} // namespace troupe::actors
