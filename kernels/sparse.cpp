// SPDX-License-Identifier: BSD-3-Clause
// Choosing the largest, and Rice codes.
#include "kernels/sparse.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <optional>

#include "kernels/assert.hpp"
#include "kernels/half.hpp"

namespace troupe::kernels {

namespace {

std::uint32_t magnitude_bits(float x) {
  return std::bit_cast<std::uint32_t>(x) & 0x7fffffffU;
}

/// The places of those of at least this magnitude.
std::span<const std::uint32_t> gather(std::span<const float> values, std::uint32_t from, std::span<std::uint32_t> to) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    to[count] = static_cast<std::uint32_t>(i);
    count += magnitude_bits(values[i]) >= from ? 1U : 0U;
  }
  return to.first(count);
}

template <class Each> ///< each(gap before a place)
void for_gaps(std::span<const std::uint32_t> places, Each each) {
  std::uint32_t next = 0;
  for (const std::uint32_t place : places) {
    each(place - next);
    next = place + 1;
  }
}

/// Into bytes that are zero.
class bit_writer {
public:
  explicit bit_writer(std::span<std::byte> to) : to_(to) {}
  void zeros(std::size_t count) { at_ += count; }
  void ones(std::size_t count) {
    for (; count > 0; --count)
      put(1, 1);
  }
  void put(std::uint32_t value, unsigned bits) {
    for (unsigned i = 0; i < bits; ++i, ++at_)
      to_[at_ / 8] |= static_cast<std::byte>((value >> i & 1U) << at_ % 8);
  }

private:
  std::span<std::byte> to_;
  std::size_t at_ = 0;
};

class bit_reader {
public:
  explicit bit_reader(std::span<const std::byte> from) : from_(from) {}
  std::size_t position() const { return at_; }
  bool ended() const { return at_ >= 8 * from_.size(); }
  /// False beyond the end.
  unsigned next() {
    const unsigned out = ended() ? 0 : static_cast<unsigned>(from_[at_ / 8]) >> at_ % 8 & 1U;
    ++at_;
    return out;
  }

private:
  std::span<const std::byte> from_;
  std::size_t at_ = 0;
};

template <class T>
T read_number(const std::byte* from) {
  T out;
  std::memcpy(&out, from, sizeof(T));
  return out;
}

/// What bytes say of themselves.
struct sparse_head {
  std::uint32_t count = 0, rice = 0;
  std::span<const std::byte> values, gaps;
};
/// Nothing if they are too few.
std::optional<sparse_head> head_of(form as, std::span<const std::byte> bytes) {
  if (bytes.empty())
    return sparse_head{};
  if (bytes.size() < sparse_head_bytes)
    return std::nullopt;
  sparse_head out{read_number<std::uint32_t>(bytes.data()), read_number<std::uint32_t>(bytes.data() + 4), {}, {}};
  const std::size_t values = out.count == 0 ? 0 : sparse_value_bytes(as, out.count);
  if (values > bytes.size() - sparse_head_bytes)
    return std::nullopt;
  out.values = bytes.subspan(sparse_head_bytes, values);
  out.gaps = bytes.subspan(sparse_head_bytes + values);
  return out;
}

/// each(place) while that is below `limit`; false if one is not.
template <class Each>
bool for_places(const sparse_head& head, std::uint64_t limit, bit_reader& bits, Each each) {
  std::uint64_t next = 0;
  for (std::uint32_t i = 0; i < head.count; ++i) {
    std::uint64_t gap = 0;
    while (bits.next() != 0)
      ++gap;
    gap <<= head.rice;
    for (unsigned bit = 0; bit < head.rice; ++bit)
      gap |= std::uint64_t{bits.next()} << bit;
    next += gap;
    if (next >= limit)
      return false;
    each(i, static_cast<std::size_t>(next));
    ++next;
  }
  return true;
}

