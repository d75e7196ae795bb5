// SPDX-License-Identifier: BSD-3-Clause
// The node: one process of a cluster, for one job at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <stop_token>
#include <vector>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/messages/node.hpp"
#include "actors/monitoring/metrics.hpp"
#include "actors/node/node_job.hpp"
#include "actors/node/parts/allegiance.hpp"

namespace troupe::actors {

/// One per process, or per job if a process takes part in several. Prepares and starts a job, passes the control plane's messages
/// to its roles, reports roles that die to the coordinator, and stops the job if the coordinator dies. Answers probes and
/// inspections, with or without a job.
class node_state {
public:
  static inline const char* name = "troupe.node";

  node_state(measured_pointer<node_control> self, node_options where);
  node_state(const node_state&) = delete;
  node_state& operator=(const node_state&) = delete;
  ~node_state() { ends_.request_stop(); }
  node_control::behavior_type make_behavior();

private:
  using looker_actor = caf::typed_actor<caf::result<node_probe>(probe_query)>;

  caf::result<node_prepared> prepare(const prepare_job& msg);
  /// The job, for an order that has come; null: there is none, or the order is of a coordinator that it does not obey any more.
  node_job* ordered();
  void fetch(const protocols::fetch_order& msg);
  node_totals totals() const;
  caf::result<node_probe> probe(const probe_query& query);
  void measure();
  void measure_every_second();
  caf::result<adopted_part> adopt(const adopt_job& msg);
  void on_down(const caf::down_msg& msg);
  void on_coordinator_lost();
  void stop();

  // node_inspection.cpp
  caf::result<node_report> inspect_roles(const inspect_query& query);
  void gathered(caf::typed_response_promise<node_report> promise, std::vector<actor_report> all);
  actor_report report() const;

  /// Passes these orders on to the job's roles.
  template <class... Orders>
  node_control::behavior_type behavior_with(const caf::typed_actor<caf::result<void>(Orders)...>*);

  measured_pointer<node_control> self_;
  node_options where_;
  allegiance allegiance_;
  std::optional<node_job> job_;                  ///< none: it is idle
  std::vector<shown_actor> guests_;              ///< an application's actors
  std::deque<std::vector<node_report>> answers_; ///< recent answers that did not fit a message, by page
  std::uint64_t last_answer_ = 0;
  std::optional<lane_metrics> metrics_;
  looker_actor looker_;   ///< reads the data for probes; null: none yet
  std::stop_source ends_; ///< stops its reading
};

using node_impl = measured_impl<node_control, node_state>;

} // namespace troupe::actors
