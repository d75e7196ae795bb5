// SPDX-License-Identifier: BSD-3-Clause
// The worker's handlers.
#include "actors/roles/worker/worker_actor.hpp"

#include "actors/errors.hpp"
#include "actors/roles/operator_pause.hpp"
#include "protocols/duration.hpp"
#include "protocols/wire/codec.hpp"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

namespace troupe::actors {

namespace {

slice slice_at(const worker_setup& of, std::uint64_t position, const protocols::compute& like, std::uint32_t index) {
  if (of.assignment.by_worker)
    return step_rows(of.assignment, {position, of.batch, static_cast<int>(like.cuts), static_cast<int>(index)}, of.data_size);
  auto whole = global_batch(position, static_cast<std::int64_t>(like.batches) * of.batch, of.data_size);
  return cut(whole, static_cast<int>(like.cuts), static_cast<int>(index));
}

/// How many slots, from the first on, these ranges cover.
std::size_t leading_slots(const parameter_layout& layout, const std::vector<flat_range>& there) {
  const auto is_there = [&there](const parameter_slot& slot) {
    return covers(there, {slot.offset, slot.offset + slot.elements()});
  };
  const auto& slots = layout.slots;
  return static_cast<std::size_t>(std::ranges::find_if_not(slots, is_there) - slots.begin());
}

} // namespace

worker_state::worker_state(measured_pointer<worker_actor> self, worker_setup setup)
    : self_(self), setup_(std::move(setup)), parameters_in_(inbox_of(setup_.receive_buffers)),
      replicas_in_(inbox_of(setup_.from_peers)),
      chunks_in_([common = setup_.common](std::size_t bytes) { return common->allocate(bytes); }),
      bound_(*this, setup_.machine, {setup_.self, setup_.incarnation}, setup_.keeps_own), activity_(self->doing),
      clock_(setup_.wall), timers_(clock_,
                                   [this](protocols::timer_id timer, protocols::nanoseconds delay) {
                                     self_->delayed_send(self_, std::chrono::nanoseconds{delay}, protocols::expired{timer});
                                   }),
      step_over_(timers_, [this] { finish_step(); }),
      crash_(timers_, [this] { self_->quit(failure("[[inject.fault]] says so")); }),
      to_peers_(setup_.inject.link, clock_, timers_, setup_.device, setup_.device_compute),
      pushes_(std::move(setup_.pushes), setup_.net, clock_, exchange_, setup_.device, setup_.device_compute),
      track_(setup_.trace, setup_.self) {
  if (!setup_.meter)
    setup_.meter = std::make_shared<worker_meter>();
  activity_.enter("waits for a plan");
  end_with_reason(*self, setup_.device ? std::string{setup_.device->name()} : "cpu");
  // They live and die together: a worker needs its compute actor and loader, and its node reports the reason.
  self->link_to(setup_.compute);
  self->link_to(setup_.loader);
}

/// On a device the compute actor, which owns the queue, copies incoming tensors. Parameters reuse the same few blocks.
template <class Key>
tensor_inbox<Key> worker_state::inbox_of(const std::shared_ptr<assembler<Key>>& receive_buffers) {
  if (!setup_.device || !receive_buffers)
    return receive_buffers;
  if (!blocks_)
    blocks_ = std::make_shared<recurring_blocks>([queue = setup_.device](std::size_t bytes) { return queue->allocate(bytes); });
  return {receive_buffers,
          {.name = std::string{setup_.device->name()},
           .allocate = [blocks = blocks_](std::size_t bytes) { return blocks->take(bytes); },
           .upload =
               [compute = setup_.device_compute](const auto& to, const auto& from, bool from_host) {
                 caf::anon_send(compute, upload_request{to, from, from_host});
               },
           .shares = false}};
}

worker_actor::behavior_type worker_state::make_behavior() {
  const auto parameters = [this]<class Payload>(const wire::params_part& head, const Payload& payload) {
    bound_.on(head.params, head.from, piece<Payload>{{head.where.begin, head.where.end}, payload, head.as, head.base, head.from});
  };
  const auto replica = [this]<class Payload>(const wire::peer_part& head, const Payload& payload) {
    bound_.on(head.message, piece<Payload>{{head.where.begin, head.where.end}, payload, head.as});
  };
  return {
      [parameters](const wire::params_part& head, const kernels::buffer& payload) { parameters(head, payload); },
      [replica](const wire::peer_part& head, const kernels::buffer& payload) { replica(head, payload); },
      [this](const peers_ptr& peers) {
        to_peers_.introduce(peers_ = peers);
        pushes_.introduce(peers);
      },
      [this](const inspect_query&) { return report(); },
      [this](const operator_pause& msg) { handle_pause(self_, msg, [this] { return report(); }); },
      [this](const protocols::plan& msg) { on(msg); },
      [this](pause_order) { run(clock_, timers_, false); },
      [this](protocols::resume_order) { run(clock_, timers_, true); },
      [this](const protocols::takes_over& msg) {
        pushes_.moved(msg.shard);
        bound_.on(msg);
      },
      [this](const protocols::checkpoint_order& msg) { bound_.on(msg); },
      [this](const protocols::keep_order& msg) { bound_.on(msg); },
      [this](const protocols::fetch_order& msg) { bound_.on(msg); },
      [this](const protocols::hold_order& msg) { bound_.on(msg); },
      [this](const protocols::expired& msg) { timers_.fire(msg.timer); },
      [this](const gradient_ready& msg) { on_gradient(msg); },
      [parameters](const wire::params_part& head, const device_tensor& payload) { parameters(head, payload); },
      [replica](const wire::peer_part& head, const device_tensor& payload) { replica(head, payload); },
      [this](const push_on_host& msg) { send_parts(msg.push, msg.tensor, msg.keep); },
  };
}

void worker_state::on(const protocols::plan& msg) {
  if (!bound_.newest()) {
    clock_.resume();
    for (const auto& fault : setup_.inject.faults)
      if (fault.type == protocols::fault_spec::kind::crash && fault.worker == setup_.self)
        crash_.arm(protocols::duration_of_s(fault.at_s));
    activity_.enter("waits for parameters");
  } else if (msg.epoch <= bound_.newest()->epoch) {
    return;
  }
  replicas_in_.drop_if([&msg](const peer_key& key) { return !msg.has(key.first); });
  chunks_in_.drop_before(msg.epoch);
  bound_.on(std::make_shared<const protocols::plan>(msg));
}

template <class Payload>
std::optional<kernels::buffer> worker_state::join(const protocols::params& head, const piece<Payload>& part) {
  std::optional<std::string> wrong;
  if constexpr (std::is_same_v<Payload, kernels::buffer>)
    if (setup_.decoder)
      wrong = setup_.decoder->add(parameters_in_, head.key, head.ver, {part.where, part.data, {}, part.as, part.base});
  if (wrong)
    self_->quit(failure(*wrong)); // its next life is given all of them
  if (!setup_.decoder)
    parameters_in_.add(head.key, part.where, part.data);
  auto& newest = sent_keys_[part.from];
  newest = std::max(newest, head.key);
  auto whole = parameters_in_.take(head.key);
  if (whole) {
    parameters_in_.drop_if([&head](std::uint64_t other) { return other < head.key; });
    coming_.reset();
  } else {
    if (!coming_ || coming_->key < head.key)
      coming_ = {head.key, head.position};
    go_ahead();
  }
  return whole;
}

template <class Payload>
std::optional<kernels::buffer> worker_state::join(const protocols::peer_message& head, const piece<Payload>& part) {
  using kind = protocols::peer_message::kind;
  if (head.is != kind::replica) {
    if constexpr (std::is_same_v<Payload, kernels::buffer>) {
      if (auto whole = chunks_in_.join(setup_.common.get(), bound_.newest(),
                                       {{}, head, {part.where.begin, part.where.end}, part.as}, part.data))
        return *std::move(whole);
      else
        refused(whole.error().message);
    }
    return std::nullopt;
  }
  const peer_key key{head.from, head.round};
  replicas_in_.add(key, part.where, part.data);
  auto whole = replicas_in_.take(key);
  if (whole)
    replicas_in_.drop_if([&key](const peer_key& other) { return other.first == key.first && other.second < key.second; });
  return whole;
}

void worker_state::adopt(protocols::version ver, const tensor& parameters) {
  exchange_.ends(clock_.now(), *setup_.meter);
  track_.adopts(ver);
  pushes_.answered(ver);
  adopted_ = ver;
  if (setup_.common)
    return setup_.common->begin(parameters);
  anchor_ = parameters;
}

void worker_state::save(protocols::version ver, const protocols::kept_replica& kept, protocols::operands<tensor> replica) {
  if (!setup_.saves)
    return;
  auto codes = pushes_.encoder() != nullptr ? pushes_.encoder()->kept()
               : setup_.common              ? setup_.common->kept_codes()
                                            : named_buffers{};
  self_->send(setup_.compute, keep_request{ver, std::move(codes), std::move(replica), kept.weight, kept.position, kept.open});
}

void worker_state::begin(const protocols::compute& request, const protocols::plan& plan, const protocols::local_step* own) {
  step_ = {};
  step_.request = request;
  pushes_.begin(plan, request.stream_as);
  sum_by(plan.partition_kib);
  summed_.begin();
  if (own != nullptr && own->from_common)
    mix({{.tensor = setup_.common->parameters()}});
  step_.measures = own != nullptr && own->measures;
  if (own != nullptr) {
    const auto epochs = static_cast<double>(request.position) / static_cast<double>(setup_.data_size);
    const auto lr = plan.lr_scale * learning_rate(setup_.optimizer, epochs, static_cast<int>(plan.workers.size()));
    step_.update = local_update{anchor_, own->proximal, own->dual, own->momentum, lr};
  }
  step_.begun = clock_.now();
  for (const auto& part : request.parts) {
    auto rows = slice_at(setup_, request.position, request, part.index);
    for (auto begin = rows.begin; begin < rows.end; begin += setup_.batch) {
      auto end = std::min(begin + setup_.batch, rows.end);
      auto share = static_cast<double>(end - begin) / static_cast<double>(rows.size());
      step_.chunks.push_back({{rows.epoch, begin, end}, part.weight * share});
    }
  }
  if (!step_.chunks.empty()) {
    begun_ns_ = steady_ns();
    return load();
  }
  // A short last batch may leave no rows for this worker: its clock advances anyway.
  if (setup_.common && own == nullptr)
    gradient_ = setup_.common->zeros();
  answer({.step = request.step});
}

/// Looks for what of a gradient is summed by itself under a plan of such partitions, if that may be during backward.
void worker_state::sum_by(std::uint32_t kib) {
  if (!setup_.common || !setup_.sum_partitions || !pushes_.overlaps() || summed_by_ == kib)
    return;
  summed_by_ = kib;
  summed_ = {};
  const std::uint32_t count = setup_.sum_partitions(kib);
  if (count <= 1)
    return;
  push_target all{};
  for (std::uint32_t i = 0; i < count; ++i)
    all.partitions.push_back(setup_.common->where({i, i + 1, count}));
  summed_.find(setup_.net->layout(), {std::move(all)});
}

/// Requests the missing batches one after the other; after the last one the step is computed.
void worker_state::load() {
  activity_.enter("waits for data");
  for (auto& chunk : step_.chunks) {
    if (!chunk.data && next_batch_ && next_batch_->where == chunk.rows)
      chunk.data = std::exchange(next_batch_, std::nullopt)->data;
    if (chunk.data)
      continue;
    if (asked_for_ != chunk.rows)
      ask_for(chunk.rows);
    return;
  }
  compute();
}

/// Requests the next slice under the same plan while this one computes; any other slice is loaded on demand.
void worker_state::prefetch() {
  const auto& request = step_.request;
  const auto& plan = bound_.work();
  if (request.parts.size() != 1 || request.cuts != plan.workers.size())
    return; // slices are given out push by push, or there are several
  auto rows = slice_at(setup_, plan.after(request.position), request, request.parts.front().index);
  if (rows.size() > 0 && !asked_for_)
    ask_for(rows);
}

void worker_state::ask_for(const slice& rows) {
  asked_for_ = rows;
  self_->request(setup_.loader, caf::infinite, rows).then([this](loaded_batch& loaded) { on_batch(loaded); });
}

/// If the next step is like the last, a gradient at the parameters that are coming, its forward begins with those that are there.
/// The machine knows nothing of it: it hears of them, and asks for the step, once all are.
void worker_state::go_ahead() {
  const auto& last = step_.request;
  if (!coming_ || !pushes_.overlaps() || setup_.device || step_.computing || !step_.chunks.empty() || finished_ || step_.update
      || last.parts.size() != 1)
    return;
  const auto rows = slice_at(setup_, coming_->position, last, last.parts.front().index);
  if (rows.size() == 0 || rows.size() > setup_.batch)
    return;
  if (!next_batch_ || next_batch_->where != rows) {
    if (!asked_for_)
      ask_for(rows);
    return;
  }
  auto [parameters, there] = setup_.common ? setup_.common->coming() : parameters_in_.so_far(coming_->key);
  if (const auto slots = leading_slots(setup_.net->layout(), there); slots > std::exchange(coming_->slots_told, slots))
    self_->send(setup_.compute, ahead_request{std::move(parameters), std::move(there), next_batch_->data, setup_.seed});
}

void worker_state::on_batch(loaded_batch& loaded) {
  if (asked_for_ == loaded.where)
    asked_for_.reset();
  if (setup_.device)
    caf::anon_send(setup_.device_compute, prefetch_request{loaded.data});
  next_batch_ = std::move(loaded);
  if (!step_.computing && !step_.chunks.empty())
    load();
  go_ahead();
}

void worker_state::compute() {
  queued_ns_ = steady_ns() - begun_ns_;
  activity_.again("computes");
  track_.computes(step_.begun);
  step_.computing = true;
  compute_request request;
  request.step = step_.request.step;
  request.parameters = setup_.common ? setup_.common->parameters() : anchor_;
  for (auto& chunk : step_.chunks)
    request.parts.push_back({std::move(*chunk.data), chunk.weight});
  request.seed = setup_.seed;
  request.own = step_.update;
  step_.chunks.clear();
  self_->request(setup_.compute, caf::infinite, std::move(request))
      .then([this](compute_result& result) { on_computed(result); }, [this](const caf::error& e) { compute_failed(e); });
  prefetch();
}

void worker_state::on_gradient(const gradient_ready& msg) {
  if (!step_.computing || msg.step != step_.request.step)
    return;
  if (!setup_.common)
    return pushes_.ready(msg);
  // While the job is held, no result reaches the machine. Of what other code computes, it is not known yet what a mean is over.
  if (!clock_.running() || setup_.net->computed_by())
    return;
  for (const auto& [none, partition] : summed_.complete(msg.slot))
    bound_.on(
        protocols::computed_partition{
            .step = msg.step, .partition = static_cast<std::uint32_t>(partition), .samples = msg.rows, .ignored = msg.ignored},
        msg.gradients);
}

/// When the compute actor ends, its unanswered requests fail first; its reason comes by the link and ends this actor too.
void worker_state::compute_failed(const caf::error& e) {
  if (e != caf::sec::broken_promise && e != caf::sec::request_receiver_down)
    self_->quit(e);
}

void worker_state::on_computed(compute_result& result) {
  step_.computing = false;
  exchange_.computed_ahead(result.ahead_ns, *setup_.meter);
  if (step_.update) {
    step_.gradient = std::exchange(result.gradients, {});
    step_.update->squares = result.squares;
  }
  if (result.gradients)
    gradient_ = std::move(result.gradients);
  step_.factors = std::move(result.factors);
  finished_ = protocols::computed{.step = result.step,
                                  .samples = result.rows,
                                  .loss = result.loss,
                                  .compute = result.compute_ns,
                                  .finite = result.finite,
                                  .ignored = result.ignored,
                                  .squares = result.squares};
  if (!result.finite)
    activity_.failed(fmt::format("the gradient of step {} is not finite", result.step));
  auto share = static_cast<double>(result.rows) / static_cast<double>(setup_.batch);
  auto wanted = protocols::emulated_step(setup_.inject, setup_.seed, setup_.self, result.step, share);
  track_.took(result.compute_ns, wanted);
  if (wanted > 0) {
    setup_.meter->computed_ns += result.compute_ns;
    setup_.meter->emulated_ns += wanted;
    finished_->compute = std::max(wanted, result.compute_ns);
  }
  const auto left = step_.begun + wanted - clock_.now();
  if (left > 0 || !clock_.running())
    step_over_.arm(left);
  else
    finish_step();
}

void worker_state::finish_step() {
  if (!finished_)
    return;
  auto done = *std::exchange(finished_, std::nullopt);
  exchange_.step_ended(clock_.now());
  computed_ns_ = done.compute;
  activity_.again(setup_.common ? "sums gradients" : "waits for parameters"); // unless its machine continues
  track_.computed(done.step, done.samples, clock_.now());
  if (step_.update && done.finite) // otherwise the replica does not change
    self_->send(setup_.compute, step_request{std::exchange(step_.gradient, {}), *step_.update});
  answer(std::move(done));
}

void worker_state::answer(protocols::computed done) {
  if (!std::exchange(step_.measures, false))
    return bound_.on(std::move(done), std::exchange(gradient_, std::nullopt));
  using source = protocols::operand<tensor>::source;
  self_
      ->request(setup_.compute, caf::infinite,
                sum_request{{{.tensor = setup_.common->parameters()}, {.from = source::own, .weight = -1}}})
      .then(
          [this, done](sum_result& moved) mutable {
            done.finite = done.finite && moved.finite;
            bound_.on(std::move(done), std::move(moved.sum));
          },
          [this](const caf::error& e) { compute_failed(e); });
}

/// If it waits for parameters, it waits for the lead, which decides when they are sent; once some have come, for the other
/// shards.
actor_report worker_state::report() const {
  auto out = self_->report();
  auto waits = [&out](std::string whom, std::string on) {
    out.waits_for.push_back(std::move(whom));
    out.waits_on = std::move(on);
  };
  if (out.state == "waits for parameters" && peers_ && !peers_->holders.empty()) {
    const auto on = fmt::format("parameters to go on from step {}", step_.request.step);
    for (const auto& [shard, key] : sent_keys_)
      if (coming_ && key < coming_->key)
        waits(fmt::format("shard {}", shard.value), on);
    if (out.waits_for.empty())
      waits("shard 0", on);
  } else if (out.state == "waits for a plan") {
    waits("coordinator 0", "a plan");
  } else if (out.state == "waits for data") {
    const auto& rows = asked_for_.value_or(slice{});
    waits(fmt::format("loader {}", setup_.self.value),
          fmt::format("rows {} to {} of epoch {}", rows.begin, rows.end, rows.epoch));
  } else if (step_.computing) {
    waits(fmt::format("compute {}", setup_.self.value), fmt::format("step {}", step_.request.step));
  } else if (!clock_.running()) {
    waits("coordinator 0", "the job to go on");
  } else if (const auto peers = setup_.machine->waiting_for(); !finished_ && !peers.empty()) {
    for (const auto peer : peers)
      waits(fmt::format("worker {}", peer.value), fmt::format("its part of step {}", step_.request.step));
  } // otherwise its result waits for the end of its emulated time
  const auto* plan = bound_.newest();
  if (!clock_.running() && plan)
    out.state = "held, " + out.state;
  out.fields = {{"step", std::to_string(step_.request.step)},
                {"plan", std::to_string(plan ? plan->epoch.value : 0)},
                {"version", std::to_string(adopted_.value)},
                {"clock", std::to_string(pushed_.value)},
                {"bytes_pushed", std::to_string(bytes_pushed_)},
                {"compute_ms", fmt::format("{:.3f}", static_cast<double>(computed_ns_) * 1e-6)},
                {"queue_ms", fmt::format("{:.3f}", static_cast<double>(queued_ns_) * 1e-6)}};
  if (setup_.common)
    out.fields["refused"] = std::to_string(refused_);
  return out;
}

void worker_state::send(const protocols::push& push, std::optional<tensor> gradient) {
  track_.pushes(push.id.clock);
  pushed_ = push.id.clock;
  anchor_ = {};
  send_push(push, gradient.value_or(tensor{}));
}

void worker_state::send(const protocols::push& push, protocols::operands<tensor> sum, bool keep) {
  track_.pushes(push.id.clock);
  pushed_ = push.id.clock;
  anchor_ = {};
  self_->request(setup_.compute, caf::infinite, sum_request{std::move(sum)})
      .then(
          [this, msg = push, keep](sum_result& result) mutable {
            msg.finite = msg.finite && result.finite;
            if (keep && pushes_.encoder() == nullptr)
              bound_.pushed(result.sum);
            send_push(msg, result.sum, keep);
          },
          [this](const caf::error& e) { compute_failed(e); });
}

void worker_state::send(const protocols::send_peer& effect) {
  using kind = protocols::peer_message::kind;
  if (effect.message.is == kind::standing)
    return to_peers_.send(effect, {});
  if (setup_.common)
    return to_peers_.send(effect, effect.message.is == kind::state ? setup_.common->state() : setup_.common->parameters());
  const bool to_peer = effect.to != protocols::evaluator;
  if (effect.message.weight == 0)
    return to_peers_.send(effect, {});
  protocols::operands<tensor> own{{.from = protocols::operand<tensor>::source::own}};
  self_->request(setup_.compute, caf::infinite, sum_request{std::move(own)})
      .then(
          [this, to_peer, msg = effect](sum_result& result) mutable {
            if (!result.finite && to_peer)
              return bound_.give_back(msg);
            if (!result.finite)
              msg.message.weight = 0;
            to_peers_.send(msg, result.sum);
          },
          [this](const caf::error& e) { compute_failed(e); });
}

void worker_state::take_step(const protocols::take_step& order, const tensor& sum) {
  if (order.last)
    exchange_.ends(clock_.now(), *setup_.meter);
  setup_.common->take_step(order, sum);
  if (order.last) {
    adopted_ = order.round.ver;
    return coming_.reset();
  }
  if (!coming_)
    coming_ = {order.round.ver.value, bound_.work().after(step_.request.position)};
  go_ahead();
}

void worker_state::take_state(protocols::version ver, const tensor& from) {
  setup_.common->take_state(ver, from);
  adopted_ = ver;
}

void worker_state::refused(const std::string& why) {
  ++refused_;
  activity_.failed("refused " + why);
}

void worker_state::send_push(const protocols::push& push, const kernels::buffer& gradient, bool keep) {
  if (!pushes_.wants_on_host() || gradient.empty())
    return send_parts(push, gradient, keep);
  pushes_.fetch(gradient, [me = worker_actor{self_}, push, keep](const kernels::buffer& on_host) {
    caf::anon_send(me, push_on_host{push, on_host, keep});
  });
}

/// With the last end the job may be at its own, and what is recorded later would be in no trace.
void worker_state::send_parts(const protocols::push& push, const kernels::buffer& gradient, bool keep) {
  const auto sent = pushes_.send_parts(push, gradient, step_.factors, keep);
  if (keep && sent.decoded)
    bound_.pushed(from_host(sent.decoded));
  track_.pushed(sent.bytes);
  bytes_pushed_ += sent.bytes;
  pushes_.send_ends(push, !gradient.empty());
}

/// Where the compute actor computes with it.
kernels::buffer worker_state::from_host(const kernels::buffer& values) {
  if (!setup_.device)
    return values;
  auto there = setup_.device->allocate(values.bytes());
  caf::anon_send(setup_.device_compute, upload_request{there, values});
  return there;
}

} // namespace troupe::actors
