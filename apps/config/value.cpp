// SPDX-License-Identifier: BSD-3-Clause
// The value of one key as text and as JSON.
#include "apps/config/value.hpp"

#include <type_traits>

#include <boost/json.hpp>
#include <fmt/format.h>

namespace troupe::config {

namespace {

std::string quoted(const std::string& text) {
  return boost::json::serialize(boost::json::string(text)); // TOML's basic strings escape as JSON's do
}

struct as_text {
  std::string operator()(std::monostate) const { return "none"; }
  std::string operator()(bool b) const { return b ? "true" : "false"; }
  std::string operator()(std::int64_t i) const { return fmt::format("{}", i); }
  std::string operator()(double d) const { return fmt::format("{}", d); }
  std::string operator()(const std::string& s) const { return quoted(s); }
  template <class T>
  std::string operator()(const std::vector<T>& list) const {
    std::string text = "[";
    for (const T& item : list)
      text += (text.size() > 1 ? ", " : "") + (*this)(item);
    return text + "]";
  }
};

} // namespace

std::string to_text(const value& v) {
  return std::visit(as_text{}, v);
}

boost::json::value to_json(const value& v) {
  return std::visit(
      [](const auto& held) -> boost::json::value {
        if constexpr (std::is_same_v<std::decay_t<decltype(held)>, std::monostate>)
          return nullptr;
        else
          return boost::json::value_from(held);
      },
      v);
}

} // namespace troupe::config
