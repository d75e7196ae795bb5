// SPDX-License-Identifier: BSD-3-Clause
// The shard's handlers: message -> machine -> perform. Only perform touches a tensor or a peer.
#include "actors/roles/holder/shard_actor.hpp"

#include "actors/checkpoint/names.hpp"
#include "actors/errors.hpp"
#include "actors/roles/gradient_norm.hpp"
#include "actors/roles/holder/shard_waits.hpp"
#include "actors/roles/operator_pause.hpp"
#include "protocols/tree.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace troupe::actors {

namespace {

/// Lists the pushes in it, so that a trace shows where they came from.
open_span span_of(const tracer_ptr& trace, protocols::holder_id self, const protocols::close& round, std::size_t terms) {
  std::vector<std::int64_t> pushes;
  if (trace && trace->records())
    for (const auto& part : round.contributions) {
      pushes.push_back(part.id.worker.value);
      pushes.push_back(static_cast<std::int64_t>(part.id.clock.value));
    }
  return {trace, span_kind::apply, self.value, {signed_of(round.ver), static_cast<std::int64_t>(terms)}, std::move(pushes)};
}

} // namespace

protocols::holder_binding<shard_state> shard_state::bind(shard_state& self, const shard_setup& setup) {
  if (setup.leads)
    return {self, setup.place, *setup.leads};
  return {self, setup.place, setup.lead, setup.per_push};
}

shard_state::shard_state(measured_pointer<shard_control> self, shard_setup setup)
    : self_(self), setup_(std::move(setup)), core_(setup_.receive_buffers, setup_.queue), bound_(bind(*this, setup_)),
      step_(setup_.optimizer, *setup_.queue, setup_.range.size(), setup_.data_size, setup_.ranges),
      copies_(setup_.queue, setup_.range, setup_.partitions, setup_.catches_up),
      cuts_(setup_.partitions, setup_.partitions_under), readings_(self, core_, *setup_.queue), activity_(self->doing),
      clock_(setup_.wall, setup_.start.trained),
      timers_(clock_,
              [this](protocols::timer_id timer, protocols::nanoseconds delay) {
                self_->delayed_send(self_, std::chrono::nanoseconds{delay}, protocols::expired{timer});
              }),
      incoming_(setup_.link, clock_, timers_), outgoing_(setup_.link, clock_, timers_), orders_(setup_.link, clock_, timers_) {
  end_with_reason(*self, std::string{setup_.queue->name()});
  activity_.enter("collects");
  begin();
}

/// Copies the first version to the queue's memory; on a device it is not sent before the copy has run.
void shard_state::begin() {
  ready_version_ = setup_.start.ver;
  bound_.replace(protocols::holder_state{.current = ready_version_, .ordered = ready_version_, .committed = ready_version_});
  if (setup_.catches_up)
    bound_.replace(protocols::holder_state{.joins = protocols::catch_up{.pieces = copies_.pieces()}});
  if (setup_.codec)
    setup_.codec->resume(setup_.start);
  step_.resume(setup_.start);
  newest_ = setup_.queue->allocate(setup_.initial.bytes());
  setup_.queue->copy_from_host(newest_.data(), setup_.initial.data(), newest_.bytes());
  if (setup_.queue->on_host()) {
    ready_ = newest_;
  } else {
    core_.held.keep(setup_.initial);
    for (const auto& [name, values] : setup_.start.blocks)
      core_.held.keep(values);
    enqueue_done({.ver = ready_version_, .parameters = newest_}, {});
  }
  setup_.initial = {};
  setup_.start = {};
  if (setup_.checkpoints.empty() || setup_.counts_alone)
    return;
  std::vector<std::size_t> room{newest_.bytes()};
  for (const auto& [name, block] : step_.buffers())
    room.push_back(block.bytes());
  make_room(self_->home_system(), setup_.queue, std::move(room));
}

/// Notifies this actor of the version when it has run.
void shard_state::enqueue_done(pending_apply pending, open_span span) {
  pending.mark = core_.held.mark();
  const auto ver = pending.ver;
  pending_.push_back(std::move(pending));
  watch_.begin(&*self_, *setup_.queue);
  setup_.queue->notify([me = shard_control{self_}, ver, span = std::move(span)] {
    span.end();
    caf::anon_send(me, ver);
  });
}

