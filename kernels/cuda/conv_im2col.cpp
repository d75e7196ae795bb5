// SPDX-License-Identifier: BSD-3-Clause
// Convolutions as products of matrices, for builds without cuDNN.
#include <algorithm>

#include "kernels/assert.hpp"
#include "kernels/cuda/dense.hpp"
#include "kernels/cuda/kernels.hpp"

namespace troupe::kernels::cuda {

namespace {

/// Images are taken a few at a time, so that their columns stay within this many floats; how many depends on the shape alone.
constexpr std::int64_t most_columns = std::int64_t{4} << 20;

class im2col_library final : public convolution_library {
public:
  explicit im2col_library(const convolution_context& context) : context_(context) {}

  /// y(K, n P) = weight(K, C kh kw) columns(C kh kw, n P), group by group.
  void forward(const conv2d& args) override {
    for_pieces(args.window, [&](const window2d& piece, std::int64_t first) {
      const shape sizes(piece, args.out_channels);
      float* columns = context_.memory.get(scratch::columns, sizes.groups * sizes.columns());
      float* rows = context_.memory.get(scratch::rows, sizes.groups * sizes.rows());
      image_to_columns(context_.stream, piece, args.x + first * sizes.image, columns);
      context_.matrices.multiply(batched_gemm{.batch = sizes.groups,
                                              .m = sizes.outputs,
                                              .n = sizes.places,
                                              .k = sizes.products,
                                              .a = args.weight,
                                              .b = columns,
                                              .c = rows,
                                              .stride_a = sizes.weights(),
                                              .stride_b = sizes.columns(),
                                              .stride_c = sizes.rows()});
      planes_from_rows(context_.stream, rows, args.bias, args.act, args.y + first * sizes.result, piece.n, args.out_channels,
                       sizes.plane);
    });
  }

  /// dweight = dy(K, n P) columns^T, dcolumns = weight^T dy, group by group.
  void backward(const conv2d_backward& args) override {
    const std::int64_t plane = args.window.out_h() * args.window.out_w();
    if (args.dbias)
      sum_planes(context_.stream, args.dy, args.dbias, args.window.n, args.out_channels, plane, args.accumulate);
    for_pieces(args.window, [&](const window2d& piece, std::int64_t first) {
      const shape sizes(piece, args.out_channels);
      float* columns = context_.memory.get(scratch::columns, sizes.groups * sizes.columns());
      float* rows = context_.memory.get(scratch::rows, sizes.groups * sizes.rows());
      rows_from_planes(context_.stream, args.dy + first * sizes.result, rows, piece.n, args.out_channels, plane);
      image_to_columns(context_.stream, piece, args.x + first * sizes.image, columns);
      context_.matrices.multiply(batched_gemm{.batch = sizes.groups,
                                              .m = sizes.outputs,
                                              .n = sizes.products,
                                              .k = sizes.places,
                                              .a = rows,
                                              .b = columns,
                                              .c = args.dweight,
                                              .stride_a = sizes.rows(),
                                              .stride_b = sizes.columns(),
                                              .stride_c = sizes.weights(),
                                              .transpose_b = true,
                                              .beta = first == 0 && !args.accumulate ? 0.0F : 1.0F});
      if (!args.dx)
        return;
      context_.matrices.multiply(batched_gemm{.batch = sizes.groups,
                                              .m = sizes.products,
                                              .n = sizes.places,
                                              .k = sizes.outputs,
                                              .a = args.weight,
                                              .b = rows,
                                              .c = columns,
                                              .stride_a = sizes.weights(),
                                              .stride_b = sizes.rows(),
                                              .stride_c = sizes.columns(),
                                              .transpose_a = true});
      columns_to_image(context_.stream, piece, columns, args.dx + first * sizes.image);
    });
  }

private:
  /// Sizes of a piece: of one group's matrices, and of one image of x and of y.
  struct shape {
    std::int64_t groups, products, outputs, plane, places, image, result;
    shape(const window2d& w, std::int64_t out_channels)
        : groups(w.groups), products(w.c / w.groups * w.kernel_h * w.kernel_w), outputs(out_channels / w.groups),
          plane(w.out_h() * w.out_w()), places(w.n * plane), image(w.c * w.h * w.w), result(out_channels * plane) {}
    std::int64_t weights() const { return outputs * products; }
    std::int64_t columns() const { return products * places; }
    std::int64_t rows() const { return outputs * places; }
  };

  template <class F>
  void for_pieces(const window2d& window, F run) {
    const std::int64_t of_one = window.c * window.kernel_h * window.kernel_w * window.out_h() * window.out_w();
    const std::int64_t together = std::clamp<std::int64_t>(most_columns / of_one, 1, std::max<std::int64_t>(window.n, 1));
    for (std::int64_t first = 0; first < window.n; first += together) {
      window2d piece = window;
      piece.n = std::min(together, window.n - first);
      run(piece, first);
    }
  }

  convolution_context context_;
};

} // namespace

std::unique_ptr<convolution_library> open_convolution_library(const convolution_context& context) {
  return std::make_unique<im2col_library>(context);
}

} // namespace troupe::kernels::cuda
