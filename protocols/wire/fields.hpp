// SPDX-License-Identifier: BSD-3-Clause
// Any struct beside a Cap'n Proto struct whose fields are in the same order: no list of fields can miss one. Included by this
// folder's sources only.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <boost/pfr/core.hpp>
#include <capnp/dynamic.h>
#include <capnp/message.h>
#include <capnp/serialize.h>
#include <fmt/format.h>
#include <kj/exception.h>

#include "protocols/ids.hpp"
#include "protocols/wire/codec.hpp"

namespace troupe::protocols::wire::fields {

template <class T>
inline constexpr bool is_id = false;
template <class Tag, class Rep>
inline constexpr bool is_id<strong_id<Tag, Rep>> = true;
template <class T>
inline constexpr bool is_variant = false;
template <class... Types>
inline constexpr bool is_variant<std::variant<Types...>> = true;
template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;
template <class T>
inline constexpr bool is_entry = false;
template <class Key, class Value>
inline constexpr bool is_entry<std::pair<Key, Value>> = true;

template <class T>
concept scalar = std::is_arithmetic_v<T> || std::is_enum_v<T> || is_id<T> || std::same_as<T, std::string>;
template <class T>
concept list = !scalar<T> && requires(const T& many) {
  many.size(), many.begin();
};

/// A field to be set, or an element of a list.
struct field_slot {
  capnp::DynamicStruct::Builder of;
  capnp::StructSchema::Field at;
  void set(const capnp::DynamicValue::Reader& value) { of.set(at, value); }
  auto make_list(unsigned size) { return of.init(at, size).as<capnp::DynamicList>(); }
  auto make_struct() { return of.init(at).as<capnp::DynamicStruct>(); }
};
struct element_slot {
  capnp::DynamicList::Builder of;
  unsigned at;
  void set(const capnp::DynamicValue::Reader& value) { of.set(at, value); }
  auto make_list(unsigned size) { return of.init(at, size).as<capnp::DynamicList>(); }
  auto make_struct() { return of[at].as<capnp::DynamicStruct>(); }
};

/// The fields of a struct, or of a map's entry, as references.
template <class T>
auto fields_of(T& x) {
  if constexpr (is_entry<std::remove_const_t<T>>)
    return std::tie(x.first, x.second);
  else
    return boost::pfr::structure_tie(x);
}

// -- writing

template <class T>
void write_fields(capnp::DynamicStruct::Builder to, const T& x);

template <class T>
void write(auto to, const T& x) {
  if constexpr (is_id<T>) {
    to.set(x.value);
  } else if constexpr (std::is_enum_v<T>) {
    to.set(static_cast<unsigned>(x));
  } else if constexpr (std::same_as<T, std::string>) {
    to.set(capnp::Text::Reader(x.data(), x.size()));
  } else if constexpr (scalar<T>) {
    to.set(x);
  } else if constexpr (is_optional<T>) {
    auto out = to.make_list(x ? 1 : 0);
    if (x)
      write(element_slot{out, 0}, *x);
  } else if constexpr (list<T>) {
    auto out = to.make_list(static_cast<unsigned>(x.size()));
    unsigned i = 0;
    for (const auto& each : x)
      write(element_slot{out, i++}, each);
  } else {
    write_fields(to.make_struct(), x);
  }
}

template <class T>
void write_fields(capnp::DynamicStruct::Builder to, const T& x) {
  const auto fields = to.getSchema().getFields();
  if constexpr (is_variant<T>) {
    KJ_REQUIRE(fields.size() == std::variant_size_v<T>, "the schema and the variant differ");
    std::visit([&](const auto& alternative) { write(field_slot{to, fields[static_cast<unsigned>(x.index())]}, alternative); }, x);
  } else {
    unsigned i = 0;
    std::apply(
        [&](const auto&... each) {
          KJ_REQUIRE(fields.size() == sizeof...(each), "the schema and the struct differ");
          (write(field_slot{to, fields[i++]}, each), ...);
        },
        fields_of(x));
  }
}

// -- reading

template <class T>
void read_fields(capnp::DynamicStruct::Reader from, T& x);

template <class T>
void read(const capnp::DynamicValue::Reader& from, T& x) {
  if constexpr (is_id<T>) {
    x.value = from.as<typename T::rep>();
  } else if constexpr (std::is_enum_v<T>) {
    x = static_cast<T>(from.as<std::underlying_type_t<T>>());
  } else if constexpr (std::same_as<T, std::string>) {
    const auto text = from.as<capnp::Text>();
    x.assign(text.begin(), text.size());
  } else if constexpr (scalar<T>) {
    x = from.as<T>();
  } else if constexpr (is_optional<T>) {
    for (const auto& each : from.as<capnp::DynamicList>())
      read(each, x.emplace());
  } else if constexpr (list<T>) {
    for (const auto& each : from.as<capnp::DynamicList>()) {
      if constexpr (requires { typename T::mapped_type; }) {
        std::pair<typename T::key_type, typename T::mapped_type> entry;
        read(each, entry);
        x.insert(std::move(entry));
      } else {
        typename T::value_type element{};
        read(each, element);
        x.insert(x.end(), std::move(element));
      }
    }
  } else {
    read_fields(from.as<capnp::DynamicStruct>(), x);
  }
}

template <class... Types>
void read_alternative(const capnp::DynamicValue::Reader& from, unsigned index, std::variant<Types...>& x) {
  unsigned i = 0;
  const auto take = [&]<class Type>(std::type_identity<Type>) {
    if (i++ == index)
      read(from, x.template emplace<Type>());
  };
  (take(std::type_identity<Types>{}), ...);
}

template <class T>
void read_fields(capnp::DynamicStruct::Reader from, T& x) {
  const auto fields = from.getSchema().getFields();
  if constexpr (is_variant<T>) {
    KJ_IF_MAYBE (member, from.which())
      read_alternative(from.get(*member), member->getIndex(), x);
    else
      KJ_FAIL_REQUIRE("a member of a union that is not known");
  } else {
    unsigned i = 0;
    std::apply([&](auto&... each) { (read(from.get(fields[i++]), each), ...); }, fields_of(x));
  }
}

// -- as a message

/// One message whose root is of `Schema`.
template <class Schema, class T>
std::vector<std::uint64_t> encode(const T& x) {
  capnp::MallocMessageBuilder message;
  write_fields(message.initRoot<capnp::DynamicStruct>(capnp::Schema::from<Schema>()), x);
  const auto words = capnp::messageToFlatArray(message);
  const auto* const first = reinterpret_cast<const std::uint64_t*>(words.begin());
  return {first, first + words.size()};
}

/// Fails where the bytes are cut short or damaged, or where a number does not fit: "`what` cannot be read: ...". Allocates no
/// more than a few times the bytes given, and does not throw, except bad_alloc.
template <class Schema, class T>
result<T> decode(std::span<const std::uint64_t> words, std::string_view name) {
  T out;
  const auto wrong = kj::runCatchingExceptions([&] {
    capnp::FlatArrayMessageReader message({reinterpret_cast<const capnp::word*>(words.data()), words.size()},
                                          {.traversalLimitInWords = 4 * words.size() + 64, .nestingLimit = 16});
    read_fields(message.getRoot<capnp::DynamicStruct>(capnp::Schema::from<Schema>()), out);
  });
  KJ_IF_MAYBE (problem, wrong)
    return error{errc::bad_frame, fmt::format("{} cannot be read: {}", name, problem->getDescription().cStr())};
  return out;
}

} // namespace troupe::protocols::wire::fields
