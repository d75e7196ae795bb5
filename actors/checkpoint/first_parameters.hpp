// SPDX-License-Identifier: BSD-3-Clause
// With what a job begins: drawn parameters, those of its model or of a file, or a checkpoint.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "actors/checkpoint/checkpoint_file.hpp"
#include "actors/checkpoint/saved_state.hpp"
#include "actors/job.hpp"
#include "kernels/backend.hpp"
#include "protocols/lead.hpp"
#include "tensor/layout.hpp"

namespace troupe::actors {

/// Where a lead goes on, at rest. Throws std::runtime_error where the manifest does not tell it.
protocols::lead_state lead_of(const checkpoint_manifest& manifest);

/// The same on every node. What it reads is checked as it is read: its functions throw std::runtime_error that names the file.
class first_parameters {
public:
  /// `given`: the model's own; it outlives this. None: they are drawn.
  first_parameters(const job& job, const parameter_layout& layout, std::span<const float> given = {});

  protocols::version ver() const { return lead_.made; }
  /// All of them, flat. `allocate` gives host memory.
  kernels::buffer flat(const std::function<kernels::buffer(std::size_t)>& allocate) const;
  saved_state of_shard(flat_range range, const std::function<kernels::buffer(std::size_t)>& allocate) const;
  /// What a worker kept between rounds; without blocks where that is nothing.
  saved_state of_worker(std::uint32_t worker, const std::function<kernels::buffer(std::size_t)>& allocate) const;
  const protocols::lead_state& lead() const { return lead_; }

private:
  bool resumes() const { return !job_.checkpoint.resume.empty(); }

  const job& job_;
  const parameter_layout& layout_;
  std::span<const float> given_;
  checkpoint_manifest from_; ///< of version 0: none
  protocols::lead_state lead_;
};

} // namespace troupe::actors
