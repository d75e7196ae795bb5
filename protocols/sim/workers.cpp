// SPDX-License-Identifier: BSD-3-Clause
// What workers of a simulated cluster do.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "protocols/sim/cases.hpp"
#include "protocols/sim/seats.hpp"

namespace troupe::protocols::sim {

namespace {

using role = endpoint::role;

std::int64_t samples_in(const batch& of) {
  std::int64_t out = 0;
  for (const batch_part& part : of.parts)
    out += static_cast<std::int64_t>(part.end - part.begin);
  return out;
}

/// Where the samples of a computation are.
batch batch_of(const compute& what, const plan& with) {
  const std::uint64_t end = with.after(what.position, what.batches);
  batch out{.step = what.step,
            .position = what.position,
            .samples = end - what.position,
            .cuts = what.cuts,
            .workers = static_cast<std::uint32_t>(with.workers.size())};
  for (const auto& [index, weight] : what.parts) {
    const std::uint64_t begin =
        what.position + out.samples / what.cuts * index + std::min<std::uint64_t>(index, out.samples % what.cuts);
    out.parts.push_back(
        {begin, begin + static_cast<std::uint64_t>(plan::cut_size(out.samples, what.cuts, index)), index, weight});
  }
  return out;
}

} // namespace

void cluster::worker_seat::sit_down(incarnation life) {
  self.incarnation = life;
  alive = true;
  bound = std::make_unique<worker_binding<worker_seat>>(
      *this, in.protocol_.make_worker(in.options_.protocol, self, in.options_.seed), self, in.protocol_.decentralized);
  maths = in.maths_.make_worker(self);
  incomplete.clear();
  anchor = nullptr;
  gradient.reset();
  own_step.reset();
  idle_since = -1;
}

void cluster::worker_seat::hear(const message& what) {
  std::visit(cases{
                 [&](const plan_parcel& m) { bound->on(m); },
                 [&](const params_parcel& m) { bound->on(m.what, m.from, m); },
                 [&](const peer_parcel& m) { bound->on(m.what, m.data); },
                 [&](const fetch_order& m) { bound->on(m); },
                 [&](const computed& m) {
                   done_at = 0;
                   idle_since = in.now_;
                   bound->on(m, std::exchange(gradient, std::nullopt));
                 },
                 [](const auto&) {},
             },
             what);
}

std::optional<tensor> cluster::worker_seat::join(const params& head, const params_parcel& part) {
  incoming& set = incomplete[head.key];
  set.parts.try_emplace(part.from, part);
  if (set.parts.size() < in.options_.job.shards)
    return std::nullopt;
  std::vector<tensor> ranges;
  std::vector<params> heads;
  for (const auto& [shard, each] : set.parts) {
    ranges.push_back(each.range);
    heads.push_back(each.what);
  }
  for (listener* each : in.listeners_)
    each->joining(self, heads);
  incomplete.erase(incomplete.begin(), incomplete.upper_bound(head.key));
  return in.maths_.join(ranges);
}

void cluster::worker_seat::adopt(version, const tensor& what) {
  anchor = what;
  maths->adopt(what);
}

nanoseconds cluster::worker_seat::time_of(const batch& of) {
  const double share = static_cast<double>(samples_in(of)) / static_cast<double>(in.options_.job.batch);
  ++steps;
  const auto& measured = in.options_.measured.compute;
  if (measured.empty())
    return emulated_step(in.options_.inject, in.options_.seed, self.worker, of.step, share);
  const auto& own = measured[self.worker.value % measured.size()];
  return own.empty() ? 0 : static_cast<nanoseconds>(share * static_cast<double>(own[(steps - 1) % own.size()]) + 0.5);
}

void cluster::worker_seat::begin(const compute& what, const plan& with, const local_step* own) {
  const batch of = batch_of(what, with);
  worker_totals& totals = in.result_.workers[self.worker];
  if (const nanoseconds since = std::exchange(idle_since, -1); since >= 0)
    totals.waiting += in.now_ - since;
  computed done{.step = of.step, .samples = samples_in(of)};
  own_step.reset();
  gradient.reset();
  if (done.samples > 0) {
    done.compute = time_of(of);
    if (own != nullptr) {
      own_step.emplace(of, local_step_rule{own->proximal, own->dual, own->momentum});
    } else {
      maths->forget_momentum();
      const sim::gradient found = maths->gradient_at(anchor, of);
      outcome_is(done, found);
      gradient = found.what;
    }
  }
  totals.computing += done.compute;
  outcome = done;
  done_at = std::max(in.now_, paused_until) + done.compute;
  for (listener* each : in.listeners_)
    each->computing(in.now_, done_at, self, of);
  const endpoint here{role::worker, self.worker.value};
  in.queue_.push(done_at, parcel{.from = here, .to = here, .what = done, .life = self.incarnation, .generation = ++computation});
}

void cluster::worker_seat::end_step(computed& done) {
  if (const auto own = std::exchange(own_step, std::nullopt))
    outcome_is(done, maths->local_step(own->first, own->second));
}

void cluster::worker_seat::outcome_is(computed& done, const sim::gradient& found) const {
  const double chance = in.options_.tests.not_finite;
  done.loss = found.loss;
  done.finite = found.finite
                && !(chance > 0
                     && random_stream::keyed(in.options_.seed, self.worker.value, self.incarnation.value, done.step).hit(chance));
}

void cluster::worker_seat::send(const push& what, const operands<tensor>& sum, bool keep) {
  const tensor whole = maths->sum(sum);
  if (keep)
    bound->pushed(whole);
  send(what, std::optional{whole});
}

void cluster::worker_seat::send(const push& what, std::optional<tensor> gradient) {
  ++in.result_.workers[self.worker].pushes;
  for (listener* each : in.listeners_)
    each->pushed(in.now_, what);
  const std::uint32_t shards = in.options_.job.shards;
  for (const holder_id target : targets) {
    const bool shard = in.holders_.at(target.value)->place.is_shard;
    const std::uint64_t bytes = !gradient ? 0 : shard ? in.options_.model_bytes / shards : in.options_.model_bytes;
    push_parcel out{what, gradient};
    if (gradient && *gradient && shard)
      out.gradient = in.maths_.slice(*gradient, target.value, shards);
    in.send({role::worker, self.worker.value}, {role::holder, target.value}, std::move(out), bytes);
  }
}

/// To who is gone, or while its own link still sends something else, nothing is sent.
bool cluster::worker_seat::reaches(worker_id who) const {
  return in.seat(who).alive && !in.network_.busy({host, true});
}

void cluster::worker_seat::send(const send_peer& what) {
  const endpoint here{role::worker, self.worker.value};
  peer_parcel out{what.message, {}};
  if (out.what.weight > 0)
    out.data = maths->sum(operands<tensor>{{.from = operand::source::own}});
  const std::uint64_t bytes = out.what.weight > 0 ? in.options_.model_bytes : 0;
  if (what.to == evaluator)
    in.send(here, the_evaluator, std::move(out));
  else
    in.send(here, {role::worker, what.to.value}, std::move(out), bytes);
}

void cluster::worker_seat::broken(const std::string& what) const {
  in.broken(fmt::format("worker {}: {}", self.worker.value, what));
}

} // namespace troupe::protocols::sim
