// SPDX-License-Identifier: BSD-3-Clause
// Embedding, its gradient by a stable sort, and rotary positions.
#include "kernels/cuda/device_math.hpp"
#include "kernels/cuda/groups.hpp"
#include "kernels/cuda/kernels.hpp"

namespace troupe::kernels::cuda {

namespace {

__device__ inline std::int64_t nearest_id(std::int32_t id, std::int64_t vocabulary) {
  const std::int64_t positive = id < 0 ? 0 : id;
  return positive < vocabulary ? positive : vocabulary - 1;
}

__global__ void __launch_bounds__(256) embedding_kernel(const __grid_constant__ embedding args) {
  for (std::int64_t i = grid_thread(); i < args.count * args.width; i += grid_threads())
    args.y[i] = args.table[nearest_id(args.ids[i / args.width], args.vocabulary) * args.width + i % args.width];
}

// The gradient: pairs of (id, position) are sorted by a bitonic network (Batcher 1968). All differ, so that the order is the one
// there is: each id's positions follow each other. A block then adds up the rows of one id.

using sort_key = std::uint64_t; // the id above, the position below
constexpr std::int64_t keys_of_block = 1024, sort_threads = keys_of_block / 2;

std::int64_t sorted_size(std::int64_t count) {
  std::int64_t size = keys_of_block;
  while (size < count)
    size *= 2;
  return size;
}

__global__ void __launch_bounds__(256)
    keys_kernel(const std::int32_t* ids, std::int64_t count, std::int64_t vocabulary, sort_key* keys, std::int64_t size) {
  for (std::int64_t i = grid_thread(); i < size; i += grid_threads())
    keys[i] = i < count ? static_cast<sort_key>(nearest_id(ids[i], vocabulary)) << 32 | static_cast<sort_key>(i) : ~sort_key{0};
}

/// Puts a pair in order; ascending where the bit of `run` is not in its place.
__device__ inline void exchange(sort_key* keys, std::int64_t low, std::int64_t distance, std::int64_t place, std::int64_t run) {
  const sort_key a = keys[low], b = keys[low + distance];
  if ((a > b) == ((place & run) == 0)) {
    keys[low] = b;
    keys[low + distance] = a;
  }
}

/// Of the i-th pair at this distance, the lower place.
__device__ inline std::int64_t lower_of(std::int64_t i, std::int64_t distance) {
  return i / distance * 2 * distance + i % distance;
}

/// The steps of runs from `first_run` to `last_run` that stay within a block's keys.
__global__ void __launch_bounds__(sort_threads) sort_block_kernel(sort_key* keys, std::int64_t first_run, std::int64_t last_run) {
  __shared__ sort_key own[keys_of_block];
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.x) * keys_of_block;
  for (std::int64_t i = threadIdx.x; i < keys_of_block; i += sort_threads)
    own[i] = keys[begin + i];
  for (std::int64_t run = first_run; run <= last_run; run *= 2)
    for (std::int64_t distance = run / 2 < keys_of_block / 2 ? run / 2 : keys_of_block / 2; distance > 0; distance /= 2) {
      __syncthreads();
      const std::int64_t low = lower_of(threadIdx.x, distance);
      exchange(own, low, distance, begin + low, run);
    }
  __syncthreads();
  for (std::int64_t i = threadIdx.x; i < keys_of_block; i += sort_threads)
    keys[begin + i] = own[i];
}

/// One step whose pairs lie further apart.
__global__ void __launch_bounds__(256)
    sort_step_kernel(sort_key* keys, std::int64_t pairs, std::int64_t distance, std::int64_t run) {
  for (std::int64_t i = grid_thread(); i < pairs; i += grid_threads()) {
    const std::int64_t low = lower_of(i, distance);
    exchange(keys, low, distance, low, run);
  }
}

void sort(cudaStream_t stream, sort_key* keys, std::int64_t size) {
  const dim3 blocks = one_dimension(size / keys_of_block), threads = one_dimension(sort_threads);
  launch(sort_block_kernel, blocks, threads, stream, keys, std::int64_t{2}, keys_of_block);
  for (std::int64_t run = 2 * keys_of_block; run <= size; run *= 2) {
    for (std::int64_t distance = run / 2; distance >= keys_of_block; distance /= 2)
      launch(sort_step_kernel, blocks_for(size / 2, 256), one_dimension(256), stream, keys, size / 2, distance, run);
    launch(sort_block_kernel, blocks, threads, stream, keys, run, run);
  }
}

/// A block for each place in the sorted order; the one where an id begins adds up all of its rows.
__global__ void __launch_bounds__(128) segments_kernel(const __grid_constant__ embedding_backward args, const sort_key* keys) {
  const std::int64_t begin = blockIdx.x;
  const sort_key id = keys[begin] >> 32;
  if (begin > 0 && keys[begin - 1] >> 32 == id)
    return;
  float* row = args.dtable + static_cast<std::int64_t>(id) * args.width;
  for (std::int64_t j = threadIdx.x; j < args.width; j += 128) {
    float total = 0;
    for (std::int64_t i = begin; i < args.count && keys[i] >> 32 == id; ++i)
      total += args.dy[static_cast<std::int64_t>(keys[i] & 0xffffffff) * args.width + j];
    row[j] = args.accumulate ? row[j] + total : total;
  }
}

/// table(length, pairs, 2) = cosine and sine of each place and pair.
__global__ void __launch_bounds__(256) angles_kernel(const __grid_constant__ rotary args, float* table) {
  const std::int64_t pairs = args.rotated / 2;
  for (std::int64_t i = grid_thread(); i < args.length * pairs; i += grid_threads()) {
    const double exponent = -2.0 * static_cast<double>(i % pairs) / static_cast<double>(args.rotated);
    const double angle = static_cast<double>(i / pairs) * pow(args.base, exponent);
    table[2 * i] = static_cast<float>(cos(angle));
    table[2 * i + 1] = static_cast<float>(args.inverse ? -sin(angle) : sin(angle));
  }
}

/// In place: a thread owns a pair.
__global__ void __launch_bounds__(256) turn_kernel(const __grid_constant__ rotary args, const float* table) {
  const std::int64_t pairs = args.rotated / 2, count = args.rows * args.length * args.heads * pairs;
  for (std::int64_t i = grid_thread(); i < count; i += grid_threads()) {
    const std::int64_t pair = i % pairs, head = i / pairs % args.heads, token = i / pairs / args.heads;
    const float* turn = table + 2 * (token % args.length * pairs + pair);
    float* y = args.y + token * args.width + head * args.head_size;
    float& first = y[args.interleaved ? 2 * pair : pair];
    float& second = y[args.interleaved ? 2 * pair + 1 : pair + pairs];
    const float a = first, b = second;
    first = mul_add(a, turn[0], -b * turn[1]);
    second = mul_add(a, turn[1], b * turn[0]);
  }
}

} // namespace

