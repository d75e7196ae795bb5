// SPDX-License-Identifier: BSD-3-Clause
// Encoding terms and sums.
#include "actors/roles/codec/chunk_encoder.hpp"

#include "kernels/codec.hpp"

namespace troupe::actors {

namespace {

constexpr const char* sums_prefix = "sums.";

/// Apart from the streams of terms.
constexpr std::uint32_t stream_of_sums = 1U << 30U;

} // namespace

using protocols::collective::cargo;

chunk_encoder::chunk_encoder(const job& job, protocols::member self, std::int64_t floats,
                             const push_encoder::allocate_fn& allocate, factored_slots factored)
    : factored_(std::move(factored)), terms_(job, self.worker, floats, allocate, factored_),
      sums_(job, {self.worker.value | stream_of_sums}, floats, allocate) {
  round_.id = {self.worker, self.incarnation, {}};
}

kernels::buffer chunk_encoder::encode(const protocols::peer_message& chunk, cargo cargo_kind, flat_range where,
                                      std::span<const float> values, const copied_factors& factors) {
  if (!is_newest(chunk)) {
    ++round_.id.clock.value;
    round_.epoch = chunk.epoch;
    round_.base = {chunk.round - 1};
  }
  return cargo_kind == cargo::sum ? sums_.encode(round_, where, values) : terms_.encode(round_, where, values, factors);
}

bool chunk_encoder::has(const protocols::peer_message& chunk, cargo cargo_kind, flat_range where) const {
  return is_newest(chunk) && (cargo_kind == cargo::sum ? sums_ : terms_).has(round_, where);
}

bool chunk_encoder::is_newest(const protocols::peer_message& chunk) const {
  return round_.id.clock.value != 0 && round_.epoch == chunk.epoch && round_.base.value == chunk.round - 1;
}

void chunk_encoder::decode(kernels::form form, flat_range where, const kernels::buffer& codes, std::span<float> values) {
  kernels::decode(form, {where.begin, where.size()}, codes.span<const std::byte>(), values);
}

void chunk_encoder::made(protocols::version ver) {
  if (round_.id.clock.value == 0 || next(round_.base) != ver)
    return;
  terms_.settle(round_);
  sums_.settle(round_);
}

named_buffers chunk_encoder::kept() const {
  auto out = terms_.kept();
  for (auto& [name, block] : sums_.kept())
    out.emplace_back(sums_prefix + name, std::move(block));
  return out;
}

void chunk_encoder::resume(const saved_state& from) {
  terms_.resume(from);
  saved_state of_sums;
  for (const auto& [name, block] : from.blocks)
    if (name.starts_with(sums_prefix))
      of_sums.blocks.emplace_back(name.substr(std::string_view{sums_prefix}.size()), block);
  sums_.resume(of_sums);
}

} // namespace troupe::actors
