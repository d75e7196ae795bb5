// SPDX-License-Identifier: BSD-3-Clause
// The worker: parameters in, gradients out, as its protocol machine says.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/assembler.hpp"
#include "actors/messages.hpp"
#include "actors/push_inbox.hpp"
#include "actors/type_ids.hpp"
#include "protocols/worker.hpp"

namespace troupe::actors {

/// One holder that takes this worker's pushes: its number and the partitions that it takes.
struct push_target {
  protocols::holder_id holder;
  std::vector<flat_range> partitions;
};

struct worker_setup {
  protocols::worker_id self;
  std::uint64_t seed = 1;
  std::int64_t batch = 1, data_size = 1;
  dealing dealt;
  std::shared_ptr<const model> net;
  std::vector<push_target> targets;
  std::shared_ptr<params_assembler> landing; ///< the lane's thread reads parameters into it
  std::shared_ptr<protocols::worker> machine;
  compute_actor compute;
  loader_actor loader;
};

/// Sends each partition of a gradient as soon as backward has completed the parameters in it. Parameters are
/// double-buffered by their versions: the next ones are read from the lane while a step still computes with the last.
class worker_state {
public:
  static inline const char* name = "troupe.worker";

  worker_state(worker_actor::stateful_pointer<worker_state> self, worker_setup setup);
  worker_actor::behavior_type make_behavior();

private:
  /// The step under way.
  struct step_state {
    protocols::compute what;
    slice rows;
    bool computing = false;
    std::vector<std::vector<int>> slots_missing; ///< per target and partition; 0: streamed
  };

  void on_params(const wire::params_part& head, const kernels::buffer& payload);
  void perform(const protocols::worker_effects& effects);
  void begin(const protocols::compute& what);
  void load(const slice& rows);
  void compute(const loaded_batch& loaded);
  void on_gradient(const gradient_ready& msg);
  void on_computed(compute_result& result);
  void push(const protocols::push& what);
  void send_partition(std::size_t target, std::size_t partition, const kernels::buffer& gradients, const protocols::push& as) const;
  slice slice_at(std::uint64_t position, std::uint32_t cuts, std::uint32_t index) const;

  worker_actor::stateful_pointer<worker_state> self_;
  worker_setup setup_;
  peers_ptr peers_;
  protocols::plan plan_;
  ticket_store store_;
  std::map<protocols::version, protocols::ticket> parameters_; ///< the ones in use and newer
  protocols::version current_;                                 ///< the ones in use
  step_state step_;
  std::vector<std::vector<int>> slots_per_partition_;
  std::vector<std::vector<std::pair<std::size_t, std::size_t>>> partitions_of_slot_; ///< (target, partition)
  std::optional<loaded_batch> next_batch_;
  std::optional<slice> asked_for_;
  std::deque<std::pair<wire::params_part, kernels::buffer>> parked_; ///< of a plan that has not come yet
};

using worker_impl = worker_actor::stateful_impl<worker_state>;

} // namespace troupe::actors
