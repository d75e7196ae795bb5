// SPDX-License-Identifier: BSD-3-Clause
// What holds for every operation, read from its description.
#include "kernels/operation.hpp"

#include <algorithm>

#include "kernels/assert.hpp"
#include "kernels/backend.hpp"

namespace troupe::kernels {

namespace {

void check_window(const window2d& w) {
  TROUPE_ASSERT(w.n >= 0 && w.c > 0 && w.stride > 0 && w.padding >= 0 && w.dilation > 0);
  TROUPE_ASSERT(w.out_h() > 0 && w.out_w() > 0);
  TROUPE_ASSERT(w.groups > 0 && w.c % w.groups == 0);
  TROUPE_ASSERT(w.h * w.w <= INT32_MAX);
}

/// Promises that one kind of operation makes beyond those of its operands.
class own_promises {
public:
  void operator()(const gemm& op) const {
    TROUPE_ASSERT(op.m >= 0 && op.n >= 0 && op.k > 0);
    TROUPE_ASSERT(!op.pre || op.pre != op.c);
  }
  void operator()(const batched_gemm& op) const {
    TROUPE_ASSERT(op.batch >= 0 && op.m >= 0 && op.n >= 0 && op.k > 0);
    TROUPE_ASSERT(op.stride_a >= 0 && op.stride_b >= 0 && (op.batch <= 1 || op.stride_c >= op.m * op.n));
  }
  void operator()(const conv2d& op) const {
    TROUPE_ASSERT(op.act == activation::none || op.act == activation::relu);
    TROUPE_ASSERT(op.out_channels % op.window.groups == 0);
  }
  void operator()(const conv2d_backward& op) const {
    TROUPE_ASSERT(op.window.n > 0);
    TROUPE_ASSERT(op.out_channels % op.window.groups == 0);
  }
  void operator()(const dropout& op) const { TROUPE_ASSERT(op.rate >= 0 && op.rate < 1); }
  void operator()(const layernorm& op) const { TROUPE_ASSERT(op.columns > 0); }
  void operator()(const layernorm_backward& op) const { TROUPE_ASSERT(op.columns > 0); }
  void operator()(const rmsnorm& op) const { TROUPE_ASSERT(op.columns > 0); }
  void operator()(const rmsnorm_backward& op) const { TROUPE_ASSERT(op.columns > 0); }
  void operator()(const groupnorm& op) const { check_groups(op); }
  void operator()(const groupnorm_backward& op) const { check_groups(op); }
  void operator()(const batchnorm& op) const { check_channels(op); }
  void operator()(const batchnorm_backward& op) const { check_channels(op); }
  void operator()(const softmax_cross_entropy& op) const {
    TROUPE_ASSERT(op.classes > 0 && op.classes <= INT32_MAX);
    TROUPE_ASSERT(op.smoothing >= 0 && op.smoothing < 1);
  }
  void operator()(const mean_squared_error& op) const { TROUPE_ASSERT(op.columns > 0); }
  void operator()(const sigmoid_cross_entropy& op) const { TROUPE_ASSERT(op.columns > 0); }
  void operator()(const softmax& op) const { TROUPE_ASSERT(op.columns > 0 && op.columns <= INT32_MAX); }
  void operator()(const softmax_backward& op) const { TROUPE_ASSERT(op.columns > 0); }
  void operator()(const embedding& op) const { check_table(op); }
  void operator()(const embedding_backward& op) const { check_table(op); }
  void operator()(const attention& op) const { check_attention(op); }
  void operator()(const attention_backward& op) const { check_attention(op); }
  void operator()(const rotary& op) const {
    TROUPE_ASSERT(op.rotated > 0 && op.rotated % 2 == 0 && op.rotated <= op.head_size);
    TROUPE_ASSERT(op.heads > 0 && op.heads * op.head_size <= op.width && op.base > 0);
  }
  void operator()(const sgd& op) const { TROUPE_ASSERT(op.velocity != nullptr || op.momentum == 0); }
  void operator()(const soft_threshold& op) const { TROUPE_ASSERT(op.threshold >= 0); }
  void operator()(const lstm& op) const { check_recurrence(op, 0); }
  void operator()(const lstm_backward& op) const { check_recurrence(op, 1); }
  void operator()(const gru& op) const { check_recurrence(op, 0); }
  void operator()(const gru_backward& op) const { check_recurrence(op, 1); }
  void operator()(const auto&) const {}

private:
  static void check_groups(const auto& op) {
    TROUPE_ASSERT(op.channels > 0 && op.inner > 0);
    TROUPE_ASSERT(op.groups > 0 && op.channels % op.groups == 0);
  }
  static void check_channels(const auto& op) { TROUPE_ASSERT(op.rows > 0 && op.channels > 0 && op.inner > 0); }
  static void check_table(const auto& op) {
    TROUPE_ASSERT(op.vocabulary > 0 && op.vocabulary <= INT32_MAX);
    TROUPE_ASSERT(op.width > 0 && op.count >= 0 && op.count <= INT32_MAX);
  }
  static void check_recurrence(const auto& op, std::int64_t fewest_rows) {
    TROUPE_ASSERT(op.rows >= fewest_rows && op.length > 0 && op.width > 0);
  }
  static void check_attention(const auto& op) {
    const attention_shape& s = op.shape;
    TROUPE_ASSERT(s.rows >= 0 && s.length > 0 && s.head_size > 0 && s.head_size <= longest_head);
    TROUPE_ASSERT(s.key_heads > 0 && s.heads > 0 && s.heads % s.key_heads == 0);
    TROUPE_ASSERT(s.q_stride >= s.width() && s.kv_stride >= s.key_width());
    TROUPE_ASSERT(op.rate >= 0 && op.rate < 1);
    TROUPE_ASSERT(op.rate == 0 || (op.key != nullptr && s.heads * s.length * s.length <= std::int64_t{1} << 34));
  }
};

/// Promises that go with a kind of operand.
template <class Op>
void check_operands(const Op& op) {
  if constexpr (requires { op.window; }) {
    check_window(op.window);
    if constexpr (!requires { op.weight; }) { // else a window lies in the padding alone
      TROUPE_ASSERT(op.window.padding < op.window.kernel_h && op.window.padding < op.window.kernel_w);
      TROUPE_ASSERT(op.window.dilation == 1 && op.window.groups == 1);
    }
  }
  if constexpr (requires { op.extents; })
    TROUPE_ASSERT(std::ranges::none_of(op.extents, [](std::int64_t extent) { return extent < 0; }));
  if constexpr (requires { op.terms; }) {
    TROUPE_ASSERT(!op.terms.empty());
    TROUPE_ASSERT(std::ranges::all_of(op.terms, [](const term& t) { return t.data != nullptr; }));
  }
}

} // namespace

const char* name_of(const operation& op) {
  return std::visit([](const auto& own) { return own.name; }, op);
}

double flops(const operation& op) {
  return std::visit(
      []<class Op>(const Op& own) {
        if constexpr (requires { own.flops(); })
          return own.flops();
        double first = -1;
        own.outputs([&](const auto*, std::int64_t elements) { first = first < 0 ? static_cast<double>(elements) : first; });
        return first;
      },
      op);
}

double bytes_moved(const operation& op) {
  double total = 0;
  const auto add = [&](const auto* begin, std::int64_t elements) {
    total += static_cast<double>(elements) * static_cast<double>(sizeof *begin);
  };
  each_input(op, add);
  each_output(op, add);
  return total;
}

void validate(const operation& op) {
  std::visit(own_promises{}, op);
  std::visit([](const auto& own) { check_operands(own); }, op);
}

kept_operation::kept_operation(const operation& op) : op_(op) {
  std::visit(
      [this](const auto& own) {
        if constexpr (requires { own.terms; })
          terms_.assign(own.terms.begin(), own.terms.end());
      },
      op_);
}

void kept_operation::enqueue_on(backend& queue) const {
  auto op = op_;
  std::visit(
      [this](auto& own) {
        if constexpr (requires { own.terms; })
          own.terms = terms_;
      },
      op);
  queue.enqueue(op);
}

} // namespace troupe::kernels
