// SPDX-License-Identifier: BSD-3-Clause
// What machines ask of their drivers: one closed variant per role, so that a new effect breaks every driver at compile time.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "protocols/collective/schedule.hpp"
#include "protocols/message.hpp"

namespace troupe::protocols {

/// A tensor that the driver keeps, times a weight.
struct term {
  ticket tensor{};
  double weight = 1;
  friend bool operator==(const term&, const term&) = default;
};

// -- shared verbs

/// Send `expired{timer}` back after `delay` of training time. Arming again replaces the timer; a negative delay disarms it.
struct arm_timer {
  timer_id timer{};
  nanoseconds delay = 0;
  friend bool operator==(const arm_timer&, const arm_timer&) = default;
};
/// This tensor is not needed any more. To a rule's driver: no version will use this push.
struct discard {
  ticket tensor{};
  friend bool operator==(const discard&, const discard&) = default;
};
/// One push as the lead saw it.
struct timing {
  worker_id worker{};
  nanoseconds compute = 0; ///< how long the worker computed
  nanoseconds elapsed = 0; ///< from the sending of its parameters to its arrival
  std::int64_t samples = 0;
  friend bool operator==(const timing&, const timing&) = default;
};

/// What a version was made of, as its lead decided.
struct round_record {
  version ver{};
  plan_epoch epoch{};               ///< of the round's plan
  std::uint64_t position = 0;       ///< in the data, of the round's global batch
  std::uint64_t samples_before = 0; ///< as in `close`
  double lr_scale = 1;              ///< of its step
  std::vector<contribution> contributions{};
  friend bool operator==(const round_record&, const round_record&) = default;
};

/// A fact for logs, metrics and the coordinator.
struct report {
  enum class kind : std::uint8_t {
    round_closed,
    push_discarded,
    push_refused,
    push_not_finite,
    held,
    note,
    lost ///< allreduce: no worker has the parameters any more
  } event = kind::note;
  version ver{};
  worker_id worker{};
  std::uint64_t samples = 0; ///< applied so far
  double loss = 0;           ///< mean training loss of the round, by samples
  std::uint32_t contributions = 0;
  std::uint64_t staleness = 0;   ///< versions made between a push's base and its use (the largest of the round)
  nanoseconds compute = 0;       ///< round_closed: how long `worker`, the slowest of the round, computed
  nanoseconds at = 0;            ///< training time
  double residual = 0;           ///< coded rounds: of the decoding, in float64
  std::vector<timing> timings{}; ///< round_closed: of all pushes since the last close, late ones included
  std::string text{};
  std::optional<round_record> made{}; ///< round_closed: if the lead records its rounds
  friend bool operator==(const report&, const report&) = default;
};

// -- worker

/// Take the batch of `batches` times B samples at `position`, divided into `cuts`, and compute the sum of the listed parts' mean
/// gradients, each times its weight.
struct compute {
  struct part {
    std::uint32_t index = 0; ///< which cut
    double weight = 1;
    friend bool operator==(const part&, const part&) = default;
  };
  std::uint64_t step = 0; ///< comes back in `computed`
  std::uint64_t position = 0;
  std::uint32_t batches = 1; ///< n for a global batch
  std::uint32_t cuts = 1;
  std::vector<part> parts{};
  /// The push that this gradient will become, if known beforehand: the driver sends partitions under its id while backward still
  /// runs, and only the trailer waits for `send_push`.
  std::optional<push> stream_as{};
  friend bool operator==(const compute&, const compute&) = default;
};
/// Take an optimizer step on the worker's own parameters w, at the gradient of one part, there, plus
/// `proximal` (w - anchor) + `dual` l, with the anchor the parameters adopted last and l the worker's dual variable.
struct local_step {
  compute gradient{};
  double proximal = 0, dual = 0;
  /// Nesterov momentum with x and v apart (EAMSGD) instead of the job's optimizer: the gradient g, with the terms above, is taken
  /// at w + momentum v; then v = momentum v - lr g, w += v. v starts at zero. -1: the job's optimizer.
  double momentum = -1;
  /// Where workers have the parameters in common: before this step, a worker's own ones become the newest version.
  bool from_common = false;
  /// Likewise: `computed` brings the newest version minus what the own ones are after this step.
  bool measures = false;
  friend bool operator==(const local_step&, const local_step&) = default;
};
/// Work with these parameters from now on (the anchor). Older versions may be freed, and these too once a `send_push` has gone
/// out.
struct adopt {
  version ver{};
  ticket parameters{};
  friend bool operator==(const adopt&, const adopt&) = default;
};
/// Special tickets of a term: the worker's own parameters, its dual variable, and the tensor of its last push, if that said
/// `keep`.
inline constexpr ticket own_parameters{0xffff'ffff'ffff'ffff};
inline constexpr ticket dual_variable{0xffff'ffff'ffff'fffe};
inline constexpr ticket pushed_sum{0xffff'ffff'ffff'fffd};
/// w = sum of terms. The pushed sum may be freed afterwards.
struct mix {
  std::vector<term> terms{};
  friend bool operator==(const mix&, const mix&) = default;
};
/// ADMM's dual step: l += rho (w - anchor). l is zero before the first.
struct dual {
  double rho = 1;
  friend bool operator==(const dual&, const dual&) = default;
};
/// Send this contribution to every holder that takes this worker's pushes: its gradient, or the sum of terms.
struct send_push {
  protocols::push push{};
  std::vector<term> sum{};
  bool keep = false; ///< the next mix may name the sum
  friend bool operator==(const send_push&, const send_push&) = default;
};
/// Send a replica: the worker's own parameters, as they are now, to a peer or the evaluator; no tensor if the weight is 0. If the
/// peer is gone or behind, or the parameters are not finite, the driver does not send them but gives the message back: the worker
/// hears it as from itself. To the evaluator, parameters that are not finite go with weight 0.
///
/// Or a chunk: the segments `message.part` of the tensor `message.data`, which stays as it is until the peer has read them. Or a
/// standing, without a tensor. Or a state: the worker's own parameters and its optimizer's state, as they are now.
struct send_peer {
  worker_id to{};
  peer_message message{};
  collective::cargo cargo{}; ///< of a chunk: terms and sums may be encoded, and then a sum becomes what its codes say
  friend bool operator==(const send_peer&, const send_peer&) = default;
};
/// In the tensor `to`, these segments become the sum of terms, in their order. A term is a chunk of just these segments, or `to`
/// itself: what is in place.
struct add_up {
  ticket to{};
  segment_range part{};
  std::vector<term> sum{};
  friend bool operator==(const add_up&, const add_up&) = default;
};
/// Make `round.ver` of the worker's parameters, as `round.step` says, at the sum of a round times its weight. If that is the
/// job's optimizer, and the job clips, the sum is clipped. The sum is there in `part`. Unless this is the `last` step of its
/// version, others follow, and the parameters stay as they are until then. After it the tensor may be freed; outside of the parts
/// the version is the one before.
struct take_step {
  close round{};
  term sum{};
  segment_range part{};
  bool last = true;
  friend bool operator==(const take_step&, const take_step&) = default;
};
/// Undo the steps of a version since the last: it is not made.
struct undo_steps {
  friend bool operator==(const undo_steps&, const undo_steps&) = default;
};
/// Where workers have parameters in common and take local steps besides: in `part`, a worker's own parameters w become
/// `own` w + (1 - `own`) x, with x the newest version. Between two local steps.
struct mix_common {
  segment_range part{};
  double own = 0;
  friend bool operator==(const mix_common&, const mix_common&) = default;
};
/// The worker's own parameters and its optimizer's state become those of a peer's state, of this version. It may be freed
/// afterwards.
struct take_state {
  version ver{};
  ticket from{};
  friend bool operator==(const take_state&, const take_state&) = default;
};
/// Save what this worker keeps between rounds, for the checkpoint of this version, which it has; and if it `writes`, the
/// parameters and the optimizer's state, which all workers have alike, with where the job goes on.
struct save_replica {
  version ver{};
  bool writes = false;
  worker_course course{};
  friend bool operator==(const save_replica&, const save_replica&) = default;
};
/// The part of a peer's message that this ticket names is refused: it may be freed, and is counted.
struct refuse {
  ticket data{};
  std::string why{}; ///< names the peer
  friend bool operator==(const refuse&, const refuse&) = default;
};
using worker_effect = std::variant<compute, local_step, adopt, mix, dual, discard, send_push, send_peer, add_up, take_step,
                                   undo_steps, mix_common, take_state, save_replica, refuse>;
using worker_effects = std::vector<worker_effect>;

// -- rule

/// Make version `ver` from the parameters and the sum of terms, as `step` says. An empty sum makes a version without a step.
struct apply {
  std::vector<term> sum{}; ///< added in the order given
  version ver{};
  plan_epoch epoch{};        ///< of the round that this closes
  std::uint32_t workers = 1; ///< n of that round's plan
  step_rule step{};
  std::int64_t samples = 0; ///< that this version uses, each counted once
  bool keep = false;        ///< the pushes may be named again; a `discard` ends each
  delay_compensation compensate{};
  std::uint64_t position = 0; ///< in the data, of the round
  friend bool operator==(const apply&, const apply&) = default;
};
/// Keep the current parameters under this ticket until `release`.
struct retain {
  ticket as{};
  friend bool operator==(const retain&, const retain&) = default;
};
struct release {
  ticket tensor{};
  friend bool operator==(const release&, const release&) = default;
};
/// Send the newest parameters, under the given plan, with the place in the data and the period that go with them.
struct send_params {
  std::vector<worker_id> to{};
  version ver{};
  plan_epoch epoch{};
  std::uint64_t position = 0;
  std::uint32_t period = 1;
  clock_tick answers{}; ///< per-push rules: the clock of the push that this answers
  friend bool operator==(const send_params&, const send_params&) = default;
};
using rule_effect = std::variant<apply, retain, release, discard, send_params, arm_timer, report>;
using rule_effects = std::vector<rule_effect>;

// -- lead: a rule's decisions, in terms that every holder understands (see lead.hpp)

using lead_effect = std::variant<close, send_order, drop_order, retain, release, arm_timer, report, commit_order, admit_order>;
using lead_effects = std::vector<lead_effect>;

// -- holder

/// Tell the lead that a push is complete here.
struct send_arrival {
  protocols::arrival arrival{};
  friend bool operator==(const send_arrival&, const send_arrival&) = default;
};
/// Aggregator: send this round's sum to these parents. It is kept on, and sent again where a parent is another one now.
struct forward {
  version ver{};
  std::uint64_t decision = 0; ///< as in `close`
  ticket sum{};               ///< 0: no push counted
  std::vector<holder_id> to{};
  friend bool operator==(const forward&, const forward&) = default;
};
/// Shard: make the version that `round` names from these terms, then send it to `round.send_to`; the terms may be freed
/// afterwards.
struct apply_round {
  std::vector<term> sum{};
  close round{};
  friend bool operator==(const apply_round&, const apply_round&) = default;
};
/// Send the newest parameters.
struct serve {
  send_order order{};
  friend bool operator==(const serve&, const serve&) = default;
};
/// Backup: its shard sends this, so what workers have is of that version now.
struct follow {
  send_order order{};
  friend bool operator==(const follow&, const follow&) = default;
};
/// Where versions are made in two phases: sum the terms, of which pushes are needed on, send the sum to these backups, and answer
/// with `summed`.
struct sum_up {
  std::vector<term> sum{};
  close round{};
  std::vector<holder_id> backups{};
  friend bool operator==(const sum_up&, const sum_up&) = default;
};
/// Shard whose sums are clipped: measure this one, and answer with `measured`.
struct measure {
  version ver{};
  std::uint64_t decision = 0;
  ticket sum{};
  friend bool operator==(const measure&, const measure&) = default;
};
/// Tell the lead.
struct send_prepared {
  protocols::prepared prepared{};
  friend bool operator==(const send_prepared&, const send_prepared&) = default;
};
/// Backup that catches up: ask its shard.
struct ask_for_copy {
  holder_id shard{};
  copy_request request{};
  friend bool operator==(const ask_for_copy&, const ask_for_copy&) = default;
};
/// Shard: send this backup the piece that `part` names, with what the driver's next step needs.
struct send_copy {
  holder_id to{};
  shard_piece part{};
  friend bool operator==(const send_copy&, const send_copy&) = default;
};
/// Backup that catches up: this piece is here, and is part of each step from now on. The tensor may be freed afterwards.
struct install {
  shard_piece part{};
  friend bool operator==(const install&, const install&) = default;
};
/// Tell the coordinator.
struct send_caught_up {
  caught_up notice{};
  friend bool operator==(const send_caught_up&, const send_caught_up&) = default;
};
using holder_effect = std::variant<send_arrival, apply_round, forward, serve, follow, discard, retain, release, report, sum_up,
                                   measure, send_prepared, ask_for_copy, send_copy, install, send_caught_up>;
using holder_effects = std::vector<holder_effect>;

// -- coordinator

/// Tell everyone: from the next round on, this plan.
struct send_plan {
  protocols::plan plan{};
  friend bool operator==(const send_plan&, const send_plan&) = default;
};
/// Tell rules and holders.
struct send_worker_down {
  worker_down notice{};
  friend bool operator==(const send_worker_down&, const send_worker_down&) = default;
};
/// Tell holders.
struct send_holder_down {
  holder_down notice{};
  friend bool operator==(const send_holder_down&, const send_holder_down&) = default;
};
struct hold {
  hold_order order{};
  friend bool operator==(const hold&, const hold&) = default;
};
/// Evaluate the held parameters; answer with `evaluated`.
struct evaluate {
  version ver{};
  friend bool operator==(const evaluate&, const evaluate&) = default;
};
/// Tell holders and workers.
struct send_takes_over {
  takes_over notice{};
  friend bool operator==(const send_takes_over&, const send_takes_over&) = default;
};
/// Tell the lead.
struct send_new_backup {
  new_backup notice{};
  friend bool operator==(const send_new_backup&, const send_new_backup&) = default;
};
/// Let the lead send again.
struct resume {
  resume_order order{};
  friend bool operator==(const resume&, const resume&) = default;
};
/// For the operator: a decision and its reasons.
struct say {
  std::string text{};
  friend bool operator==(const say&, const say&) = default;
};
/// The job is over.
struct stop {
  bool failed = false;
  std::string reason{}; ///< for the operator
  friend bool operator==(const stop&, const stop&) = default;
};
using coordinator_effect = std::variant<send_plan, send_worker_down, send_holder_down, send_takes_over, send_new_backup, hold,
                                        evaluate, resume, say, stop, arm_timer>;
using coordinator_effects = std::vector<coordinator_effect>;

} // namespace troupe::protocols
