// SPDX-License-Identifier: BSD-3-Clause
// Compiles a model into two programs, training and evaluation, over one workspace, and runs them.
#include "tensor/plan.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "kernels/assert.hpp"
#include "tensor/autodiff.hpp"
#include "tensor/execute.hpp"
#include "tensor/foreign.hpp"
#include "tensor/lowering.hpp"
#include "tensor/placement.hpp"

namespace troupe {

namespace {

/// One instruction and the parameters whose gradients are complete with it.
struct instruction {
  node source;
  std::vector<int> completes;
  /// It is a product that is the gradient of the parameter which it completes.
  bool is_factored(const graph& g) const {
    const auto* product = std::get_if<ops::matmul>(&source.op);
    return product && product->transpose_a && !product->transpose_b && completes.size() == 1 && source.outputs.size() == 1
           && source.sum_of(0) == value_id::none && g.at(source.inputs[0]).per_row && g.at(source.inputs[1]).per_row;
  }
};

/// The instructions of one kind of step.
struct program {
  graph g;
  std::vector<instruction> instructions;
  placement places;
  value_id x{}, labels{};
  bool draws = false;             ///< it has dropout
  std::vector<flat_range> gaps{}; ///< of the gradients: what it sets to zero, for no instruction writes it
  std::vector<int> untouched{};   ///< slots whose gradient it does not compute
  std::vector<int> order{};       ///< in which gradients complete; the untouched first
};

/// What of a step's arguments its forward depends on.
struct forward_args {
  const float* parameters;
  const float* gradients; ///< of statistics
  const void *x, *labels;
  std::int64_t rows;
  std::optional<std::int64_t> counted, mean_over;
  double share;
  bool staged;
  kernels::random_key key;
  explicit forward_args(const step_args& of)
      : parameters(of.parameters), gradients(of.gradients), x(of.x), labels(of.labels), rows(of.rows), counted(of.counted),
        mean_over(of.mean_over), share(of.share), staged(of.staged), key(of.key) {}
  friend bool operator==(const forward_args&, const forward_args&) = default;
};

/// A program as a backend recorded it, for one set of addresses and rows.
struct recording {
  const program* source = nullptr;
  bindings bound;
  bool reports_gradients = false;
  std::unique_ptr<kernels::program> recorded;
};

/// The report of a piece of a step to the host, in one array of 4-byte elements and one copy.
///   loss(predictions) | correct(predictions) | finite(slots) | values of the predictions, where they are wanted
struct report_layout {
  std::int64_t predictions = 0; ///< of the largest piece
  std::int64_t slots = 0;
  std::int64_t numbers = 0; ///< that all predictions consist of; 0: they are not wanted
  place loss() const { return {region::report, 0}; }
  place correct() const { return {region::report, predictions}; }
  place finite(std::int64_t slot) const { return {region::report, 2 * predictions + slot}; }
  place values() const { return finite(slots); }
  std::int64_t elements() const { return 2 * predictions + slots + numbers; }
};

std::size_t bytes_of(std::int64_t elements) {
  return static_cast<std::size_t>(elements * element_bytes);
}

/// A step that updates the gradients, or an evaluation, which has none.
struct lowered_kind {
  bool training = false;
  differentiation how = {};
};

bool draws(const ops::any& op) {
  const auto* attention = std::get_if<ops::attention>(&op);
  const auto* backward = std::get_if<ops::attention_backward>(&op);
  return std::holds_alternative<ops::dropout>(op) || (attention && attention->rate > 0)
         || (backward && backward->forward.rate > 0);
}

std::int64_t rows_of_piece(const plan::options& opts) {
  return opts.piece_rows > 0 ? std::min(opts.piece_rows, opts.max_rows) : opts.max_rows;
}

/// Of a whole step: the shortest.
std::int64_t rows_of_last_piece(const plan::options& opts) {
  const auto rest = opts.max_rows % rows_of_piece(opts);
  return rest == 0 ? rows_of_piece(opts) : rest;
}

/// What no instruction of a program writes: gaps between slots, and slots that have no gradient.
void find_untouched(program& p, const parameter_layout& layout, const std::vector<value_id>& gradients) {
  std::int64_t written = 0;
  for (std::size_t slot = 0; slot < gradients.size(); ++slot) {
    if (gradients[slot] == value_id::none) {
      p.untouched.push_back(static_cast<int>(slot));
      continue;
    }
    if (layout.slots[slot].offset > written)
      p.gaps.push_back({written, layout.slots[slot].offset});
    written = layout.slots[slot].offset + layout.slots[slot].elements();
  }
  if (layout.floats() > written)
    p.gaps.push_back({written, layout.floats()});
}

/// Differentiates, orders, fuses and places.
program lower(const model& source, const lowered_kind& kind, const report_layout& report, std::int64_t max_rows) {
  program p{.g = source.forward(), .instructions = {}, .places = {}, .x = source.input(), .labels = source.labels()};
  auto& g = p.g;
  const auto& layout = source.layout();
  std::vector<value_id> gradients;
  if (kind.training) {
    gradients = differentiate(g, source.loss(), layout, kind.how);
    find_untouched(p, layout, gradients);
    if (kind.how.accumulate) // they are what they were
      p.gaps.clear();
  }
  const auto& of_loss = g.producer(source.loss()).outputs;
  std::map<value_id, place> fixed{{of_loss[0], report.loss()}};
  std::vector<value_id> wanted{of_loss[0]}, early;
  if (of_loss.size() > 2) {
    fixed[of_loss[2]] = report.correct();
    wanted.push_back(of_loss[2]);
  }
  if (report.numbers > 0 && !kind.training) {
    // A copy: they may be a view of another value, and the loss may overwrite them.
    std::vector<std::size_t> axes(g.at(source.predictions()).dims.rank());
    std::iota(axes.begin(), axes.end(), 0U);
    wanted.push_back(g.apply(ops::permute{std::move(axes)}, {source.predictions()}).value());
    fixed[wanted.back()] = report.values();
  }
  std::map<value_id, int> slot_of;
  for (std::size_t slot = 0; slot < gradients.size(); ++slot)
    if (gradients[slot] != value_id::none) {
      fixed[gradients[slot]] = {region::gradients, layout.slots[slot].offset};
      slot_of[gradients[slot]] = static_cast<int>(slot);
      early.push_back(gradients[slot]);
    }
  wanted.insert(wanted.end(), early.begin(), early.end());
  const auto offset_of = [&layout](int slot) { return layout.slots[static_cast<std::size_t>(slot)].offset; };
  for (const auto& n : g.nodes()) {
    if (const auto* parameter = std::get_if<ops::parameter>(&n.op))
      fixed[n.outputs[0]] = {region::parameters, offset_of(parameter->slot)};
    if (const auto* gradient = std::get_if<ops::gradient>(&n.op))
      fixed[n.outputs[0]] = {region::gradients, offset_of(gradient->slot)};
  }

  auto nodes = order_nodes(g, wanted, early);
  if (!kind.training)
    nodes = for_evaluation(g, std::move(nodes));
  nodes = fuse_epilogues(g, std::move(nodes), wanted);
  p.places = place_values(g, nodes, fixed, max_rows);

  p.order = p.untouched;
  for (auto& n : nodes) {
    p.draws = p.draws || draws(n.op);
    std::vector<int> completes;
    for (auto v : n.outputs)
      if (auto hit = slot_of.find(v); hit != slot_of.end())
        completes.push_back(hit->second);
    p.order.insert(p.order.end(), completes.begin(), completes.end());
    p.instructions.push_back({std::move(n), std::move(completes)});
  }
  return p;
}

factored_slots factored_in(const program& p, const parameter_layout& layout, std::int64_t rows) {
  factored_slots out;
  for (const auto& i : p.instructions) {
    if (!i.is_factored(p.g))
      continue;
    const auto& slot = layout.slots[static_cast<std::size_t>(i.completes[0])];
    const auto left = as_matrix(p.g.at(i.source.inputs[0]), 1), right = as_matrix(p.g.at(i.source.inputs[1]), 1);
    const factored_slot found{.where = {slot.offset, align_up(slot.offset + slot.elements())},
                              .m = left.columns,
                              .n = right.columns,
                              .positions = left.rows};
    if (found.pays(found.where, rows))
      out.push_back(found);
  }
  std::ranges::sort(out, {}, &factored_slot::where);
  std::int64_t written = 0;
  for (auto& each : out) {
    each.left = written;
    each.right = each.left + rows * each.positions * each.m;
    written = each.right + rows * each.positions * each.n;
  }
  return out;
}

class compiled_plan final : public plan {
public:
  compiled_plan(const model& source, kernels::backend& queue, const options& opts)
      : queue_(queue), opts_(opts), piece_rows_(rows_of_piece(opts)), layout_(source.layout()),
        sample_elements_(source.sample().elements()), row_labels_(source.label_shape().elements()),
        row_predictions_(source.row_predictions()),
        row_numbers_(opts.predictions ? source.forward().at(source.predictions()).dims.elements() : 0),
        counts_hits_(source.forward().producer(source.loss()).outputs.size() > 2), report_{piece_rows_ * row_predictions_,
                                                                                           std::ssize(layout_.slots),
                                                                                           piece_rows_ * row_numbers_},
        evaluation_(lower(source, {}, report_, piece_rows_)) {
    TROUPE_ASSERT(!opts.predictions || piece_rows_ == opts.max_rows); // one report has them all
    auto workspace_floats = evaluation_.places.workspace_floats;
    const auto add = [&](program& p, bool accumulate) {
      p = lower(source, {true, {.accumulate = accumulate, .recompute = opts.recompute}}, report_, piece_rows_);
      workspace_floats = std::max(workspace_floats, p.places.workspace_floats);
    };
    if (opts.training)
      add(training_, false);
    if (opts.training && (opts.accumulate || piece_rows_ < opts.max_rows))
      add(accumulating_, true);
    if (opts.training && opts.factors) {
      TROUPE_ASSERT(queue.on_host() && !opts.capture && !opts.accumulate && piece_rows_ == opts.max_rows);
      factored_ = factored_in(training_, layout_, opts.max_rows);
    }
    allocate(bytes_of(workspace_floats));
    find_cost(source, opts.training ? training_ : evaluation_);
    if (opts.training && cost_.flops_per_row > 0)
      find_slot_times(training_);
    cost_.workspace_bytes = static_cast<std::int64_t>(bytes_of(workspace_floats));
  }

