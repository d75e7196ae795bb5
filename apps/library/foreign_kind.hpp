// SPDX-License-Identifier: BSD-3-Clause
// The kind of model, and the source of data, of a job whose steps the library's caller computes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "actors/extensions.hpp"
#include "tensor/foreign.hpp"
#include "tensor/layout.hpp"

namespace troupe::apps {

/// Of both.
inline constexpr const char* foreign_name = "foreign";

/// What a process of the job has.
struct foreign_facts {
  parameter_layout layout;
  std::int64_t samples = 1, tests = 1;
  std::string script{};    ///< which program computes it, such as a file's name and checksum; empty: anyone's
  bool same_start = false; ///< of the first process: the others' parameters must begin with the values that its own have
};

/// Every process of the job has the same; that which differs from the first one refuses the job, with the first difference.
actors::extensions foreign_extensions(const foreign_facts& has, std::shared_ptr<foreign_computer> by);

} // namespace troupe::apps
