// SPDX-License-Identifier: BSD-3-Clause
// How much memory a job's roles take, from its shapes alone, and whether the devices have it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "actors/job.hpp"
#include "kernels/backend.hpp"
#include "protocols/protocol.hpp"
#include "tensor/data/data_set.hpp"
#include "tensor/error.hpp"
#include "tensor/model.hpp"
#include "tensor/plan.hpp"

namespace troupe::apps {

/// The sizes that an estimate is computed from, in bytes.
struct memory_facts {
  double parameters = 0;  ///< one flat copy, gaps included; a gradient and each state of an optimizer is as large
  double activations = 0; ///< workspace of a training plan for the rows that are computed at once
  double evaluation = 0;  ///< the same for the evaluator's plan
  double matrix = 0;      ///< the largest parameter with a rate of its own
  double factors = 0;     ///< what a step copies of them, where they travel
  double products = 0;    ///< a push in which they travel
  double sample = 0;      ///< of a batch: one sample and its label
  double data = 0;        ///< both halves of the data set, as a process holds them
  plan_cost step{};       ///< of one training step
};

/// Compiles the model's plans for few rows and scales them up, which takes little memory. `samples`: of both halves of the data.
result<memory_facts> find_memory_facts(const actors::job& job, const model& network, std::int64_t samples);

/// One item of a role's memory.
struct memory_item {
  std::string name;
  double bytes = 0;
  bool on_device = true; ///< false: in host memory, whatever the role's device
};

/// The memory of each of `count` equal roles.
struct role_memory {
  std::string role; ///< "worker", "shard", "aggregator", "evaluator", "node": a process of the job
  std::uint32_t count = 1;
  std::string device = "cpu";
  std::vector<memory_item> items{};
  double device_bytes() const; ///< of one role; on the CPU that is host memory
  double host_bytes() const;
};

/// The job's memory in the middle of its training, over all its processes, without the rounding of pools. Tested against the
/// resident size of real runs on the CPU: within a factor of 1.5. On a GPU the memory of the driver and its libraries is a guess.
std::vector<role_memory> estimate_memory(const actors::job& job, const memory_facts& facts,
                                         std::span<const protocols::protocol> added = {});

/// A device, or the host as "cpu", and the memory that all roles need on it.
struct device_need {
  std::string device;
  double bytes = 0;
  double free_bytes = 0; ///< 0: unknown
  bool fits() const { return free_bytes == 0 || bytes <= free_bytes; }
};
/// For a job whose processes are all on the machine with these devices. The host comes first.
std::vector<device_need> compare_with_devices(const std::vector<role_memory>& roles,
                                              const std::vector<kernels::device_info>& devices);

/// "cuda:0 has 8.0 GB free and the job needs 9.2 GB there: 2 workers of 4.1 GB each (activations 3.0 GB, ...), ...; what would
/// help: ...".
std::string shortage_text(const device_need& need, const std::vector<role_memory>& roles);

} // namespace troupe::apps
