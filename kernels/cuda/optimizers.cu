// SPDX-License-Identifier: BSD-3-Clause
// Weighted sums, and one optimizer step in one pass: the sum of the gradients, the state and the parameters.
#include <vector>

#include "kernels/assert.hpp"
#include "kernels/cuda/device_math.hpp"
#include "kernels/cuda/elements.hpp"
#include "kernels/cuda/kernels.hpp"

namespace troupe::kernels::cuda {

namespace {

/// Terms as a kernel takes them. Each product is added to the float before it, so a sum may be cut anywhere and carried on.
struct term_list {
  const float* data[terms_at_once];
  float weight[terms_at_once];
  int count;
  const float* carry;

  term_list(std::span<const term> terms, const float* so_far)
      : data{}, weight{}, count(static_cast<int>(terms.size())), carry(so_far) {
    TROUPE_ASSERT(!terms.empty() && terms.size() <= terms_at_once);
    for (std::size_t t = 0; t < terms.size(); ++t) {
      data[t] = terms[t].data;
      weight[t] = static_cast<float>(terms[t].weight);
    }
  }

  template <int W>
  __device__ pack<W> sum(std::int64_t i) const {
    pack<W> total;
    int t = 0;
    if (carry) {
      total = load<W>(carry + i);
    } else {
      total = load<W>(data[0] + i);
      for (int e = 0; e < W; ++e)
        total.v[e] *= weight[0];
      t = 1;
    }
    for (; t < count; ++t) {
      const auto next = load<W>(data[t] + i);
      for (int e = 0; e < W; ++e)
        total.v[e] = mul_add(weight[t], next.v[e], total.v[e]);
    }
    return total;
  }
};

struct weighted_sum_body {
  term_list terms;
  float* y;

  template <int W>
  __device__ void run(std::int64_t i) const {
    store(y + i, terms.sum<W>(i));
  }
};

template <bool Momentum, bool Nesterov>
struct sgd_body {
  term_list terms;
  const float* p;
  float* p_out;
  float* velocity;
  const float* scalars;
  const float* rate;
  float momentum, decay, lr_scale;

  template <int W>
  __device__ void run(std::int64_t i) const {
    auto g = terms.sum<W>(i);
    auto parameter = load<W>(p + i);
    const float lr = lr_scale * scalars[scalar_lr], local = rate ? *rate : 1.0F;
    pack<W> v = {};
    if constexpr (Momentum)
      v = load<W>(velocity + i);
    for (int e = 0; e < W; ++e) {
      const float gradient = local * mul_add(decay, parameter.v[e], g.v[e]);
      float step = gradient;
      if constexpr (Momentum) {
        v.v[e] = mul_add(momentum, v.v[e], gradient);
        step = Nesterov ? mul_add(momentum, v.v[e], gradient) : v.v[e];
      }
      parameter.v[e] = mul_add(-lr, step, parameter.v[e]);
    }
    if constexpr (Momentum)
      store(velocity + i, v);
    store(p_out + i, parameter);
  }
};

/// One thread: a parameter has few blocks.
__global__ void lars_rate_kernel(const __grid_constant__ lars_rate args) {
  double g = 0, p = 0;
  for (std::int64_t b = 0; b < args.blocks; ++b) {
    g += args.g_squares[b];
    p += args.p_squares[b];
  }
  g = sqrt(g);
  p = sqrt(p);
  const double trust = args.trust, decay = args.weight_decay;
  *args.rate = g > 0 && p > 0 ? static_cast<float>(trust * p / (g + decay * p)) : 1.0F;
}

struct adamw_body {
  term_list terms;
  const float* p;
  float *p_out, *m, *v;
  const float* scalars;
  float beta1, beta2, epsilon, decay, lr_scale;