shard_control::behavior_type shard_state::make_behavior() {
  self_->name_thread(fmt::format("{} {}", is_backup() ? "replica" : "shard", setup_.place.self.value));
  return {
      // pushes
      [this](const wire::push_part& head, const kernels::buffer& payload) { arrive(core_.add(head, payload)); },
      [this](const wire::push_end& end) { arrive(core_.add(end)); },
      [this](const wire::partial_part& head, const kernels::buffer& payload) { arrive(core_.add(head, payload)); },
      // to the lead
      [this](const protocols::arrival& msg) {
        auto hear = [this, msg] { bound_.on(msg); };
        incoming_.delays() ? transmit(incoming_, msg.push.id.worker, 0, std::move(hear)) : hear();
      },
      // the lead's orders
      [this](const protocols::close& msg) { bound_.on(msg); },
      [this](const protocols::send_order& msg) { bound_.on(msg); },
      [this](const protocols::drop_order& msg) { bound_.on(msg); },
      // where versions are made in two phases
      [this](const protocols::prepared& msg) {
        auto hear = [this, msg] { bound_.on(msg); };
        incoming_.delays() && clock_.running() ? incoming_.send(0, std::move(hear)) : hear();
      },
      [this](const protocols::commit_order& msg) { bound_.on(msg); },
      [this](const wire::decision_part& head, const kernels::buffer& payload) { on_record(head, payload); },
      [this](const protocols::admit_order& msg) { bound_.on(msg); },
      [this](const protocols::copy_request& msg) { bound_.on(msg); },
      [this](const wire::copy_part& head, const kernels::buffer& payload) { on_copy(head, payload); },
      [this](const protocols::new_backup& msg) { bound_.on(msg); },
      [this](const protocols::takes_over& msg) {
        if (msg.shard == protocols::holder_id{0})
          core_.take_again();
        if (msg.by == setup_.place.self)
          take_name_of(msg.shard);
        bound_.on(msg);
      },
      // the control plane
      [this](const peers_ptr& peers) { introduced(peers); },
      [this](const protocols::plan& msg) {
        if (!std::exchange(has_plan_, true) && !bound_.leads_job())
          run(clock_, timers_, true);
        cuts_.on(msg);
        bound_.on(msg);
      },
      [this](const protocols::worker_down& msg) {
        core_.forget(msg);
        bound_.on(msg);
      },
      [this](const protocols::holder_down& msg) { bound_.on(msg); },
      [this](pause_order) {
        if (bound_.leads_job())
          return;
        run(clock_, timers_, false);
        if (!bound_.machine().place().children.empty()) // the evaluation needs these partial sums
          incoming_.deliver_all();
      },
      [this](const protocols::resume_order& msg) {
        if (!bound_.leads_job())
          return run(clock_, timers_, true);
        bound_.on(msg);
      },
      [this](const protocols::checkpoint_order& msg) {
        if (setup_.per_push)
          save_newest(msg.at);
        else if (bound_.leads_job())
          bound_.on(msg);
      },
      [this](const protocols::hold_order& msg) {
        if (bound_.leads_job())
          bound_.on(msg);
      },
      [this](const protocols::fetch_order& msg) {
        if (bound_.leads_job())
          bound_.on(msg);
      },
      [this](lead_query) { return lead_word::of(bound_.report_to_next(), tally_, bound_.leads_job()); },
      [this](const inspect_query&) { return report(); },
      [this](const operator_pause& msg) { handle_pause(self_, msg, [this] { return report(); }); },
      [this](const parameters_query& msg) { return readings_.read(msg, setup_.floats_per_piece, ready_version_, ready_); },
      [this](const piece_downloaded& msg) { readings_.deliver(msg); },
      [this](waiting_query) { return bound_.leads_job() ? awaited_by(*bound_.decides(), bound_.replicated()) : awaited{}; },
      [this](const protocols::expired& msg) {
        if (const auto due = timers_.fire(msg.timer))
          bound_.on(*due);
      },
      // the device
      [this](protocols::version ver) { applied(ver); },
      [this](device_check) { watch_.check(&*self_, *setup_.queue, !pending_.empty()); },
      [this](const sum_on_host& msg) { on_sum(msg); },
      [this](const wire::push_part& head, const device_tensor& payload) { arrive(core_.add(head, payload)); },
      [this](const wire::partial_part& head, const device_tensor& payload) { arrive(core_.add(head, payload)); },
  };
}

