// SPDX-License-Identifier: BSD-3-Clause
// Convolutions by cuDNN.
#include <array>
#include <map>
#include <vector>

#include <cudnn.h>
#include <fmt/format.h>

#include "kernels/assert.hpp"
#include "kernels/cuda/dense.hpp"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/status.hpp"

namespace troupe::kernels::cuda {

namespace {

void check(cudnnStatus_t status, std::string_view call) {
  if (status != CUDNN_STATUS_SUCCESS) [[unlikely]]
    fail(call, "cuDNN", cudnnGetErrorString(status));
}

int narrow(std::int64_t value) {
  TROUPE_ASSERT(value <= INT32_MAX);
  return static_cast<int>(value);
}

/// The descriptors of one geometry, and the algorithms chosen for it.
struct plan {
  plan() {
    TROUPE_CUDA(cudnnCreateTensorDescriptor(&x));
    TROUPE_CUDA(cudnnCreateTensorDescriptor(&y));
    TROUPE_CUDA(cudnnCreateFilterDescriptor(&weight));
    TROUPE_CUDA(cudnnCreateConvolutionDescriptor(&convolution));
  }
  plan(const plan&) = delete;
  plan& operator=(const plan&) = delete;
  ~plan() {
    cudnnDestroyTensorDescriptor(x);
    cudnnDestroyTensorDescriptor(y);
    cudnnDestroyFilterDescriptor(weight);
    cudnnDestroyConvolutionDescriptor(convolution);
  }

  cudnnTensorDescriptor_t x = nullptr, y = nullptr;
  cudnnFilterDescriptor_t weight = nullptr;
  cudnnConvolutionDescriptor_t convolution = nullptr;
  cudnnConvolutionFwdAlgoPerf_t forward = {};
  cudnnConvolutionBwdDataAlgoPerf_t data = {};
  cudnnConvolutionBwdFilterAlgoPerf_t filter = {};
};

using geometry_key = std::array<std::int64_t, 11>;

/// Algorithms come from cuDNN's heuristic, not from a stopwatch, and only those that repeat their bits are taken.
class cudnn_library final : public convolution_library {
public:
  explicit cudnn_library(const convolution_context& context) : context_(context) {
    TROUPE_CUDA(cudnnCreate(&handle_));
    const auto status = cudnnSetStream(handle_, context.stream);
    if (status != CUDNN_STATUS_SUCCESS)
      cudnnDestroy(handle_); // the destructor of what is not finished does not run
    TROUPE_CUDA(status);
  }
  ~cudnn_library() override { cudnnDestroy(handle_); }

  void forward(const conv2d& args) override {
    auto& prepared_plan = prepared(args.window, args.out_channels);
    const auto& w = args.window;
    const float* x = operand(args.x, w.n * w.c * w.h * w.w, scratch::columns);
    const float* weight = operand(args.weight, args.weights(), scratch::left);
    TROUPE_CUDA(cudnnConvolutionForward(
        handle_, &one, prepared_plan.x, x, prepared_plan.weight, weight, prepared_plan.convolution, prepared_plan.forward.algo,
        workspace(prepared_plan.forward.memory), prepared_plan.forward.memory, &zero, prepared_plan.y, args.y));
    if (args.bias || args.act != activation::none)
      bias_planes(context_.stream, args.bias, args.act, args.y, w.n, args.out_channels, w.out_h() * w.out_w());
  }

  void backward(const conv2d_backward& args) override {
    auto& prepared_plan = prepared(args.window, args.out_channels);
    const auto& w = args.window;
    const std::int64_t plane = w.out_h() * w.out_w();
    if (args.dbias)
      sum_planes(context_.stream, args.dy, args.dbias, w.n, args.out_channels, plane, args.accumulate);
    const float* dy = operand(args.dy, w.n * args.out_channels * plane, scratch::rows);
    const float* x = operand(args.x, w.n * w.c * w.h * w.w, scratch::columns);
    TROUPE_CUDA(cudnnConvolutionBackwardFilter(handle_, &one, prepared_plan.x, x, prepared_plan.y, dy, prepared_plan.convolution,
                                               prepared_plan.filter.algo, workspace(prepared_plan.filter.memory),
                                               prepared_plan.filter.memory, args.accumulate ? &one : &zero, prepared_plan.weight,
                                               args.dweight));
    if (!args.dx)
      return;
    const float* weight = operand(args.weight, args.weights(), scratch::left);
    TROUPE_CUDA(cudnnConvolutionBackwardData(
        handle_, &one, prepared_plan.weight, weight, prepared_plan.y, dy, prepared_plan.convolution, prepared_plan.data.algo,
        workspace(prepared_plan.data.memory), prepared_plan.data.memory, &zero, prepared_plan.x, args.dx));
  }

private:
  static constexpr float one = 1, zero = 0;
  static constexpr std::size_t most_workspace = std::size_t{256} << 20;

  /// In bf16 the operands are rounded to it and multiplied by tensor cores that take 10 bits: the products are exact.
  const float* operand(const float* x, std::int64_t count, scratch::use where) {
    if (context_.arithmetic != precision::bf16)
      return x;
    float* rounded = context_.memory.get(where, count);
    round_to_bf16(context_.stream, x, rounded, count);
    return rounded;
  }

