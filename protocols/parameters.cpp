// SPDX-License-Identifier: BSD-3-Clause
// Declaring parameters, and validating their values.
#include "protocols/parameters.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace troupe::protocols {

namespace {

constexpr std::int64_t largest_integer = 0x7fff'ffff; ///< steps, workers and rounds are counted in 32 bits

std::string not_one_of(const std::string& name, const std::vector<std::string>& choices) {
  return std::ranges::find(choices, name) != choices.end()
             ? std::string{}
             : fmt::format("\"{}\" is not one of {}", name, fmt::join(choices, ", "));
}

} // namespace

parameter<std::int64_t> integer_parameter(std::string name, std::int64_t fallback, std::int64_t least, std::string meaning) {
  return {{std::move(name), fallback, std::move(meaning), [least](const spec_value& value) -> std::string {
             const auto* given = std::get_if<std::int64_t>(&value);
             if (!given || *given < least)
               return fmt::format("must be a whole number of at least {}", least);
             return *given <= largest_integer ? "" : fmt::format("must be at most {}", largest_integer);
           }}};
}

parameter<double> real_parameter(std::string name, double fallback, real_range range, std::string meaning) {
  return {{std::move(name), fallback, std::move(meaning), [range](const spec_value& value) -> std::string {
             double given = 0;
             if (const auto* number = std::get_if<double>(&value))
               given = *number;
             else if (const auto* whole = std::get_if<std::int64_t>(&value))
               given = static_cast<double>(*whole);
             else
               return "must be a number";
             if (range.contains(given))
               return {};
             std::string wanted = fmt::format("must be {} {}", range.open_least ? "above" : "at least", range.least);
             if (!std::isinf(range.most))
               wanted += fmt::format(" and {} {}", range.open_most ? "below" : "at most", range.most);
             return wanted;
           }}};
}

parameter<bool> bool_parameter(std::string name, bool fallback, std::string meaning) {
  return {{std::move(name), fallback, std::move(meaning), [](const spec_value& value) -> std::string {
             return std::holds_alternative<bool>(value) ? "" : "must be true or false";
           }}};
}

parameter<std::string> choice_parameter(std::string name, std::string fallback, std::vector<std::string> choices,
                                        std::string meaning) {
  return {{std::move(name), std::move(fallback), std::move(meaning),
           [choices = std::move(choices)](const spec_value& value) -> std::string {
             const auto* given = std::get_if<std::string>(&value);
             return given ? not_one_of(*given, choices) : "must be a text";
           }}};
}

parameter<std::vector<std::string>> choices_parameter(std::string name, std::vector<std::string> fallback,
                                                      std::vector<std::string> choices, std::string meaning) {
  return {{std::move(name), std::move(fallback), std::move(meaning),
           [choices = std::move(choices)](const spec_value& value) -> std::string {
             const auto* given = std::get_if<std::vector<std::string>>(&value);
             if (!given || given->empty())
               return "must be a list of texts";
             for (const std::string& each : *given)
               if (std::string wrong = not_one_of(each, choices); !wrong.empty())
                 return wrong;
             return {};
           }}};
}

} // namespace troupe::protocols
