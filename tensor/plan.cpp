// SPDX-License-Identifier: BSD-3-Clause
// Compiles a model into two programs, training and evaluation, over one workspace, and runs them.
#include "tensor/plan.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "kernels/assert.hpp"
#include "tensor/autodiff.hpp"
#include "tensor/execute.hpp"
#include "tensor/lowering.hpp"
#include "tensor/placement.hpp"

namespace troupe {

namespace {

/// One instruction and the parameters whose gradients are complete with it.
struct instruction {
  node source;
  std::vector<int> completes;
};

/// The instructions of one kind of step.
struct program {
  graph g;
  std::vector<instruction> instructions;
  placement places;
  value_id x{}, labels{};
  bool draws = false; ///< it has dropout
};

/// A program as a backend recorded it, for one set of addresses and rows.
struct recording {
  const program* source = nullptr;
  bindings bound;
  bool reports_gradients = false;
  std::unique_ptr<kernels::program> recorded;
};

/// The report of a step to the host, in one array of 4-byte elements and one copy.
///   loss(predictions) | correct(predictions) | finite(slots)
struct report_layout {
  std::int64_t predictions = 0; ///< of the largest step
  std::int64_t slots = 0;
  place loss() const { return {region::report, 0}; }
  place correct() const { return {region::report, predictions}; }
  place finite(std::int64_t slot) const { return {region::report, 2 * predictions + slot}; }
  std::int64_t elements() const { return 2 * predictions + slots; }
};

std::size_t bytes_of(std::int64_t elements) {
  return static_cast<std::size_t>(elements * element_bytes);
}

/// Orders, fuses and places; `gradients` is empty for an evaluation.
program lower(const model& source, graph g, const std::vector<value_id>& gradients, const report_layout& report,
              std::int64_t max_rows) {
  const auto& loss_outputs = g.producer(source.loss()).outputs;
  std::map<value_id, place> fixed{{loss_outputs[0], report.loss()}, {loss_outputs[2], report.correct()}};
  std::map<value_id, int> slot_of;
  std::vector<value_id> wanted{loss_outputs[0], loss_outputs[2]}, early;
  for (std::size_t slot = 0; slot < gradients.size(); ++slot)
    if (gradients[slot] != value_id::none) {
      fixed[gradients[slot]] = {region::gradients, source.layout().slots[slot].offset};
      slot_of[gradients[slot]] = static_cast<int>(slot);
      early.push_back(gradients[slot]);
    }
  wanted.insert(wanted.end(), early.begin(), early.end());
  for (const auto& n : g.nodes())
    if (const auto* parameter = std::get_if<ops::parameter>(&n.op))
      fixed[n.outputs[0]] = {region::parameters, source.layout().slots[static_cast<std::size_t>(parameter->slot)].offset};

  auto nodes = order_nodes(g, wanted, early);
  if (gradients.empty())
    nodes = without_dropout(g, std::move(nodes));
  nodes = fuse_epilogues(g, std::move(nodes), wanted);
  auto places = place_values(g, nodes, fixed, max_rows);

  std::vector<instruction> instructions;
  bool draws = false;
  for (auto& n : nodes) {
    draws = draws || std::holds_alternative<ops::dropout>(n.op);
    std::vector<int> completes;
    for (auto v : n.outputs)
      if (auto hit = slot_of.find(v); hit != slot_of.end())
        completes.push_back(hit->second);
    instructions.push_back({std::move(n), std::move(completes)});
  }
  return {std::move(g), std::move(instructions), std::move(places), source.input(), source.labels(), draws};
}

class compiled_plan final : public plan {
public:
  compiled_plan(const model& source, kernels::backend& queue, const options& opts)
      : queue_(queue), opts_(opts), layout_(source.layout()), sample_elements_(source.sample().elements()),
        row_labels_(source.label_shape().elements()),
        row_predictions_(source.forward().at(source.loss()).dims.elements()), report_{opts.max_rows * row_predictions_,
                                                                                      static_cast<std::int64_t>(
                                                                                          layout_.slots.size())},
        evaluation_(lower(source, source.forward(), {}, report_, opts.max_rows)) {
    auto workspace_floats = evaluation_.places.workspace_floats;
    if (opts.training) {
      auto g = source.forward();
      auto gradients = differentiate(g, source.loss(), static_cast<int>(layout_.slots.size()));
      find_gaps(gradients);
      order_ = untouched_;
      training_ = lower(source, std::move(g), gradients, report_, opts.max_rows);
      for (const auto& i : training_.instructions)
        order_.insert(order_.end(), i.completes.begin(), i.completes.end());
      workspace_floats = std::max(workspace_floats, training_.places.workspace_floats);
    }
    allocate(bytes_of(workspace_floats));

    const auto& costed = opts.training ? training_ : evaluation_;
    for (const auto& i : costed.instructions)
      cost_.flops_per_row += flops(costed.g, costed.places, i.source, opts.max_rows) / static_cast<double>(opts.max_rows);
    for (const auto& slot : layout_.slots)
      cost_.parameter_bytes += static_cast<std::int64_t>(bytes_of(slot.elements()));
    cost_.workspace_bytes = static_cast<std::int64_t>(bytes_of(workspace_floats));
  }

