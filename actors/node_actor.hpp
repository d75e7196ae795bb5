// SPDX-License-Identifier: BSD-3-Clause
// The node: spawns, connects and watches the roles that a job places in this process.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/extensions.hpp"
#include "actors/lane_router.hpp"
#include "actors/messages.hpp"
#include "actors/metrics.hpp"
#include "actors/worker_actor.hpp"
#include "actors/type_ids.hpp"
#include "protocols/tree.hpp"

namespace troupe::actors {

/// Where a node's lanes listen, and to whom.
struct node_options {
  std::string host = "127.0.0.1";
  std::uint16_t lane_port = 0; ///< 0: any free port
  net::security security = {}; ///< with it lanes speak TLS
  extensions added = {};       ///< by this program
  bool metrics = false;        ///< keep counts of its lanes for the exporter of its actor system
  std::size_t credit_bytes = net::lane_options{}.credit_bytes; ///< of each of its lanes
};

/// One per process. Prepares a job (opens its lanes, loads the data), starts it (spawns the roles, connects), passes the
/// control plane's messages to its roles, and reports every role that dies to the coordinator.
class node_state {
public:
  static inline const char* name = "troupe.node";

  node_state(measured_pointer<node_control> self, node_options where);
  node_control::behavior_type make_behavior();

private:
  struct roles {
    std::map<std::uint32_t, worker_actor> workers;
    std::map<std::uint32_t, holder_control> holders;
    std::map<std::uint32_t, parameters_actor> shards; ///< of the holders
    evaluator_actor evaluator;
  };

  caf::result<node_prepared> prepare(const prepare_job& msg);
  caf::result<void> start(const job_places& msg);
  caf::result<void> carry_out(const role_order& msg);
  void started();
  caf::result<node_report> inspect_roles(const inspect_query& query);
  void gathered(caf::typed_response_promise<node_report> promise, std::vector<actor_report> all);
  actor_report report() const;
  void note_end(const caf::down_msg& msg);
  std::string own_id() const;
  shards_view shards() const;
  caf::result<node_probe> probe(const probe_query& what);
  void open_lanes(const std::vector<std::string>& names);
  void measure();
  void measure_every_second();
  void on_data(const data_loaded& msg);
  void on_lane(const lane_event& msg);
  void on_back(const node_place& msg);
  void dial(std::uint32_t peer);
  void on_down(const caf::down_msg& msg);
  void stop();

  protocols::catalog_entry protocol_entry() const;
  void spawn_roles();
  kernels::buffer first_parameters(kernels::backend& queue) const;
  void spawn_holders(const std::vector<protocols::holder_place>& tree);
  void spawn_worker(std::uint32_t index, std::uint32_t life, const std::vector<protocols::holder_place>& tree);
  void restart_worker(std::uint32_t index, std::uint32_t life);
  void spawn_evaluator();
  void introduce();
  bool lanes_ready() const;
  std::set<std::uint32_t> lanes_needed() const;
  std::function<bool(protocols::worker_id)> who_is_behind() const;
  /// `role`: whose it is, as in a trace.
  std::shared_ptr<kernels::backend> open_queue(const std::string& device, std::optional<std::uint32_t> role = std::nullopt) const;

  template <class Message>
  void tell_holders(const Message& msg) {
    for (auto& [number, holder] : roles_.holders)
      caf::anon_send(holder, msg);
  }
  template <class Message>
  void tell_all(const Message& msg) {
    tell_holders(msg);
    for (auto& [number, worker] : roles_.workers)
      caf::anon_send(worker, msg);
  }
  template <class Message>
  void tell_evaluator(const Message& msg) {
    if (roles_.evaluator)
      caf::anon_send(roles_.evaluator, msg);
  }
  template <class Message>
  void tell_lead(const Message& msg) {
    if (auto lead = roles_.holders.find(0); lead != roles_.holders.end())
      caf::anon_send(lead->second, msg);
  }

  static constexpr std::int64_t partition_bytes = 1 << 20; ///< the unit of sending

  measured_pointer<node_control> self_;
  node_options where_;
  job job_;
  std::uint32_t number_ = 0;
  job_life of_; ///< the job that it works for
  bool centreless_ = false; ///< the job's protocol
  coordinator_actor coordinator_;
  data_pair data_;
  bool loaded_ = false;
  std::shared_ptr<const model> net_;
  std::vector<flat_range> shard_ranges_;
  job_places places_;
  roles roles_;
  std::vector<shown_actor> shown_;  ///< the same, in the order of spawning, with those that they bring along
  std::vector<shown_actor> guests_; ///< an application's
  std::deque<std::vector<node_report>> answers_; ///< the last ones that did not fit a message, by page
  std::uint64_t last_gathering_ = 0;
  std::map<protocols::worker_id, std::shared_ptr<params_assembler>> landings_; ///< of this node's workers
  std::map<protocols::holder_id, near_holder> near_holders_; ///< as landings_
  std::map<protocols::worker_id, near_worker> near_workers_;
  std::shared_ptr<lane_router> router_;
  std::shared_ptr<net::lane_hub> hub_;
  std::set<std::uint32_t> lanes_up_;
  std::set<std::uint32_t> renewed_; ///< whose old lane is being closed for a new one
  std::shared_ptr<emulation_meter> meter_; ///< of this job's workers
  tracer_ptr trace_;
  bool traces_devices_ = false; ///< that costs, and is for the whole of a job
  std::optional<lane_metrics> metrics_;
  caf::typed_response_promise<node_prepared> preparing_;
  caf::typed_response_promise<void> starting_;
};

using node_impl = measured_impl<node_control, node_state>;

} // namespace troupe::actors
