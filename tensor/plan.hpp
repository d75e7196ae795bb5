// SPDX-License-Identifier: BSD-3-Clause
// The execution plan: a model's graph, ordered, with buffers assigned, ready to run on one backend.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/backend.hpp"
#include "tensor/factored.hpp"
#include "tensor/layout.hpp"
#include "tensor/model.hpp"
#include "tensor/shape.hpp"

namespace troupe {

/// The arguments of one training step. All pointers are in the backend's memory. Only `x` and `labels`, unless `staged`, are host
/// memory from allocate_host. Everything must stay alive until `done` has been called.
struct step_args {
  const float* parameters = nullptr; ///< flat, layout.floats()
  float* gradients = nullptr;        ///< flat, layout.floats(); written: d(mean loss)/d(parameter); gaps zeroed
  float* factors = nullptr;          ///< with options::factors; written, each pair before its slot is reported
  const void* x = nullptr;           ///< (rows, sample), of the model's input type
  const void* labels = nullptr;      ///< (rows, ...), of the model's label type; some may be `ignored_label`
  std::int64_t rows = 0;             ///< 1..max_rows
  /// Predictions whose label is not ignored: the loss is their mean (see `batch`). None: all.
  std::optional<std::int64_t> counted = {};
  /// A step in parts, one after the other into the same gradients: all but the first add to what is there. The mean is over
  /// `mean_over` predictions, those of all parts that count (none: over this part's own), and `share` is the part's of all rows.
  bool accumulate = false;
  std::optional<std::int64_t> mean_over = {};
  double share = 1;
  bool staged = false;          ///< x and labels are in the backend's memory already, uploaded while the last step ran
  kernels::random_key key = {}; ///< of dropout: the seed; as step the first row's place (see `batch`)
  /// The blocks that parameters, gradients and x are in, where whoever computes may outlive their owner: see model::foreign.
  std::array<kernels::buffer, 3> blocks = {};
  /// Called through backend::notify, in backward order, as soon as slot's gradient is complete (but see report_bytes): sending
  /// may begin.
  std::function<void(int slot)> gradient_ready = {};
  /// Called through backend::notify when the whole step is done; `outcome` is valid from then on.
  std::function<void()> done = {};
};

/// The results of a step, on the host.
struct step_outcome {
  double loss_sum = 0; ///< summed over the predictions
  std::int64_t rows = 0;
  std::int64_t predictions = 0; ///< of all rows
  std::int64_t counted = 0;     ///< of these, whose label is not ignored
  std::int64_t correct = 0;     ///< of these, whose largest logit is the label's
  bool finite = true;           ///< every gradient element (training) or the loss (evaluation) is finite
  /// Rows' worth of labels that are ignored.
  double ignored_rows() const {
    return static_cast<double>(rows) - static_cast<double>(rows * counted) / static_cast<double>(predictions);
  }
};

/// The cost of one layer, as far as a plan computes it.
struct layer_cost {
  std::string layer{};                 ///< as messages name it: `layer 2 "linear 10"`
  std::string result{};                ///< "(rows, 10)"
  std::int64_t parameters = 0;         ///< its own
  double flops_per_row = 0;            ///< forward and backward
  std::int64_t kept_bytes_per_row = 0; ///< of results that stay for the backward
};

/// When a piece of a training step is at a parameter: shares of its arithmetic.
struct slot_times {
  double needed = 1; ///< done before the parameter is first read; 1: it never is
  double ready = 0;  ///< done when its gradient is complete; 0: no instruction writes it
};

/// The cost of a plan, from its shapes alone.
struct plan_cost {
  double flops_per_row = 0; ///< multiply-adds count two; forward and backward
  std::int64_t parameter_bytes = 0;
  std::int64_t workspace_bytes = 0; ///< all buffers of the plan, for a piece
  std::vector<layer_cost> layers{}; ///< in the order of the graph
  std::vector<slot_times> slots{};  ///< in the layout's order; of training, where the plan computes anything
};

/// A compiled model. Owns its workspace; enqueue_* allocate nothing themselves (a std::function that does not fit its own
/// small buffer does when it is copied, and so may a backend). One plan serves one backend and one step at a time:
/// the next step may be enqueued once the last one's `done` was called. Not thread-safe.
class plan {
public:
  struct options {
    std::int64_t max_rows = 1;
    /// A step is computed in pieces of at most so many rows, one after the other; 0: at once. Each but the first adds to the
    /// gradients, which are reported in the last one's backward. There is a workspace for one piece. Where values are normalised
    /// over the batch, a piece is a batch of its own.
    std::int64_t piece_rows = 0;
    bool training = true; ///< false: forward and loss only, no dropout
    /// Record what a step enqueues and replay it whenever rows, parameters and gradients are the same again (a CUDA graph).
    bool capture = false;
    /// Gradients are reported once this many bytes of them are complete, and the rest with `done`: a device halts at each report.
    /// 0: each at once.
    std::int64_t report_bytes = 0;
    /// Steps may come in parts (step_args::accumulate).
    bool accumulate = false;
    /// An evaluation copies the predictions to the host.
    bool predictions = false;
    /// Compute the inside of blocks a second time instead of keeping it, see differentiation::recompute.
    bool recompute = false;
    /// Steps copy the factors of those slots that find_factored() names for max_rows. On the host, and in one piece.
    bool factors = false;
    std::int32_t worker = -1; ///< whose steps these are, told to whoever computes a foreign model; -1: evaluations are nobody's
  };

  static result<std::unique_ptr<plan>> compile(const model& source, kernels::backend& queue, const options& opts);
  virtual ~plan() = default;

  virtual const plan_cost& cost() const = 0;
  /// Enqueues forward, loss and backward.
  virtual void enqueue_step(const step_args& args) = 0;
  /// Enqueues what the next step's forward begins with, up to the first instruction that reads parameters which are not `there`:
  /// ranges of the flat array that do not touch. It may be called again when more of them are; `enqueue_step` with the same
  /// arguments then does the rest, and with others begins anew. Callbacks and factors are those of `enqueue_step`. Of a step in
  /// pieces it is the first one's forward. A hint: on a device it does nothing.
  virtual void enqueue_ahead(const step_args& args, std::span<const flat_range> there) = 0;
  /// Enqueues forward and loss; `gradients` and `gradient_ready` are not used.
  virtual void enqueue_evaluation(const step_args& args) = 0;
  /// Of the last step whose `done` was called.
  virtual const step_outcome& outcome() const = 0;
  /// Of the last evaluation whose `done` was called: (rows, predictions of the model). Without the option, nothing.
  virtual std::span<const float> predictions() const = 0;
};

/// The parameters of a model of which the factors of `rows` rows take fewer bytes than the gradient. One that is used twice has
/// no factors, nor has one of a model that other code computes.
factored_slots find_factored(const model& source, std::int64_t rows);

} // namespace troupe