float element(form as, const sparse_head& head, std::uint32_t i) {
  const std::byte* at = head.values.data();
  switch (as) {
  case form::sparse_bf16:
    return from_bfloat(read_number<std::uint16_t>(at + 2 * std::size_t{i}));
  case form::sparse_sign: {
    const bool below = (static_cast<unsigned>(at[sizeof(float) + i / 8]) >> i % 8 & 1U) != 0;
    return below ? -read_number<float>(at) : read_number<float>(at);
  }
  default:
    return read_number<float>(at + sizeof(float) * std::size_t{i});
  }
}

template <class Each> ///< each(place, value), of sound bytes
void for_elements(form as, std::span<const std::byte> bytes, std::size_t limit, Each each) {
  const auto head = head_of(as, bytes);
  TROUPE_ASSERT(head);
  bit_reader bits(head->gaps);
  const bool within =
      for_places(*head, limit, bits, [&](std::uint32_t i, std::size_t place) { each(place, element(as, *head, i)); });
  TROUPE_ASSERT(within);
}

template <class Wanted>
sparse_places places_where(std::size_t count, Wanted wanted) {
  sparse_places out;
  for (std::size_t i = 0; i < count; ++i)
    if (wanted(i))
      out.push_back(static_cast<std::uint32_t>(i));
  return out;
}

} // namespace

sparse_places choose_largest(const coded_range& where, std::span<const float> values, double density) {
  TROUPE_ASSERT(density > 0 && density <= 1);
  return choose_largest(where, values, [density](std::int64_t) { return density; });
}

sparse_places choose_largest(const coded_range& where, std::span<const float> values,
                             const std::function<double(std::int64_t block)>& density_of) {
  TROUPE_ASSERT(values.size() == static_cast<std::size_t>(where.count));
  constexpr std::int64_t length = block_of(form::sparse_bf16);
  sparse_places out;
  std::array<std::uint32_t, length> large; // places in a block, of magnitudes among which the largest are
  std::vector<std::uint32_t> sizes;
  std::uint32_t guess = 0; // of a magnitude that so many reach: what nearly was enough in the block before
  for (std::int64_t first = 0; first < where.count;) {
    const std::int64_t number = (where.begin + first) / length;
    const double density = density_of(number);
    TROUPE_ASSERT(density >= 0 && density <= 1);
    const std::int64_t last = std::min((number + 1) * length - where.begin, where.count);
    const auto block = values.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(last - first));
    const auto count = static_cast<std::size_t>(std::max(std::llround(density * static_cast<double>(block.size())), 1LL));
    auto found = gather(block, guess, large);
    if (found.size() < count)
      found = gather(block, 0, large);
    sizes.clear();
    for (const std::uint32_t place : found)
      sizes.push_back(magnitude_bits(block[place]));
    std::ranges::nth_element(sizes, sizes.begin() + static_cast<std::ptrdiff_t>(count) - 1, std::greater{});
    const std::uint32_t least = std::max(sizes[count - 1], 1U);
    auto equal = static_cast<std::size_t>(std::count(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(count), least));
    for (const std::uint32_t place : found) {
      const std::uint32_t bits = magnitude_bits(block[place]);
      if (bits < least || (bits == least && equal == 0))
        continue;
      equal -= bits == least ? 1U : 0U;
      out.push_back(static_cast<std::uint32_t>(first) + place);
    }
    constexpr std::uint32_t less = 1U << 23U; // half of it
    guess = least > less ? least - less : 0;
    first = last;
  }
  return out;
}

sparse_places choose_from(std::span<const float> values, float magnitude) {
  return places_where(values.size(), [&](std::size_t i) { return std::fabs(values[i]) >= magnitude; });
}

sparse_places choose_changed(std::span<const float> now, std::span<const float> before) {
  return places_where(
      now.size(), [&](std::size_t i) { return std::bit_cast<std::uint32_t>(now[i]) != std::bit_cast<std::uint32_t>(before[i]); });
}

