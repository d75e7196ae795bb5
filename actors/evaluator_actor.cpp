// SPDX-License-Identifier: BSD-3-Clause
// The evaluator's handlers.
#include "actors/evaluator_actor.hpp"

#include <algorithm>

#include "actors/errors.hpp"

namespace troupe::actors {

namespace {

constexpr std::int64_t rows_at_once = 500;

}

evaluator_state::evaluator_state(evaluator_actor::stateful_pointer<evaluator_state> self, evaluator_setup setup)
    : self_(self), setup_(std::move(setup)),
      test_(setup_.data.test, 0, [queue = setup_.queue](std::size_t bytes) { return queue->allocate_host(bytes); }),
      train_(setup_.data.train, 0, [queue = setup_.queue](std::size_t bytes) { return queue->allocate_host(bytes); }) {
  end_with_reason(*self);
  plan_ = value_or_throw(plan::compile(*setup_.net, *setup_.queue, {.max_rows = rows_at_once, .training = false}));
  setup_.train_samples = std::min(setup_.train_samples, setup_.data.train->size());
}

evaluator_actor::behavior_type evaluator_state::make_behavior() {
  return {
    [this](const wire::params_part& head, const kernels::buffer& payload) {
      setup_.landing->add(head.what.key, {head.where.begin, head.where.end}, payload);
      auto whole = setup_.landing->take(head.what.key);
      if (head.from == protocols::holder_id{0})
        ver_ = head.what.ver; // the lead shard's
      if (!whole)
        return;
      setup_.landing->drop_if([key = head.what.key](std::uint64_t other) { return other < key; });
      parameters_ = std::move(*whole);
      done_ = 0;
      of_test_ = of_train_ = {};
      next_batch();
    },
    [this](const peers_ptr& peers) { peers_ = peers; },
    [this](compute_finished) {
      const auto& outcome = plan_->outcome();
      auto& sum = done_ <= test_.data().size() ? of_test_ : of_train_;
      sum.loss_sum += outcome.loss_sum;
      sum.rows += outcome.rows;
      sum.correct += outcome.correct;
      next_batch();
    },
  };
}

void evaluator_state::next_batch() {
  auto tests = test_.data().size();
  if (done_ == tests + setup_.train_samples) {
    finish();
    return;
  }
  bool testing = done_ < tests;
  auto begin = testing ? done_ : done_ - tests;
  auto end = std::min(begin + rows_at_once, testing ? tests : setup_.train_samples);
  rows_ = (testing ? test_ : train_).load_in_order(begin, end);
  done_ += rows_.rows;
  step_args args;
  args.parameters = parameters_.as<const float>();
  args.x = rows_.x.as<const float>();
  args.labels = rows_.labels.as<const std::int32_t>();
  args.rows = rows_.rows;
  args.done = [me = evaluator_actor{self_}] { caf::anon_send(me, compute_finished{}); };
  plan_->enqueue_evaluation(args);
}

void evaluator_state::finish() {
  auto mean = [](double sum, std::int64_t rows) { return rows > 0 ? sum / static_cast<double>(rows) : 0; };
  caf::anon_send(peers_->coordinator, evaluation{ver_, mean(of_train_.loss_sum, of_train_.rows), mean(of_test_.loss_sum, of_test_.rows),
                                                 mean(static_cast<double>(of_test_.correct), of_test_.rows), parameters_});
}

} // namespace troupe::actors
