// SPDX-License-Identifier: BSD-3-Clause
// Drives the machines, and checks what they do.
#include "tests/protocols/cluster.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "protocols/round_rule.hpp"
#include "protocols/sync_sgd.hpp"
#include "protocols/tree.hpp"
#include "protocols/sim/text.hpp"

namespace troupe::protocols {

namespace {

template <class... Cases>
struct cases : Cases... {
  using Cases::operator()...;
};

std::unique_ptr<params_worker> make_gradient_worker(member self) {
  return std::make_unique<params_worker>(self, [](const protocol_spec&) { return std::make_unique<gradient_task>(); });
}

std::uint32_t arrivals_per_push(const std::vector<holder_place>& tree, std::uint32_t shards) {
  return tree.size() > shards ? 1 : shards;
}

} // namespace

cluster::cluster(const cluster_options& options)
    : options_(options), dice_(options.seed),
      tree_(holder_tree(options.job.workers, options.job.shards, options.job.protocol.fan_in)), coordinator_(options.job) {
  lead_ = std::make_unique<lead>(std::make_unique<round_rule>([](const protocol_spec&, std::uint64_t) { return std::make_unique<sync_sgd>(); }), arrivals_per_push(tree_, options.job.shards));
  for (const holder_place& place : tree_)
    holders_.push_back(std::make_unique<holder_seat>(place));
  applied_.resize(options.job.shards);
}

void cluster::start() {
  for (std::uint32_t i = 0; i < options_.job.workers; ++i)
    join_late();
}

std::string cluster::name_of(endpoint who) {
  switch (who.kind) {
  case 'c':
    return "coordinator";
  case 'l':
    return "lead";
  case 'e':
    return "evaluator";
  case 'h':
    return fmt::format("holder {}", who.index);
  default:
    return fmt::format("worker {}", who.index);
  }
}

// -- links

void cluster::send(endpoint from, endpoint to, std::string text, std::function<void()> deliver) {
  links_[{from, to}].push_back({++sent_, fmt::format("{} <- {}: {}", name_of(to), name_of(from), text), std::move(deliver)});
}

bool cluster::step() {
  std::erase_if(links_, [](const auto& link) { return link.second.empty(); });
  if (links_.empty())
    return false;
  auto next = links_.begin();
  if (options_.seed == 0)
    next = std::ranges::min_element(links_, {}, [](const auto& link) { return link.second.front().sent; });
  else
    std::advance(next, static_cast<std::ptrdiff_t>(dice_.below(links_.size())));
  parcel now = std::move(next->second.front());
  next->second.pop_front();
  trace_.push_back(now.text);
  // At once, or behind what was sent since: both happen when a lane is opened anew.
  if (options_.duplicate > 0 && dice_.hit(options_.duplicate)) {
    if (now.text.find("push") != std::string::npos && dice_.hit(0.5))
      next->second.push_back(now);
    else
      now.deliver();
  }
  now.deliver();
  if (options_.seed != 0 && !ended_)
    faults();
  return true;
}

void cluster::run() {
  // No run of these tests needs a tenth of it.
  for (int budget = 500'000; step(); --budget)
    if (budget == 0)
      return breaks("the job never ends");
  if (!ended_)
    breaks("nothing is left to deliver, and the job has not ended");
}

/// Where `tail_only`, what was sent last is lost and a random part of the rest is still on its way.
void cluster::forget_links(std::function<bool(endpoint, endpoint)> which, bool tail_only) {
  for (auto& [ends, queue] : links_)
    if (which(ends.first, ends.second))
      queue.resize(tail_only ? dice_.below(queue.size() + 1) : 0);
}

void cluster::faults() {
  const auto some_worker = [this](bool alive) {
    std::vector<worker_id> out;
    for (const auto& [who, seat] : workers_)
      if (seat.alive == alive)
        out.push_back(who);
    return out;
  };
  if (!coordinator_.started())
    return;
  if (options_.deaths > 0 && dice_.hit(0.01))
    if (const auto living = some_worker(true); !living.empty()) {
      --options_.deaths;
      kill(living[dice_.below(living.size())]);
    }
  if (options_.comebacks > 0 && dice_.hit(0.01))
    if (const auto dead = some_worker(false); !dead.empty()) {
      --options_.comebacks;
      come_back(dead[dice_.below(dead.size())]);
    }
  if (options_.latecomers > 0 && dice_.hit(0.01)) {
    --options_.latecomers;
    join_late();
  }
  if (options_.aggregator_deaths > 0 && tree_.size() > options_.job.shards && dice_.hit(0.01)) {
    --options_.aggregator_deaths;
    const std::uint64_t aggregators = tree_.size() - options_.job.shards;
    kill_aggregator({options_.job.shards + static_cast<std::uint32_t>(dice_.below(aggregators))});
  }
}

// -- membership

void cluster::kill(worker_id who) {
  worker_seat& seat = workers_.at(who);
  if (!seat.alive)
    return;
  seat.alive = false;
  forget_links([who](endpoint from, endpoint) { return from == endpoint{'w', who.value}; }, options_.seed != 0);
  const member gone{who, seat.life};
  send({'w', who.value}, {'c'}, fmt::format("down {}", text_of(gone)), [this, gone] {
    perform(coordinator_.on(down{gone, "killed"}));
  });
}

void cluster::come_back(worker_id who) {
  worker_seat& seat = workers_.at(who);
  seat = {.life = {seat.life.value + 1}, .alive = true, .machine = nullptr, .incoming = {}};
  const member self{who, seat.life};
  seat.machine = make_gradient_worker(self);
  send({'w', who.value}, {'c'}, fmt::format("joined {}", text_of(self)),
       [this, self] { perform(coordinator_.on(joined{self})); });
}

void cluster::join_late() {
  const worker_id who{static_cast<std::uint32_t>(workers_.size())};
  workers_[who] = {.life = {}, .alive = true, .machine = make_gradient_worker(member{who, {}}), .incoming = {}};
  send({'w', who.value}, {'c'}, fmt::format("joined {}", text_of(member{who, {}})), [this, who] {
    perform(coordinator_.on(joined{{who, {}}}));
  });
}

void cluster::kill_aggregator(holder_id who) {
  if (!holders_[who.value]->alive)
    return;
  aggregator_died_ = true;
  holders_[who.value]->alive = false;
  forget_links([who](endpoint from, endpoint) { return from == endpoint{'h', who.value}; }, options_.seed != 0);
  send({'h', who.value}, {'c'}, "holder_down", [this, who] { perform(coordinator_.on(holder_down{who, "killed"})); });
}

cluster::worker_seat* cluster::alive(member who) {
  const auto seat = workers_.find(who.worker);
  return seat != workers_.end() && seat->second.alive && seat->second.life == who.life ? &seat->second : nullptr;
}

// -- coordinator

void cluster::broadcast(const std::string& text, const std::function<void(holder_seat&)>& deliver, bool from_lead) {
  for (const auto& seat : holders_)
    send(from_lead ? endpoint{'l'} : endpoint{'c'}, {'h', seat->place.self.value}, text, [at = seat.get(), deliver] {
      if (at->alive)
        deliver(*at);
    });
}

void cluster::perform(const coordinator_effects& effects) {
  const endpoint self{'c'}, to_lead{'l'};
  for (const coordinator_effect& effect : effects)
    std::visit(cases{
                   [&](const send_plan& what) {
                     plans_[what.what.epoch] = what.what;
                     const std::string text = text_of(what.what);
                     send(self, to_lead, text, [this, what] { perform(lead_->on(what.what)); });
                     broadcast(
                         text, [this, what](holder_seat& at) { perform(at, at.machine.on(what.what)); }, false);
                     for (const auto& [who, seat] : workers_)
                       send(self, {'w', who.value}, text, [this, what, to = member{who, seat.life}] {
                         if (worker_seat* at = alive(to))
                           perform(to, at->machine->on(what.what));
                       });
                   },
                   [&](const send_worker_down& what) {
                     const member gone{what.what.worker, what.what.life};
                     const std::string text = fmt::format("worker_down {}", text_of(gone));
                     send(self, to_lead, text, [this, what, gone] {
                       down_at_lead_.insert(gone);
                       perform(lead_->on(what.what));
                     });
                     broadcast(
                         text, [this, what](holder_seat& at) { perform(at, at.machine.on(what.what)); }, false);
                   },
                   [&](const send_holder_down& what) {
                     broadcast(
                         fmt::format("holder_down {}", what.what.holder.value),
                         [this, what](holder_seat& at) { perform(at, at.machine.on(what.what)); }, false);
                   },
                   [&](const hold& what) {
                     send(self, to_lead, text_of(what.what), [this, what] {
                       limit_ = what.what;
                       perform(lead_->on(what.what));
                     });
                   },
                   [&](const evaluate& what) {
                     evaluations_.push_back(what.ver);
                     fetched_.clear();
                     send(self, to_lead, "fetch", [this] { perform(lead_->on(fetch_order{})); });
                   },
                   [&](const resume&) { send(self, to_lead, "resume", [this] { perform(lead_->on(resume_order{})); }); },
                   [](const say&) {},
                   [&](const stop& what) {
                     if (ended_)
                       breaks("stopped twice");
                     ended_ = true;
                     end_ = what;
                   },
                   [&](const arm_timer&) { breaks("these jobs have no timers"); },
               },
               effect);
}

void cluster::fetched(holder_id from, version ver) {
  if (evaluations_.empty() || ver != evaluations_.back())
    return breaks(fmt::format("version {} was fetched, not the one held", ver.value));
  if (!fetched_[ver].insert(from).second || fetched_[ver].size() < options_.job.shards)
    return;
  send({'e'}, {'c'}, fmt::format("evaluated v{}", ver.value), [this, ver] { perform(coordinator_.on(evaluated{.ver = ver})); });
}

// -- lead

void cluster::perform(const lead_effects& effects) {
  const bool was_held = lead_->held();
  for (const lead_effect& effect : effects)
    std::visit(cases{
                   [&](const close& what) {
                     check(what);
                     if (was_held && !what.send_to.empty())
                       breaks("a close sends while the lead holds");
                     broadcast(
                         text_of(what), [this, what](holder_seat& at) { perform(at, at.machine.on(what)); }, true);
                   },
                   [&](const send_order& what) {
                     if (was_held && what.to != std::vector{evaluator})
                       breaks("the lead sends while it holds");
                     broadcast(
                         text_of(what), [this, what](holder_seat& at) { perform(at, at.machine.on(what)); }, true);
                   },
                   [&](const drop_order& what) {
                     // A used one may be named again, when its arrival came twice: it is not kept any more.
                     dropped_.insert(what.id);
                     broadcast(
                         fmt::format("drop {}", text_of(what.id)),
                         [this, what](holder_seat& at) { perform(at, at.machine.on(what)); }, true);
                   },
                   [&](const report& what) {
                     if (what.samples != samples_used_)
                       breaks(fmt::format("{} samples are applied, not {}", samples_used_, what.samples));
                     if (what.what == report::kind::held)
                       send({'l'}, {'c'}, fmt::format("held v{}, {} samples", what.ver.value, what.samples),
                            [this, what] { perform(coordinator_.on(held{.ver = what.ver, .samples = what.samples})); });
                     else
                       send({'l'}, {'c'}, text_of(what), [this, what] { perform(coordinator_.on(what)); });
                   },
                   [&](const auto&) { breaks("sync asks for nothing else"); },
               },
               effect);
}

void cluster::check(const close& round) {
  check_limit(round);
  double sum = 0;
  const push* before = nullptr;
  for (const contribution& part : round.contributions) {
    sum += part.weight;
    const push& what = pushed_.at(part.id);
    if (!used_.insert(part.id).second)
      breaks(fmt::format("{} is applied twice", text_of(part.id)));
    if (dropped_.contains(part.id))
      breaks(fmt::format("{} was dropped", text_of(part.id)));
    if (down_at_lead_.contains({part.id.worker, part.id.life}))
      breaks(fmt::format("{} is from the dead", text_of(part.id)));
    if (!what.finite)
      breaks(fmt::format("{} is not finite", text_of(part.id)));
    if (what.base.value + 1 != round.ver.value || what.epoch != round.epoch)
      breaks(fmt::format("{} belongs to another round", text_of(part.id)));
    if (before && !(before->id.worker < what.id.worker))
      breaks("not in worker order");
    before = &what;
  }
  if (!round.contributions.empty() && std::abs(sum - 1) > 1e-12)
    breaks(fmt::format("the weights of version {} sum to {}", round.ver.value, sum));
  if (round.workers != plans_.at(round.epoch).workers.size())
    breaks("n is not the plan's");
}

// -- holders

/// The lead holds at the version that reaches its limit: not one before, not one after.
void cluster::check_limit(const close& round) {
  if (round.samples_before != samples_used_)
    breaks("the learning-rate schedule sees other samples");
  for (const contribution& part : round.contributions)
    samples_used_ += static_cast<std::uint64_t>(pushed_.at(part.id).samples);
  const bool reached = (limit_.at_samples != 0 && samples_used_ >= limit_.at_samples)
                       || (limit_.at_version != 0 && round.ver.value >= limit_.at_version);
  if (reached != lead_->held())
    breaks(fmt::format("version {} is {}", round.ver.value, reached ? "past the limit" : "held before the limit"));
}

ticket cluster::keep(holder_seat& at, tensor what) {
  const ticket name{++at.last_ticket};
  at.kept.emplace(name, std::move(what));
  return name;
}

cluster::tensor cluster::take(holder_seat& at, const std::vector<term>& sum) {
  tensor out;
  for (const term& part : sum) {
    const auto what = at.kept.extract(part.what);
    if (!what) {
      breaks(fmt::format("holder {} uses a ticket that it does not have", at.place.self.value));
      continue;
    }
    for (const auto& [id, weight] : what.mapped())
      out[id] += weight * part.weight;
  }
  return out;
}

void cluster::perform(holder_seat& at, const holder_effects& effects) {
  const endpoint self{'h', at.place.self.value};
  for (const holder_effect& effect : effects)
    std::visit(cases{
                   [&](const send_arrival& what) {
                     if (what.what.what.gradient != ticket{})
                       breaks("a ticket leaves its holder");
                     send(self, {'l'}, fmt::format("arrival {}", text_of(what.what.what.id)),
                          [this, what] { perform(lead_->on(what.what)); });
                   },
                   [&](const apply_round& what) {
                     auto& made = applied_.at(at.place.self.value);
                     made.push_back(take(at, what.sum));
                     if (what.round.ver.value != made.size())
                       breaks(fmt::format("shard {} skips to version {}", at.place.self.value, what.round.ver.value));
                     tensor wanted;
                     for (const contribution& part : what.round.contributions)
                       wanted[part.id] = part.weight;
                     if (made.back() != wanted && !aggregator_died_)
                       breaks(fmt::format("shard {} applies something else", at.place.self.value));
                     send_parameters(at.place.self, what.round.send_to,
                                     {.epoch = what.round.send_epoch, .ver = what.round.ver, .key = what.round.key, .position = what.round.position});
                   },
                   [&](const forward& what) {
                     const tensor sum = take(at, what.sum);
                     for (const holder_id parent : at.place.parents)
                       send(self, {'h', parent.value}, fmt::format("partial v{} of {} pushes", what.round.ver.value, sum.size()),
                            [this, sum, from = at.place.self, ver = what.round.ver, to = holders_[parent.value].get()] {
                              if (!to->alive)
                                return;
                              const ticket name = sum.empty() ? ticket{} : keep(*to, sum);
                              perform(*to, to->machine.on(partial{from, ver, name}));
                            });
                   },
                   [&](const serve& what) {
                     if (applied_.at(at.place.self.value).size() != what.what.ver.value)
                       breaks(fmt::format("shard {} serves another version", at.place.self.value));
                     send_parameters(at.place.self, what.what.to,
                                     {.epoch = what.what.epoch, .ver = what.what.ver, .key = what.what.key, .position = what.what.position});
                   },
                   [&](const discard& what) {
                     take(at, {{what.what, 1}});
                   },
                   [&](const report& what) {
                     if (what.what == report::kind::note)
                       breaks(what.text);
                   },
                   [&](const auto&) { breaks("sync asks for nothing else"); },
               },
               effect);
}

void cluster::send_parameters(holder_id from, const std::vector<worker_id>& to, const params& what) {
  const std::string text = fmt::format("part of {}", text_of(what));
  for (const worker_id who : to)
    if (who == evaluator)
      send({'h', from.value}, {'e'}, text, [this, from, what] { fetched(from, what.ver); });
    else
      send({'h', from.value}, {'w', who.value}, text, [this, who, from, what] { parameters_came(who, from, what); });
}

std::size_t cluster::kept() const {
  std::size_t out = 0;
  for (const auto& seat : holders_)
    out += seat->alive ? seat->machine.kept() : 0;
  return out;
}

std::size_t cluster::tensors() const {
  std::size_t out = 0;
  for (const auto& seat : holders_)
    out += seat->alive ? seat->kept.size() : 0;
  return out;
}

// -- workers

void cluster::parameters_came(worker_id to, holder_id from, const params& what) {
  worker_seat& seat = workers_.at(to);
  if (!seat.alive)
    return;
  auto& parts = seat.incoming[{what.ver, what.epoch}];
  if (!parts.insert(from).second || parts.size() < options_.job.shards)
    return;
  perform({to, seat.life}, seat.machine->on(what));
}

void cluster::perform(member self, const worker_effects& effects) {
  const endpoint here{'w', self.worker.value};
  for (const worker_effect& effect : effects)
    std::visit(cases{
                   [](const adopt&) {},
                   [&](const compute& what) {
                     const plan& with = plans_.at(what.stream_as->epoch);
                     const std::uint64_t length = with.after(what.position) - what.position;
                     const std::uint64_t begin = what.position + length * what.parts.at(0).index / what.cuts;
                     const std::uint64_t end = what.position + length * (what.parts.at(0).index + 1) / what.cuts;
                     slices_[what.stream_as->id] = {begin, end};
                     const computed done{.step = what.step,
                                         .samples = static_cast<std::int64_t>(end - begin),
                                         .finite = !(options_.wild > 0 && dice_.hit(options_.wild))};
                     send(here, here, fmt::format("computed [{}, {})", begin, end), [this, self, done] {
                       if (worker_seat* at = alive(self))
                         perform(self, at->machine->on(done));
                     });
                   },
                   [&](const send_push& what) { push_to_holders(self, what.what); },
                   [&](const auto&) { breaks("sync's worker asks for nothing else"); },
               },
               effect);
}

void cluster::push_to_holders(member self, const push& what) {
  pushed_[what.id] = what;
  const bool flat = tree_.size() == options_.job.shards;
  for (const auto& seat : holders_)
    if (flat || seat->place.workers.contains(self.worker))
      send({'w', self.worker.value}, {'h', seat->place.self.value}, text_of(what), [this, what, to = seat.get()] {
        if (!to->alive)
          return;
        push here = what;
        here.gradient = what.samples > 0 ? keep(*to, {{what.id, 1.0}}) : ticket{};
        perform(*to, to->machine.on(here));
      });
}

} // namespace troupe::protocols
