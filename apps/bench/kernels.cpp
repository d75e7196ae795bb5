// SPDX-License-Identifier: BSD-3-Clause
// What `troupe bench kernels` measures.
#include "apps/bench/kernels.hpp"

#include "apps/median.hpp"
#include "kernels/cuda_library.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <utility>

#include <cblas.h>
#include <fmt/format.h>

namespace troupe::kernels {

namespace {

using work = std::function<void()>;
/// Seconds of one product of square matrices by the bare library, measured over `times`; a and b are read, c is written.
using bare_product = std::function<double(const float* a, const float* b, float* c, std::int64_t size, int times)>;

/// Times pieces of work against each other.
class stopwatch {
public:
  stopwatch(backend& queue, const bench_options& options) : queue_(queue), options_(options) {}

  /// Median seconds of one run of each. They take turns, so that other load on the machine hits both.
  std::pair<double, double> compare(const work& ours, const work& reference) {
    const recording reference_runs = record(reference);
    return compare(ours, [&](int) { return seconds(reference_runs); });
  }

  /// The same where the reference measures itself: it returns the seconds of one run, given how many to make.
  std::pair<double, double> compare(const work& ours, const std::function<double(int)>& reference) {
    const recording our_runs = record(ours);
    std::vector<double> our_seconds, reference_seconds;
    for (int round = 0; round < options_.rounds; ++round) {
      our_seconds.push_back(seconds(our_runs));
      reference_seconds.push_back(reference(our_runs.times));
    }
    return {median(our_seconds), median(reference_seconds)};
  }

private:
  /// Runs recorded as one program, so that the host's time to enqueue them is not measured.
  struct recording {
    std::unique_ptr<program> runs;
    int times;
  };

  recording record(const work& f) {
    const int times = repeats(f);
    const auto all = [&f, times] {
      for (int i = 0; i < times; ++i)
        f();
    };
    recording out{queue_.capture(all), times};
    seconds(out); // the first replay prepares
    return out;
  }

  /// Seconds of one run, from all of them.
  double seconds(const recording& recorded) {
    const auto begin = std::chrono::steady_clock::now();
    queue_.replay(*recorded.runs);
    queue_.synchronize();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / recorded.times;
  }

  /// How many runs fill a round. The first run, which fills caches, is not timed.
  int repeats(const work& f) {
    f();
    queue_.synchronize();
    const auto begin = std::chrono::steady_clock::now();
    f();
    queue_.synchronize();
    const std::chrono::duration<double> once = std::chrono::steady_clock::now() - begin;
    return std::clamp(static_cast<int>(options_.round_seconds / once.count()), 1, 1000);
  }

  backend& queue_;
  const bench_options& options_;
};

/// The rows; one method for each kind.
class kernel_bench {
public:
  kernel_bench(backend& queue, const bench_options& options) : queue_(queue), options_(options), watch_(queue, options) {
    constexpr std::int64_t mebi = 1 << 20;
    elements_ = options.elements != 0 ? options.elements : (queue.on_host() ? 16 : 64) * mebi;
  }

  std::vector<kernel_row> run() {
    if (queue_.on_host())
      gemms();
    convolutions();
    moves();
    return std::move(rows_);
  }

  /// Products of square matrices, against the bare library.
  std::vector<kernel_row> products(const std::string& arithmetic, const bare_product& bare) {
    for (const auto size : options_.sizes) {
      const auto a = floats(size * size), b = floats(size * size), c = floats(size * size);
      const kernels::gemm args{.m = size, .n = size, .k = size, .a = a.as<float>(), .b = b.as<float>(), .c = c.as<float>()};
      const auto cube = static_cast<double>(size) * static_cast<double>(size) * static_cast<double>(size);
      const auto [seconds, reference] =
          watch_.compare([&] { queue_.enqueue(args); },
                         [&](int times) { return bare ? bare(a.as<float>(), b.as<float>(), c.as<float>(), size, times) : 0; });
      const double square_bytes = 4.0 * static_cast<double>(size * size);
      rows_.push_back({"gemm", fmt::format("{0}x{0}x{0} NN", size), 2 * cube / seconds / 1e9, 3 * square_bytes / seconds / 1e9,
                       reference / seconds, arithmetic});
    }
    return std::move(rows_);
  }

private:
  /// `count` floats of the device's memory, filled with small numbers.
  buffer floats(std::int64_t count, float value = 0.5F) {
    auto block = queue_.allocate(static_cast<std::size_t>(count) * sizeof(float));
    queue_.enqueue(fill{block.as<float>(), value, count});
    return block;
  }

