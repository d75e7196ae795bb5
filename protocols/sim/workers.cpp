// SPDX-License-Identifier: BSD-3-Clause
// What workers of a simulated cluster do.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "protocols/sim/cases.hpp"
#include "protocols/sim/holders.hpp"
#include "protocols/sim/roles.hpp"
#include "protocols/tree.hpp"

namespace troupe::protocols::sim {

namespace {

using role = endpoint::role;

/// Segments of a sum, each a tensor.
struct cut_tensor final : tensor_data {
  explicit cut_tensor(std::vector<tensor> of) : pieces(std::move(of)) {}
  std::vector<tensor> pieces;
};
/// `of`: into how many it is cut where it is whole; 0: it is as it is.
std::vector<tensor> pieces_of(numerics& maths, const tensor& data, std::uint32_t of) {
  std::vector<tensor> out;
  if (const auto* cut = dynamic_cast<const cut_tensor*>(data.get()))
    out = cut->pieces;
  else
    for (std::uint32_t i = 0; i < std::max(of, 1U); ++i)
      out.push_back(of > 1 ? maths.slice(data, i, of) : data);
  return out;
}

/// What a worker has, on its way to another.
struct copied_replica final : tensor_data {
  explicit copied_replica(std::vector<std::unique_ptr<shard_numerics>> of) : replica(std::move(of)) {}
  std::vector<std::unique_ptr<shard_numerics>> replica;
};
std::vector<std::unique_ptr<shard_numerics>> copy_of(const std::vector<std::unique_ptr<shard_numerics>>& replica) {
  std::vector<std::unique_ptr<shard_numerics>> out;
  for (const auto& fragment : replica)
    out.push_back(fragment->clone());
  return out;
}

std::int64_t samples_in(const batch& of) {
  std::int64_t out = 0;
  for (const batch_part& part : of.parts)
    out += static_cast<std::int64_t>(part.end - part.begin);
  return out;
}

} // namespace

batch batch_of(const compute& order, const plan& current) {
  const std::uint64_t end = current.after(order.position, order.batches);
  batch out{.step = order.step,
            .position = order.position,
            .samples = end - order.position,
            .cuts = order.cuts,
            .workers = static_cast<std::uint32_t>(current.workers.size())};
  for (const auto& [index, weight] : order.parts) {
    const std::uint64_t begin =
        order.position + out.samples / order.cuts * index + std::min<std::uint64_t>(index, out.samples % order.cuts);
    out.parts.push_back(
        {begin, begin + static_cast<std::uint64_t>(plan::cut_size(out.samples, order.cuts, index)), index, weight});
  }
  return out;
}

void cluster::worker_role::begin_life(incarnation life) {
  self.incarnation = life;
  alive = true;
  std::unique_ptr<worker> machine = in.protocol_.make_worker(in.options_.protocol, self, in.options_.seed);
  machine->model_is(in.options_.model_bytes);
  machine->nodes_are(in.options_.blocks);
  machine->partitions_are([this](std::uint32_t kib) { return in.cuts_.of(kib).partitions; });
  bound = std::make_unique<worker_binding<worker_role>>(*this, std::move(machine), self, in.protocol_.decentralized);
  maths = in.maths_.make_worker(self);
  replica.clear();
  if (const auto& job = in.options_; in.protocol_.reduces) {
    const std::uint32_t fragments = in.protocol_.reduces(job.protocol, job.job.workers, job.blocks, job.model_bytes).fragments;
    for (std::uint32_t i = 0; i < fragments; ++i)
      replica.push_back(in.maths_.make_shard(i, fragments));
  }
  incoming.clear();
  pushed.clear();
  budget = in.options_.budget;
  moves = in.holders_->moves();
  anchor = nullptr;
  gradient.reset();
  own_step.reset();
  measures = false;
  idle_since = -1;
  overlap = step_overlap{in.cuts_.of(0).overlap};
  cut_by = 0;
}

void cluster::worker_role::hear(const message& msg) {
  std::visit(cases{
                 [&](const plan_envelope& m) { bound->on(m); },
                 [&](const params_envelope& m) { bound->on(m.head, m.from, m); },
                 [&](const peer_envelope& m) { bound->on(m.head, m.data); },
                 [&](const fetch_order& m) { bound->on(m); },
                 [&](const hold_order& m) { bound->on(m); },
                 [&](const takes_over& m) {
                   moves[m.shard] = m.by;
                   bound->on(m);
                 },
                 [&](const computed_partition& m) {
                   if (gradient) // else all of it is there
                     bound->on(m, *gradient);
                 },
                 [&](const computed& m) {
                   done_at = 0;
                   idle_since = in.now_;
                   bound->on(m, std::exchange(gradient, std::nullopt));
                 },
                 [](const auto&) {},
             },
             msg);
}

std::optional<tensor> cluster::worker_role::join(const params&, const params_envelope& part) {
  params_envelope here = part;
  here.until = in.now_;
  const auto parts = incoming.add(here, in.options_.job.shards);
  if (!parts)
    return std::nullopt;
  overlap.came(*parts);
  std::vector<params> heads;
  for (const params_envelope& each : *parts)
    heads.push_back(each.head);
  for (listener* each : in.listeners_)
    each->joining(self, heads);
  return in.maths_.join(ranges_of(*parts));
}

void cluster::worker_role::adopt(version ver, const tensor& parameters) {
  std::erase_if(pushed, [ver](const push_envelope& each) { return each.head.base < ver; });
  anchor = parameters;
  maths->adopt(parameters);
}

nanoseconds cluster::worker_role::time_of(const batch& of) {
  const double share = static_cast<double>(samples_in(of)) / static_cast<double>(in.options_.job.batch);
  ++steps;
  const auto& measured = in.options_.measured.compute;
  if (measured.empty())
    return emulated_step(in.options_.inject, in.options_.seed, self.worker, of.step, share);
  const auto& own = measured[self.worker.value % measured.size()];
  return own.empty() ? 0 : static_cast<nanoseconds>(share * static_cast<double>(own[(steps - 1) % own.size()]) + 0.5);
}

void cluster::worker_role::begin(const compute& order, const plan& current, const local_step* own) {
  const batch of = batch_of(order, current);
  computed done{.step = of.step, .samples = samples_in(of)};
  own_step.reset();
  gradient.reset();
  if (own != nullptr && own->from_common)
    maths->mix(operands<tensor>{{.tensor = common()}});
  measures = own != nullptr && own->measures;
  if (!replica.empty() && own == nullptr && done.samples == 0) // its term of a sum
    gradient = in.maths_.sum(operands<tensor>{{.tensor = common(), .weight = 0}});
  if (done.samples > 0) {
    done.compute = time_of(of);
    if (own != nullptr) {
      own_step.emplace(of, local_step_rule{own->proximal, own->dual, own->momentum});
    } else {
      maths->forget_momentum();
      const sim::gradient found = maths->gradient_at(replica.empty() ? anchor : common(), of);
      outcome_is(done, found);
      gradient = found.value;
    }
  }
  const bool ahead = own == nullptr && order.parts.size() == 1 && done.samples <= in.options_.job.batch;
  const nanoseconds begun = ahead && idle_since >= 0 ? overlap.begun(done.compute, idle_since, in.now_) : in.now_;
  if (current.partition_kib != std::exchange(cut_by, current.partition_kib))
    overlap = step_overlap{in.cuts_.of(cut_by).overlap};
  worker_totals& totals = in.result_.workers[self.worker];
  if (const nanoseconds since = std::exchange(idle_since, -1); since >= 0)
    totals.waiting += begun - since;
  totals.computing += done.compute;
  outcome = done;
  done_at = std::max(begun, paused_until) + done.compute;
  for (listener* each : in.listeners_)
    each->computing(in.now_, done_at, self, of);
  const endpoint here{role::worker, self.worker.value};
  in.queue_.push(done_at,
                 envelope{.from = here, .to = here, .content = done, .life = self.incarnation, .generation = ++computation});
  if (own != nullptr || !gradient || done.samples == 0)
    return;
  if (!replica.empty())
    announce_partitions();
  else if (order.stream_as && in.network_.limited() && !budget)
    stream(*order.stream_as);
}

/// Of the step under way. What is ready from the first may have been so before the step was ordered.
nanoseconds cluster::worker_role::ready_at(const partition_times& part) const {
  return std::max(in.now_, done_at - share_of(outcome.compute, 1 - part.ready));
}

/// What of a push is there leaves.
void cluster::worker_role::stream(const push& head) {
  double begin = 0;
  for (const partition_times& each : overlap.partitions())
    in.schedule(ready_at(each) + in.options_.measured.message,
                [this, head, first = std::exchange(begin, each.end), last = each.end, generation = computation] {
                  if (alive && generation == computation && paused_until <= in.now_ && partitions == 0)
                    stream(head, first, last);
                });
}

void cluster::worker_role::stream(const push& head, double begin, double end) {
  const push_envelope whole{.head = head, .share = in.options_.pushed_share(head.base)};
  const endpoint here{role::worker, self.worker.value};
  find_targets();
  for (const holder_id target : targets) {
    const endpoint to{role::holder, target.value};
    if (!in.holders_->reaches(target, moves) || in.host_of(to) == host)
      continue;
    const bool shard = in.holders_->at(target.value).place.is_shard;
    const std::uint32_t shards = shard ? in.options_.job.shards : 1;
    const std::uint32_t index = shard ? target.value : 0;
    const double share = share_in(end, index, shards) - share_in(begin, index, shards);
    const auto bytes = static_cast<std::uint64_t>(share * static_cast<double>(bytes_of(whole, shards)));
    if (bytes == 0)
      continue;
    in.network_.extend(in.begun_.add(here, to, head.id, bytes, in.network_), host, in.host_of(to), bytes, in.now_);
    in.look_at({host, true});
    in.look_at({in.host_of(to), false});
  }
}

void cluster::worker_role::announce_partitions() {
  const endpoint here{role::worker, self.worker.value};
  const auto& parts = overlap.partitions();
  for (std::uint32_t i = 1; i < parts.size(); ++i)
    in.queue_.push(ready_at(parts[i]),
                   envelope{.from = here,
                            .to = here,
                            .content =
                                computed_partition{
                                    .step = outcome.step, .partition = i, .samples = outcome.samples, .ignored = outcome.ignored},
                            .life = self.incarnation,
                            .generation = computation});
}

void cluster::worker_role::end_step(computed& done) {
  if (const auto own = std::exchange(own_step, std::nullopt))
    outcome_is(done, maths->local_step(own->first, own->second));
  if (std::exchange(measures, false))
    gradient = maths->sum(operands<tensor>{{.tensor = common()}, {.from = operand::source::own, .weight = -1}});
}

void cluster::worker_role::outcome_is(computed& done, const sim::gradient& found) const {
  const double chance = in.options_.tests.not_finite;
  done.loss = found.loss;
  done.ignored = found.ignored;
  done.squares = found.squares;
  done.finite = found.finite
                && !(chance > 0
                     && random_stream::keyed(in.options_.seed, self.worker.value, self.incarnation.value, done.step).hit(chance));
}

void cluster::worker_role::send(const push& head, const operands<tensor>& sum, bool keep) {
  send(head, std::optional{maths->sum(sum)});
  if (keep)
    bound->pushed(*pushed.back().gradient);
}

void cluster::worker_role::send(const push& head, std::optional<tensor> gradient) {
  ++in.result_.workers[self.worker].pushes;
  for (listener* each : in.listeners_)
    each->pushed(in.now_, head);
  pushed.push_back({head, std::move(gradient)});
  if (push_envelope& newest = pushed.back(); newest.gradient)
    encode(newest);
  find_targets();
  for (const holder_id target : targets)
    send_to(target, pushed.back());
}

/// As a worker's encoder does.
void cluster::worker_role::encode(push_envelope& newest) {
  std::optional<push_density> how_dense;
  if (budget)
    how_dense = budget->density_of(newest.head.id, in.now_);
  auto found = maths->encoded(newest.head, *newest.gradient, how_dense);
  newest.gradient = std::move(found.value);
  newest.bytes = found.bytes;
  newest.share = how_dense ? how_dense->of_all() : in.options_.pushed_share(newest.head.base);
  if (budget)
    budget->sent(bytes_of(newest, 1));
}

/// For one of so many shards.
std::uint64_t cluster::worker_role::bytes_of(const push_envelope& each, std::uint32_t shards) const {
  return each.bytes ? *each.bytes / shards : bytes_in(in.options_.push_form, in.options_.model_bytes / shards, each.share);
}

void cluster::worker_role::find_targets() {
  if (!targets.empty() && bound->work().gone == without)
    return;
  without = bound->work().gone;
  targets = takers_of(in.shape_, without, self.worker);
}

void cluster::worker_role::push_again(std::optional<holder_id> to) {
  for (const push_envelope& each : pushed)
    for (const holder_id target : targets)
      if (!to || target == *to)
        send_to(target, each);
}

void cluster::worker_role::send_to(holder_id target, const push_envelope& whole) {
  if (!in.holders_->reaches(target, moves))
    return;
  const std::uint32_t shards = in.options_.job.shards;
  const auto& gradient = whole.gradient;
  const bool shard = in.holders_->at(target.value).place.is_shard;
  const std::uint64_t bytes = gradient ? bytes_of(whole, shard ? shards : 1) : 0;
  push_envelope out = whole;
  if (gradient && *gradient && shard)
    out.gradient = in.maths_.slice(*gradient, target.value, shards);
  in.send({role::worker, self.worker.value}, {role::holder, target.value}, std::move(out), bytes);
}

/// To who is gone, or while its own link still sends something else, nothing is sent.
bool cluster::worker_role::reaches(worker_id who) const {
  return in.role_of(who).alive && !in.network_.busy({host, true});
}

void cluster::worker_role::send(const send_peer& order) {
  using kind = peer_message::kind;
  const endpoint here{role::worker, self.worker.value};
  peer_envelope out{order.message, {}};
  const bool whole = out.head.is != kind::standing && out.head.weight > 0;
  if (out.head.is == kind::state)
    out.data = std::make_shared<const copied_replica>(copy_of(replica));
  else if (whole)
    out.data = replica.empty() ? maths->sum(operands<tensor>{{.from = operand::source::own}}) : common();
  const std::uint64_t bytes = whole ? in.options_.model_bytes : 0;
  if (order.to == evaluator)
    in.send(here, the_evaluator, std::move(out));
  else
    in.send(here, {role::worker, order.to.value}, std::move(out), bytes);
}

tensor cluster::worker_role::send_chunk(const send_peer& order, const tensor& of) {
  const segment_range part = order.message.part;
  peer_envelope out{order.message, {}};
  std::vector<tensor> pieces = pieces_of(in.maths_, of, part.of);
  std::vector<tensor> sent(pieces.begin() + part.first, pieces.begin() + part.last);
  const bool coded = in.options_.push_form != kernels::form::fp32 && order.cargo != collective::cargo::plain;
  for (std::uint32_t i = 0; coded && i < sent.size(); ++i) {
    sent[i] = maths->encoded(order.message, order.cargo, part.first + i, sent[i]);
    if (order.cargo != collective::cargo::term)
      pieces[part.first + i] = sent[i];
  }
  out.head.data = {};
  out.data = std::make_shared<const cut_tensor>(std::move(sent));
  const std::uint64_t bytes = in.options_.model_bytes * (part.last - part.first) / part.of;
  in.send({role::worker, self.worker.value}, {role::worker, order.to.value}, std::move(out),
          coded ? bytes_in(in.options_.push_form, bytes, in.options_.pushed_share({order.message.round - 1})) : bytes);
  return coded ? std::make_shared<const cut_tensor>(std::move(pieces)) : of;
}

tensor cluster::worker_role::add_up(const tensor& to, const segment_range& part, const operands<tensor>& sum) {
  std::vector<tensor> pieces = pieces_of(in.maths_, to, part.of);
  std::vector<std::vector<tensor>> terms;
  for (const operand& term : sum)
    terms.push_back(term.from == operand::source::own ? std::vector(pieces.begin() + part.first, pieces.begin() + part.last)
                                                      : static_cast<const cut_tensor&>(*term.tensor).pieces);
  for (std::uint32_t segment = part.first; segment < part.last; ++segment) {
    operands<tensor> here;
    for (std::size_t i = 0; i < sum.size(); ++i)
      here.push_back({.tensor = terms[i].at(segment - part.first), .weight = sum[i].weight});
    pieces[segment] = here.size() == 1 && here.front().weight == 1 ? here.front().tensor : in.maths_.sum(here);
  }
  return pieces.size() == 1 ? pieces.front() : std::make_shared<const cut_tensor>(std::move(pieces));
}

/// With the last step, when the sums of all partitions are in place.
void cluster::worker_role::take_step(const protocols::take_step& order, const tensor& sum) {
  overlap.came(order.part, in.now_);
  if (!order.last)
    return;
  const std::uint32_t partitions = in.cuts_.of(bound->work()).partitions;
  const std::uint32_t index = order.part.first / partitions, fragments = order.part.of / partitions;
  const std::vector<tensor> pieces = pieces_of(in.maths_, sum, order.part.of);
  const auto cuts = static_cast<std::ptrdiff_t>(pieces.size() / fragments);
  const auto first = pieces.begin() + cuts * index;
  const tensor here = in.maths_.join(std::vector(first, first + cuts), index, fragments);
  shard_numerics& fragment = *replica.at(index);
  close how = order.round;
  if (in.options_.clips && how.step.method == step_rule::kind::optimizer)
    how.step.squares = fragment.squares_of(here);
  const operands<tensor> terms{{.tensor = here, .weight = order.sum.weight}};
  for (listener* each : in.listeners_)
    each->stepping(self, how, terms);
  fragment.step(terms, how, {});
  maths->made(how.ver);
  for (listener* each : in.listeners_)
    each->has(self, how.ver, fingerprint());
}

void cluster::worker_role::mix_common(const segment_range& part, double own) {
  std::vector<tensor> pieces = pieces_of(in.maths_, maths->sum(operands<tensor>{{.from = operand::source::own}}), part.of);
  operands<tensor> terms{{.tensor = replica.at(part.first)->parameters(), .weight = 1 - own}};
  if (own != 0)
    terms.push_back({.tensor = pieces[part.first], .weight = own});
  pieces[part.first] = in.maths_.sum(terms);
  maths->mix(operands<tensor>{{.tensor = in.maths_.join(pieces)}});
}

void cluster::worker_role::take_state(version ver, const tensor& from) {
  replica = copy_of(static_cast<const copied_replica&>(*from).replica);
  maths->made(ver);
  for (listener* each : in.listeners_)
    each->has(self, ver, fingerprint());
}

tensor cluster::worker_role::common() const {
  std::vector<tensor> ranges;
  for (const auto& fragment : replica)
    ranges.push_back(fragment->parameters());
  return in.maths_.join(ranges);
}

std::uint64_t cluster::worker_role::fingerprint() const {
  std::uint64_t out = 0;
  for (const auto& fragment : replica)
    out = out * 31 + fragment->fingerprint();
  return out;
}

void cluster::worker_role::refused(const std::string& why) {
  ++in.result_.workers[self.worker].refused;
  in.note(fmt::format("worker {} refuses {}", self.worker.value, why));
}

void cluster::worker_role::broken(const std::string& text) const {
  in.broken(fmt::format("worker {}: {}", self.worker.value, text));
}

} // namespace troupe::protocols::sim