/// A push is complete: it arrives when it is through the emulated link, if there is one.
void shard_state::arrive(std::optional<complete<protocols::push>> done) {
  if (!done)
    return;
  const auto worker = done->message.id.worker;
  const auto bytes = done->bytes();
  auto hear = [this, done = *std::move(done)] { bound_.on(done.message, done.tensor); };
  incoming_.delays() ? transmit(incoming_, worker, bytes, std::move(hear)) : hear();
}

/// Likewise for a child's sum.
void shard_state::arrive(std::optional<complete<protocols::partial>> done) {
  if (!done)
    return;
  const auto bytes = done->bytes();
  auto hear = [this, done = *std::move(done)] { bound_.on(done.message, done.tensor); };
  if (incoming_.delays() && clock_.running())
    incoming_.send(bytes, std::move(hear));
  else
    hear();
}

/// Over an emulated link.
void shard_state::transmit(emulated_link& over, protocols::worker_id whose, std::size_t bytes, std::function<void()> deliver) {
  on_links_.insert(whose);
  over.send(bytes, [this, whose, deliver = std::move(deliver)] {
    on_links_.erase(on_links_.find(whose));
    deliver();
  });
}

void shard_state::forward(const protocols::partial&, const std::optional<tensor>&, const std::vector<protocols::holder_id>&) {
  throw std::logic_error("a shard was asked to forward");
}

/// The sum is sent once it is computed.
std::optional<kernels::buffer> shard_state::sum_up(const protocols::close& round, const protocols::operands<tensor>& sum,
                                                   const std::vector<protocols::holder_id>& backups) {
  const std::optional<tensor> out = core_.sum_of(sum, setup_.range.size());
  for (const auto backup : backups)
    if (const auto to = peers_->holders[backup.value]) {
      auto send = [this, to, whole = out,
                   head = wire::partial_part{backup, setup_.place.self, round.ver, {}, !out.has_value(), round.decision}] {
        send_sum(core_, *setup_.queue, to, head, whole, setup_.partitions, setup_.range.begin);
      };
      if (outgoing_.delays() && clock_.running())
        outgoing_.send(out ? out->bytes() : 0, std::move(send));
      else
        send();
    }
  return out;
}

/// A device's sum is copied to the host first.
void shard_state::measure(const protocols::measured& request, const tensor& sum) {
  if (setup_.queue->on_host())
    return on_sum({request.ver, request.decision, sum});
  core_.copy_out(sum, [me = shard_control{self_}, request](const kernels::buffer& on_host) {
    caf::anon_send(me, sum_on_host{request.ver, request.decision, on_host});
  });
}

void shard_state::on_sum(const sum_on_host& sum) {
  bound_.on(protocols::measured{sum.ver, sum.decision,
                                squares_of(sum.values.as<const float>(), step_.ranges(), setup_.optimizer.clip_norm)});
}

void shard_state::tell_backups(const std::vector<protocols::holder_id>& backups, const protocols::decision_record& record) {
  if (backups.empty())
    return;
  const packed_state packed = pack(record, *setup_.queue);
  for (const auto backup : backups)
    if (const auto& to = peers_->holders[backup.value])
      caf::anon_send(to, wire::decision_part{backup, packed.where(), packed.words}, packed.payload);
}

void shard_state::on_record(const wire::decision_part& head, const kernels::buffer& payload) {
  auto record = record_in(payload, head.words);
  record ? bound_.on(std::move(*record)) : broken(record.error().text);
}

named_buffers shard_state::copied_blocks() const {
  auto out = step_.buffers();
  out.emplace_back("parameters", newest_);
  return out;
}

/// The copy is made before the next step.
void shard_state::send_copy(protocols::holder_id backup, protocols::shard_piece part) {
  part.memory = step_.memory();
  const packed_state packed = copies_.pack(part, copied_blocks(), core_.held);
  setup_.queue->notify(
      [to = peers_->holders[backup.value], payload = packed.payload,
       head = wire::copy_part{backup, setup_.place.self, packed.where(), packed.words}] { caf::anon_send(to, head, payload); });
}

void shard_state::on_copy(const wire::copy_part& head, const kernels::buffer& payload) {
  auto got = piece_in(payload, head.words);
  got ? bound_.on(std::move(got->piece), std::move(got->data)) : broken(got.error().text);
}

void shard_state::install(const protocols::shard_piece& part, const tensor& data) {
  step_.take(part.memory);
  if (!copies_.install(part, data, copied_blocks(), core_.held))
    broken(fmt::format("piece {} of a copy is not one of this shard", part.piece));
}