  const plan_cost& cost() const override { return cost_; }
  const step_outcome& outcome() const override { return outcome_; }
  std::span<const float> predictions() const override {
    return {report_host_.as<float>() + report_.values().offset, static_cast<std::size_t>(outcome_.rows * row_numbers_)};
  }

  void enqueue_step(const step_args& args) override {
    TROUPE_ASSERT(opts_.training && args.gradients && (opts_.accumulate || !args.accumulate));
    enqueue(args.accumulate ? accumulating_ : training_, args);
  }

  void enqueue_ahead(const step_args& args, std::span<const flat_range> there) override {
    if (!opts_.training || !queue_.on_host() || opts_.capture || args.accumulate)
      return;
    const forward_args wanted{args};
    if (ahead_ != wanted) {
      ahead_ = wanted;
      begin_piece(training_, args, 0);
    }
    reports_ = false;
    run(training_, &there);
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
    const auto pieces = (opts_.max_rows + piece_rows_ - 1) / piece_rows_;
    report_host_ = queue_.allocate_host(bytes_of(pieces * report_.elements()));
    numbers_device_ = queue_.allocate(sizeof(step_numbers));
    numbers_host_ = queue_.allocate_host(static_cast<std::size_t>(pieces) * sizeof(step_numbers));
  } catch (const kernels::out_of_memory& e) {
    throw kernels::out_of_memory(fmt::format(
        "{}; a {} of {} rows needs a workspace of {} bytes beside {} bytes of parameters and as many of gradients", e.what(),
        piece_rows_ < opts_.max_rows ? "piece" : "step", piece_rows_, workspace_bytes, bytes_of(layout_.floats())));
  }

