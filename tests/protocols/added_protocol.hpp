// SPDX-License-Identifier: BSD-3-Clause
// A protocol as an application might add it: local SGD under another name, with all its traits.
#pragma once

#include "protocols/local_sgd.hpp"

namespace troupe::protocols {

inline protocol paced_protocol() {
  const auto pace = integer_parameter("pace", 6, 1, "local steps between communications");
  return round_protocol(
      {.name = "paced",
       .summary = "local SGD as an application adds it",
       .round_is_full = "all have pushed",
       .recipients = "everyone in the next round",
       .parameters = {pace},
       .period = pace,
       .keeps = [](const protocol_spec&) { return footprint{.replica = true}; },
       .cost = [pace](const protocol_spec& spec, const plan&,
                      round_times times) { return cost_of_local_steps(times, pace.of(spec)); },
       .policy = [](const protocol_spec&, std::uint64_t seed) { return std::make_unique<local_sgd>(local_options{}, seed); },
       .task = [](const protocol_spec&) { return std::make_unique<local_task>(); }});
}

} // namespace troupe::protocols
