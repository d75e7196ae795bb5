// SPDX-License-Identifier: BSD-3-Clause
// Attention in tiles, and its gradient in two sweeps: every result has one owner.
#include "kernels/cuda/device_math.hpp"
#include "kernels/cuda/groups.hpp"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/reduce.hpp"
#include "kernels/random.hpp"

namespace troupe::kernels::cuda {

namespace {

// A warp owns a few tokens of one side (queries, or keys in the second sweep); its 32 lanes are as many tokens of the other side,
// a tile of which lies in shared memory. Results are kept in registers, spread over the lanes by element of the head.

constexpr int tile = 32;

/// How a block is cut for heads of up to `Depth` elements: so that its tiles fit 48 KB.
template <int Depth>
struct cut {
  static constexpr int warps = Depth <= 128 ? 8 : 4;
  static constexpr int own = Depth <= 64 ? 4 : (Depth <= 128 ? 2 : 1); ///< tokens of a warp
  static constexpr int tokens = warps * own;
  static constexpr int threads = warps * 32;
  static constexpr int parts = Depth / 32; ///< elements of a result that a lane keeps
};

__device__ inline unsigned own_lane() {
  return threadIdx.x % 32;
}
__device__ inline int own_warp() {
  return static_cast<int>(threadIdx.x / 32);
}

/// One head of one row.
struct head_places {
  std::int64_t row, head;
  __device__ head_places(const attention_shape& s, std::int64_t index) : row(index / s.heads), head(index % s.heads) {}

