// SPDX-License-Identifier: BSD-3-Clause
// The drivers of simulated roles: what an actor does with devices and lanes, done with numerics and virtual time.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "protocols/binding/holder_binding.hpp"
#include "protocols/binding/image_course.hpp"
#include "protocols/binding/replica_collection.hpp"
#include "protocols/binding/worker_binding.hpp"
#include "protocols/coordinator.hpp"
#include "protocols/ledger.hpp"
#include "protocols/sim/cluster.hpp"
#include "protocols/sim/step_overlap.hpp"

namespace troupe::protocols::sim {

/// In the ledger of a simulation.
inline constexpr ledger::job_number the_job = 1;
inline constexpr std::uint32_t the_life = 1;

/// Sets of parameters whose parts are still coming, by the key that the parts of one set share.
class incoming_parameters {
public:
  /// The parts of the set that this one completes, by shard; sets before it are dropped.
  std::optional<std::vector<params_envelope>> add(const params_envelope& part, std::size_t shards) {
    std::map<holder_id, params_envelope>& parts = sets_[part.head.key];
    parts.try_emplace(part.from, part);
    if (parts.size() < shards)
      return std::nullopt;
    std::vector<params_envelope> complete;
    for (auto& [shard, each] : parts)
      complete.push_back(std::move(each));
    sets_.erase(sets_.begin(), sets_.upper_bound(part.head.key));
    return complete;
  }
  void clear() { sets_.clear(); }

private:
  std::map<std::uint64_t, std::map<holder_id, params_envelope>> sets_;
};

inline std::vector<tensor> ranges_of(const std::vector<params_envelope>& parts) {
  std::vector<tensor> ranges;
  for (const params_envelope& part : parts)
    ranges.push_back(part.range);
  return ranges;
}

/// The World of a worker's binding (worker_binding.hpp); a worker that comes back has a new binding.
struct cluster::worker_role {
  using tensor = sim::tensor;

  worker_role(cluster& in, member self, host_id host) : in(in), self(self), host(host) {}
  void begin_life(incarnation life);
  void pause(nanoseconds duration);
  void hear(const message& msg);
  /// A step on the worker's own parameters is taken as it ends: who asks for them before gets them without it.
  void end_step(computed& done);

  std::optional<tensor> join(const params& head, const params_envelope& part);
  std::optional<tensor> join(const peer_message&, const tensor& whole) { return whole; }
  void adopt(version ver, const tensor& parameters);
  void save(version, const kept_replica&, const operands<tensor>&) {} // simulated jobs write no checkpoints
  void save_all(version, const worker_course&, const plan&) {}
  void begin(const compute& order, const plan& current, const local_step* own);
  void mix(const operands<tensor>& terms) { maths->mix(terms); }
  void dual(double rho) { maths->dual(rho); }
  void send(const push& head, std::optional<tensor> gradient);
  void send(const push& head, const operands<tensor>& sum, bool keep);
  void push_again(std::optional<holder_id> to);
  bool reaches(worker_id who) const;
  void send(const send_peer& order);
  tensor send_chunk(const send_peer& order, const tensor& of);
  tensor add_up(const tensor& to, const segment_range& part, const operands<tensor>& sum);
  void take_step(const protocols::take_step& order, const tensor& sum);
  static void undo_steps() {} ///< none is taken before the last
  void mix_common(const segment_range& part, double own);
  void take_state(version ver, const tensor& from);
  void refused(const std::string& why);
  void broken(const std::string& text) const;
  bool checks() const { return in.checks_; }

  cluster& in;
  member self;
  host_id host;
  bool alive = false;
  std::vector<holder_id> targets{}; ///< who takes its pushes, under the plan of its work
  std::set<holder_id> without{};    ///< these aggregators
  std::unique_ptr<worker_binding<worker_role>> bound{};
  std::unique_ptr<worker_numerics> maths{};
  /// Where all workers take the same steps: fragments of the parameters, each as a shard of so many would step.
  std::vector<std::unique_ptr<shard_numerics>> replica{};
  incoming_parameters incoming{};
  tensor anchor{};
  std::uint64_t computation = 0; ///< generation of the one under way
  nanoseconds done_at = 0;       ///< when it ends; 0: none
  computed outcome{};            ///< of it
  std::optional<tensor> gradient{};
  std::optional<std::pair<batch, local_step_rule>> own_step{};
  bool measures = false;       ///< its end brings how far the worker's own parameters are from the newest version
  std::uint64_t steps = 0;     ///< computed so far, over all lives: what measured times are drawn by
  nanoseconds idle_since = -1; ///< it has computed, and waits for what is next
  nanoseconds paused_until = 0;
  step_overlap overlap{};
  std::uint32_t cut_by = 0; ///< plan::partition_kib of these
  int partitions = 0;
  std::vector<envelope> parked{};         ///< while it is paused or cut off, or the job is held
  std::optional<push_budget> budget{};    ///< of this life
  std::vector<push_envelope> pushed{};    ///< since it adopted a new version
  std::map<holder_id, holder_id> moves{}; ///< of which it has heard: what it sends to a shard's last place is lost

private:
  void encode(push_envelope& newest);
  std::uint64_t bytes_of(const push_envelope& each, std::uint32_t shards) const;
  void find_targets();
  void send_to(holder_id target, const push_envelope& whole);
  nanoseconds time_of(const batch& of);
  void outcome_is(computed& done, const sim::gradient& found) const;
  nanoseconds ready_at(const partition_times& part) const;
  void announce_partitions();
  void stream(const push& head);
  void stream(const push& head, double begin, double end);
  tensor common() const; ///< the newest version, where all workers take the same steps
  std::uint64_t fingerprint() const;
};

/// The World of a holder's binding (holder_binding.hpp).
struct cluster::holder_role {
  using tensor = sim::tensor;

