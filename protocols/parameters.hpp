// SPDX-License-Identifier: BSD-3-Clause
// Parameters of protocols, models and data sources: each is declared once, and its declaration reads it.
#pragma once

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "protocols/spec.hpp"

namespace troupe::protocols {

/// Whole numbers from `least` to `most`.
struct integer_range {
  std::int64_t least = 0, most = std::numeric_limits<std::int64_t>::max();
  bool contains(std::int64_t number) const { return number >= least && number <= most; }
};
/// Numbers from `least` to `most`; an open end is excluded. Infinity and NaN are in no range.
struct real_range {
  double least = 0, most = std::numeric_limits<double>::infinity();
  bool open_least = false, open_most = false;
  bool contains(double number) const {
    return (open_least ? number > least : number >= least) && (open_most ? number < most : number <= most) && !std::isinf(number);
  }
};

/// One parameter, as lists show it.
struct parameter_info {
  std::string name{};
  spec_value default_value{};
  std::string meaning{};
  /// What is wrong with the value ("must be at least 1"); empty if it is valid.
  std::function<std::string(const spec_value&)> validate{};
  /// The default where it depends on other parameters. Absent: always `default_value`.
  std::function<spec_value(const protocol_spec&)> default_with{};

  spec_value default_for(const protocol_spec& spec) const { return default_with ? default_with(spec) : default_value; }
};

/// One parameter, with the type of its values.
template <class T>
struct parameter : parameter_info {
  /// Its value in this spec; the default if the spec lacks it or gives it another type.
  T of(const protocol_spec& spec) const {
    if (const auto given = spec.parameters.find(name); given != spec.parameters.end()) {
      if (const T* value = std::get_if<T>(&given->second))
        return *value;
      if constexpr (std::is_same_v<T, double>)
        if (const auto* whole = std::get_if<std::int64_t>(&given->second))
          return static_cast<double>(*whole);
    }
    return std::get<T>(default_for(spec));
  }
};

/// Declarations: name, default, allowed values, meaning. An integer is at most 2^31 - 1.
parameter<std::int64_t> integer_parameter(std::string name, std::int64_t fallback, std::int64_t least, std::string meaning);
parameter<double> real_parameter(std::string name, double fallback, real_range range, std::string meaning);
parameter<bool> bool_parameter(std::string name, bool fallback, std::string meaning);
parameter<std::string> choice_parameter(std::string name, std::string fallback, std::vector<std::string> choices,
                                        std::string meaning);
parameter<std::vector<std::string>> choices_parameter(std::string name, std::vector<std::string> fallback,
                                                      std::vector<std::string> choices, std::string meaning);

} // namespace troupe::protocols