  void* workspace(std::size_t bytes) {
    return bytes == 0 ? nullptr : context_.memory.get(scratch::library, static_cast<std::int64_t>((bytes + 3) / sizeof(float)));
  }

  plan& prepared(const window2d& w, std::int64_t out_channels) {
    const geometry_key key{w.n, w.c, w.h, w.w, w.kernel_h, w.kernel_w, w.stride, w.padding, w.dilation, w.groups, out_channels};
    auto found = plans_.find(key);
    if (found == plans_.end()) {
      auto made = std::make_unique<plan>();
      describe(*made, w, out_channels);
      choose(*made);
      found = plans_.emplace(key, std::move(made)).first;
    }
    return *found->second;
  }

  void describe(plan& out, const window2d& w, std::int64_t out_channels) const {
    constexpr auto type = CUDNN_DATA_FLOAT;
    TROUPE_CUDA(cudnnSetTensor4dDescriptor(out.x, CUDNN_TENSOR_NCHW, type, narrow(w.n), narrow(w.c), narrow(w.h), narrow(w.w)));
    TROUPE_CUDA(cudnnSetTensor4dDescriptor(out.y, CUDNN_TENSOR_NCHW, type, narrow(w.n), narrow(out_channels), narrow(w.out_h()),
                                           narrow(w.out_w())));
    TROUPE_CUDA(cudnnSetFilter4dDescriptor(out.weight, type, CUDNN_TENSOR_NCHW, narrow(out_channels), narrow(w.c / w.groups),
                                           narrow(w.kernel_h), narrow(w.kernel_w)));
    const int padding = narrow(w.padding), stride = narrow(w.stride), dilation = narrow(w.dilation);
    TROUPE_CUDA(cudnnSetConvolution2dDescriptor(out.convolution, padding, padding, stride, stride, dilation, dilation,
                                                CUDNN_CROSS_CORRELATION, type));
    TROUPE_CUDA(cudnnSetConvolutionGroupCount(out.convolution, narrow(w.groups)));
    // FMA: float32 throughout. DEFAULT lets tensor cores round float operands to tf32.
    TROUPE_CUDA(cudnnSetConvolutionMathType(out.convolution,
                                            context_.arithmetic == precision::fp32 ? CUDNN_FMA_MATH : CUDNN_DEFAULT_MATH));
  }

  void choose(plan& out) const {
    out.forward = best<cudnnConvolutionFwdAlgoPerf_t>("forward", [&](int room, int* count, auto* found) {
      TROUPE_CUDA(cudnnGetConvolutionForwardAlgorithm_v7(handle_, out.x, out.weight, out.convolution, out.y, room, count, found));
    });
    out.data = best<cudnnConvolutionBwdDataAlgoPerf_t>("backward of data", [&](int room, int* count, auto* found) {
      TROUPE_CUDA(
          cudnnGetConvolutionBackwardDataAlgorithm_v7(handle_, out.weight, out.y, out.convolution, out.x, room, count, found));
    });
    out.filter = best<cudnnConvolutionBwdFilterAlgoPerf_t>("backward of weights", [&](int room, int* count, auto* found) {
      TROUPE_CUDA(
          cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle_, out.x, out.y, out.convolution, out.weight, room, count, found));
    });
  }

  /// The first that works, repeats itself, keeps to the arithmetic asked for, and is content with the workspace.
  template <class Perf, class Query>
  Perf best(const char* pass, Query query) const {
    std::vector<Perf> found(16);
    int count = 0;
    query(static_cast<int>(found.size()), &count, found.data());
    found.resize(static_cast<std::size_t>(count));
    for (const Perf& each : found)
      if (each.status == CUDNN_STATUS_SUCCESS && each.determinism == CUDNN_DETERMINISTIC && each.memory <= most_workspace
          && (context_.arithmetic != precision::fp32 || exact(each)))
        return each;
    fail("cudnnGetConvolutionAlgorithm", "no algorithm", fmt::format("none for the {} repeats its results", pass));
  }

  /// Whether every product is one of float32s. cuDNN may call an algorithm's arithmetic the default where FMA was asked for: the
  /// descriptor, which says FMA, decides. Fourier and Winograd transforms lose digits that a direct sum keeps.
  template <class Perf>
  static bool exact(const Perf& each) {
    const bool floats = each.mathType == CUDNN_FMA_MATH || each.mathType == CUDNN_DEFAULT_MATH;
    return floats && direct(each.algo);
  }
  static bool direct(cudnnConvolutionFwdAlgo_t algo) {
    return algo == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM || algo == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM
           || algo == CUDNN_CONVOLUTION_FWD_ALGO_GEMM;
  }
  static bool direct(cudnnConvolutionBwdDataAlgo_t algo) { return algo == CUDNN_CONVOLUTION_BWD_DATA_ALGO_1; }
  static bool direct(cudnnConvolutionBwdFilterAlgo_t algo) { return algo == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1; }

  convolution_context context_;
  cudnnHandle_t handle_ = nullptr;
  std::map<geometry_key, std::unique_ptr<plan>> plans_;
};

} // namespace

std::unique_ptr<convolution_library> open_convolution_library(const convolution_context& context) {
  return std::make_unique<cudnn_library>(context);
}

} // namespace troupe::kernels::cuda