  double flops_per_row(const program& p, const instruction& i) const {
    return cost_of(p.g, p.places, i.source, piece_rows_).flops / static_cast<double>(piece_rows_);
  }

  /// By layer in the order of the graph, and in total.
  void find_cost(const model& source, const program& p) {
    const auto& forward = source.forward();
    const auto entry = [&](const std::string& layer) -> layer_cost& {
      const auto found = std::ranges::find(cost_.layers, layer, &layer_cost::layer);
      return found != cost_.layers.end() ? *found : cost_.layers.emplace_back(layer_cost{.layer = layer});
    };
    for (const auto& n : forward.nodes()) {
      auto& layer = entry(n.layer);
      if (const auto* parameter = std::get_if<ops::parameter>(&n.op))
        layer.parameters += layout_.slots[static_cast<std::size_t>(parameter->slot)].elements();
      else
        layer.result = forward.at(n.outputs[0]).to_string();
    }
    std::vector<bool> counted(forward.values().size(), false);
    bool backward = false;
    for (const auto& i : p.instructions) {
      entry(i.source.layer).flops_per_row += flops_per_row(p, i);
      backward = backward || is_loss(i.source.op);
      for (auto in : i.source.inputs)
        if (const auto v = static_cast<std::size_t>(in); backward && v < counted.size() && !counted[v]) {
          counted[v] = true;
          const auto& producer = p.g.producer(in);
          if (p.g.at(in).per_row && !is_source(producer.op) && !std::holds_alternative<ops::reshape>(producer.op))
            entry(producer.layer).kept_bytes_per_row += static_cast<std::int64_t>(bytes_of(p.g.at(in).dims.elements()));
        }
    }
    for (const auto& layer : cost_.layers)
      cost_.flops_per_row += layer.flops_per_row;
    for (const auto& slot : layout_.slots)
      cost_.parameter_bytes += static_cast<std::int64_t>(bytes_of(slot.elements()));
  }