/// The newest version may not have been made here.
void shard_state::tell_coordinator(const protocols::caught_up& notice) {
  if (!copies_.end())
    return broken("a backup is complete before its partitions are");
  enqueue_done({.ver = bound_.machine().current(), .parameters = newest_}, {});
  caf::anon_send(peers_->coordinator, notice);
}

void shard_state::tell_coordinator(const protocols::report& fact) {
  using kind = protocols::report::kind;
  if (fact.event == kind::round_closed)
    staleness_ = fact.staleness;
  if (fact.event == kind::push_refused || fact.event == kind::push_not_finite)
    activity_.failed(fmt::format("step {}: a push of worker {} was left out: {}", fact.ver.value, fact.worker.value,
                                 fact.event == kind::push_refused ? fact.text : "it is not finite"));
  if (!bound_.leads_job()) // if every shard has its own versions, the lead's count for the job
    return;
  add(tally_, fact, clock_.now());
  if (peers_->coordinator)
    caf::anon_send(peers_->coordinator, fact);
}

void shard_state::broken(const std::string& why) {
  activity_.failed(why);
  if (peers_ && peers_->coordinator)
    caf::anon_send(peers_->coordinator, protocols::report{.event = protocols::report::kind::note,
                                                          .text = fmt::format("shard {}: {}", setup_.place.self.value, why)});
}

template <class Order>
void shard_state::tell_others(const Order& order, protocols::nanoseconds head_start) {
  if (peers_->holders.size() < 2)
    return;
  auto tell = [peers = peers_, order] {
    for (std::size_t i = 1; i < peers->holders.size(); ++i)
      if (peers->holders[i])
        caf::anon_send(peers->holders[i], order);
  };
  if (orders_.delays() && clock_.running())
    orders_.send(0, std::move(tell), head_start);
  else
    tell();
}

void shard_state::apply(const protocols::close& round, const protocols::operands<tensor>& sum,
                        const std::optional<tensor>& backup) {
  auto span = span_of(setup_.trace, setup_.place.self, round, sum.size());
  auto [tensors, terms] = gathered_terms(sum);
  pending_apply next;
  next.ver = round.ver;
  next.terms = std::move(tensors);
  if (terms.empty()) {
    next.parameters = newest_; // every push was refused: a version without a step
  } else {
    next.parameters = place_for(round);
    if (round.compensate.lambda != 0 && backup) {
      auto compensated = step_.compensated(terms.front().data, newest_.as<const float>(), backup->as<const float>(), round);
      terms.front().data = compensated.as<const float>();
      next.terms.insert(next.terms.end(), {std::move(compensated), *backup});
    }
    step_.begin(round);
  }
  const auto order = protocols::order_of(round);
  // Each partition is sent while the next one is computed; over an emulated link, when all are. A device is faster than its
  // reports would be, and a code is of all: there everything is sent at the end.
  const bool device = !setup_.queue->on_host();
  const bool at_once = !order.to.empty() && !outgoing_.delays() && !device && !setup_.codec;
  for (auto part : copies_.parts_of_a_step(cuts_.of(order.key))) {
    if (!terms.empty())
      step_.apply(terms, round, newest_.as<const float>(), next.parameters.as<float>(),
                  {part.begin - setup_.range.begin, part.end - setup_.range.begin});
    if (at_once)
      setup_.queue->notify([peers = peers_, order, from = setup_.place.self, piece = cut(next.parameters, part)] {
        send_part(*peers, order, from, piece);
      });
  }
  if (!order.to.empty() && !at_once)
    next.then_send.push_back(order);
  if (round.checkpoint && is_backup())
    unwritten_ = round.ver;
  else if (round.checkpoint && !setup_.counts_alone)
    next.snapshots.push_back(snapshot_of(round.ver, next.parameters));
  newest_ = next.parameters;
  enqueue_done(std::move(next), std::move(span));
}

/// Memory for a new version. If the last version has no other reader, it is overwritten, which keeps a step's data in the cache.
/// One of several shards writes directly into the flat parameters of a worker of this process, which then need not copy them.
kernels::buffer shard_state::place_for(const protocols::close& round) const {
  if (setup_.alone) {
    if (pending_.empty() && nobody_else_holds(newest_, ready_.shares_block_with(newest_) ? 2 : 1))
      return newest_;
  } else if (!setup_.codec) {
    for (auto to : round.send_to)
      if (auto local = peers_->receive_buffers.find(to); local != peers_->receive_buffers.end())
        if (auto place = local->second->place(round.key, setup_.range))
          return place;
  }
  return setup_.queue->allocate(newest_.bytes());
}

