// SPDX-License-Identifier: BSD-3-Clause
// Operations on strided arrays by fewer and longer axes.
#pragma once

#include "kernels/operations/elementwise.hpp"
#include "kernels/operations/reductions.hpp"

namespace troupe::kernels {

// The same elements of the same arrays. Neighbouring axes that every array steps through evenly have become one, and extents of 1
// are gone; what is left stands at the end, with extents of 1 and strides of 0 before it. Backends have loops for few axes alone.

/// The axis along which y is densest is the last.
copy_strided merged(copy_strided op);
broadcast_binary merged(broadcast_binary op);
sum_axes merged(sum_axes op);

} // namespace troupe::kernels