  void find_slot_times(const program& p) {
    auto& slots = cost_.slots;
    slots.resize(layout_.slots.size());
    const auto all = cost_.flops_per_row;
    double done = 0;
    for (const auto& i : p.instructions) {
      for (auto in : i.source.inputs)
        if (const auto& at = p.places.by_value[static_cast<std::size_t>(in)]; at.where == region::parameters) {
          const auto after = std::ranges::upper_bound(layout_.slots, at.offset, {}, &parameter_slot::offset);
          auto& needed = slots[static_cast<std::size_t>(after - layout_.slots.begin()) - 1].needed;
          needed = std::min(needed, done / all);
        }
      done += flops_per_row(p, i);
      for (auto slot : i.completes)
        slots[static_cast<std::size_t>(slot)].ready = done / all;
    }
  }

  /// Piece by piece; `first` is the first one's program.
  void enqueue(const program& first, const step_args& args) {
    TROUPE_ASSERT(args.rows >= 1 && args.rows <= opts_.max_rows && args.parameters && args.x && args.labels);
    const auto rows = args.rows;
    const auto& others = &first == &evaluation_ ? evaluation_ : accumulating_;
    args_ = args;
    last_ = rows > piece_rows_ ? &others : &first;
    for (std::int64_t begin = 0; begin < rows; begin += piece_rows_)
      enqueue_piece(begin == 0 ? first : others, args, begin);
    queue_.notify([this] {
      // The receiver of `done` may enqueue the next step on another thread before the call has returned, so these arguments are
      // moved out first. That also releases what their callbacks hold.
      const auto args = std::exchange(args_, {});
      read_report(args);
      if (args.done)
        args.done();
    });
  }

  void enqueue_piece(const program& p, const step_args& args, std::int64_t begin) {
    if (std::exchange(ahead_, std::nullopt) != forward_args{args} || &p != &training_)
      begin_piece(p, args, begin);
    reports_ = args.gradient_ready && begin + bound_.rows == args.rows;
    if (opts_.capture)
      queue_.replay(recorded(p));
    else
      run(p);
    queue_.copy_to_host(report_host_.data() + bytes_of(begin / piece_rows_ * report_.elements()), report_device_.data(),
                        bytes_of(report_.elements()));
  }

  /// Sets or copies what changes with every piece; the rest is the same work on the same addresses.
  void begin_piece(const program& p, const step_args& args, std::int64_t begin) {
    const auto rows = std::min(piece_rows_, args.rows - begin);
    next_ = 0;
    bound_ = {.workspace = workspace_.as<float>(),
              .parameters = args.parameters,
              .gradients = args.gradients,
              .report = report_device_.as<float>(),
              .rows = rows,
              .share = static_cast<float>(args.share * static_cast<double>(rows) / static_cast<double>(args.rows)),
              .numbers = numbers_device_.as<step_numbers>()};
    const auto copy_in = args.staged ? &kernels::backend::copy : &kernels::backend::copy_from_host;
    const auto at = [begin](const void* values, std::int64_t row_elements) {
      return static_cast<const std::byte*>(values) + bytes_of(begin * row_elements);
    };
    (queue_.*copy_in)(address(p, p.x), at(args.x, sample_elements_), bytes_of(rows * sample_elements_));
    (queue_.*copy_in)(address(p, p.labels), at(args.labels, row_labels_), bytes_of(rows * row_labels_));
    if (&p != &evaluation_) {
      const auto mean_over = std::max<std::int64_t>(args.mean_over.value_or(counted(args)), 1);
      auto* numbers =
          numbers_host_.as<step_numbers>() + begin / piece_rows_; // the next piece may be enqueued before it is copied
      *numbers = {args.key, 1.0F / static_cast<float>(mean_over)};
      numbers->key.step += static_cast<std::uint64_t>(begin);
      queue_.copy_from_host(numbers_device_.data(), numbers, sizeof(step_numbers));
    }
  }

