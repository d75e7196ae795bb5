// SPDX-License-Identifier: BSD-3-Clause
// A key and a value, as a decision for the coordinator's machine.
#include "actors/roles/coordinator/orders/requested_change.hpp"

#include <cmath>
#include <cstdint>

#include <fmt/format.h>

#include "actors/errors.hpp"
#include "actors/job_check.hpp"
#include "tensor/parse_number.hpp"

namespace troupe::actors {

caf::expected<protocols::decision> requested_change(const change_order& msg, const job& job,
                                                    const protocols::protocol_spec& running,
                                                    const std::vector<protocols::protocol>& added) {
  protocols::decision change{.why = fmt::format("{} = {}, by operator request", msg.key, msg.value)};
  auto wanted = job;
  wanted.protocol = running;
  const auto entry = protocols::find_protocol(wanted.protocol.name, added);
  const bool keeps_its_period = entry && entry->period && !entry->make_controller;
  if (msg.key == "optimizer.lr") {
    const auto lr = parse_number<double>(msg.value);
    if (!lr)
      return failure(fmt::format("optimizer.lr = {} is no number", msg.value));
    change.lr_scale = *lr / job.optimizer.lr;
    if (!std::isfinite(*change.lr_scale))
      return failure(fmt::format("optimizer.lr = {} is too far from the job's {}", msg.value, job.optimizer.lr));
    wanted.optimizer.lr = *lr;
    wanted.optimizer.min_lr *= *change.lr_scale; // the whole schedule is scaled
  } else if (keeps_its_period && msg.key == "protocol." + entry->period->name) {
    const auto steps = parse_number<std::int64_t>(msg.value);
    if (!steps)
      return failure(fmt::format("{} = {} is no whole number", msg.key, msg.value));
    wanted.protocol.parameters[entry->period->name] = *steps;
    change.period = static_cast<std::uint32_t>(*steps);
  } else if (msg.key == "protocol.steps") {
    return failure(fmt::format("protocol {} has no protocol.steps that can be set", wanted.protocol.name));
  } else {
    return failure(fmt::format("{} cannot change while a job runs; optimizer.lr, protocol.steps and log.level can", msg.key));
  }
  for (const auto& problem : check_job(wanted, {.protocols = added}))
    if (problem.key == msg.key)
      return failure(problem.text);
  return change;
}

} // namespace troupe::actors
