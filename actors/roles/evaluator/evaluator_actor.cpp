// SPDX-License-Identifier: BSD-3-Clause
// The evaluator's handlers.
#include "actors/roles/evaluator/evaluator_actor.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "actors/errors.hpp"
#include "actors/roles/operator_pause.hpp"

namespace troupe::actors {

namespace {

/// What fits a message of the control plane, with room to spare (system.cpp).
constexpr std::uint64_t floats_per_piece = 128 * 1024;

} // namespace

evaluator_state::evaluator_state(measured_pointer<evaluator_actor> self, evaluator_setup setup)
    : self_(self), setup_(std::move(setup)), host_queue_(setup_.queue->on_host() ? setup_.queue : kernels::open_backend({})),
      collection_(setup_.same_replicas) {
  const auto add = [this](const std::shared_ptr<const data_set>& set, std::int64_t samples) {
    portions_.push_back({{set, 0, [queue = setup_.queue](std::size_t bytes) { return queue->allocate_host(bytes); }}, samples});
  };
  const auto& data = setup_.data;
  add(data.test, data.test->size());
  add(data.train, std::min(setup_.train_samples, data.train->size()));
  if (data.validation)
    add(data.validation, data.validation->size());
  end_with_reason(*self, std::string{setup_.queue->name()});
  plan_ = value_or_throw(plan::compile(*setup_.net, *setup_.queue,
                                       {.max_rows = setup_.batch_rows, .training = false, .capture = !setup_.queue->on_host()}));
}

evaluator_actor::behavior_type evaluator_state::make_behavior() {
  self_->name_thread("evaluator 0");
  return {
      [this](const wire::params_part& head, const kernels::buffer& payload) {
        setup_.receive_buffers->add(head.params.key, {head.where.begin, head.where.end}, payload);
        auto whole = setup_.receive_buffers->take(head.params.key);
        if (head.from == protocols::holder_id{0})
          incoming_ = head.params.ver; // the lead shard's
        if (!whole)
          return;
        setup_.receive_buffers->drop_if([key = head.params.key](std::uint64_t other) { return other < key; });
        evaluate(task{incoming_, std::move(*whole)});
      },
      [this](const wire::peer_part& head, const kernels::buffer& payload) { on_peer(head, payload); },
      [this](const peers_ptr& peers) { peers_ = peers; },
      [this](const inspect_query&) { return report(); },
      [this](const operator_pause& msg) { handle_pause(self_, msg, [this] { return report(); }); },
      [this](const protocols::plan& msg) {
        setup_.from_workers->drop_if([&msg](const peer_key& key) { return !msg.has(key.first); });
        evaluate(collection_.on(msg));
      },
      [this](const protocols::fetch_order& msg) {
        const bool known = !collection_.collects() && !results_.empty() && results_.back().ver == msg.ver;
        known ? tell(results_.back()) : evaluate(collection_.on(msg)); // another coordinator had asked for it
      },
      [this](const evaluated_query& query) { return read(query); },
      [this](evaluations_query) { return results_; },
      [this](compute_finished) {
        computing_ = false;
        if (next_)
          return begin();
        const auto& outcome = plan_->outcome();
        auto& sum = portions_[now_];
        sum.loss_sum += outcome.loss_sum;
        sum.counted += outcome.counted;
        sum.correct += outcome.correct;
        next_batch();
      },
  };
}

actor_report evaluator_state::report() const {
  auto out = self_->report();
  out.fields = {{"version", std::to_string(under_way_.ver.value)}};
  if (!collection_.collects())
    return out;
  for (const auto& who : collection_.missing())
    out.waits_for.push_back("worker " + std::to_string(who.worker.value));
  out.waits_on = "replicas of version " + std::to_string(collection_.collected().value);
  return out;
}

void evaluator_state::on_peer(const wire::peer_part& head, const kernels::buffer& payload) {
  std::optional<kernels::buffer> replica;
  if (head.where.begin < head.where.end) {
    const peer_key key{head.message.from, head.message.round};
    setup_.from_workers->add(key, {head.where.begin, head.where.end}, payload);
    replica = setup_.from_workers->take(key);
    if (!replica)
      return;
  }
  evaluate(collection_.on(head.message, std::move(replica)));
}

/// Does nothing if the average is not complete, or no worker has parameters yet.
void evaluator_state::evaluate(std::optional<collection::average> whole) {
  if (!whole || whole->terms.empty())
    return;
  std::vector<kernels::term> terms;
  for (const auto& part : whole->terms)
    terms.push_back({part.tensor.as<const float>(), part.weight});
  const auto bytes = whole->terms.front().tensor.bytes();
  auto mean = setup_.queue->allocate_host(bytes);
  host_queue_->enqueue(
      kernels::weighted_sum{.terms = terms, .y = mean.as<float>(), .count = static_cast<std::int64_t>(bytes / sizeof(float))});
  evaluate(task{whole->ver, std::move(mean), std::move(whole->made)});
}

void evaluator_state::evaluate(task asked) {
  next_ = std::move(asked);
  if (!computing_)
    begin();
}

void evaluator_state::begin() {
  self_->doing.again("evaluates");
  under_way_ = *std::exchange(next_, std::nullopt);
  const auto& [ver, parameters, made] = under_way_;
  span_ = open_span{setup_.trace, span_kind::evaluate, 0, {signed_of(ver)}};
  caf::anon_send(peers_->coordinator, collected{ver, parameters, made});
  on_queue_ = parameters;
  if (!setup_.queue->on_host()) {
    on_queue_ = setup_.queue->allocate(parameters.bytes());
    setup_.queue->upload(on_queue_.data(), parameters.data(), parameters.bytes());
  }
  now_ = 0;
  for (auto& each : portions_)
    each.done = each.counted = each.correct = 0, each.loss_sum = 0;
  next_batch();
}

void evaluator_state::next_batch() {
  if (portions_[now_].done == portions_[now_].samples && ++now_ == portions_.size()) {
    finish();
    return;
  }
  auto& from = portions_[now_];
  rows_ = from.loader.load_in_order(from.done, std::min(from.done + setup_.batch_rows, from.samples));
  from.done += rows_.rows;
  step_args args;
  args.parameters = on_queue_.as<const float>();
  args.x = rows_.x.data();
  args.labels = rows_.labels.data();
  args.rows = rows_.rows;
  args.counted = rows_.counted;
  if (setup_.net->computed_by())
    args.blocks = {on_queue_, {}, rows_.x};
  args.done = [me = evaluator_actor{self_}] { caf::anon_send(me, compute_finished{}); };
  computing_ = true;
  plan_->enqueue_evaluation(args);
}

void evaluator_state::finish() {
  self_->doing.enter("idle");
  evaluated_ = {under_way_.ver, under_way_.parameters};
  std::exchange(span_, {}).end();
  const auto& test = portions_[0];
  evaluation found{under_way_.ver,
                   portions_[1].mean(portions_[1].loss_sum),
                   test.mean(test.loss_sum),
                   test.mean(static_cast<double>(test.correct)),
                   {},
                   under_way_.made};
  if (portions_.size() > 2)
    found.validation_loss = portions_[2].mean(portions_[2].loss_sum);
  if (const double loss = found.validation_loss.value_or(found.test_loss); setup_.keeps_best && loss < best_loss_) {
    best_loss_ = loss;
    best_ = evaluated_;
  }
  if (results_.size() == most_held_points)
    results_.erase(results_.begin());
  results_.push_back(found);
  tell(std::move(found));
}

void evaluator_state::tell(evaluation found) const {
  found.parameters = evaluated_.second;
  caf::anon_send(peers_->coordinator, std::move(found));
}

caf::result<parameters_piece> evaluator_state::read(const evaluated_query& query) const {
  const auto& [ver, last] = evaluated_;
  const auto& from = query.ver == under_way_.ver ? under_way_.parameters
                     : query.ver == ver          ? last
                     : query.ver == best_.first  ? best_.second
                                                 : kernels::buffer{};
  const auto all = from.span<const float>();
  if (all.empty() || query.offset >= all.size())
    return failure(fmt::format("the evaluator has no parameters of step {} from {} on", query.ver.value, query.offset));
  const auto piece = all.subspan(query.offset, std::min<std::uint64_t>(all.size() - query.offset, floats_per_piece));
  return parameters_piece{query.ver, {piece.begin(), piece.end()}, query.offset + piece.size() == all.size()};
}

} // namespace troupe::actors
