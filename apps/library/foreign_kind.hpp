// SPDX-License-Identifier: BSD-3-Clause
// The kind of model, and the source of data, of a job whose steps the library's caller computes.
#pragma once

#include <memory>

#include "actors/extensions.hpp"
#include "tensor/foreign.hpp"
#include "tensor/layout.hpp"

namespace troupe::apps {

/// Of both.
inline constexpr const char* foreign_name = "foreign";

/// Every process of the job has the same; that whose parameters differ from the first one's refuses the job, with the first
/// difference.
actors::extensions foreign_extensions(const parameter_layout& layout, std::int64_t samples, std::int64_t tests,
                                      std::shared_ptr<foreign_computer> by);

} // namespace troupe::apps