  const plan_cost& cost() const override { return cost_; }
  const step_outcome& outcome() const override { return outcome_; }

  void enqueue_step(const step_args& args) override {
    TROUPE_ASSERT(opts_.training && args.gradients);
    enqueue(training_, args);
  }

  void enqueue_evaluation(const step_args& args) override { enqueue(evaluation_, args); }

private:
  /// Slots, as places in the order in which they complete. Two words of capture with `this`, so that std::function allocates
  /// nothing.
  struct completions {
    std::int32_t begin = 0, end = 0;
  };

  void allocate(std::size_t workspace_bytes) try {
    workspace_ = queue_.allocate(workspace_bytes);
    report_device_ = queue_.allocate(bytes_of(report_.elements()));
    report_host_ = queue_.allocate_host(bytes_of(report_.elements()));
    key_device_ = queue_.allocate(sizeof(kernels::random_key));
    key_host_ = queue_.allocate_host(sizeof(kernels::random_key));
  } catch (const kernels::out_of_memory& e) {
    throw kernels::out_of_memory(
        fmt::format("{}; a step of {} rows needs a workspace of {} bytes beside {} bytes of parameters and as many of gradients",
                    e.what(), opts_.max_rows, workspace_bytes, bytes_of(layout_.floats())));
  }

  /// Finds the memory that backward never writes: gaps between slots, and parameters that the loss does not depend on.
  void find_gaps(const std::vector<value_id>& gradients) {
    std::int64_t written = 0;
    for (std::size_t slot = 0; slot < gradients.size(); ++slot) {
      if (gradients[slot] == value_id::none) {
        untouched_.push_back(static_cast<int>(slot));
        continue;
      }
      if (layout_.slots[slot].offset > written)
        gaps_.push_back({written, layout_.slots[slot].offset});
      written = layout_.slots[slot].offset + layout_.slots[slot].elements();
    }
    if (layout_.floats() > written)
      gaps_.push_back({written, layout_.floats()});
  }

  /// Sets or copies what changes with every step; the rest is the same work on the same addresses.
  void enqueue(const program& p, const step_args& args) {
    TROUPE_ASSERT(args.rows >= 1 && args.rows <= opts_.max_rows && args.parameters && args.x && args.labels);
    args_ = args;
    training_step_ = &p == &training_;
    bound_ = {.workspace = workspace_.as<float>(),
              .parameters = args.parameters,
              .gradients = args.gradients,
              .report = report_device_.as<float>(),
              .rows = args.rows,
              .scale = 1.0F / static_cast<float>(std::max<std::int64_t>(counted(args), 1)),
              .key = key_device_.as<kernels::random_key>()};
    const auto copy_in = args.staged ? &kernels::backend::copy : &kernels::backend::copy_from_host;
    (queue_.*copy_in)(address(p, p.x), args.x, bytes_of(args.rows * sample_elements_));
    (queue_.*copy_in)(address(p, p.labels), args.labels, bytes_of(args.rows * row_labels_));
    if (p.draws) {
      *key_host_.as<kernels::random_key>() = args.key;
      queue_.copy_from_host(key_device_.data(), key_host_.data(), sizeof(kernels::random_key));
    }
    if (opts_.capture)
      queue_.replay(recorded(p));
    else
      run(p);
  }

  kernels::program& recorded(const program& p) {
    auto fits = [&](const recording& r) {
      return r.source == &p && r.bound.rows == bound_.rows && r.bound.parameters == bound_.parameters
             && r.bound.gradients == bound_.gradients && r.bound.scale == bound_.scale
             && r.reports_gradients == bool(args_.gradient_ready);
    };
    auto found = std::ranges::find_if(recordings_, fits);
    if (found != recordings_.end())
      return *found->recorded;
    // Double-buffered parameters and gradients, a full and a short batch, training and evaluation.
    constexpr std::size_t most_recordings = 16;
    if (recordings_.size() == most_recordings)
      recordings_.erase(recordings_.begin());
    recordings_.push_back({&p, bound_, bool(args_.gradient_ready), queue_.capture([this, &p] { run(p); })});
    return *recordings_.back().recorded;
  }

