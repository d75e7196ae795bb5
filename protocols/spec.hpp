// SPDX-License-Identifier: BSD-3-Clause
// `[protocol]` of a job file: a name and its parameters.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace troupe::protocols {

/// A parameter's value as the job file gives it.
using spec_value = std::variant<bool, std::int64_t, double, std::string, std::vector<std::string>>;

/// Which protocol, with which parameters; the catalog says which exist. Parameters not given have their defaults.
struct protocol_spec {
  std::string name = "sync";
  std::uint32_t fan_in = 0; ///< children of an aggregator; 0: no aggregators
  std::map<std::string, spec_value> parameters{};
  friend bool operator==(const protocol_spec&, const protocol_spec&) = default;
};

} // namespace troupe::protocols
