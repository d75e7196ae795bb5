// SPDX-License-Identifier: BSD-3-Clause
// A tensor: a shape and shared, immutable storage.
#pragma once

#include "kernels/buffer.hpp"
#include "tensor/shape.hpp"

namespace troupe {

enum class dtype : std::uint8_t { f32, i32 };

/// Handle of a packed, row-major tensor. Copying it shares the storage. Whoever makes a tensor writes it before sharing
/// it; from then on nobody does, so that handles travel between actors and threads freely. The memory belongs to the
/// device of the backend that allocated it.
class tensor {
public:
  tensor() = default;
  /// `storage` holds at least `s.elements()` elements.
  tensor(shape s, dtype type, kernels::buffer storage) : shape_(std::move(s)), type_(type), storage_(std::move(storage)) {}

  const shape& dims() const { return shape_; }
  dtype type() const { return type_; }
  std::int64_t elements() const { return shape_.elements(); }
  std::size_t bytes() const { return static_cast<std::size_t>(elements()) * 4; }
  bool empty() const { return !storage_; }
  const float* floats() const { return storage_.as<const float>(); }
  const kernels::buffer& storage() const { return storage_; }
  /// Elements [begin, end) of the flat tensor as a rank-1 tensor that shares the storage.
  tensor flat_slice(std::int64_t begin, std::int64_t end) const;

private:
  shape shape_;
  dtype type_ = dtype::f32;
  kernels::buffer storage_;
};

} // namespace troupe