void enqueue(cudaStream_t stream, const embedding& op) {
  if (op.count > 0)
    launch(embedding_kernel, blocks_for(op.count * op.width, 256), one_dimension(256), stream, op);
}

std::int64_t scratch_floats(const embedding_backward& op) {
  return sorted_size(op.count) * static_cast<std::int64_t>(sizeof(sort_key) / sizeof(float));
}

void enqueue(cudaStream_t stream, const embedding_backward& op, float* scratch) {
  if (!op.accumulate)
    enqueue(stream, fill{.y = op.dtable, .value = 0, .count = op.vocabulary * op.width});
  if (op.count == 0)
    return;
  auto* keys = reinterpret_cast<sort_key*>(scratch);
  const std::int64_t size = sorted_size(op.count);
  launch(keys_kernel, blocks_for(size, 256), one_dimension(256), stream, op.ids, op.count, op.vocabulary, keys, size);
  sort(stream, keys, size);
  launch(segments_kernel, one_dimension(op.count), one_dimension(128), stream, op, static_cast<const sort_key*>(keys));
}

std::int64_t scratch_floats(const rotary& op) {
  return op.length * op.rotated;
}

void enqueue(cudaStream_t stream, const rotary& op, float* scratch) {
  if (op.count() == 0)
    return;
  if (op.x != op.y)
    TROUPE_CUDA(
        cudaMemcpyAsync(op.y, op.x, static_cast<std::size_t>(op.count()) * sizeof(float), cudaMemcpyDeviceToDevice, stream));
  const std::int64_t pairs = op.rotated / 2;
  launch(angles_kernel, blocks_for(op.length * pairs, 256), one_dimension(256), stream, op, scratch);
  launch(turn_kernel, blocks_for(op.rows * op.length * op.heads * pairs, 256), one_dimension(256), stream, op,
         static_cast<const float*>(scratch));
}

} // namespace troupe::kernels::cuda
