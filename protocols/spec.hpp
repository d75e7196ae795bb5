// SPDX-License-Identifier: BSD-3-Clause
// `[protocol]` and `[stop]` of a job file.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace troupe::protocols {

/// A parameter's value as the job file gives it.
using spec_value = std::variant<bool, std::int64_t, double, std::string, std::vector<std::string>>;

/// The fan-in of a tree whose lowest aggregators are one on each node, for its own workers; there are no others.
inline constexpr std::uint32_t fan_in_of_nodes = 0xffff'ffff;

/// Which protocol, with which parameters; the catalog says which exist. Parameters not given have their defaults.
struct protocol_spec {
  std::string name = "sync";
  std::uint32_t fan_in = 0; ///< children of an aggregator, or fan_in_of_nodes; 0: no aggregators
  std::map<std::string, spec_value> parameters{};
  friend bool operator==(const protocol_spec&, const protocol_spec&) = default;
};

/// A field that is 0 does not apply; the first condition that is met ends the job. The coordinator judges them.
struct stop_spec {
  double epochs = 0; ///< of the training data
  std::uint64_t steps = 0;
  double seconds = 0; ///< of training
  std::uint64_t samples = 0;
  double target_accuracy = 0; ///< of an evaluation
  std::uint32_t patience = 0; ///< evaluations in a row without a lower loss: of what is held out, else of the test
  /// Whether some number of steps ends the job, however long they take.
  bool by_steps() const { return epochs > 0 || steps > 0 || samples > 0; }
};

} // namespace troupe::protocols