  __device__ std::int64_t q(const attention_shape& s, std::int64_t t) const {
    return (row * s.length + t) * s.q_stride + head * s.head_size;
  }
  __device__ std::int64_t kv(const attention_shape& s, std::int64_t t) const {
    return (row * s.length + t) * s.kv_stride + head / (s.heads / s.key_heads) * s.head_size;
  }
  __device__ std::int64_t y(const attention_shape& s, std::int64_t t) const {
    return (row * s.length + t) * s.width() + head * s.head_size;
  }
  __device__ std::int64_t lse(const attention_shape& s, std::int64_t t) const { return (row * s.heads + head) * s.length + t; }
};

/// What a probability is multiplied by.
__device__ inline float kept(const attention_shape& s, float rate, const random_key* key, std::uint32_t layer,
                             const head_places& at, std::int64_t query, std::int64_t of_key) {
  if (rate == 0)
    return 1;
  const auto element = static_cast<std::uint64_t>((at.head * s.length + query) * s.length + of_key);
  const auto words =
      random_block(key->of_layer(layer).of_row(static_cast<std::uint64_t>(at.row)), static_cast<std::uint32_t>(element / 4));
  const std::uint32_t low = element % 2 == 0 ? words[0] : words[1], high = element % 2 == 0 ? words[2] : words[3];
  return uniform_float(element % 4 < 2 ? low : high) < rate ? 0.0F : 1.0F / (1.0F - rate); // no index: words stay in registers
}

/// Rows of shared memory: tokens [begin, begin + Tokens) of a sequence; zeros behind its end and beyond the head.
template <int Depth, int Threads, int Tokens, int Step>
__device__ inline void load_tokens(float (*to)[Step], const float* from, std::int64_t stride, std::int64_t begin,
                                   std::int64_t length, std::int64_t head_size) {
  for (int i = static_cast<int>(threadIdx.x); i < Tokens * Depth; i += Threads) {
    const std::int64_t t = begin + i / Depth, element = i % Depth;
    to[i / Depth][element] = t < length && element < head_size ? from[t * stride + element] : 0.0F;
  }
}

/// sums[n] = own row n times the row of this lane.
template <int Depth, int Own, int Step>
__device__ inline void products(const float (*own)[Depth], const float (*tokens)[Step], float (&sums)[Own]) {
  for (int n = 0; n < Own; ++n)
    sums[n] = 0;
  for (int i = 0; i < Depth; ++i) {
    const float right = tokens[own_lane()][i];
    for (int n = 0; n < Own; ++n)
      sums[n] = mul_add(own[n][i], right, sums[n]);
  }
}

/// results[n][part] += the sum over the tile of weights[n][j] * tokens[j], of the elements of this lane.
template <int Parts, int Own, int Step>
__device__ inline void add_weighted(const float (*weights)[tile], const float (*tokens)[Step], float (&results)[Own][Parts]) {
  for (int j = 0; j < tile; ++j)
    for (int part = 0; part < Parts; ++part) {
      const float value = tokens[j][part * 32 + static_cast<int>(own_lane())];
      for (int n = 0; n < Own; ++n)
        results[n][part] = mul_add(weights[n][j], value, results[n][part]);
    }
}

template <int Depth>
__global__ void __launch_bounds__(cut<Depth>::threads, 1) forward_kernel(const __grid_constant__ attention args) {
  constexpr int own = cut<Depth>::own, parts = cut<Depth>::parts, threads = cut<Depth>::threads;
  __shared__ float queries[cut<Depth>::tokens][Depth];
  __shared__ float tokens[tile][Depth + 1]; // lanes read a column: the odd step keeps them to banks of their own
  __shared__ float weights[cut<Depth>::tokens][tile];
  const attention_shape& s = args.shape;
  const head_places at(s, blockIdx.x);
  const std::int64_t block_begin = static_cast<std::int64_t>(blockIdx.y) * cut<Depth>::tokens;
  const int first = own_warp() * own;
  load_tokens<Depth, threads, cut<Depth>::tokens>(queries, args.q + at.q(s, 0), s.q_stride, block_begin, s.length, s.head_size);
  float peaks[own], sums[own], results[own][parts] = {};
  for (int n = 0; n < own; ++n) {
    peaks[n] = -INFINITY;
    sums[n] = 0;
  }
  const std::int64_t block_end = block_begin + cut<Depth>::tokens, end = s.causal && block_end < s.length ? block_end : s.length;
  for (std::int64_t key_begin = 0; key_begin < end; key_begin += tile) {
    __syncthreads(); // the tile before has been read
    load_tokens<Depth, threads, tile>(tokens, args.k + at.kv(s, 0), s.kv_stride, key_begin, s.length, s.head_size);
    __syncthreads();
    float scores[own];
    products<Depth>(queries + first, tokens, scores);
    const std::int64_t key = key_begin + own_lane();
    for (int n = 0; n < own; ++n) {
      const std::int64_t query = block_begin + first + n;
      const bool seen = key < s.length && (!s.causal || key <= query);
      const float score = seen ? scores[n] * s.scale : -INFINITY;
      const float highest = reduce<32>(score, [](float a, float b) { return fmaxf(a, b); });
      const float peak = fmaxf(highest, peaks[n]), rescale = peaks[n] == peak ? 1.0F : expf(peaks[n] - peak);
      const float weight = seen ? expf(score - peak) : 0.0F;
      sums[n] = mul_add(sums[n], rescale, weight);
      for (int part = 0; part < parts; ++part)
        results[n][part] *= rescale;
      peaks[n] = peak;
      weights[first + n][own_lane()] = weight == 0 ? 0.0F : weight * kept(s, args.rate, args.key, args.layer, at, query, key);
    }
    __syncthreads();
    load_tokens<Depth, threads, tile>(tokens, args.v + at.kv(s, 0), s.kv_stride, key_begin, s.length, s.head_size);
    __syncthreads();
    add_weighted<parts>(weights + first, tokens, results);
  }
  for (int n = 0; n < own; ++n) {
    const std::int64_t query = block_begin + first + n;
    const float total = reduce<32>(sums[n], add_op{}), inverse = 1.0F / total;
    if (query >= s.length)
      continue;
    if (own_lane() == 0)
      args.lse[at.lse(s, query)] = peaks[n] + logf(total);
    for (int part = 0; part < parts; ++part)
      if (const std::int64_t element = part * 32 + own_lane(); element < s.head_size)
        args.y[at.y(s, query) + element] = results[n][part] * inverse;
  }
}

/// D = dy y of each query and head, laid out as lse: a warp each.
__global__ void __launch_bounds__(256) dot_kernel(const __grid_constant__ attention_backward args, float* d) {
  const attention_shape& s = args.shape;
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * 8 + own_warp(); // (row, head, token)
  if (index >= s.tokens() * s.heads)
    return;
  const head_places at(s, index / s.length);
  const std::int64_t place = at.y(s, index % s.length);
  float total = 0;
  for (std::int64_t i = own_lane(); i < s.head_size; i += 32)
    total = mul_add(args.dy[place + i], args.y[place + i], total);
  total = reduce<32>(total, add_op{});
  if (own_lane() == 0)
    d[index] = total;
}

/// The first sweep: queries own their gradient.
template <int Depth>
__global__ void __launch_bounds__(cut<Depth>::threads, 1)
    query_gradients_kernel(const __grid_constant__ attention_backward args, const float* d) {
  constexpr int own = cut<Depth>::own, parts = cut<Depth>::parts, threads = cut<Depth>::threads, count = cut<Depth>::tokens;
  __shared__ float queries[count][Depth], dy[count][Depth];
  __shared__ float tokens[tile][Depth + 1];
  __shared__ float weights[count][tile];
  const attention_shape& s = args.shape;
  const head_places at(s, blockIdx.x);
  const std::int64_t block_begin = static_cast<std::int64_t>(blockIdx.y) * count;
  const int first = own_warp() * own;
  load_tokens<Depth, threads, count>(queries, args.q + at.q(s, 0), s.q_stride, block_begin, s.length, s.head_size);
  load_tokens<Depth, threads, count>(dy, args.dy + at.y(s, 0), s.width(), block_begin, s.length, s.head_size);
  float results[own][parts] = {};
  const std::int64_t block_end = block_begin + count, end = s.causal && block_end < s.length ? block_end : s.length;
  for (std::int64_t key_begin = 0; key_begin < end; key_begin += tile) {
    const auto load = [&](const float* from) {
      __syncthreads(); // what was there has been read
      load_tokens<Depth, threads, tile>(tokens, from + at.kv(s, 0), s.kv_stride, key_begin, s.length, s.head_size);
      __syncthreads();
    };
    float scores[own], dp[own];
    load(args.k);
    products<Depth>(queries + first, tokens, scores);
    load(args.v);
    products<Depth>(dy + first, tokens, dp);
    const std::int64_t key = key_begin + own_lane();
    for (int n = 0; n < own; ++n) {
      const std::int64_t query = block_begin + first + n;
      const bool seen = query < s.length && key < s.length && (!s.causal || key <= query);
      float ds = 0;
      if (seen) {
        const float p = expf(mul_add(scores[n], s.scale, -args.lse[at.lse(s, query)]));
        ds = p * mul_add(kept(s, args.rate, args.key, args.layer, at, query, key), dp[n], -d[at.lse(s, query)]);
      }
      weights[first + n][own_lane()] = ds;
    }
    load(args.k);
    add_weighted<parts>(weights + first, tokens, results);
  }
  for (int n = 0; n < own; ++n)
    for (int part = 0; part < parts; ++part) {
      const std::int64_t query = block_begin + first + n, element = part * 32 + own_lane();
      if (query < s.length && element < s.head_size)
        args.dq[at.q(s, query) + element] = results[n][part] * s.scale;
    }
}

/// The second sweep: keys own theirs, from all queries of all heads that read them.
template <int Depth>
__global__ void __launch_bounds__(cut<Depth>::threads, 1)
    key_gradients_kernel(const __grid_constant__ attention_backward args, const float* d) {
  constexpr int own = cut<Depth>::own, parts = cut<Depth>::parts, threads = cut<Depth>::threads, count = cut<Depth>::tokens;
  __shared__ float keys[count][Depth], values[count][Depth];
  __shared__ float tokens[tile][Depth + 1];
  __shared__ float weights[count][tile];
  const attention_shape& s = args.shape;
  const std::int64_t sharing = s.heads / s.key_heads, first_head = static_cast<std::int64_t>(blockIdx.x) * sharing;
  const std::int64_t block_begin = static_cast<std::int64_t>(blockIdx.y) * count;
  const int first = own_warp() * own;
  const head_places of_keys(s, first_head);
  load_tokens<Depth, threads, count>(keys, args.k + of_keys.kv(s, 0), s.kv_stride, block_begin, s.length, s.head_size);
  load_tokens<Depth, threads, count>(values, args.v + of_keys.kv(s, 0), s.kv_stride, block_begin, s.length, s.head_size);
  float dk[own][parts] = {}, dv[own][parts] = {};
  for (std::int64_t head = first_head; head < first_head + sharing; ++head) {
    const head_places at(s, head);
    for (std::int64_t query_begin = s.causal ? block_begin / tile * tile : 0; query_begin < s.length; query_begin += tile) {
      const auto load = [&](const float* from, std::int64_t stride) {
        __syncthreads(); // what was there has been read
        load_tokens<Depth, threads, tile>(tokens, from, stride, query_begin, s.length, s.head_size);
        __syncthreads();
      };
      const std::int64_t query = query_begin + own_lane();
      const float lse = query < s.length ? args.lse[at.lse(s, query)] : 0.0F,
                  d_query = query < s.length ? d[at.lse(s, query)] : 0.0F;
      float scores[own], dp[own], p[own], keep[own];
      load(args.q + at.q(s, 0), s.q_stride);
      products<Depth>(keys + first, tokens, scores);
      for (int n = 0; n < own; ++n) {
        const std::int64_t key = block_begin + first + n;
        const bool seen = query < s.length && key < s.length && (!s.causal || key <= query);
        p[n] = seen ? expf(mul_add(scores[n], s.scale, -lse)) : 0.0F;
        keep[n] = seen ? kept(s, args.rate, args.key, args.layer, at, query, key) : 0.0F;
        weights[first + n][own_lane()] = p[n] * keep[n];
      }
      load(args.dy + at.y(s, 0), s.width());
      products<Depth>(values + first, tokens, dp);
      add_weighted<parts>(weights + first, tokens, dv);
      load(args.q + at.q(s, 0), s.q_stride); // the weights have been read, too
      for (int n = 0; n < own; ++n)
        weights[first + n][own_lane()] = p[n] * mul_add(keep[n], dp[n], -d_query);
      __syncwarp();
      add_weighted<parts>(weights + first, tokens, dk);
    }
  }
  for (int n = 0; n < own; ++n)
    for (int part = 0; part < parts; ++part) {
      const std::int64_t key = block_begin + first + n, element = part * 32 + own_lane();
      if (key >= s.length || element >= s.head_size)
        continue;
      args.dk[of_keys.kv(s, key) + element] = dk[n][part] * s.scale;
      args.dv[of_keys.kv(s, key) + element] = dv[n][part];
    }
}

/// Calls run(depth) with the smallest cut that a head fits.
template <class F>
void with_depth(std::int64_t head_size, F run) {
  if (head_size <= 64)
    run(std::integral_constant<int, 64>{});
  else if (head_size <= 128)
    run(std::integral_constant<int, 128>{});
  else
    run(std::integral_constant<int, 256>{});
}

dim3 grid_of(std::int64_t heads, std::int64_t tokens, int of_block) {
  dim3 grid;
  grid.x = static_cast<unsigned>(heads);
  grid.y = static_cast<unsigned>(ceil_div(tokens, of_block));
  return grid;
}

} // namespace

void enqueue(cudaStream_t stream, const attention& op) {
  const attention_shape& s = op.shape;
  if (s.rows == 0)
    return;
  with_depth(s.head_size, [&]<int Depth>(std::integral_constant<int, Depth>) {
    launch(forward_kernel<Depth>, grid_of(s.rows * s.heads, s.length, cut<Depth>::tokens), one_dimension(cut<Depth>::threads),
           stream, op);
  });
}

std::int64_t scratch_floats(const attention_backward& op) {
  return op.shape.tokens() * op.shape.heads;
}

void enqueue(cudaStream_t stream, const attention_backward& op, float* scratch) {
  const attention_shape& s = op.shape;
  if (s.rows == 0)
    return;
  const float* d = scratch;
  launch(dot_kernel, one_dimension(ceil_div(s.tokens() * s.heads, 8)), one_dimension(256), stream, op, scratch);
  with_depth(s.head_size, [&]<int Depth>(std::integral_constant<int, Depth>) {
    const dim3 threads = one_dimension(cut<Depth>::threads);
    launch(query_gradients_kernel<Depth>, grid_of(s.rows * s.heads, s.length, cut<Depth>::tokens), threads, stream, op, d);
    launch(key_gradients_kernel<Depth>, grid_of(s.rows * s.key_heads, s.length, cut<Depth>::tokens), threads, stream, op, d);
  });
}

} // namespace troupe::kernels::cuda