void shard_state::applied(protocols::version ver) {
  if (pending_.empty() || pending_.front().ver != ver)
    return;
  auto done = std::move(pending_.front());
  pending_.pop_front();
  core_.held.passed(done.mark);
  ready_ = std::move(done.parameters);
  ready_version_ = ver;
  pushes_before_ = core_.came.pushes;
  activity_.again("collects");
  for (const auto& each : done.snapshots)
    if (setup_.codec)
      setup_.codec->save_to(*each); // before the image moves to this version
  for (const auto& order : done.then_follow)
    setup_.codec->follow(order, ready_);
  for (const auto& order : done.then_send)
    send_all(order);
  core_.forget_sums_before(ver);
  for (auto& each : done.snapshots)
    write_behind(self_->home_system(), std::move(each), setup_.checkpoints, setup_.saved);
}

/// A checkpoint whose version it made as a copy may be written by nobody. The coordinator hears so, or it would wait for ever.
void shard_state::take_name_of(protocols::holder_id shard) {
  setup_.place.self = shard;
  self_->name_thread(fmt::format("shard {}", shard.value));
  file_saved none{.index = shard.value, .ver = unwritten_};
  none.error = lost_unwritten;
  if (unwritten_ != protocols::version{})
    setup_.saved(none);
}

std::shared_ptr<role_snapshot> shard_state::snapshot_of(protocols::version ver, const kernels::buffer& parameters) {
  const file_saved about{.index = setup_.place.self.value, .ver = ver};
  auto out = std::make_shared<role_snapshot>(step_.snapshot(about, setup_.range, parameters));
  if (const auto* lead = bound_.decides(); lead && setup_.per_push && bound_.leads_job())
    out->add(protocols::at_rest(lead->state()), clock_.now());
  else if (lead && lead->marked().made == ver)
    out->add(lead->marked(), clock_.now());
  return out;
}

/// The newest version, in the checkpoint of another one: that of the job's lead, some pushes before or behind.
void shard_state::save_newest(protocols::version as) {
  auto out = snapshot_of(as, newest_);
  if (!pending_.empty())
    pending_.back().snapshots.push_back(std::move(out));
  else if (setup_.queue->on_host())
    write_behind(self_->home_system(), std::move(out), setup_.checkpoints, setup_.saved);
  else
    enqueue_done({.ver = ready_version_, .parameters = newest_, .snapshots = {std::move(out)}}, {});
}

/// `pending_` is non-empty while a version is computed.
actor_report shard_state::report() const {
  auto out = self_->report();
  if (!pending_.empty())
    out.state = "applies";
  else if (bound_.leads_job() && !clock_.running())
    out.state = "holds";
  if (const auto children = bound_.machine().waiting_for(); !children.empty()) { // the round is closed
    for (auto child : children)
      out.waits_for.push_back(fmt::format("aggregator {}", child.value));
    out.waits_on = fmt::format("sums of round {}", ready_version_.value + 1);
  } else if (waits_for_copies(out, bound_.machine().place(), bound_.replicated(), setup_.shards)) {
    out.waits_on = fmt::format("round {}", ready_version_.value + 1);
  } else if (!bound_.leads_job()) {
    out.waits_for.push_back("shard 0");
    out.waits_on = fmt::format("what round {} is made of", ready_version_.value + 1);
  } else if (out.state == "holds") {
    out.waits_for.push_back("evaluator 0");
    out.waits_on = fmt::format("the loss of version {}", ready_version_.value);
  } else if (pending_.empty()) {
    for (auto worker : bound_.decides()->waiting_for())
      if (!on_links_.contains(worker))
        out.waits_for.push_back(who_brings_push_of(worker, bound_.machine().place(), bound_.decides()->newest_plan()));
    out.waits_for.erase(std::ranges::unique(out.waits_for).begin(), out.waits_for.end()); // neighbours share an aggregator
    out.waits_on = fmt::format("gradients of round {}", ready_version_.value + 1);
  }
  const bool sums = !bound_.machine().place().children.empty() && incoming_.carries() && on_links_.empty();
  if (sums || (!on_links_.empty() && (!bound_.leads_job() || out.waits_for.empty()))) {
    out.state = "is behind a slow link";
    out.waits_for.clear();
    out.waits_on = "what is under way on its emulated link: ";
    out.waits_on += sums ? "partial sums" : fmt::format("of {} workers", std::set(on_links_.begin(), on_links_.end()).size());
  }
  out.fields = {{"version", std::to_string(ready_version_.value)},
                {"round", std::to_string(ready_version_.value + 1)},
                {"arrivals", std::to_string(core_.came.pushes - pushes_before_)},
                {"pushes", std::to_string(core_.came.pushes)},
                {"bytes_received", std::to_string(core_.came.bytes)},
                {"on_links", std::to_string(on_links_.size())}};
  if (copies_.catches_up()) {
    out.state = "catches up";
    out.fields["copied"] = copies_.progress();
  }
  if (bound_.leads_job())
    out.fields["staleness"] = std::to_string(staleness_);
  return out;
}

