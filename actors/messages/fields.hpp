// SPDX-License-Identifier: BSD-3-Clause
// How CAF inspects a message: field by field, in the order in which its struct declares them, so that no list of fields can miss
// one.
#pragma once

#include <cstdint>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include <boost/pfr/core.hpp>
#include <caf/allowed_unsafe_message_type.hpp>
#include <caf/type_id.hpp>

/// Gives a type id to a message that never leaves its process and needs no inspection: `(type)`.
#define TROUPE_LOCAL_MESSAGE(block, type) CAF_ADD_TYPE_ID(block, type) CAF_ALLOW_UNSAFE_MESSAGE_TYPE(CAF_PP_EXPAND type)

namespace troupe {

/// A part of a message that does not cross hosts: it arrives empty.
template <class T>
class stays_here : public T {
public:
  stays_here() = default;
  stays_here(T from) : T(std::move(from)) {} // NOLINT(google-explicit-constructor): it is a T
};
template <class Inspector, class T>
bool inspect(Inspector&, stays_here<T>&) {
  return true;
}

template <class T>
concept plain_struct = std::is_class_v<T> && std::is_aggregate_v<T>;

/// A struct without constructors or bases, each of whose fields can be inspected.
template <class Inspector, plain_struct T>
bool inspect(Inspector& f, T& x) {
  return std::apply([&](auto&... fields) { return f.object(x).fields(f.field("", fields)...); }, boost::pfr::structure_tie(x));
}

/// Whether an enumerator has this value. GCC and Clang spell a value without one as a cast: "(placement)7".
template <auto value>
consteval bool is_enumerator() {
  const std::string_view spelled = __PRETTY_FUNCTION__;
  return spelled[spelled.find("value = ") + 8] != '(';
}
/// How many enumerators there are; they count from 0.
template <class Enum, std::uint8_t first = 0>
consteval std::uint8_t enumerators() {
  if constexpr (is_enumerator<static_cast<Enum>(first)>())
    return enumerators<Enum, first + 1>();
  else
    return first;
}

/// An enumeration as its number; a number without enumerator is refused.
template <class Inspector, class Enum>
requires std::is_enum_v<Enum>
bool inspect(Inspector& f, Enum& x) {
  auto get = [&x] { return static_cast<std::uint8_t>(x); };
  auto set = [&x](std::uint8_t value) {
    x = static_cast<Enum>(value);
    return value < enumerators<Enum>();
  };
  return f.apply(get, set);
}

// Found by argument-dependent lookup.
namespace protocols {
using troupe::inspect;
}
namespace actors {
using troupe::inspect;
}

} // namespace troupe
