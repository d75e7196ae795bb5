// SPDX-License-Identifier: BSD-3-Clause
// The shard's handlers: message -> machine -> perform. Only perform touches a tensor or a peer.
#include "actors/roles/holder/shard_actor.hpp"

#include "actors/errors.hpp"
#include "actors/roles/standing_still.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace troupe::actors {

namespace {

/// Each keeps a version alive.
constexpr std::size_t most_readings = 8;

} // namespace

shard_state::shard_state(measured_pointer<shard_control> self, shard_setup setup)
    : self_(self), setup_(std::move(setup)), core_(setup_.landing, setup_.queue),
      bound_(*this, setup_.place, setup_.lead, setup_.per_push),
      step_(setup_.optimizer, *setup_.queue, setup_.range.size(), setup_.data_size), activity_(self->doing), clock_(setup_.wall),
      timers_(clock_,
              [this](protocols::timer_id timer, protocols::nanoseconds delay) {
                self_->delayed_send(self_, std::chrono::nanoseconds{delay}, protocols::expired{timer});
              }),
      incoming_(setup_.link, clock_, timers_), outgoing_(setup_.link, clock_, timers_), orders_(setup_.link, clock_, timers_) {
  end_with_reason(*self, std::string{setup_.queue->name()});
  activity_.enter("collects");
  begin();
}

/// The first version, copied to the queue's memory: on a device nobody gets it before it is there.
void shard_state::begin() {
  newest_ = setup_.queue->allocate(setup_.initial.bytes());
  setup_.queue->copy_from_host(newest_.data(), setup_.initial.data(), newest_.bytes());
  if (setup_.queue->on_host()) {
    ready_ = newest_;
  } else {
    core_.held.keep(setup_.initial);
    enqueue_done({.ver = {}, .parameters = newest_, .terms = {}, .then_send = {}}, {});
  }
  setup_.initial = {};
}

/// Hears of the version when it has run.
void shard_state::enqueue_done(pending_apply what, open_span span) {
  what.mark = core_.held.mark();
  const auto ver = what.ver;
  pending_.push_back(std::move(what));
  watch_.begin(&*self_, *setup_.queue);
  setup_.queue->notify([me = shard_control{self_}, ver, span = std::move(span)] {
    span.end();
    caf::anon_send(me, ver);
  });
}