  holder_role(cluster& in, const holder_place& place, host_id host, std::shared_ptr<lead> decides)
      : in(in), place(place), born(place.self), host(host), timers(in.timers_of(lead_here())),
        bound(*this, place, std::move(decides), in.protocol_.per_push) {}
  holder_role(cluster& in, const holder_place& place, host_id host, lead_succession leads)
      : in(in), place(place), born(place.self), host(host), timers(in.timers_of(lead_here())),
        bound(*this, place, std::move(leads)) {}
  void hear(const message& msg);
  void hear_as_lead(const message& msg);

  nanoseconds now() const { return in.clock_.now(); }
  void pause() { in.clock_.pause(); }
  void go_on();
  void arm(const arm_timer& timer);
  void tell_lead(const arrival& msg);
  void tell_lead(const prepared& msg);
  template <class Order>
  void tell_others(const Order& order, nanoseconds head_start);
  void apply(const close& round, const operands<tensor>& sum, const std::optional<tensor>& backup);
  void forward(const partial& head, const std::optional<tensor>& sum, const std::vector<holder_id>& parents);
  std::optional<tensor> sum_up(const close& round, const operands<tensor>& sum, const std::vector<holder_id>& backups);
  void measure(const measured& request, const tensor& sum);
  void tell_backups(const std::vector<holder_id>& backups, const decision_record& record);
  void begin_catching_up();
  void ask_for_copy(holder_id shard, const copy_request& request);
  void send_copy(holder_id to, shard_piece piece);
  void install(const shard_piece& piece, const tensor& data);
  void tell_coordinator(const caught_up& msg);
  void serve(const send_order& order);
  void follow(const send_order& order);
  tensor parameters() const { return maths->parameters(); }
  void tell_coordinator(const report& msg);
  void broken(const std::string& text) const;
  void tells_itself(const arrival& msg);
  template <class Order>
  void tells_itself(const Order& order);
  void decided(const lead_effects& effects);
  void retains(std::size_t count) const;
  bool checks() const { return in.checks_; }

  cluster& in;
  holder_place place;
  holder_id born;                         ///< its number before it took a shard's place
  std::map<holder_id, holder_id> moves{}; ///< as in a worker
  host_id host;
  bool alive = true;
  training_timers timers; ///< the lead's
  holder_binding<holder_role> bound;
  std::unique_ptr<shard_numerics> maths{};
  image_course image{}; ///< where parameters travel encoded
  sim::tensor image_now{};
  bool joins = false; ///< it is a backup, and catches up
  std::map<std::uint32_t, std::unique_ptr<shard_numerics>> pieces{};
  nanoseconds free_at = 0; ///< when the last step that it began is made

private:
  endpoint self() const { return {endpoint::role::holder, place.self.value}; }
  endpoint lead_here() const { return {endpoint::role::lead, place.self.value}; }
  void send_parameters(const std::vector<worker_id>& to, const params_envelope& part, std::uint64_t bytes);
  std::vector<shard_numerics*> steps_of() const;
};

/// Performs what the coordinator's machine decides.
struct cluster::coordinator_role {
  coordinator_role(cluster& in, coordinator machine);
  void hear(const message& msg);

  void die();
  /// Another one takes its place, with its decisions.
  static void replace(cluster& in);

  cluster& in;
  coordinator machine;
  training_timers timers;
  bool alive = true;
  ledger::state decided{};        ///< outlives it
  std::vector<envelope> untold{}; ///< promotions that did not arrive of what the last one had sent

private:
  /// On every disk before anybody is told.
  void decide(const ledger::entry& entry) { ledger::apply(decided, entry); }
  void take_office(const lead_report& said);
  const ledger::course& course_now() const { return decided.jobs.at(the_job).course; }
  void find_copies();
  void place(holder_id newest);
  bool is_late(holder_id who) const;
  void find_the_dead();
  void on_evaluated(const evaluated& found);
  void perform(const coordinator_effects& effects);
  void tell_holders(const message& msg);
};

/// Evaluates what the shards send or, where the workers hold the parameters, the average of their replicas.
struct cluster::evaluator_role {
  explicit evaluator_role(cluster& in) : in(in), replicas(static_cast<bool>(in.protocol_.reduces)) {}
  void hear(const message& msg);
  void plan_changes(const plan& next);
  /// Asked again after a death: a worker that has answered is not asked twice.
  void collect_replicas(version ver);

  cluster& in;

private:
  void on_part(const params_envelope& part);
  void evaluate_average(const std::optional<replica_collection<tensor>::average>& average);
  void evaluate(version ver, const tensor& parameters, std::vector<std::pair<member, step_count>> made = {});

  incoming_parameters incoming;
  std::uint64_t newest = 0;         ///< key of the newest complete set
  std::optional<evaluated> found{}; ///< last
  replica_collection<tensor> replicas;
};

} // namespace troupe::protocols::sim
