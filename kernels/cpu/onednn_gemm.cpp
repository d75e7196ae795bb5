// SPDX-License-Identifier: BSD-3-Clause
// Matrix multiplication by oneDNN.
#include "kernels/cpu/onednn_gemm.hpp"

#include <map>
#include <unordered_map>

#include <fmt/format.h>

#include "kernels/cpu/onednn_versions.hpp"

namespace troupe::kernels {

namespace {

/// What distinguishes one prepared multiplication from another.
struct gemm_key {
  std::int64_t m, n, k;
  bool transpose_a, transpose_b, bias, relu;
  float beta;
  friend auto operator<=>(const gemm_key&, const gemm_key&) = default;
};

/// A oneDNN matmul with the memory objects that its pointers are put into.
struct prepared_gemm {
  dnnl::matmul primitive;
  dnnl::memory a, b, c, bias;
  std::unordered_map<int, dnnl::memory> arguments;
};

using memory_desc = dnnl::memory::desc;
constexpr auto float32 = dnnl::memory::data_type::f32;

prepared_gemm prepare(const gemm_key& key, const dnnl::engine& engine) {
  using tag = dnnl::memory::format_tag;
  const memory_desc a({key.m, key.k}, float32, key.transpose_a ? tag::ba : tag::ab);
  const memory_desc b({key.k, key.n}, float32, key.transpose_b ? tag::ba : tag::ab);
  const memory_desc c({key.m, key.n}, float32, tag::ab);
  const memory_desc bias({1, key.n}, float32, tag::ab);
  dnnl::post_ops after;
  if (key.beta != 0)
    after.append_sum(key.beta);
  if (key.relu)
    append_relu(after);
  dnnl::primitive_attr attributes;
  attributes.set_post_ops(after);
  const auto chosen = key.bias ? choose_forward<dnnl::matmul>(engine, attributes, a, b, bias, c)
                               : choose_forward<dnnl::matmul>(engine, attributes, a, b, c);
  prepared_gemm out{.primitive = dnnl::matmul(chosen),
                    .a = {a, engine, nullptr},
                    .b = {b, engine, nullptr},
                    .c = {c, engine, nullptr},
                    .bias = {bias, engine, nullptr},
                    .arguments = {}};
  // The copies in the map are handles of the same memory objects.
  out.arguments = {{DNNL_ARG_SRC, out.a}, {DNNL_ARG_WEIGHTS, out.b}, {DNNL_ARG_DST, out.c}};
  if (key.bias)
    out.arguments.emplace(DNNL_ARG_BIAS, out.bias);
  return out;
}

void* mutable_pointer(const float* p) {
  return const_cast<float*>(p);
} // oneDNN's handles know no const

} // namespace

bool has_onednn() {
  return true;
}

std::string onednn_version() {
  const auto* version = dnnl_version();
  return fmt::format("oneDNN {}.{}.{}", version->major, version->minor, version->patch);
}

struct onednn_gemm::state {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::map<gemm_key, prepared_gemm> prepared;
};

onednn_gemm::onednn_gemm() : state_(std::make_unique<state>()) {}
onednn_gemm::~onednn_gemm() = default;

void onednn_gemm::run(const gemm& args, float* result, bool relu) {
  const gemm_key key{args.m, args.n, args.k, args.transpose_a, args.transpose_b, args.bias != nullptr, relu, args.beta};
  auto found = state_->prepared.find(key);
  if (found == state_->prepared.end())
    found = state_->prepared.emplace(key, prepare(key, state_->engine)).first;
  auto& gemm = found->second;
  gemm.a.set_data_handle(mutable_pointer(args.a));
  gemm.b.set_data_handle(mutable_pointer(args.b));
  gemm.c.set_data_handle(result);
  if (args.bias)
    gemm.bias.set_data_handle(mutable_pointer(args.bias));
  gemm.primitive.execute(state_->stream, gemm.arguments);
}

} // namespace troupe::kernels