  kernels::program& recorded(const program& p) {
    auto fits = [&](const recording& r) { return r.source == &p && r.bound == bound_ && r.reports_gradients == reports_; };
    auto found = std::ranges::find_if(recordings_, fits);
    if (found != recordings_.end())
      return *found->recorded;
    // Double-buffered parameters and gradients, a full and a short batch, training and evaluation; the first piece, the last one,
    // and those between.
    constexpr std::size_t most_recordings = 48;
    if (recordings_.size() == most_recordings)
      recordings_.erase(recordings_.begin());
    recordings_.push_back({&p, bound_, reports_, queue_.capture([this, &p] { run(p); })});
    return *recordings_.back().recorded;
  }

  /// The instructions that have not run; with `there`, those of forward that read no other parameters.
  void run(const program& p, const std::span<const flat_range>* there = nullptr) {
    if (next_ == 0)
      begin_run(p);
    const operation_sink enqueue_it = [this](const kernels::operation& op) { queue_.enqueue(op); };
    for (; next_ < p.instructions.size(); ++next_) {
      const auto& i = p.instructions[next_];
      if (there != nullptr && (is_loss(i.source.op) || !reads_only(p, i.source, *there)))
        return;
      each_operation(p.g, p.places, i.source, bound_, enqueue_it);
      if (args_.factors && i.is_factored(p.g))
        copy_factors(p, i);
      for (auto slot : i.completes)
        complete(slot);
    }
    if (reports_ && unreported_.begin < unreported_.end)
      queue_.notify([this, rest = unreported_] { report(rest); });
  }

  void begin_run(const program& p) {
    unreported_ = {};
    unreported_bytes_ = 0;
    for (auto gap : p.gaps)
      queue_.enqueue(kernels::fill{.y = bound_.gradients + gap.begin, .count = gap.size()});
    for (auto slot : p.untouched)
      complete(slot);
  }

  static bool reads_only(const program& p, const node& n, std::span<const flat_range> there) {
    return std::ranges::all_of(n.inputs, [&](value_id v) {
      const auto& at = p.places.by_value[static_cast<std::size_t>(v)];
      return at.where != region::parameters || covers(there, {at.offset, at.offset + p.g.at(v).dims.elements()});
    });
  }

  void copy_factors(const program& p, const instruction& i) {
    const auto& s = layout_.slots[static_cast<std::size_t>(i.completes[0])];
    const auto* found = slot_of(factored_, {s.offset, s.offset + s.elements()});
    if (found == nullptr)
      return;
    const auto rows = bound_.rows * found->positions;
    queue_.copy(args_.factors + found->left, address(p, i.source.inputs[0]), bytes_of(rows * found->m));
    queue_.copy(args_.factors + found->right, address(p, i.source.inputs[1]), bytes_of(rows * found->n));
  }

  /// While the gradient is still in the cache.
  void complete(int slot) {
    const auto& s = layout_.slots[static_cast<std::size_t>(slot)];
    auto* flag = reinterpret_cast<std::int32_t*>(bound_.address(report_.finite(slot)));
    queue_.enqueue(kernels::all_finite{.x = bound_.gradients + s.offset, .count = s.elements(), .flag = flag});
    ++unreported_.end;
    unreported_bytes_ += static_cast<std::int64_t>(bytes_of(s.elements()));
    if (!reports_ || unreported_bytes_ < opts_.report_bytes)
      return;
    queue_.notify([this, now = unreported_] { report(now); });
    unreported_.begin = unreported_.end;
    unreported_bytes_ = 0;
  }

  void report(completions which) const {
    for (auto i = which.begin; i < which.end; ++i)
      args_.gradient_ready(last_->order[static_cast<std::size_t>(i)]);
  }

