// SPDX-License-Identifier: BSD-3-Clause
// Tasks of foreign models, and their rows.
#include "tensor/foreign.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <mutex>
#include <utility>
#include <vector>

namespace troupe {

namespace {

/// Whether none is infinite or NaN: an exponent of ones, to which one more is added, sets the bit above it. Integers without a
/// branch, so that the compiler takes several at once.
bool all_numbers(const float* x, std::int64_t count) {
  std::uint32_t seen = 0;
  for (std::int64_t i = 0; i < count; ++i)
    seen |= (std::bit_cast<std::uint32_t>(x[i]) & 0x7f80'0000U) + 0x0080'0000U;
  return (seen & 0x8000'0000U) == 0;
}

/// One step or evaluation under way. It outlives the plan where the computer still has it when the job ends.
struct foreign_step {
  std::mutex mutex; ///< of what is called: the plan may end at any moment
  std::shared_ptr<const parameter_layout> layout;
  std::shared_ptr<step_outcome> outcome; ///< the plan's, until `done` has been called
  std::vector<char> ready;               ///< by slot
  step_args args;
  bool finite = true;

  /// Whom it would tell may be gone from now on.
  void tell_nobody() {
    const std::lock_guard guard{mutex};
    args.gradient_ready = {};
    args.done = {};
  }

  void slot_ready(int index) {
    ready[static_cast<std::size_t>(index)] = 1;
    if (const std::lock_guard guard{mutex}; args.gradient_ready)
      args.gradient_ready(index);
    const auto& slot = layout->slots[static_cast<std::size_t>(index)];
    finite = all_numbers(args.gradients + slot.offset, slot.elements()) && finite; // while caches have it
  }

  void finish(const foreign_outcome& found) {
    if (args.gradients != nullptr)
      zero_the_rest();
    *outcome = {.loss_sum = found.loss_sum,
                .rows = args.rows,
                .predictions = args.rows,
                .counted = found.counted,
                .correct = found.correct,
                .finite = finite};
    if (const std::lock_guard guard{mutex}; args.done)
      args.done();
  }

  void zero_the_rest() {
    for (std::size_t i = 0; i < ready.size(); ++i)
      if (ready[i] == 0) {
        const auto& slot = layout->slots[i];
        std::fill_n(args.gradients + slot.offset, slot.elements(), 0.0F);
        slot_ready(static_cast<int>(i));
      }
  }
};

class foreign_plan final : public plan {
public:
  foreign_plan(const parameter_layout& layout, std::shared_ptr<foreign_computer> by, std::int32_t worker)
      : layout_(std::make_shared<parameter_layout>(layout)), by_(std::move(by)), worker_(worker) {
    cost_.parameter_bytes = layout.floats() * static_cast<std::int64_t>(sizeof(float));
  }

  ~foreign_plan() override {
    if (const auto step = newest_.lock())
      step->tell_nobody();
  }
  foreign_plan(const foreign_plan&) = delete;
  foreign_plan& operator=(const foreign_plan&) = delete;

  const plan_cost& cost() const override { return cost_; }

  void enqueue_step(const step_args& args) override {
    for (std::size_t i = 0; i < layout_->slots.size(); ++i) {
      const auto& slot = layout_->slots[i];
      const auto end = i + 1 < layout_->slots.size() ? layout_->slots[i + 1].offset : layout_->floats();
      std::fill(args.gradients + slot.offset + slot.elements(), args.gradients + end, 0.0F);
    }
    enqueue(args, true);
  }

  void enqueue_ahead(const step_args&, std::span<const flat_range>) override {} // a model may need all of them

  void enqueue_evaluation(const step_args& args) override {
    auto without = args;
    without.gradients = nullptr;
    without.gradient_ready = {};
    enqueue(without, false);
  }

  const step_outcome& outcome() const override { return *outcome_; }
  std::span<const float> predictions() const override { return {}; }

private:
  void enqueue(const step_args& args, bool training) {
    const auto step = std::make_shared<foreign_step>();
    step->layout = layout_;
    step->outcome = outcome_;
    step->ready.resize(training ? layout_->slots.size() : 0);
    step->args = args;
    newest_ = step;
    by_->enqueue({.training = training,
                  .worker = worker_,
                  .rows = {static_cast<const std::uint32_t*>(args.x), static_cast<std::size_t>(args.rows)},
                  .parameters = args.parameters,
                  .gradients = args.gradients,
                  .ready = [step](int slot) { step->slot_ready(slot); },
                  .done = [step](const foreign_outcome& found) { step->finish(found); },
                  .blocks = args.blocks});
  }

  std::shared_ptr<const parameter_layout> layout_;
  std::shared_ptr<foreign_computer> by_;
  std::int32_t worker_;
  std::weak_ptr<foreign_step> newest_; ///< there is one at a time
  std::shared_ptr<step_outcome> outcome_ = std::make_shared<step_outcome>();
  plan_cost cost_;
};

class row_numbers final : public data_set {
public:
  row_numbers(std::int64_t first, std::int64_t count)
      : first_(static_cast<std::uint32_t>(first)), count_(count), format_{.sample = shape{1},
                                                                          .classes = 0,
                                                                          .type = dtype::i32,
                                                                          .ids = std::numeric_limits<std::int32_t>::max(),
                                                                          .labels = shape{1},
                                                                          .label_type = dtype::f32} {}

  std::int64_t size() const override { return count_; }
  const data_format& format() const override { return format_; }
  std::int32_t label(std::uint32_t) const override { return 0; }
  void gather(std::span<const std::uint32_t> indices, void* x, void* labels) const override {
    std::ranges::transform(indices, static_cast<std::uint32_t*>(x), [this](std::uint32_t index) { return first_ + index; });
    std::memset(labels, 0, indices.size() * element_bytes);
  }

private:
  std::uint32_t first_;
  std::int64_t count_;
  data_format format_;
};

} // namespace

std::unique_ptr<plan> make_foreign_plan(const parameter_layout& layout, std::shared_ptr<foreign_computer> by,
                                        std::int32_t worker) {
  return std::make_unique<foreign_plan>(layout, std::move(by), worker);
}

std::shared_ptr<const data_set> foreign_rows(std::int64_t first, std::int64_t count) {
  return std::make_shared<row_numbers>(first, count);
}

} // namespace troupe
