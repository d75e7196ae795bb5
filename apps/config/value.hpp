// SPDX-License-Identifier: BSD-3-Clause
// The value of one key, apart from how a file spells it.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include <boost/json/fwd.hpp>

namespace troupe::config {

/// Nothing, or what a key may hold.
using value =
    std::variant<std::monostate, bool, std::int64_t, double, std::string, std::vector<std::string>, std::vector<std::int64_t>>;

/// As TOML would spell it: `"sync"`, `[1024, 1024]`, `0.05`; nothing is `none`.
std::string to_text(const value& v);
/// Nothing is null.
boost::json::value to_json(const value& v);

/// The value that another variant holds, such as a parameter of a protocol.
template <class... Held>
value as_value(const std::variant<Held...>& v) {
  return std::visit([](const auto& held) -> value { return held; }, v);
}

} // namespace troupe::config
