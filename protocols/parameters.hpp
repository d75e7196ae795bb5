// SPDX-License-Identifier: BSD-3-Clause
// Reading a protocol's parameters, and declaring them.
#pragma once

#include <string>
#include <vector>

#include "protocols/catalog.hpp"

namespace troupe::protocols {

/// The parameter's value, or `fallback` where the spec does not give it, or gives it as something else.
std::int64_t whole_of(const protocol_spec& spec, const std::string& name, std::int64_t fallback);
double real_of(const protocol_spec& spec, const std::string& name, double fallback);
bool flag_of(const protocol_spec& spec, const std::string& name, bool fallback);
std::string text_of(const protocol_spec& spec, const std::string& name, const std::string& fallback);
std::vector<std::string> texts_of(const protocol_spec& spec, const std::string& name, const std::vector<std::string>& fallback);

/// Declarations: name, default, meaning, and what values are allowed.
struct real_range {
  double least = 0, most = 1e300;
  bool open_least = false, open_most = false;
};
parameter_info whole(std::string name, std::int64_t fallback, std::int64_t least, std::string meaning);
parameter_info real(std::string name, double fallback, real_range range, std::string meaning);
parameter_info flag(std::string name, bool fallback, std::string meaning);
parameter_info choice(std::string name, std::string fallback, std::vector<std::string> choices, std::string meaning);
parameter_info choices(std::string name, std::vector<std::string> fallback, std::vector<std::string> choices,
                       std::string meaning);

} // namespace troupe::protocols