sparse_places choose_nonzero(std::span<const float> values) {
  return places_where(values.size(), [&](std::size_t i) { return std::bit_cast<std::uint32_t>(values[i]) != 0; });
}

std::size_t sparse_bytes(form as, const coded_range& where, std::span<const std::uint32_t> places) {
  if (where.count == 0)
    return 0;
  const unsigned rice = rice_parameter(static_cast<double>(where.count), static_cast<double>(places.size()));
  std::size_t bits = 0;
  for_gaps(places, [&](std::uint32_t gap) { bits += (gap >> rice) + 1 + rice; });
  return (sparse_head_bytes + (places.empty() ? 0 : sparse_value_bytes(as, places.size())) + (bits + 7) / 8 + 7) / 8 * 8;
}

void encode_sparse(form as, const coded_range& where, std::span<const std::uint32_t> places, std::span<const float> values,
                   std::span<std::byte> out) {
  TROUPE_ASSERT(is_sparse(as) && values.size() == static_cast<std::size_t>(where.count)
                && out.size() == sparse_bytes(as, where, places));
  std::ranges::fill(out, std::byte{0});
  if (where.count == 0)
    return;
  const unsigned rice = rice_parameter(static_cast<double>(where.count), static_cast<double>(places.size()));
  const std::uint32_t head[2] = {static_cast<std::uint32_t>(places.size()), rice};
  std::memcpy(out.data(), head, sizeof head);
  if (places.empty())
    return;
  std::byte* to = out.data() + sparse_head_bytes;
  if (as == form::sparse_sign) {
    const float size = std::fabs(values[places.front()]);
    std::memcpy(to, &size, sizeof size);
  }
  for (std::size_t i = 0; i < places.size(); ++i) {
    const float x = values[places[i]];
    if (as == form::sparse_bf16) {
      const std::uint16_t half = to_bfloat(x);
      std::memcpy(to + 2 * i, &half, sizeof half);
    } else if (as == form::sparse_sign) {
      to[sizeof(float) + i / 8] |= static_cast<std::byte>((x < 0 ? 1U : 0U) << i % 8);
    } else {
      std::memcpy(to + sizeof x * i, &x, sizeof x);
    }
  }
  bit_writer gaps(out.subspan(sparse_head_bytes + sparse_value_bytes(as, places.size())));
  for_gaps(places, [&](std::uint32_t gap) {
    gaps.ones(gap >> rice);
    gaps.zeros(1);
    gaps.put(gap, rice);
  });
}

bool is_sound_sparse(form as, const coded_range& where, std::span<const std::byte> bytes) {
  const auto head = head_of(as, bytes);
  if (!head || head->count > static_cast<std::uint64_t>(where.count) || head->rice > 30 || bytes.empty() != (where.count == 0))
    return false;
  if (as == form::sparse_sign && head->count > 0 && !std::isfinite(read_number<float>(head->values.data())))
    return false;
  bit_reader bits(head->gaps);
  if (!for_places(*head, static_cast<std::uint64_t>(where.count), bits, [](std::uint32_t, std::size_t) {}))
    return false;
  const std::size_t used = sparse_head_bytes + head->values.size() + (bits.position() + 7) / 8;
  if (!bytes.empty() && bytes.size() != (used + 7) / 8 * 8)
    return false;
  while (!bits.ended())
    if (bits.next() != 0)
      return false;
  return true;
}

void add_sparse(form as, std::span<const std::byte> bytes, float weight, std::span<float> sum) {
  for_elements(as, bytes, sum.size(), [&](std::size_t place, float value) { sum[place] += weight * value; });
}

void overwrite_sparse(form as, std::span<const std::byte> bytes, std::span<float> out) {
  for_elements(as, bytes, out.size(), [&](std::size_t place, float value) { out[place] = value; });
}

} // namespace troupe::kernels
