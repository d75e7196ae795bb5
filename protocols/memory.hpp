// SPDX-License-Identifier: BSD-3-Clause
// What a policy or a controller remembers, as numbers, so that it can be carried without its type.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "protocols/message.hpp"

namespace troupe::protocols {

/// Puts numbers behind each other. Integers must be below 2^53, which nanoseconds of 100 days are.
class memory_writer {
public:
  template <class... Numbers>
  memory_writer& put(Numbers... numbers) {
    (out_.push_back(static_cast<double>(numbers)), ...);
    return *this;
  }
  memory_writer& put(worker_id who) { return put(who.value); }
  memory_writer& put(member who) { return put(who.worker.value, who.incarnation.value); }
  std::vector<double> take() && { return std::move(out_); }

private:
  std::vector<double> out_;
};

/// Takes them out in the same order. Behind the end there are zeros, so what is cut short is read as if it had ended there.
class memory_reader {
public:
  explicit memory_reader(std::span<const double> from) : left_(from) {}
  bool done() const { return left_.empty(); }
  /// 0 for what is not finite.
  double real() {
    const double out = left_.empty() ? 0 : left_.front();
    left_ = left_.subspan(left_.empty() ? 0 : 1);
    return std::isfinite(out) ? out : 0;
  }
  /// 0 for what is no such integer.
  template <std::integral Integer>
  Integer integer() {
    const double out = real();
    constexpr double most = 0x1p53;
    const auto whole = out > -most && out < most ? static_cast<std::int64_t>(out) : 0;
    return std::in_range<Integer>(whole) ? static_cast<Integer>(whole) : Integer{};
  }
  worker_id worker() { return {integer<std::uint32_t>()}; }
  protocols::member member() {
    const worker_id who = worker();
    return {who, {integer<std::uint32_t>()}};
  }
  /// How many entries follow: never more than there are numbers.
  std::size_t count() {
    const auto said = integer<std::size_t>();
    return std::min(said, left_.size());
  }

private:
  std::span<const double> left_;
};

} // namespace troupe::protocols
