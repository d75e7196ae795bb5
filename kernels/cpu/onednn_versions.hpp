// SPDX-License-Identifier: BSD-3-Clause
// What is said in one way to oneDNN 2 and in another to oneDNN 3.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

namespace troupe::kernels {

/// Chooses an implementation of `Primitive`; `parameters` are its shapes and options, in the order that both versions have.
template <class Primitive, class... Parameters>
typename Primitive::primitive_desc choose_forward(const dnnl::engine& engine, const dnnl::primitive_attr& attributes,
                                                  const Parameters&... parameters) {
#if DNNL_VERSION_MAJOR >= 3
  return {engine, parameters..., attributes};
#else
  return {typename Primitive::desc(parameters...), attributes, engine};
#endif
}

/// The same for a gradient; `hint` is what was chosen for the forward pass.
template <class Primitive, class Hint, class... Parameters>
typename Primitive::primitive_desc choose_backward(const dnnl::engine& engine, const Hint& hint,
                                                   const Parameters&... parameters) {
#if DNNL_VERSION_MAJOR >= 3
  return {engine, parameters..., hint};
#else
  return {typename Primitive::desc(parameters...), engine, hint};
#endif
}

inline void append_relu(dnnl::post_ops& after) {
#if DNNL_VERSION_MAJOR >= 3
  after.append_eltwise(dnnl::algorithm::eltwise_relu, 0, 0);
#else
  after.append_eltwise(1, dnnl::algorithm::eltwise_relu, 0, 0);
#endif
}

} // namespace troupe::kernels