  template <int W>
  __device__ void run(std::int64_t i) const {
    const auto g = terms.sum<W>(i);
    auto parameter = load<W>(p + i), first = load<W>(m + i), second = load<W>(v + i);
    const float lr = lr_scale * scalars[scalar_lr];
    const float unbias1 = 1.0F / scalars[scalar_correction1], unbias2 = 1.0F / scalars[scalar_correction2];
    for (int e = 0; e < W; ++e) {
      first.v[e] = mul_add(beta1, first.v[e], (1.0F - beta1) * g.v[e]);
      second.v[e] = mul_add(beta2, second.v[e], (1.0F - beta2) * g.v[e] * g.v[e]);
      const float direction = first.v[e] * unbias1 / (sqrtf(second.v[e] * unbias2) + epsilon);
      parameter.v[e] = mul_add(-lr, mul_add(decay, parameter.v[e], direction), parameter.v[e]);
    }
    store(m + i, first);
    store(v + i, second);
    store(p_out + i, parameter);
  }
};

template <bool Adaptive>
struct delay_compensate_body {
  const float *g, *w, *backup;
  float *g_out, *mean_square;
  float lambda, decay, epsilon;

  template <int W>
  __device__ void run(std::int64_t i) const {
    auto gradient = load<W>(g + i);
    const auto now = load<W>(w + i), then = load<W>(backup + i);
    pack<W> average = {};
    if constexpr (Adaptive)
      average = load<W>(mean_square + i);
    for (int e = 0; e < W; ++e) {
      const float square = gradient.v[e] * gradient.v[e];
      float factor = lambda * square;
      if constexpr (Adaptive) {
        average.v[e] = mul_add(decay, average.v[e], (1.0F - decay) * square);
        factor = factor / sqrtf(average.v[e] + epsilon);
      }
      gradient.v[e] = mul_add(factor, now.v[e] - then.v[e], gradient.v[e]);
    }
    if constexpr (Adaptive)
      store(mean_square + i, average);
    store(g_out + i, gradient);
  }
};

/// As for_elements, with the terms' addresses among those that decide how wide to go.
template <class Body>
void for_elements_and_terms(cudaStream_t stream, std::int64_t count, const term_list& terms,
                            std::initializer_list<const void*> others, const Body& body) {
  std::vector<const void*> all(others);
  all.insert(all.end(), terms.data, terms.data + terms.count);
  all.push_back(terms.carry);
  for_elements(stream, count, all, body);
}

} // namespace

void enqueue(cudaStream_t stream, const weighted_sum& op, const float* carry) {
  const term_list list(op.terms, carry);
  for_elements_and_terms(stream, op.count, list, {op.y}, weighted_sum_body{list, op.y});
}

void enqueue(cudaStream_t stream, const sgd& args, const float* carry) {
  const term_list list(args.terms, carry);
  const auto run = [&](auto body) {
    for_elements_and_terms(stream, args.count, list, {args.p, args.velocity, args.p_out}, body);
  };
  const auto run_as = [&]<class Body>(const Body*) {
    run(Body{list, args.p, args.p_out, args.velocity, args.step_scalars, args.rate, args.momentum, args.weight_decay,
             args.lr_scale});
  };
  if (!args.velocity)
    run_as(static_cast<const sgd_body<false, false>*>(nullptr));
  else if (args.nesterov)
    run_as(static_cast<const sgd_body<true, true>*>(nullptr));
  else
    run_as(static_cast<const sgd_body<true, false>*>(nullptr));
}

void enqueue(cudaStream_t stream, const lars_rate& op) {
  launch(lars_rate_kernel, one_dimension(1), one_dimension(1), stream, op);
}

void enqueue(cudaStream_t stream, const adamw& args, const float* carry) {
  const term_list list(args.terms, carry);
  for_elements_and_terms(stream, args.count, list, {args.p, args.m, args.v, args.p_out},
                         adamw_body{list, args.p, args.p_out, args.m, args.v, args.step_scalars, args.beta1, args.beta2,
                                    args.epsilon, args.weight_decay, args.lr_scale});
}

void enqueue(cudaStream_t stream, const delay_compensate& args) {
  const auto run = [&](auto body) {
    for_elements(stream, args.count, {args.g, args.w, args.w_backup, args.mean_square, args.g_out}, body);
  };
  if (args.mean_square)
    run(delay_compensate_body<true>{args.g, args.w, args.w_backup, args.g_out, args.mean_square, args.lambda, args.decay,
                                    args.epsilon});
  else
    run(delay_compensate_body<false>{args.g, args.w, args.w_backup, args.g_out, nullptr, args.lambda, args.decay, args.epsilon});
}

} // namespace troupe::kernels::cuda
