// SPDX-License-Identifier: BSD-3-Clause
// The evaluator: takes one version of the parameters and measures loss and accuracy.
#pragma once

#include <limits>
#include <memory>
#include <optional>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/messages/role.hpp"
#include "actors/roles/drain_before_exit.hpp"
#include "actors/roles/worker/worker_actor.hpp"
#include "protocols/binding/replica_collection.hpp"
#include "tensor/plan.hpp"

namespace troupe::actors {

struct evaluator_setup {
  data_pair data;
  std::int64_t train_samples = 5000; ///< at the start of the training set, for train_loss
  std::int64_t batch_rows = 1;       ///< evaluated at once: those of a step's piece, for whose activations there is memory
  std::shared_ptr<const model> net{};
  std::shared_ptr<kernels::backend> queue{};
  std::shared_ptr<params_assembler> receive_buffers{};
  std::shared_ptr<peer_assembler> from_workers{};
  tracer_ptr trace{};
  bool keeps_best = false;    ///< the parameters of the lowest loss, too
  bool same_replicas = false; ///< decentralized: all are the same, and one is enough
};

/// Evaluates every version that is sent to it, test set first, then what is held out, and reports to the coordinator. Whoever
/// asks meanwhile, as a lead or a coordinator that takes over does, ends that: the newest is evaluated, from its beginning. In a
/// decentralized job it averages the replicas of the plan's workers by their weights, leaving out workers that die meanwhile. It
/// enqueues one batch at a time; the completion requests the next, so no thread waits. Spawn it detached on a CPU. Its input and
/// reports are in host memory, on a device too. It keeps the parameters that it has evaluated for a coordinator in another
/// process, the last and the best.
class evaluator_state {
public:
  static inline const char* name = "troupe.evaluator";

  evaluator_state(measured_pointer<evaluator_actor> self, evaluator_setup setup);
  evaluator_actor::behavior_type make_behavior();
  const std::shared_ptr<kernels::backend>& queue() const { return setup_.queue; }

private:
  /// The first samples of a set, and what was found so far.
  struct portion {
    batch_loader loader;
    std::int64_t samples = 0, done = 0;
    double loss_sum = 0;
    std::int64_t counted = 0, correct = 0;
    double mean(double sum) const { return counted > 0 ? sum / static_cast<double>(counted) : 0; }
  };

  /// What is to be evaluated: parameters in host memory.
  struct task {
    protocols::version ver{};
    kernels::buffer parameters{};
    std::vector<std::pair<protocols::member, protocols::step_count>> made{}; ///< decentralized: steps in the replicas
  };

  using collection = protocols::replica_collection<kernels::buffer>;

  actor_report report() const;
  void on_peer(const wire::peer_part& head, const kernels::buffer& payload);
  void evaluate(std::optional<collection::average> whole);
  void evaluate(task asked);
  void begin();
  void next_batch();
  void finish();
  void tell(evaluation found) const;
  caf::result<parameters_piece> read(const evaluated_query& query) const;

  measured_pointer<evaluator_actor> self_;
  evaluator_setup setup_;
  std::unique_ptr<plan> plan_;
  std::shared_ptr<kernels::backend> host_queue_; ///< for averages
  std::vector<portion> portions_;                ///< test, train, and if there is one, validation
  peers_ptr peers_;
  collection collection_;
  protocols::version incoming_; ///< of the parameters that come in parts
  std::optional<task> next_;    ///< begins once no batch is at the queue
  // the evaluation under way
  task under_way_;
  open_span span_;
  kernels::buffer on_queue_; ///< the copy of its parameters in the queue's memory
  batch rows_;
  std::size_t now_ = 0;    ///< the portion that it is at
  bool computing_ = false; ///< a batch is at the queue
  // what has been evaluated
  std::pair<protocols::version, kernels::buffer> evaluated_; ///< the last
  std::pair<protocols::version, kernels::buffer> best_;      ///< likewise: that with the lowest loss
  double best_loss_ = std::numeric_limits<double>::infinity();
  std::vector<evaluation> results_; ///< the last of them, without parameters
};

using evaluator_impl = measured_impl<evaluator_actor, drain_before_exit<evaluator_actor, evaluator_state, evaluator_setup>>;

} // namespace troupe::actors
