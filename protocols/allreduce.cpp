// SPDX-License-Identifier: BSD-3-Clause
// Synchronous SGD and local SGD without a shard.
#include "protocols/allreduce.hpp"

#include <algorithm>
#include <deque>
#include <utility>

#include <fmt/format.h>

#include "kernels/assert.hpp"
#include "protocols/tree.hpp"

namespace troupe::protocols {

using collective::facts;
using kind = peer_message::kind;

namespace {

/// Of the plan of those that begin the job.
constexpr plan_epoch first_epoch{1};

std::string text_of(const peer_message& msg) {
  return fmt::format("{} of worker {} for version {} under plan {}", msg.is == kind::chunk ? "a chunk" : "the state",
                     msg.from.worker.value, msg.round, msg.epoch.value);
}

} // namespace

collective::topology topology_of(const std::vector<worker_id>& workers, std::uint32_t group,
                                 const std::vector<std::uint32_t>& blocks) {
  const auto count = static_cast<std::uint32_t>(workers.size());
  collective::topology out(count, [&](std::uint32_t rank) {
    return group > 0 ? std::optional{workers[rank].value / group} : block_of(blocks, workers[rank]);
  });
  if (group == 0 && out.parties() == 1) // one node, or nothing is known of them
    out.groups.clear();
  return out;
}

void allreduce_worker::goes_on(const worker_memory& from) {
  course_.samples = from.samples;
  resumes_ = streams() && from.has_replica;
  own_ = resumes_ ? from.open : facts{};
}

kept_replica allreduce_worker::kept() const {
  return carried_ ? kept_replica{.sum = {{own_parameters, 1}}, .open = *carried_} : kept_replica{};
}

worker_effects allreduce_worker::on(const plan& msg) {
  if (msg.epoch <= plan_.epoch)
    return {};
  plan_ = msg;
  resumes_ = resumes_ && plan_.epoch == first_epoch;
  std::vector<worker_id> workers;
  for (const member& each : plan_.workers)
    workers.push_back(each.worker);
  among_ = topology_of(workers, options_.group, blocks_);
  partitions_ = partitions_of_(plan_.partition_kib);
  if (!joined_ && plan_.has(self_)) {
    joined_ = true;
    begun_ = plan_.epoch > first_epoch; // no shard has what it needs
  }
  standings_.erase(standings_.begin(), standings_.lower_bound(plan_.epoch));
  worker_effects out;
  abandon(out);
  if (begun_)
    say_standing(out);
  return out;
}

worker_effects allreduce_worker::on(const params& msg) {
  if (begun_ || !joined_)
    return {};
  begun_ = true;
  course_.position = msg.position;
  ver_ = msg.ver;
  worker_effects out{adopt{msg.ver, msg.parameters}};
  say_standing(out);
  return out;
}

worker_effects allreduce_worker::on(const hold_order& msg) {
  course_.limit = msg;
  course_.limit.now = false;
  worker_effects out;
  begin(out);
  return out;
}

/// One that comes late may be of a version that others had saved.
worker_effects allreduce_worker::on(const checkpoint_order& msg) {
  if (saved_ < msg.at)
    to_save_ = msg.at;
  return {};
}

void allreduce_worker::abandon(worker_effects& out) {
  for (auto& [number, each] : std::exchange(rounds_, {})) {
    if (std::ranges::any_of(each.partitions, &partition::stepped))
      out.emplace_back(undo_steps{});
    for (partition& part : each.partitions)
      for (const collective::reduction_effect& effect : part.sum.on(collective::abandon{}))
        out.emplace_back(discard{std::get<collective::drop_chunk>(effect).data});
  }
  if (const ticket unused = std::exchange(gradient_, {}); unused != ticket{})
    out.emplace_back(discard{unused});
  in_vain_ = computing_;
  settled_ = open_ = false;
  anew_ = true;
  late_ = 0;
  sum_.reset();
  carried_.reset();
}

void allreduce_worker::say_standing(worker_effects& out) {
  if (!plan_.has(self_))
    return;
  for (const member& who : plan_.workers)
    if (who != self_)
      out.emplace_back(send_peer{who.worker,
                                 {.from = self_,
                                  .round = ver_.value_or(version{}).value,
                                  .weight = ver_ ? 1.0 : 0.0,
                                  .is = kind::standing,
                                  .epoch = plan_.epoch}});
  standings_[plan_.epoch][self_] = ver_;
  settle(out);
}

/// Once all members have said where they are.
void allreduce_worker::settle(worker_effects& out) {
  const auto& said = standings_[plan_.epoch];
  const auto has_spoken = [&](member who) { return said.contains(who); };
  if (settled_ || !std::ranges::all_of(plan_.workers, has_spoken))
    return;
  const auto newest = [&] {
    std::optional<version> most;
    for (const member& who : plan_.workers)
      most = std::max(most, said.at(who));
    return most;
  }();
  if (!newest)
    return; // who had it is gone: the rule has said so
  const auto has_it = [&](member who) { return said.at(who) == newest; };
  if (const member giver = *std::ranges::find_if(plan_.workers, has_it); giver == self_)
    for (const member& who : plan_.workers)
      if (!has_it(who))
        out.emplace_back(send_peer{
            who.worker,
            {.from = self_, .round = newest->value, .is = kind::state, .epoch = plan_.epoch, .facts = last_, .course = course_}});
  if (!has_it(self_))
    return; // it comes
  settled_ = true;
  writes_ = plan_.workers.front() == self_;
  answer(out);
  begin(out);
}

bool allreduce_worker::at_its_limit() const {
  const hold_order& limit = course_.limit;
  return (limit.at_samples != 0 && course_.samples >= limit.at_samples)
         || (limit.at_version != 0 && ver_->value >= limit.at_version);
}

/// The next round, at the parameters that it has.
void allreduce_worker::begin(worker_effects& out) {
  if (!settled_ || computing_ || open_ || at_its_limit())
    return;
  open_ = true;
  if (std::exchange(anew_, false)) {
    position_ = summed_to_ = course_.position;
    const std::uint32_t made = ver_->value > 0 ? options_.overlap : 0;
    left_ = steps_to_a_sum() - made;
    if (plan_.epoch == first_epoch) // from a checkpoint: these steps are part of what is summed next
      for (std::uint32_t i = 0; i < made; ++i)
        summed_to_ = plan_.before(summed_to_);
    compute_ = 0;
    from_common_ = !std::exchange(resumes_, false);
    if (from_common_)
      own_ = {};
  }
  step(out);
}

/// On its cut of the next global batch.
void allreduce_worker::step(worker_effects& out) {
  computing_ = true;
  compute gradient{.step = ++steps_,
                   .position = position_,
                   .batches = ranks(),
                   .cuts = ranks(),
                   .parts = {{static_cast<std::uint32_t>(plan_.rank_of(self_.worker)), 1}}};
  if (options_.steps == 1)
    out.emplace_back(std::move(gradient));
  else
    out.emplace_back(
        local_step{.gradient = std::move(gradient), .from_common = std::exchange(from_common_, false), .measures = left_ == 1});
}

worker_effects allreduce_worker::on(const computed& msg) {
  worker_effects out;
  carried_.reset(); // its own parameters have moved on
  const bool counts = computing_ && msg.step == steps_ && !std::exchange(in_vain_, false);
  if (msg.step == steps_)
    computing_ = false;
  if (!counts) {
    if (msg.gradient != ticket{})
      out.emplace_back(discard{msg.gradient});
    begin(out);
    return out;
  }
  own_.samples += msg.samples;
  own_.loss += msg.counted() > 0 ? msg.loss * msg.counted() : 0;
  own_.finite = own_.finite && msg.finite;
  own_.ignored += msg.ignored;
  compute_ += msg.compute;
  position_ = plan_.after(position_);
  if (--left_ == 0)
    measured(msg, out);
  else if (late_ == 0 || --late_ > 0)
    step(out);
  else
    finish(out);
  return out;
}

/// So much of a sum can be made before the gradient is complete: what its terms weigh is known.
worker_effects allreduce_worker::on(const computed_partition& msg) {
  worker_effects out;
  if (!computing_ || in_vain_ || msg.step != steps_ || msg.partition == 0 || msg.partition >= partitions_) {
    out.emplace_back(discard{msg.gradient});
    return out;
  }
  keep_gradient(msg.gradient, out);
  samples_in_sum_ = static_cast<double>(plan_.after(position_) - summed_to_);
  begin_sum(msg.partition, {.samples = msg.samples, .ignored = msg.ignored}, out);
  return out;
}

/// All messages of a step bring the same one: sums are made in the first.
void allreduce_worker::keep_gradient(ticket gradient, worker_effects& out) {
  if (gradient_ == ticket{})
    gradient_ = gradient;
  else
    out.emplace_back(discard{gradient});
}

/// The next sum is of the steps up to this one.
void allreduce_worker::measured(const computed& msg, worker_effects& out) {
  const std::uint64_t number = next(*ver_).value;
  keep_gradient(msg.gradient, out);
  left_ = steps_to_a_sum();
  late_ = options_.overlap;
  samples_in_sum_ = static_cast<double>(position_ - std::exchange(summed_to_, position_));
  facts own = std::exchange(own_, {});
  own.saves = to_save_ && to_save_->value <= number;
  using course = collective::reduction_state::course;
  for (std::uint32_t i = partitions_ - 1; i > 0; --i)
    if (round(number).partitions[i].sum.state().is == course::waits)
      begin_sum(i, {.samples = own.samples, .ignored = own.ignored}, out);
  begin_sum(0, own, out);
  if (late_ > 0)
    step(out);
}

void allreduce_worker::begin_sum(std::uint32_t partition, const facts& own, worker_effects& out) {
  const std::uint64_t number = next(*ver_).value;
  // An owner knows all facts, and weighs each term as a shard does. Elsewhere a term goes by its share of the batch.
  if (!weighs_terms()) {
    if (const double share = own.counted() / samples_in_sum_; share != 1)
      out.emplace_back(add_up{gradient_,
                              options_.fragments * partitions_ > 1 ? part_of(number, partition, 0, cuts()) : segment_range{},
                              {{gradient_, share}}});
  }
  const auto rank = static_cast<std::uint32_t>(plan_.rank_of(self_.worker));
  reduce(round(number).partitions[partition].sum.on(collective::begin{rank, among_, own}), number, partition, out);
}

segment_range allreduce_worker::whole_of(std::uint64_t ver, std::uint32_t first, std::uint32_t last) const {
  const auto before = static_cast<std::uint32_t>(ver % options_.fragments) * partitions_;
  return {before + first, before + last, partitions_ * options_.fragments};
}

segment_range allreduce_worker::part_of(std::uint64_t ver, std::uint32_t partition, std::uint32_t first,
                                        std::uint32_t last) const {
  const segment_range whole = whole_of(ver, partition, partition + 1);
  return {whole.first * cuts() + first, whole.first * cuts() + last, whole.of * cuts()};
}

allreduce_worker::open_round& allreduce_worker::round(std::uint64_t number) {
  const auto found = rounds_.find(number);
  if (found != rounds_.end())
    return found->second;
  return rounds_.emplace(number, open_round{std::vector(partitions_, partition{collective::reduction{algorithm()}})})
      .first->second;
}

worker_effects allreduce_worker::on(const peer_message& msg) {
  worker_effects out;
  switch (msg.is) {
  case kind::standing:
    if (msg.data != ticket{})
      out.emplace_back(discard{msg.data});
    if (msg.epoch < plan_.epoch)
      break;
    standings_[msg.epoch][msg.from] = msg.weight > 0 ? std::optional{version{msg.round}} : std::nullopt;
    if (msg.epoch == plan_.epoch)
      settle(out);
    break;
  case kind::chunk:
    on_chunk(msg, out);
    break;
  case kind::state:
    on_state(msg, out);
    break;
  case kind::replica:
    if (msg.data != ticket{})
      out.emplace_back(discard{msg.data});
    break;
  }
  return out;
}

/// Nobody is more than a round ahead. Until it is settled, this worker may be a version behind itself.
void allreduce_worker::on_chunk(const peer_message& msg, worker_effects& out) {
  constexpr std::uint64_t ahead = 2;
  const bool possible = !ver_ || (msg.round > ver_->value && msg.round <= ver_->value + ahead);
  const bool room = rounds_.contains(msg.round) || rounds_.size() < ahead;
  const auto refused = [&](std::string_view why) {
    out.emplace_back(refuse{msg.data, fmt::format("{}: {}", text_of(msg), why)});
  };
  if (msg.epoch != plan_.epoch)
    return refused(fmt::format("this is plan {}", plan_.epoch.value));
  if (!plan_.has(msg.from) || msg.from == self_)
    return refused("the plan has no such peer");
  if (!possible || !room)
    return refused(fmt::format("this worker is at version {}", ver_.value_or(version{}).value));
  const segment_range whole = part_of(msg.round, 0, 0, cuts() * partitions_);
  if (msg.part.of != whole.of || msg.part.first < whole.first || msg.part.last > whole.last)
    return refused(
        fmt::format("{} sums segments {} to {} of {}", collective::name_of(algorithm()), whole.first, whole.last - 1, whole.of));
  open_round& to = round(msg.round);
  to.known.insert_or_assign(msg.data, msg.facts);
  const auto from = static_cast<std::uint32_t>(plan_.rank_of(msg.from.worker));
  const std::uint32_t partition = (msg.part.first - whole.first) / cuts(), begin = whole.first + partition * cuts();
  const collective::chunk_id name{from, msg.stage, msg.part.first - begin};
  reduce(to.partitions[partition].sum.on(collective::chunk{name, msg.part.last - begin, msg.data, msg.facts}), msg.round,
         partition, out);
}

void allreduce_worker::on_state(const peer_message& msg, worker_effects& out) {
  const bool newer = !ver_ || msg.round > ver_->value;
  if (msg.epoch != plan_.epoch || !plan_.has(msg.from) || settled_ || !newer) {
    out.emplace_back(refuse{msg.data, text_of(msg) + ": nobody waits for it"});
    return;
  }
  const worker_course own = course_;
  course_ = msg.course;
  if (own.limit.at_samples != 0 || own.limit.at_version != 0) // it has heard where to stop
    course_.limit = own.limit;
  const bool was_behind = ver_.has_value();
  ver_ = version{msg.round};
  settled_ = true;
  out.emplace_back(take_state{*ver_, msg.data});
  // Of this version nobody else writes what all have. Who has it from the beginning may be of a later plan than who wrote it.
  const bool wrote = std::exchange(writes_, plan_.workers.front() == self_);
  if (was_behind && wrote && writes_ && saves(msg.facts))
    save(out);
  if (msg.round > 0)
    report(out, msg.facts, 0);
  answer(out);
  begin(out);
}

/// Sums are made in place, at once.
void allreduce_worker::reduce(collective::reduction_effects effects, std::uint64_t number, std::uint32_t partition,
                              worker_effects& out) {
  std::deque<collective::reduction_effect> todo(effects.begin(), effects.end());
  const auto more = [&todo](const collective::reduction_effects& next) { todo.insert(todo.end(), next.begin(), next.end()); };
  for (; !todo.empty(); todo.pop_front()) {
    open_round& of = round(number);
    const auto& effect = todo.front();
    if (const auto* merging = std::get_if<collective::merge>(&effect)) {
      if (add_up sum = merged(of, number, partition, *merging); !sum.sum.empty())
        out.emplace_back(std::move(sum));
      for (const ticket used : merging->terms)
        if (used != ticket{}) {
          of.known.erase(used);
          out.emplace_back(discard{used});
        }
      more(of.partitions[partition].sum.on(collective::merged{merging->stage, merging->first}));
    } else if (const auto* part = std::get_if<collective::send_chunk>(&effect)) {
      out.emplace_back(send_peer{plan_.workers[part->to].worker,
                                 {.from = self_,
                                  .round = number,
                                  .data = gradient_,
                                  .is = kind::chunk,
                                  .epoch = plan_.epoch,
                                  .stage = part->stage,
                                  .part = part_of(number, partition, part->first, part->last),
                                  .facts = part->of},
                                 collective::cargo_of(algorithm(), among_, part->stage)});
    } else if (const auto* unused = std::get_if<collective::drop_chunk>(&effect)) {
      of.known.erase(unused->data);
      out.emplace_back(discard{unused->data});
    } else if (const auto* wrong = std::get_if<collective::refuse_chunk>(&effect)) {
      of.known.erase(wrong->data);
      out.emplace_back(refuse{wrong->data, fmt::format("round {} of plan {}: {}", number, plan_.epoch.value, wrong->why)});
    } else {
      if (partition == 0)
        sum_ = std::get<collective::reduced>(effect).of;
      return finish(out);
    }
  }
}

/// The weights of a shard, by which the same gradients make the same bits: `by_samples`.
add_up allreduce_worker::merged(open_round& of, std::uint64_t number, std::uint32_t partition,
                                const collective::merge& effect) const {
  add_up out{gradient_, part_of(number, partition, effect.first, effect.last), {}};
  const bool weighs = weighs_terms() && effect.terms.size() > 1;
  const facts own = of.partitions[partition].sum.state().own;
  const auto facts_of = [&](ticket name) { return name == ticket{} ? own : of.known.at(name); };
  double counted = 0;
  for (const ticket name : effect.terms)
    counted += facts_of(name).counted();
  for (const ticket name : effect.terms) {
    const double weight = !weighs ? 1 : counted > 0 ? facts_of(name).counted() / counted : 0;
    if (weight != 0) // else the term of who had no samples
      out.sum.push_back({name == ticket{} ? gradient_ : name, weight});
  }
  return out;
}

/// A step at the sums that are there, those of partitions in a row at once. Whether all of it is made.
bool allreduce_worker::take_steps(version made, const facts& sum, worker_effects& out) {
  std::vector<partition>& parts = rounds_.at(made.value).partitions;
  const auto is_ready = [](const partition& part) { return part.sum.is_done() && !part.stepped; };
  const bool complete = std::ranges::all_of(parts, [](const partition& part) { return part.sum.is_done(); });
  if (!sum.finite || sum.counted() == 0)
    return complete;
  for (auto begin = parts.begin(); (begin = std::find_if(begin, parts.end(), is_ready)) != parts.end();) {
    const auto end = std::find_if_not(begin, parts.end(), is_ready);
    for (auto part = begin; part != end; ++part)
      part->stepped = true;
    const auto first = static_cast<std::uint32_t>(begin - parts.begin()), last = static_cast<std::uint32_t>(end - parts.begin());
    begin = end;
    // Shares are of all samples; a mean is over those whose labels count.
    out.emplace_back(take_step{{.epoch = plan_.epoch,
                                .ver = made,
                                .step = options_.steps > 1 ? options_.outer : step_rule{.lr_scale = plan_.lr_scale},
                                .samples_before = course_.samples,
                                .workers = ranks(),
                                .position = course_.position},
                               {gradient_, weighs_terms() ? 1 : samples_in_sum_ / sum.counted()},
                               whole_of(made.value, first, last),
                               std::ranges::all_of(parts, &partition::stepped)});
  }
  return complete;
}

/// Once the sum is there, and the steps are made that it may come late by: between two steps.
void allreduce_worker::finish(worker_effects& out) {
  if (!sum_ || late_ > 0)
    return;
  const version made = next(*ver_);
  if (!take_steps(made, *sum_, out))
    return;
  const facts sum = *std::exchange(sum_, {});
  const bool moves = rounds_.at(made.value).partitions.front().stepped;
  rounds_.erase(made.value);
  const ticket gradient = std::exchange(gradient_, {});
  carried_.reset();
  if (!moves) {
    out.emplace_back(discard{gradient});
  } else if (streams()) {
    out.emplace_back(mix_common{whole_of(made.value, 0, partitions_), options_.overlap > 0 ? options_.merge : 0});
    carried_ = own_;
  }
  if (!carried_) {
    from_common_ = true;
    own_ = {};
    summed_to_ = position_;
  }
  if (sum.finite)
    course_.samples += static_cast<std::uint64_t>(sum.samples);
  course_.position = position_;
  ver_ = made;
  if (saves(sum))
    save(out);
  report(out, sum, std::exchange(compute_, 0));
  open_ = false;
  begin(out);
}

/// Whether the version that it has, of a sum with these facts, is for a checkpoint.
bool allreduce_worker::saves(const facts& of) const {
  return of.saves || (at_its_limit() && course_.limit.saves_at(*ver_));
}

void allreduce_worker::save(worker_effects& out) {
  saved_ = *ver_;
  if (to_save_ && *to_save_ <= saved_)
    to_save_.reset();
  out.emplace_back(save_replica{saved_, plan_.workers.front() == self_, course_});
}

/// To the lead, that this version is here.
void allreduce_worker::report(worker_effects& out, const facts& of, nanoseconds compute) {
  last_ = of;
  const std::int64_t samples = of.finite ? of.samples : 0;
  out.emplace_back(send_push{{.epoch = plan_.epoch,
                              .id = {self_.worker, self_.incarnation, {ver_->value}},
                              .base = {ver_->value - 1},
                              .samples = samples,
                              .loss = of.counted() > 0 ? of.loss / of.counted() : 0,
                              .compute = compute,
                              .finite = of.finite,
                              .ignored = of.finite ? of.ignored : 0,
                              .applied = course_.samples}});
}

worker_effects allreduce_worker::on(const fetch_order& msg) {
  asked_ = !plan_.workers.empty() && plan_.workers.front() == self_ ? std::optional{msg.ver} : std::nullopt;
  worker_effects out;
  answer(out);
  return out;
}

void allreduce_worker::answer(worker_effects& out) {
  if (settled_ && asked_)
    out.emplace_back(
        send_peer{evaluator, {.from = self_, .round = std::exchange(asked_, {})->value, .made = {ver_->value, course_.samples}}});
}

std::vector<worker_id> allreduce_worker::waiting_for() const {
  std::vector<worker_id> out;
  if (const auto said = standings_.find(plan_.epoch); said != standings_.end() && !settled_)
    for (const member& who : plan_.workers)
      if (!said->second.contains(who))
        out.push_back(who.worker);
  if (gradient_ != ticket{})
    for (const partition& part : rounds_.at(next(*ver_).value).partitions)
      for (const std::uint32_t rank : part.sum.waiting_for())
        out.push_back(plan_.workers[rank].worker);
  std::ranges::sort(out);
  out.erase(std::ranges::unique(out).begin(), out.end());
  return out;
}

void allreduce_worker::check() const {
  TROUPE_ASSERT(!settled_ || (ver_ && plan_.has(self_)));
  TROUPE_ASSERT(gradient_ == ticket{} || (open_ && rounds_.contains(next(*ver_).value)));
  TROUPE_ASSERT(gradient_ != ticket{} || (!sum_ && late_ == 0));
  TROUPE_ASSERT(!open_ || (settled_ && (computing_ || (gradient_ != ticket{} && late_ == 0))));
  TROUPE_ASSERT(rounds_.size() <= 2 && (!in_vain_ || computing_));
  TROUPE_ASSERT(!computing_ || left_ > 0);
  TROUPE_ASSERT(standings_.empty() || standings_.begin()->first >= plan_.epoch);
}

} // namespace troupe::protocols