void shard_state::serve(const protocols::send_order& order) {
  if (pending_.empty())
    send_all(order);
  else
    pending_.back().then_send.push_back(order);
}

void shard_state::follow(const protocols::send_order& order) {
  if (!setup_.codec)
    return;
  if (pending_.empty())
    setup_.codec->follow(order, ready_);
  else
    pending_.back().then_follow.push_back(order);
}

void shard_state::send_all(protocols::send_order order) {
  if (setup_.per_push) // else an order is for this version, or from before this shard took another one's place
    order.ver = ready_version_;
  if (!setup_.codec)
    return to_hosts(order, ready_.bytes(), [this, parameters = ready_](const auto& to) { send_version(to, parameters); });
  if (const auto own = evaluators_part_of(order))
    send_version(*own, ready_);
  for (const auto& sending : setup_.codec->on(order, ready_, marked())) {
    order.to = sending.to;
    to_hosts(order, bytes_of(sending.parts),
             [this, parts = sending.parts](const auto& to) { send_parts(*peers_, to, setup_.place.self, parts); });
  }
}

/// To each host of an emulated link, when it is through that; the evaluator does not wait, for training time is paused for it.
void shard_state::to_hosts(protocols::send_order order, std::size_t bytes,
                           const std::function<void(const protocols::send_order&)>& deliver) {
  if (!outgoing_.delays())
    return deliver(order);
  for (auto& host : hosts_of(order.to, bound_.machine().place().tree)) {
    order.to = std::move(host);
    if (order.to.front() == protocols::evaluator)
      deliver(order);
    else
      transmit(outgoing_, order.to.front(), bytes, [deliver, order] { deliver(order); });
  }
}

void shard_state::send_version(const protocols::send_order& order, const kernels::buffer& parameters) {
  if (!setup_.queue->on_host())
    return send_from_device(order, parameters);
  for (auto part : cuts_.of(order.key))
    send_part(*peers_, order, setup_.place.self, cut(parameters, part));
}

/// The work that wrote the parameters has run.
void shard_state::send_from_device(protocols::send_order order, const kernels::buffer& parameters) {
  const auto is_near = [this](auto to) { return peers_->local_device_workers.contains(to); };
  const auto far = std::stable_partition(order.to.begin(), order.to.end(), is_near);
  const std::vector near(order.to.begin(), far);
  order.to.erase(order.to.begin(), far);
  for (auto part : cuts_.of(order.key)) {
    auto piece = cut(parameters, part);
    for (auto to : near)
      caf::anon_send(peers_->local_device_workers.at(to), head_of(order, setup_.place.self, piece, {to}),
                     device_tensor{piece.data, std::string{setup_.queue->name()}});
    if (!order.to.empty())
      core_.download(piece.data, [peers = peers_, order, from = setup_.place.self, piece](const kernels::buffer& on_host) {
        send_part(*peers, order, from, {piece.where, on_host, piece.marked});
      });
  }
}

parameters_part shard_state::cut(const kernels::buffer& parameters, flat_range part) const {
  auto offset = static_cast<std::size_t>(part.begin - setup_.range.begin) * sizeof(float);
  return {part, parameters.slice(offset, static_cast<std::size_t>(part.size()) * sizeof(float)), marked()};
}

/// Of the newest checkpoint, where this shard leads.
protocols::version shard_state::marked() const {
  const auto* lead = bound_.leads_job() && !setup_.per_push ? bound_.decides() : nullptr;
  return lead != nullptr ? lead->marked().made : protocols::version{};
}

/// The version is made here, and the other shards need the order to make it, too.
void shard_state::pause() {
  run(clock_, timers_, false);
  orders_.deliver_all();
}

} // namespace troupe::actors