  std::int64_t counted(const step_args& args) const { return args.counted.value_or(args.rows * row_predictions_); }

  /// In the order of the predictions and in double: the same sum for the same rows, whatever the device and the pieces.
  void read_report(const step_args& args) {
    outcome_ = {.rows = args.rows, .predictions = args.rows * row_predictions_, .counted = counted(args)};
    for (std::int64_t begin = 0; begin < args.rows; begin += piece_rows_) {
      const auto* piece = report_host_.as<float>() + begin / piece_rows_ * report_.elements();
      const auto* integers = reinterpret_cast<const std::int32_t*>(piece);
      const auto predictions = std::min(piece_rows_, args.rows - begin) * row_predictions_;
      for (std::int64_t i = 0; i < predictions; ++i) {
        outcome_.loss_sum += static_cast<double>(piece[report_.loss().offset + i]);
        outcome_.correct += counts_hits_ ? integers[report_.correct().offset + i] : 0;
      }
      const auto* finite = integers + report_.finite(0).offset;
      outcome_.finite =
          outcome_.finite
          && (last_ == &evaluation_ || std::all_of(finite, finite + report_.slots, [](auto flag) { return flag == 1; }));
    }
    outcome_.finite = outcome_.finite && std::isfinite(outcome_.loss_sum);
  }

  float* address(const program& p, value_id v) const { return bound_.address(p.places.by_value[static_cast<std::size_t>(v)]); }

  kernels::backend& queue_;
  options opts_;
  std::int64_t piece_rows_;
  parameter_layout layout_;
  std::int64_t sample_elements_, row_labels_, row_predictions_; ///< of one row
  std::int64_t row_numbers_;                                    ///< of one row's predictions, if they are wanted
  bool counts_hits_;                                            ///< the loss says which predictions are right
  report_layout report_;
  program evaluation_, training_, accumulating_;
  factored_slots factored_; ///< whose factors are wanted
  kernels::buffer workspace_, report_device_, report_host_;
  kernels::buffer numbers_device_, numbers_host_; ///< step_numbers
  plan_cost cost_;
  std::vector<recording> recordings_; ///< oldest first

  // of the running step
  step_args args_;
  const program* last_ = nullptr; ///< its last piece's
  step_outcome outcome_;
  std::optional<forward_args> ahead_; ///< of the step that is enqueued ahead
  // of the piece that is being enqueued
  bindings bound_;
  std::size_t next_ = 0;   ///< of its instructions, the first that is not enqueued
  bool reports_ = false;   ///< gradients, as they complete
  completions unreported_; ///< enqueued since the last report
  std::int64_t unreported_bytes_ = 0;
};

} // namespace

factored_slots find_factored(const model& source, std::int64_t rows) {
  if (source.computed_by())
    return {};
  const report_layout nothing{0, std::ssize(source.layout().slots)};
  return factored_in(lower(source, {.training = true}, nothing, rows), source.layout(), rows);
}

result<std::unique_ptr<plan>> plan::compile(const model& source, kernels::backend& queue, const options& opts) {
  if (opts.max_rows < 1)
    return error{errc::bad_option, fmt::format("a plan needs room for at least one row, got max_rows = {}", opts.max_rows)};
  if (source.computed_by() && !queue.on_host())
    return error{errc::bad_option,
                 "a model that other code computes has its parameters in the host's memory; give compute.device = \"cpu\""};
  if (source.computed_by())
    return make_foreign_plan(source.layout(), source.computed_by(), opts.worker);
  const auto& g = source.forward();
  for (const auto& n : g.nodes())
    if (opts.training && std::holds_alternative<ops::batchnorm>(n.op)) {
      const auto& x = g.at(n.inputs[0]);
      if (rows_of_last_piece(opts) * x.dims.elements() / x.dims[0] < 2) {
        const auto* batch_name = opts.max_rows > 1 ? "micro-batch" : "batch";
        return error{errc::bad_option,
                     fmt::format("{}: a batch norm needs two values of each channel to have a variance, and a {} "
                                 "of one row {} has one; take a larger {}, or a \"groupnorm\"",
                                 n.layer, batch_name, x.to_string(), batch_name)};
      }
    }
  return std::unique_ptr<plan>(std::make_unique<compiled_plan>(source, queue, opts));
}

} // namespace troupe