  void run(const program& p) {
    unreported_ = {};
    unreported_bytes_ = 0;
    if (&p == &training_) {
      for (auto gap : gaps_)
        queue_.enqueue(kernels::fill{.y = bound_.gradients + gap.begin, .count = gap.size()});
      for (auto slot : untouched_)
        complete(slot);
    }
    for (const auto& i : p.instructions) {
      if (const auto op = operation_of(p.g, p.places, i.source, bound_))
        queue_.enqueue(*op);
      for (auto slot : i.completes)
        complete(slot);
    }
    queue_.copy_to_host(report_host_.data(), report_device_.data(), bytes_of(report_.elements()));
    queue_.notify([this, rest = unreported_] {
      report(rest);
      // The receiver of `done` may enqueue the next step on another thread before the call has returned, so these arguments are
      // moved out first. That also releases what their callbacks hold.
      const auto args = std::exchange(args_, {});
      read_report(args);
      if (args.done)
        args.done();
    });
  }

  /// While the gradient is still in the cache.
  void complete(int slot) {
    const auto& s = layout_.slots[static_cast<std::size_t>(slot)];
    auto* flag = reinterpret_cast<std::int32_t*>(bound_.address(report_.finite(slot)));
    queue_.enqueue(kernels::all_finite{.x = bound_.gradients + s.offset, .count = s.elements(), .flag = flag});
    ++unreported_.end;
    unreported_bytes_ += static_cast<std::int64_t>(bytes_of(s.elements()));
    if (!args_.gradient_ready || unreported_bytes_ < opts_.report_bytes)
      return;
    queue_.notify([this, now = unreported_] { report(now); });
    unreported_.begin = unreported_.end;
    unreported_bytes_ = 0;
  }

  void report(completions which) const {
    if (args_.gradient_ready)
      for (auto i = which.begin; i < which.end; ++i)
        args_.gradient_ready(order_[static_cast<std::size_t>(i)]);
  }

  std::int64_t counted(const step_args& args) const { return args.counted.value_or(args.rows * row_predictions_); }

  /// In the order of the predictions and in double: the same sum for the same rows, whatever the device.
  void read_report(const step_args& args) {
    outcome_ = {.rows = args.rows, .predictions = args.rows * row_predictions_, .counted = counted(args)};
    const auto* loss = report_host_.as<float>() + report_.loss().offset;
    const auto* correct = report_host_.as<std::int32_t>() + report_.correct().offset;
    for (std::int64_t i = 0; i < outcome_.predictions; ++i) {
      outcome_.loss_sum += static_cast<double>(loss[i]);
      outcome_.correct += correct[i];
    }
    outcome_.finite = std::isfinite(outcome_.loss_sum);
    if (!training_step_)
      return;
    const auto* finite = report_host_.as<std::int32_t>() + report_.finite(0).offset;
    outcome_.finite = outcome_.finite && std::all_of(finite, finite + report_.slots, [](auto flag) { return flag == 1; });
  }

  float* address(const program& p, value_id v) const { return bound_.address(p.places.by_value[static_cast<std::size_t>(v)]); }

  kernels::backend& queue_;
  options opts_;
  parameter_layout layout_;
  std::int64_t sample_elements_, row_labels_, row_predictions_; ///< of one row
  report_layout report_;
  program evaluation_, training_;
  std::vector<flat_range> gaps_;
  std::vector<int> untouched_;
  std::vector<int> order_; ///< in which gradients complete
  kernels::buffer workspace_, report_device_, report_host_;
  kernels::buffer key_device_, key_host_; ///< the step's random_key
  plan_cost cost_;
  std::vector<recording> recordings_; ///< oldest first

  // of the running step
  step_args args_;
  bindings bound_;
  bool training_step_ = false;
  completions unreported_; ///< enqueued since the last report
  std::int64_t unreported_bytes_ = 0;
  step_outcome outcome_;
};

} // namespace

result<std::unique_ptr<plan>> plan::compile(const model& source, kernels::backend& queue, const options& opts) {
  if (opts.max_rows < 1)
    return error{errc::bad_option, fmt::format("a plan needs room for at least one row, got max_rows = {}", opts.max_rows)};
  return std::unique_ptr<plan>(std::make_unique<compiled_plan>(source, queue, opts));
}

} // namespace troupe
