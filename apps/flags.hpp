// SPDX-License-Identifier: BSD-3-Clause
// A subcommand's flags as data, for sources that do not include CLI11.
#pragma once

#include <functional>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

#include "tensor/parse_number.hpp"

namespace troupe::apps {

/// A flag that takes a value.
struct flag {
  std::string name, type, meaning;
  std::function<std::string(const std::string&)> take; ///< sets the option; returns what is wrong with the text, or nothing
  std::string value_without{};                         ///< what it is where it is not given, for the help; empty: it is required
};

/// A subcommand of a job file, by its flags; --set, --seed and --json are added.
struct job_command {
  std::string name, meaning, example;
  std::vector<flag> flags;
};

/// A flag whose value is any text but an empty one.
inline flag required_text(const std::string& name, const std::string& type, const std::string& meaning, std::string& into) {
  return {name, type, meaning, [&into](const std::string& text) {
            into = text;
            return text.empty() ? "\"\" is no value" : "";
          }};
}

/// A flag whose value is a number from `least` on.
template <class Number>
flag number_from(Number least, const std::string& name, const std::string& type, const std::string& meaning, Number& into) {
  return {name, type, meaning,
          [&into, least](const std::string& text) {
            const auto number = parse_number<Number>(text);
            const bool fits = number && *number >= least && *number <= std::numeric_limits<Number>::max();
            into = fits ? *number : into;
            return fits ? ""
                        : fmt::format("\"{}\" is not a {} of at least {}", text,
                                      std::is_integral_v<Number> ? "whole number" : "number", least);
          },
          fmt::format("{}", into)};
}

} // namespace troupe::apps
