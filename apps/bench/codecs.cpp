// SPDX-License-Identifier: BSD-3-Clause
// Encoding, decoding and copying, in turns.
#include "apps/bench/codecs.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>

#include "apps/median.hpp"
#include "kernels/codec.hpp"
#include "kernels/factors.hpp"
#include "kernels/sparse.hpp"

namespace troupe::kernels {

namespace {

/// Seconds of one call of `work`, measured over `times`.
double seconds_of(const std::function<void()>& work, int times) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < times; ++i)
    work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / times;
}

/// Of both signs and many sizes, as gradients are; the same at every run.
std::vector<float> numbers(std::size_t count) {
  std::vector<float> out(count);
  std::uint32_t state = 1;
  for (float& each : out) {
    state = state * 1664525U + 1013904223U; // Numerical Recipes' generator
    const float uniform = static_cast<float>(state >> 8U) * 0x1p-23F - 1;
    each = uniform * uniform * uniform;
  }
  return out;
}

/// The largest thousandth of them, as topk sends it.
void encode_largest(const coded_range& where, const std::vector<float>& values, std::vector<std::byte>& codes) {
  const auto places = choose_largest(where, values, 0.001);
  codes.resize(sparse_bytes(form::sparse_bf16, where, places));
  encode_sparse(form::sparse_bf16, where, places, values, codes);
}

/// Of a square matrix, the factors of a batch of 16 rows.
std::vector<std::byte> encode_square(const std::vector<float>& values) {
  constexpr std::int64_t k = 16;
  const auto side = static_cast<std::int64_t>(std::sqrt(static_cast<double>(values.size())));
  const matrix_part whole{0, side * side};
  std::vector<std::byte> codes(factors_bytes(k, side, whole));
  encode_factors({k, side, side, values.data(), values.data() + k * side}, whole, codes);
  return codes;
}

codec_row measure_codec(form as, const std::vector<float>& values, const codec_bench_options& options) {
  const coded_range where{0, static_cast<std::int64_t>(values.size())};
  const std::size_t bytes = values.size() * sizeof(float);
  std::vector<std::byte> codes(encoded_bytes(as, where));
  std::vector<float> residual(values.size()), sum(values.size());
  std::uint64_t step = 0;
  std::array<std::function<void()>, 4> works{
      [&] { std::memcpy(sum.data(), values.data(), bytes); },
      [&] { encode(as, where, {.seed = 1, .step = ++step}, values, codes); },
      [&] { encode_with_feedback(as, where, {.seed = 1, .step = ++step}, values, residual, codes); },
      [&] { add_decoded(as, where, codes, 0.5F, sum); },
  };
  if (is_sparse(as)) {
    works[1] = [&] { encode_largest(where, values, codes); };
    works[2] = [&] {
      std::ranges::transform(values, residual, residual.begin(), std::plus{});
      encode_largest(where, residual, codes);
      add_decoded(as, where, codes, -1, residual);
    };
  }
  if (as == form::factors)
    works[1] = works[2] = [&] { codes = encode_square(values); };
  std::array<int, 4> times{};
  std::array<std::vector<double>, 4> gbps;
  for (int round = 0; round <= options.rounds; ++round)
    for (std::size_t i = 0; i < works.size(); ++i)
      if (round == 0) { // the first fills caches, the second says how many fill a round
        works[i]();
        times[i] = std::clamp(static_cast<int>(options.round_seconds / seconds_of(works[i], 1)), 1, 1000);
      } else {
        gbps[i].push_back(static_cast<double>(bytes) / seconds_of(works[i], times[i]) * 1e-9);
      }
  return {.as = as,
          .bytes = bytes,
          .bytes_ratio = static_cast<double>(bytes) / static_cast<double>(codes.size()),
          .encode_gbps = median(gbps[1]),
          .feedback_gbps = as == form::factors ? 0 : median(gbps[2]),
          .add_gbps = median(gbps[3]),
          .copy_gbps = median(gbps[0])};
}

} // namespace

std::vector<codec_row> bench_codecs(const codec_bench_options& options) {
  std::vector<codec_row> rows;
  for (const std::size_t bytes : options.sizes) {
    const auto values = numbers(bytes / sizeof(float));
    for (const form as : {form::fp16, form::bf16, form::int8, form::int4, form::onebit, form::sparse_bf16, form::factors})
      rows.push_back(measure_codec(as, values, options));
  }
  return rows;
}

} // namespace troupe::kernels
