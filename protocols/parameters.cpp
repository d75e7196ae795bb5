// SPDX-License-Identifier: BSD-3-Clause
// Protocol parameters: reading and declaring.
#include "protocols/parameters.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace troupe::protocols {

namespace {

constexpr std::int64_t largest_whole = 0x7fff'ffff; ///< steps, workers and rounds are counted in 32 bits

template <class T>
T value_of(const protocol_spec& spec, const std::string& name, const T& fallback) {
  const auto found = spec.parameters.find(name);
  const T* value = found == spec.parameters.end() ? nullptr : std::get_if<T>(&found->second);
  return value ? *value : fallback;
}

std::string not_one_of(const std::string& name, const std::vector<std::string>& choices) {
  return std::ranges::find(choices, name) != choices.end()
             ? std::string{}
             : fmt::format("\"{}\" is not one of {}", name, fmt::join(choices, ", "));
}

} // namespace

std::int64_t whole_of(const protocol_spec& spec, const std::string& name, std::int64_t fallback) {
  return value_of(spec, name, fallback);
}

double real_of(const protocol_spec& spec, const std::string& name, double fallback) {
  const auto found = spec.parameters.find(name);
  if (found != spec.parameters.end())
    if (const auto* whole = std::get_if<std::int64_t>(&found->second))
      return static_cast<double>(*whole);
  return value_of(spec, name, fallback);
}

bool flag_of(const protocol_spec& spec, const std::string& name, bool fallback) {
  return value_of(spec, name, fallback);
}

std::string text_of(const protocol_spec& spec, const std::string& name, const std::string& fallback) {
  return value_of(spec, name, fallback);
}

std::vector<std::string> texts_of(const protocol_spec& spec, const std::string& name, const std::vector<std::string>& fallback) {
  return value_of(spec, name, fallback);
}

parameter_info whole(std::string name, std::int64_t fallback, std::int64_t least, std::string meaning) {
  return {std::move(name), fallback, std::move(meaning), [least](const spec_value& value) -> std::string {
            const auto* given = std::get_if<std::int64_t>(&value);
            if (!given || *given < least)
              return fmt::format("must be a whole number of at least {}", least);
            return *given <= largest_whole ? "" : fmt::format("must be at most {}", largest_whole);
          }};
}

parameter_info real(std::string name, double fallback, real_range range, std::string meaning) {
  return {std::move(name), fallback, std::move(meaning), [range](const spec_value& value) -> std::string {
            double given = 0;
            if (const auto* number = std::get_if<double>(&value))
              given = *number;
            else if (const auto* whole = std::get_if<std::int64_t>(&value))
              given = static_cast<double>(*whole);
            else
              return "must be a number";
            const bool above = range.open_least ? given > range.least : given >= range.least;
            const bool below = range.open_most ? given < range.most : given <= range.most;
            if (above && below)
              return {};
            std::string wanted = fmt::format("must be {} {}", range.open_least ? "above" : "at least", range.least);
            if (range.most < 1e300)
              wanted += fmt::format(" and {} {}", range.open_most ? "below" : "at most", range.most);
            return wanted;
          }};
}

parameter_info flag(std::string name, bool fallback, std::string meaning) {
  return {std::move(name), fallback, std::move(meaning), [](const spec_value& value) -> std::string {
            return std::holds_alternative<bool>(value) ? "" : "must be true or false";
          }};
}

parameter_info choice(std::string name, std::string fallback, std::vector<std::string> choices, std::string meaning) {
  return {std::move(name), std::move(fallback), std::move(meaning),
          [choices = std::move(choices)](const spec_value& value) -> std::string {
            const auto* given = std::get_if<std::string>(&value);
            return given ? not_one_of(*given, choices) : "must be a text";
          }};
}

parameter_info choices(std::string name, std::vector<std::string> fallback, std::vector<std::string> choices,
                       std::string meaning) {
  return {std::move(name), std::move(fallback), std::move(meaning),
          [choices = std::move(choices)](const spec_value& value) -> std::string {
            const auto* given = std::get_if<std::vector<std::string>>(&value);
            if (!given || given->empty())
              return "must be a list of texts";
            for (const std::string& each : *given)
              if (std::string wrong = not_one_of(each, choices); !wrong.empty())
                return wrong;
            return {};
          }};
}

} // namespace troupe::protocols
