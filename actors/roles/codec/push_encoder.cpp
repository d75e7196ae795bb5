// SPDX-License-Identifier: BSD-3-Clause
// Encoding the parts of a push.
#include "actors/roles/codec/push_encoder.hpp"

#include <algorithm>

#include "kernels/codec.hpp"

namespace troupe::actors {

namespace {

kernels::coded_range coded(flat_range where) {
  return {where.begin, where.size()};
}

/// Apart from the streams of a model's layers.
constexpr std::uint32_t first_stream = 1U << 31U;

} // namespace

push_encoder::push_encoder(const codec_spec& how, protocols::worker_id worker, std::uint64_t seed, std::int64_t floats,
                           allocate_fn allocate)
    : form_(how.form()), feeds_back_(how.error_feedback), worker_(worker), seed_(seed), floats_(floats),
      allocate_(std::move(allocate)) {
  if (feeds_back_) {
    residual_.resize(static_cast<std::size_t>(floats));
    before_.resize(static_cast<std::size_t>(floats));
  }
}

kernels::buffer push_encoder::encode(const protocols::push& push, flat_range where, std::span<const float> values) {
  if (push.id != newest_) {
    if (!settled_)
      take_back();
    newest_ = push.id;
    settled_ = false;
    parts_.clear();
  }
  if (const auto known = parts_.find(where.begin); known != parts_.end() && known->second.where == where)
    return known->second.codes;
  const kernels::coded_range range = coded(where);
  auto codes = allocate_(kernels::encoded_bytes(form_, range));
  const kernels::random_key key{.seed = seed_, .stream = first_stream | worker_.value, .step = push.base.value};
  if (feeds_back_) {
    const auto at = static_cast<std::size_t>(where.begin), count = static_cast<std::size_t>(where.size());
    const auto own = std::span{residual_}.subspan(at, count);
    std::ranges::copy(own, before_.begin() + where.begin);
    kernels::encode_with_feedback(form_, range, key, values, own, codes.span<std::byte>());
  } else {
    kernels::encode(form_, range, key, values, codes.span<std::byte>());
  }
  parts_.insert_or_assign(where.begin, part{where, codes});
  return codes;
}

void push_encoder::settle(const protocols::push& push) {
  if (push.id != newest_)
    return;
  if (!push.finite && !settled_)
    take_back();
  settled_ = true;
}

void push_encoder::take_back() {
  if (feeds_back_)
    for (const auto& [begin, each] : parts_)
      std::copy(before_.begin() + begin, before_.begin() + each.where.end, residual_.begin() + begin);
}

kernels::buffer push_encoder::decoded() const {
  auto out = allocate_(static_cast<std::size_t>(floats_) * sizeof(float));
  for (const auto& [begin, each] : parts_)
    kernels::decode(form_, coded(each.where), each.codes.span<const std::byte>(),
                    out.span<float>().subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(each.where.size())));
  return out;
}

} // namespace troupe::actors