  bool has_blas() const { return queue_.name() == "cpu"; }

  /// The work of a bare cblas_sgemm of one shape.
  static work bare_sgemm(const kernels::gemm& g, float* c) {
    const auto trans = [](bool t) { return t ? CblasTrans : CblasNoTrans; };
    return [=] {
      cblas_sgemm(CblasRowMajor, trans(g.transpose_a), trans(g.transpose_b), static_cast<blasint>(g.m), static_cast<blasint>(g.n),
                  static_cast<blasint>(g.k), 1, g.a, static_cast<blasint>(g.transpose_a ? g.m : g.k), g.b,
                  static_cast<blasint>(g.transpose_b ? g.k : g.n), 0, c, static_cast<blasint>(g.n));
    };
  }

  void compute_row(std::string shape, const operation& op, const work& blas) {
    const work ours = [&] { queue_.enqueue(op); };
    const auto [seconds, reference] = watch_.compare(ours, has_blas() ? blas : ours);
    rows_.push_back({name_of(op), std::move(shape), flops(op) / seconds / 1e9, bytes_moved(op) / seconds / 1e9,
                     has_blas() ? reference / seconds : 0});
  }

  void gemm(std::int64_t m, std::int64_t n, std::int64_t k, bool transpose_a, bool transpose_b) {
    const auto a = floats(m * k), b = floats(k * n), ours = floats(m * n), theirs = floats(m * n);
    const kernels::gemm args{.m = m,
                             .n = n,
                             .k = k,
                             .a = a.as<float>(),
                             .b = b.as<float>(),
                             .c = ours.as<float>(),
                             .transpose_a = transpose_a,
                             .transpose_b = transpose_b};
    compute_row(fmt::format("{}x{}x{} {}{}", m, n, k, transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N'), args,
                bare_sgemm(args, theirs.as<float>()));
  }

  void gemms() {
    constexpr std::int64_t batch = 128;
    gemm(1024, 1024, 1024, false, false);
    for (auto [in, out] : {std::pair<std::int64_t, std::int64_t>{784, 1024}, {1024, 1024}, {1024, 10}}) {
      gemm(batch, out, in, false, true);  // forward
      gemm(out, in, batch, true, false);  // gradient of the weight
      gemm(batch, in, out, false, false); // gradient of the input
    }
  }

  void convolutions() {
    const window2d w{.n = 64, .c = 32, .h = 26, .w = 26, .kernel_h = 3, .kernel_w = 3};
    constexpr std::int64_t channels = 64;
    const std::int64_t in = w.n * w.c * w.h * w.w, out = w.n * channels * w.out_h() * w.out_w(), k = w.c * 9,
                       pixels = out / channels;
    const auto x = floats(in), weight = floats(channels * k), bias = floats(channels), y = floats(out), dx = floats(in);
    const auto columns = floats(pixels * k), product = floats(out);
    const kernels::gemm same{
        .m = pixels, .n = channels, .k = k, .a = columns.as<float>(), .b = weight.as<float>(), .transpose_b = true};
    const auto blas = bare_sgemm(same, product.as<float>());
    const std::string shape = "64x32x26x26 -> 64, 3x3";
    compute_row(shape,
                conv2d{.window = w,
                       .out_channels = channels,
                       .x = x.as<float>(),
                       .weight = weight.as<float>(),
                       .bias = bias.as<float>(),
                       .y = y.as<float>(),
                       .act = activation::relu},
                blas);
    // Two products of the forward's size; the reference does as many.
    compute_row(shape,
                conv2d_backward{.window = w,
                                .out_channels = channels,
                                .x = x.as<float>(),
                                .weight = weight.as<float>(),
                                .dy = y.as<float>(),
                                .dx = dx.as<float>(),
                                .dweight = product.as<float>(),
                                .dbias = bias.as<float>()},
                [&] { blas(), blas(); });
  }

  /// A memory-bound row, against a copy.
  void move_row(std::string name, const operation& op) {
    const auto bytes = static_cast<std::size_t>(elements_) * sizeof(float);
    const auto [seconds, copy] =
        watch_.compare([&] { queue_.enqueue(op); }, [&] { queue_.copy(operands_[1].data(), operands_[0].data(), bytes); });
    const double gbps = bytes_moved(op) / seconds / 1e9;
    rows_.push_back(
        {std::move(name), fmt::format("{}", elements_), 0, gbps, gbps / (2 * static_cast<double>(bytes) / copy / 1e9)});
  }

  void moves() {
    const auto n = elements_, columns = std::min<std::int64_t>(n, 1024), rows = n / columns;
    for (auto& block : operands_)
      block = floats(n);
    const auto small = floats(4 * std::max(rows, columns)), scalars = floats(optimizer_scalar_count);
    const auto key = floats(sizeof(random_key) / sizeof(float)); // any bits name a sequence
    float *a = operands_[0].as<float>(), *b = operands_[1].as<float>(), *c = operands_[2].as<float>();
    float *d = operands_[3].as<float>(), *y = operands_[4].as<float>(), *s = small.as<float>();
    const std::array one{term{a, 0.25}};
    const std::array four{term{a, 0.25}, term{b, 0.25}, term{c, 0.25}, term{d, 0.25}};
    move_row("fill", fill{y, 1, n});
    move_row("relu", unary{unary_op::relu, a, y, n});
    move_row("tanh", unary{unary_op::tanh, a, y, n});
    move_row("relu_backward", unary_backward{unary_op::relu, nullptr, a, b, y, n});
    move_row("add", binary{binary_op::add, a, b, y, n});
    move_row("axpby", axpby{0.5F, a, 0.5F, y, n});
    move_row("bias_relu", bias_activation{a, s, activation::relu, y, rows, columns});
    move_row("sum", sum{a, n, s});
    move_row("sum_rows", sum_rows{a, s, rows, columns});
    move_row("all_finite", all_finite{a, n, small.as<std::int32_t>()});
    move_row("weighted_sum of 4", weighted_sum{four, y, n});
    move_row("layernorm", layernorm{a, s, s, 1e-5F, y, s + columns, s + columns + rows, rows, columns});
    move_row("rmsnorm", rmsnorm{a, s, 1e-5F, y, s + columns, rows, columns});
    const axes turned = extents_of(std::array{columns, rows});
    move_row(
        "transposition",
        copy_strided{.extents = turned, .x = a, .x_strides = {0, 0, 0, 0, 1, columns}, .y = y, .y_strides = row_major(turned)});
    move_row("softmax_backward", softmax_backward{a, b, y, rows, columns});
    move_row(
        "sgd",
        sgd{.count = n, .terms = one, .p = y, .p_out = y, .velocity = b, .step_scalars = scalars.as<float>(), .momentum = 0.9F});
    move_row(
        "sgd into another copy",
        sgd{.count = n, .terms = one, .p = c, .p_out = y, .velocity = b, .step_scalars = scalars.as<float>(), .momentum = 0.9F});
    move_row("adamw", adamw{.count = n, .terms = one, .p = y, .p_out = y, .m = b, .v = c, .step_scalars = scalars.as<float>()});
    move_row("delay_compensate, adaptive",
             delay_compensate{.count = n, .g = a, .w = b, .w_backup = c, .g_out = y, .mean_square = d, .lambda = 0.04F});
    move_row("soft_threshold", soft_threshold{a, 0.1F, y, n});
    // These two compute more than they move: an exponential and a division, ten rounds of Philox for four elements.
    move_row("gelu (compute-bound)", unary{unary_op::gelu, a, y, n});
    move_row("dropout (compute-bound)", dropout{a, y, rows, columns, 0.5F, key.as<random_key>(), 0});
  }

  backend& queue_;
  const bench_options options_;
  std::int64_t elements_ = 0;
  stopwatch watch_;
  std::array<buffer, 5> operands_;
  std::vector<kernel_row> rows_;
};

} // namespace

std::vector<kernel_row> bench_products(const std::string& device, const bench_options& options) {
  std::vector<kernel_row> rows;
  for (const auto& [arithmetic, name] :
       {std::pair{precision::fp32, "fp32"}, {precision::tf32, "tf32"}, {precision::bf16, "bf16"}}) {
    const auto queue = open_backend({.device = device, .products = arithmetic});
    bare_product bare;
    if (const auto alone = load_cuda_library().bare_product)
      bare = [alone, how = arithmetic](const float* a, const float* b, float* c, std::int64_t size, int times) {
        return alone(a, b, c, size, how, times);
      };
    for (auto& row : kernel_bench(*queue, options).products(name, bare))
      rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<kernel_row> bench_kernels(backend& queue, const bench_options& options) {
  return kernel_bench(queue, options).run();
}

} // namespace troupe::kernels
