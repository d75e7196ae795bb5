// SPDX-License-Identifier: BSD-3-Clause
// The drivers of simulated roles: what an actor does with devices and lanes, done with numerics and virtual time.
#pragma once

#include "protocols/binding/holder_binding.hpp"
#include "protocols/binding/worker_binding.hpp"
#include "protocols/sim/cluster.hpp"

namespace troupe::protocols::sim {

/// The World of a worker's binding (worker_binding.hpp); who comes back has a new binding in the same seat.
struct cluster::worker_seat {
  using tensor = sim::tensor;

  worker_seat(cluster& in, member self, host_id host) : in(in), self(self), host(host) {}
  void sit_down(incarnation life);
  void hear(const message& what);
  /// A step on the worker's own parameters is taken as it ends: who asks for them before gets them without it.
  void end_step(computed& done);

  std::optional<tensor> join(const params& head, const params_parcel& part);
  std::optional<tensor> join(const peer_message&, const tensor& whole) { return whole; }
  void adopt(version ver, const tensor& what);
  void begin(const compute& what, const plan& with, const local_step* own);
  void mix(const operands<tensor>& terms) { maths->mix(terms); }
  void dual(double rho) { maths->dual(rho); }
  void send(const push& what, std::optional<tensor> gradient);
  void send(const push& what, const operands<tensor>& sum, bool keep);
  bool reaches(worker_id who) const;
  void send(const send_peer& what);
  void broken(const std::string& what) const;
  bool checks() const { return in.checks_; }

  cluster& in;
  member self;
  host_id host;
  bool alive = false;
  std::vector<holder_id> targets{}; ///< who takes its pushes
  std::unique_ptr<worker_binding<worker_seat>> bound{};
  std::unique_ptr<worker_numerics> maths{};
  std::map<std::uint64_t, incoming> incomplete{}; ///< by key
  tensor anchor{};
  std::uint64_t computation = 0; ///< generation of the one under way
  nanoseconds done_at = 0;       ///< when it ends; 0: none
  computed outcome{};            ///< of it
  std::optional<tensor> gradient{};
  std::optional<std::pair<batch, local_step_rule>> own_step{};
  std::uint64_t steps = 0;     ///< computed so far, over all lives: what measured times are drawn by
  nanoseconds idle_since = -1; ///< it has computed, and waits for what is next
  nanoseconds paused_until = 0;
  int partitions = 0;
  std::vector<parcel> parked{}; ///< while it is paused or cut off, or the job is held

private:
  nanoseconds time_of(const batch& of);
  void outcome_is(computed& done, const sim::gradient& found) const;
};

/// The World of a holder's binding (holder_binding.hpp).
struct cluster::holder_seat {
  using tensor = sim::tensor;

  holder_seat(cluster& in, const holder_place& place, host_id host, std::shared_ptr<lead> decides)
      : in(in), place(place), host(host), bound(*this, place, std::move(decides), in.protocol_.per_push) {}
  void hear(const message& what);
  void hear_as_lead(const message& what);

  nanoseconds now() const { return in.clock_.at(in.now_); }
  void pause() { in.clock_.stand_still(in.now_); }
  void go_on();
  void arm(const arm_timer& what);
  void tell_lead(const arrival& what);
  template <class Order>
  void tell_others(const Order& what, nanoseconds head_start);
  void apply(const close& round, const operands<tensor>& sum, const std::optional<tensor>& backup);
  void forward(const close& round, const operands<tensor>& sum);
  void serve(const send_order& what);
  tensor parameters() const { return maths->parameters(); }
  void tell_coordinator(const report& what);
  void broken(const std::string& what) const;
  void tells_itself(const arrival& what);
  template <class Order>
  void tells_itself(const Order& what);
  void decided(const lead_effects& effects);
  void retains(std::size_t count) const;
  bool checks() const { return in.checks_; }

  cluster& in;
  holder_place place;
  host_id host;
  bool alive = true;
  holder_binding<holder_seat> bound;
  std::unique_ptr<shard_numerics> maths{};
  nanoseconds free_at = 0; ///< when the last step that it began is made

private:
  endpoint self() const { return {endpoint::role::holder, place.self.value}; }
  endpoint lead_here() const { return {endpoint::role::lead, place.self.value}; }
  void send_parameters(const std::vector<worker_id>& to, const params& head);
};

} // namespace troupe::protocols::sim
