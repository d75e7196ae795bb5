// SPDX-License-Identifier: BSD-3-Clause
// How a message crosses hosts, in letters: what its fields are, and in which order.
#pragma once

#include <array>
#include <cstddef>
#include <set>
#include <string>
#include <type_traits>
#include <typeindex>
#include <utility>

#include <boost/pfr/core.hpp>
#include <boost/pfr/tuple_size.hpp>
#include <fmt/format.h>

#include "actors/messages/fields.hpp"

namespace troupe {

/// Spells types, alike under every compiler: "{u8s<i4>}" is a struct of a 64-bit number, a text and several numbers.
class spelling {
public:
  const std::string& text() const { return text_; }

  template <class T>
  void add() {
    if constexpr (std::is_arithmetic_v<T>)
      text_ += fmt::format("{}{}", std::is_floating_point_v<T> ? 'f' : std::is_signed_v<T> ? 'i' : 'u', sizeof(T));
    else if constexpr (std::is_same_v<T, std::string>)
      text_ += 's';
    else if constexpr (std::is_enum_v<T>)
      text_ += fmt::format("e{}", enumerators<T>());
    else if constexpr (std::is_empty_v<T>)
      text_ += "{}";
    else if (const auto [at, first] = open_.insert(typeid(T)); first) { // one that holds others of itself is spelled once
      add_parts(std::type_identity<T>());
      open_.erase(at);
    }
  }
  void add(std::string_view text) { text_ += text; }

private:
  template <class T>
  void add_parts(std::type_identity<T> /*of*/) {
    text_ += '?'; // it inspects itself: its name must do
  }
  template <plain_struct T>
  void add_parts(std::type_identity<T> /*of*/) {
    add_fields<T>(std::make_index_sequence<boost::pfr::tuple_size_v<T>>());
  }
  template <class T, std::size_t size>
  void add_parts(std::type_identity<std::array<T, size>> /*of*/) {
    text_ += fmt::format("[{}", size);
    add<T>();
    text_ += ']';
  }
  template <template <class...> class Of, class... Parts>
  requires(!plain_struct<Of<Parts...>>) void add_parts(std::type_identity<Of<Parts...>> /*of*/) {
    text_ += '<';
    (add_part<Parts>(), ...);
    text_ += '>';
  }
  template <class T>
  void add_part() {
    if constexpr (std::is_object_v<T>) // not the signature of an actor's message
      add<std::remove_cv_t<T>>();
  }

  template <class T, std::size_t... Is>
  void add_fields(std::index_sequence<Is...> /*of T*/) {
    text_ += '{';
    (add<boost::pfr::tuple_element_t<Is, T>>(), ...);
    text_ += '}';
  }

  std::string text_;
  std::set<std::type_index> open_;
};

} // namespace troupe
