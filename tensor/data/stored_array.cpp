// SPDX-License-Identifier: BSD-3-Clause
// Elements of any type to floats and ids.
#include "tensor/data/stored_array.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <numeric>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

namespace troupe {

namespace {

struct type_facts {
  array_type type;
  const char* name;
  std::size_t bytes;
};
constexpr std::array all_types{
    type_facts{array_type::U8, "U8", 1},   type_facts{array_type::I8, "I8", 1},   type_facts{array_type::U16, "U16", 2},
    type_facts{array_type::I16, "I16", 2}, type_facts{array_type::U32, "U32", 4}, type_facts{array_type::I32, "I32", 4},
    type_facts{array_type::I64, "I64", 8}, type_facts{array_type::F32, "F32", 4}, type_facts{array_type::F64, "F64", 8}};

const type_facts& facts_of(array_type type) {
  return all_types[static_cast<std::size_t>(type)];
}

/// Calls `f` with a value of the type.
template <class F>
auto with_type(array_type type, F f) {
  switch (type) {
  case array_type::U8:
    return f(std::uint8_t{});
  case array_type::I8:
    return f(std::int8_t{});
  case array_type::U16:
    return f(std::uint16_t{});
  case array_type::I16:
    return f(std::int16_t{});
  case array_type::U32:
    return f(std::uint32_t{});
  case array_type::I32:
    return f(std::int32_t{});
  case array_type::I64:
    return f(std::int64_t{});
  case array_type::F32:
    return f(float{});
  case array_type::F64:
    break;
  }
  return f(double{});
}

template <class To>
result<void> read_elements(const stored_array& from, std::int64_t first, std::span<To> into) {
  return with_type(from.type, [&]<class From>(From) -> result<void> {
    const auto place = from.begin + static_cast<std::uint64_t>(first) * sizeof(From);
    if constexpr (std::is_same_v<From, To>) {
      return from.file->read(place, std::as_writable_bytes(into));
    } else {
      std::vector<From> raw(into.size());
      if (auto read = from.file->read(place, std::as_writable_bytes(std::span{raw})); !read)
        return read;
      for (std::size_t i = 0; i < raw.size(); ++i) {
        if constexpr (std::is_same_v<To, std::int32_t>)
          if (std::is_floating_point_v<From> || static_cast<double>(raw[i]) < std::numeric_limits<std::int32_t>::min()
              || static_cast<double>(raw[i]) > std::numeric_limits<std::int32_t>::max())
            return from.fail(fmt::format("element {} is {}, and must be a whole number of 32 bits",
                                         first + static_cast<std::int64_t>(i), raw[i]));
        into[i] = static_cast<To>(raw[i]);
      }
      return {};
    }
  });
}

} // namespace

std::size_t bytes_of(array_type type) {
  return facts_of(type).bytes;
}

const char* name_of(array_type type) {
  return facts_of(type).name;
}

std::optional<array_type> array_type_named(std::string_view name) {
  const auto found = std::ranges::find(all_types, name, [](const type_facts& each) { return std::string_view(each.name); });
  return found == all_types.end() ? std::nullopt : std::optional{found->type};
}

std::int64_t stored_array::row_elements() const {
  return std::accumulate(extents.begin() + (extents.empty() ? 0 : 1), extents.end(), std::int64_t{1}, std::multiplies<>{});
}

result<void> stored_array::read(std::int64_t first, std::span<float> into) const {
  return read_elements(*this, first, into);
}

result<void> stored_array::read(std::int64_t first, std::span<std::int32_t> into) const {
  return read_elements(*this, first, into);
}

} // namespace troupe