shard_control::behavior_type shard_state::make_behavior() {
  return {
      // pushes
      [this](const wire::push_part& head, const kernels::buffer& payload) { arrive(core_.add(head, payload)); },
      [this](const wire::push_end& end) { arrive(core_.add(end)); },
      [this](const wire::partial_part& head, const kernels::buffer& payload) { arrive(core_.add(head, payload)); },
      // to the lead
      [this](const protocols::arrival& msg) {
        auto hear = [this, msg] { bound_.on(msg); };
        if (incoming_.delays())
          transmit(incoming_, msg.what.id.worker, 0, std::move(hear));
        else
          hear();
      },
      // the lead's orders
      [this](const protocols::close& msg) { bound_.on(msg); },
      [this](const protocols::send_order& msg) { bound_.on(msg); },
      [this](const protocols::drop_order& msg) { bound_.on(msg); },
      // the control plane
      [this](const peers_ptr& peers) { peers_ = peers; },
      [this](const protocols::plan& msg) {
        if (!bound_.leads_job() && msg.epoch == protocols::plan_epoch{1})
          run(clock_, timers_, true);
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
        if (!setup_.place.children.empty()) // the evaluation waits for these partial sums
          incoming_.deliver_all();
      },
      [this](const protocols::resume_order& msg) {
        if (!bound_.leads_job())
          return run(clock_, timers_, true);
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
      [this](const inspect_query&) { return report(); },
      [this](const stand_still& msg) { obey(self_, msg, [this] { return report(); }); },
      [this](const parameters_query& msg) { return read(msg); },
      [this](const piece_landed& msg) { deliver(msg); },
      [this](waiting_query) {
        std::vector<std::uint32_t> names;
        if (bound_.leads_job())
          for (auto worker : bound_.decides()->waiting_for())
            names.push_back(worker.value);
        return names;
      },
      [this](const protocols::expired& msg) {
        if (const auto due = timers_.fire(msg.timer))
          bound_.on(*due);
      },
      // the device
      [this](protocols::version ver) { applied(ver); },
      [this](device_check) { watch_.check(&*self_, *setup_.queue, !pending_.empty()); },
      [this](const wire::push_part& head, const device_tensor& payload) { arrive(core_.add(head, payload)); },
      [this](const wire::partial_part& head, const device_tensor& payload) { arrive(core_.add(head, payload)); },
  };
}

/// A push is complete: it has arrived when the emulated link, if there is one, has let it through.
void shard_state::arrive(std::optional<complete<protocols::push>> what) {
  if (!what)
    return;
  const auto worker = what->what.id.worker;
  const auto bytes = what->bytes();
  auto hear = [this, what = *std::move(what)] { bound_.on(what.what, what.tensor); };
  if (incoming_.delays())
    transmit(incoming_, worker, bytes, std::move(hear));
  else
    hear();
}

/// A child's sum, likewise.
void shard_state::arrive(std::optional<complete<protocols::partial>> what) {
  if (!what)
    return;
  const auto bytes = what->bytes();
  auto hear = [this, what = *std::move(what)] { bound_.on(what.what, what.tensor); };
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

void shard_state::forward(const protocols::close&, const protocols::operands<tensor>&) {
  throw std::logic_error("a shard was asked to forward");
}

void shard_state::tell_coordinator(const protocols::report& what) {
  using kind = protocols::report::kind;
  if (what.what == kind::round_closed)
    staleness_ = what.staleness;
  if (what.what == kind::push_refused || what.what == kind::push_not_finite)
    activity_.failed(fmt::format("step {}: a push of worker {} was left out: {}", what.ver.value, what.worker.value,
                                 what.what == kind::push_refused ? what.text : "it is not finite"));
  if (bound_.leads_job() && peers_->coordinator) // where every shard has its own versions, the lead's are the job's
    caf::anon_send(peers_->coordinator, what);
}

void shard_state::broken(const std::string& what) {
  activity_.failed(what);
  if (peers_ && peers_->coordinator)
    caf::anon_send(peers_->coordinator, protocols::report{.what = protocols::report::kind::note,
                                                          .text = fmt::format("shard {}: {}", setup_.place.self.value, what)});
}

template <class Order>
void shard_state::tell_others(const Order& order, protocols::nanoseconds head_start) {
  if (peers_->holders.size() < 2)
    return;
  auto tell = [peers = peers_, order] {
    for (std::size_t i = 1; i < peers->holders.size(); ++i)
      caf::anon_send(peers->holders[i], order);
  };
  if (orders_.delays() && clock_.running())
    orders_.send(0, std::move(tell), head_start);
  else
    tell();
}

/// With the pushes that are in it, so that a reader of the trace sees where they came from.
open_span shard_state::span_of(const protocols::close& round, std::size_t terms) const {
  std::vector<std::int64_t> pushes;
  if (setup_.trace && setup_.trace->records())
    for (const auto& part : round.contributions) {
      pushes.push_back(part.id.worker.value);
      pushes.push_back(static_cast<std::int64_t>(part.id.clock.value));
    }
  return {setup_.trace,
          span_kind::apply,
          setup_.place.self.value,
          {signed_of(round.ver), static_cast<std::int64_t>(terms)},
          std::move(pushes)};
}

void shard_state::apply(const protocols::close& round, const protocols::operands<tensor>& sum,
                        const std::optional<tensor>& backup) {
  auto span = span_of(round, sum.size());
  auto [tensors, terms] = gathered_terms(sum);
  pending_apply next;
  next.ver = round.ver;
  next.terms = std::move(tensors);
  if (terms.empty()) {
    next.parameters = newest_; // every push was refused: a version without a step
  } else {
    next.parameters = place_for(round);
    if (round.compensate.lambda != 0 && backup) {
      auto compensated =
          step_.compensated(terms.front().data, newest_.as<const float>(), backup->as<const float>(), round.compensate);
      terms.front().data = compensated.as<const float>();
      next.terms.insert(next.terms.end(), {std::move(compensated), *backup});
    }
    step_.begin(round);
  }
  const protocols::send_order order{round.send_epoch, round.ver, round.key, round.send_to, round.position, round.period};
  // Each partition is on its way while the next one is computed; over an emulated link, when all of them are. What a device
  // computes takes less than its reports would: all of it is sent then.
  const bool device = !setup_.queue->on_host();
  const bool at_once = !order.to.empty() && !outgoing_.delays() && !device;
  for (auto part : device ? std::vector{setup_.range} : setup_.partitions) {
    if (!terms.empty())
      step_.apply(terms, round, newest_.as<const float>(), next.parameters.as<float>(),
                  {part.begin - setup_.range.begin, part.end - setup_.range.begin});
    if (at_once)
      setup_.queue->notify([peers = peers_, order, piece = cut(next.parameters, part)] { send(*peers, order, piece); });
  }
  if (!order.to.empty() && !at_once)
    next.then_send.push_back(order);
  newest_ = next.parameters;
  enqueue_done(std::move(next), std::move(span));
}

/// Memory for a new version. Where nobody else reads the last one any more, it is written over: what a step touches stays
/// in the cache. A shard among several writes into the flat parameters of a worker of this process, which need not copy
/// them then; others copy from there.
kernels::buffer shard_state::place_for(const protocols::close& round) const {
  if (setup_.alone) {
    if (pending_.empty() && nobody_else_holds(newest_, ready_.shares_block_with(newest_) ? 2 : 1))
      return newest_;
  } else {
    for (auto to : round.send_to)
      if (auto local = peers_->landings.find(to); local != peers_->landings.end())
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
  for (const auto& order : done.then_send)
    send_all(order);
}

/// In a tree of aggregators it comes in the sum of one of them.
std::string shard_state::who_brings_push_of(protocols::worker_id worker) const {
  const auto child = setup_.through.find(worker);
  return child == setup_.through.end() ? fmt::format("worker {}", worker.value)
                                       : fmt::format("aggregator {}", child->second.value);
}

/// `pending_` is not empty while a version is computed.
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
  } else if (!bound_.leads_job()) {
    out.waits_for.push_back("shard 0");
    out.waits_on = fmt::format("what round {} is made of", ready_version_.value + 1);
  } else if (out.state == "holds") {
    out.waits_for.push_back("evaluator 0");
    out.waits_on = fmt::format("the loss of version {}", ready_version_.value);
  } else if (pending_.empty()) {
    for (auto worker : bound_.decides()->waiting_for())
      if (!on_links_.contains(worker))
        out.waits_for.push_back(who_brings_push_of(worker));
    out.waits_for.erase(std::ranges::unique(out.waits_for).begin(), out.waits_for.end()); // neighbours share an aggregator
    out.waits_on = fmt::format("gradients of round {}", ready_version_.value + 1);
  }
  const bool sums = !setup_.place.children.empty() && incoming_.carries() && on_links_.empty();
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
  if (bound_.leads_job())
    out.fields["staleness"] = std::to_string(staleness_);
  return out;
}

/// Holding the version is enough: whoever holds one keeps it from being written over.
caf::result<parameters_piece> shard_state::read(const parameters_query& what) {
  const auto who = caf::actor_cast<caf::actor_addr>(self_->current_sender());
  auto at = std::ranges::find(readings_, who, &reading::who);
  if (what.offset == 0) {
    if (at != readings_.end())
      readings_.erase(at);
    if (readings_.size() == most_readings)
      readings_.pop_front();
    readings_.push_back({who, ready_version_, ready_});
    at = std::prev(readings_.end());
  }
  if (at == readings_.end())
    return failure("this reading was forgotten, or never begun; begin with offset 0");
  const auto floats = at->parameters.bytes() / sizeof(float);
  if (what.offset >= floats && floats != 0)
    return failure(fmt::format("offset {} is beyond the shard's {} parameters", what.offset, floats));
  const auto count = std::min<std::uint64_t>(floats - what.offset, setup_.floats_per_piece);
  const auto part = at->parameters.slice(what.offset * sizeof(float), count * sizeof(float));
  const auto ver = at->ver;
  const bool last = what.offset + count == floats;
  if (last)
    readings_.erase(at);
  auto promise = self_->make_response_promise<parameters_piece>();
  const auto number = ++last_piece_;
  unanswered_.emplace(number, promise);
  if (setup_.queue->on_host())
    deliver({number, ver, part, last});
  else
    core_.fetch(part, [me = shard_control{self_}, number, ver, last](const kernels::buffer& landed) {
      caf::anon_send(me, piece_landed{number, ver, landed, last});
    });
  return promise;
}

void shard_state::deliver(const piece_landed& piece) {
  auto asked = unanswered_.extract(piece.number);
  if (!asked)
    return;
  const auto values = piece.values.span<const float>();
  asked.mapped().deliver(parameters_piece{piece.ver, {values.begin(), values.end()}, piece.last});
}

void shard_state::serve(const protocols::send_order& order) {
  if (pending_.empty())
    send_all(order);
  else
    pending_.back().then_send.push_back(order);
}

void shard_state::send_all(protocols::send_order order) {
  order.ver = ready_version_;
  if (!outgoing_.delays())
    return send_version(order, ready_);
  auto all = order.to;
  for (auto to : all) {
    order.to = {to};
    auto deliver = [this, order, parameters = ready_] { send_version(order, parameters); };
    if (to == protocols::evaluator) // training time stands still for it
      deliver();
    else
      transmit(outgoing_, to, ready_.bytes(), std::move(deliver));
  }
}

void shard_state::send_version(const protocols::send_order& order, const kernels::buffer& parameters) {
  if (!setup_.queue->on_host())
    return send_from_device(order, parameters);
  for (auto part : setup_.partitions)
    send(*peers_, order, cut(parameters, part));
}

/// What wrote them has run.
void shard_state::send_from_device(protocols::send_order order, const kernels::buffer& parameters) {
  const auto is_near = [this](auto to) { return peers_->near_workers.contains(to); };
  const auto far = std::stable_partition(order.to.begin(), order.to.end(), is_near);
  const std::vector near(order.to.begin(), far);
  order.to.erase(order.to.begin(), far);
  for (auto part : setup_.partitions) {
    auto what = cut(parameters, part);
    for (auto to : near)
      caf::anon_send(peers_->near_workers.at(to), head_of(order, what, to),
                     device_tensor{what.data, std::string{setup_.queue->name()}});
    if (!order.to.empty())
      core_.fetch(what.data, [peers = peers_, order, from = what.from, part](const kernels::buffer& landed) {
        send(*peers, order, {from, part, landed});
      });
  }
}

shard_state::piece shard_state::cut(const kernels::buffer& parameters, flat_range part) const {
  auto offset = static_cast<std::size_t>(part.begin - setup_.range.begin) * sizeof(float);
  return {setup_.place.self, part, parameters.slice(offset, static_cast<std::size_t>(part.size()) * sizeof(float))};
}

wire::params_part shard_state::head_of(const protocols::send_order& order, const piece& what, protocols::worker_id to) {
  wire::params_part head;
  head.from = what.from;
  head.to = to;
  head.what = {order.epoch, order.ver, order.key, order.position, order.period, {}};
  head.where = {what.where.begin, what.where.end};
  return head;
}

/// Thread-safe: a device's notification may call it.
void shard_state::send(const role_peers& peers, const protocols::send_order& order, const piece& what) {
  for (auto to : order.to)
    caf::anon_send(to == protocols::evaluator ? peers.evaluator : peers.workers.at(to.value), head_of(order, what, to),
                   what.data);
}

/// The version is made here, and others wait for the order to make it, too.
void shard_state::pause() {
  run(clock_, timers_, false);
  orders_.deliver_all();
}

} // namespace troupe::actors
