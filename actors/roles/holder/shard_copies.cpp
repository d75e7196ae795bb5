// SPDX-License-Identifier: BSD-3-Clause
// Packing, sending and installing what goes from a shard to its backups.
#include "actors/roles/holder/shard_copies.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include <caf/send.hpp>
#include <fmt/format.h>

#include "protocols/wire/state.hpp"

namespace troupe::actors {

namespace {

std::size_t floats_in_bytes(std::int64_t floats) {
  return static_cast<std::size_t>(floats) * sizeof(float);
}

std::size_t padded_bytes(std::uint64_t words) {
  return (words + 7) / 8 * 64;
}

packed_state packed(const std::vector<std::uint64_t>& words, kernels::backend& queue, std::size_t tensor_bytes = 0) {
  packed_state out{queue.allocate_host(padded_bytes(words.size()) + tensor_bytes), words.size()};
  const auto bytes = std::as_bytes(std::span{words});
  std::ranges::copy(bytes, out.payload.data());
  std::fill(out.payload.data() + bytes.size(), out.payload.data() + padded_bytes(words.size()), std::byte{0});
  return out;
}

template <class State>
wire::result<State> state_in(const kernels::buffer& payload, std::uint64_t words) {
  const std::span all{reinterpret_cast<const std::uint64_t*>(payload.data()), payload.bytes() / sizeof(std::uint64_t)};
  return wire::decode_state<State>(all.first(std::min<std::size_t>(words, all.size())));
}

} // namespace

packed_state pack(const protocols::decision_record& record, kernels::backend& queue) {
  return packed(wire::encode_state(record), queue);
}

wire::result<protocols::decision_record> record_in(const kernels::buffer& payload, std::uint64_t words) {
  return state_in<protocols::decision_record>(payload, words);
}

wire::result<received_piece> piece_in(const kernels::buffer& payload, std::uint64_t words) {
  auto piece = state_in<protocols::shard_piece>(payload, words);
  if (!piece)
    return piece.error();
  received_piece out{std::move(*piece), {}};
  if (const auto begin = padded_bytes(words); begin < payload.bytes())
    out.data = payload.slice(begin, payload.bytes() - begin);
  return out;
}

void send_sum(holder_core& core, kernels::backend& queue, const holder_actor& to, wire::partial_part head,
              const std::optional<kernels::buffer>& sum, const std::vector<flat_range>& parts, std::int64_t begin) {
  if (!sum)
    return caf::anon_send(to, head, kernels::buffer{});
  for (const auto part : parts) {
    head.where = {part.begin, part.end};
    const auto piece = sum->slice(floats_in_bytes(part.begin - begin), floats_in_bytes(part.size()));
    if (queue.on_host())
      queue.notify([to, head, piece] { caf::anon_send(to, head, piece); });
    else
      core.copy_out(piece, [to, head](const kernels::buffer& on_host) { caf::anon_send(to, head, on_host); });
  }
}

shard_copies::shard_copies(std::shared_ptr<kernels::backend> queue, flat_range range, std::vector<flat_range> partitions,
                           bool catches_up)
    : queue_(std::move(queue)), range_(range), partitions_(std::move(partitions)) {
  if (catches_up)
    here_.emplace();
}

bool shard_copies::end() {
  const bool complete = here_ && here_->size() == partitions_.size();
  here_.reset();
  return complete;
}

std::string shard_copies::progress() const {
  return fmt::format("{} of {} partitions", here_ ? here_->size() : partitions_.size(), partitions_.size());
}

std::vector<flat_range> shard_copies::parts_of_a_step(const std::vector<flat_range>& usual) const {
  if (!here_)
    return queue_->on_host() ? usual : std::vector{range_};
  std::vector<flat_range> out;
  for (const auto piece : *here_)
    out.push_back(partitions_[piece]);
  return out;
}

flat_range shard_copies::part_of(const protocols::shard_piece& piece) const {
  return piece.piece < partitions_.size() ? partitions_[piece.piece] : flat_range{};
}

std::byte* shard_copies::place_in(const kernels::buffer& block, flat_range part) const {
  return block.data() + floats_in_bytes(part.begin - range_.begin);
}

packed_state shard_copies::pack(const protocols::shard_piece& piece, const named_buffers& blocks, in_flight& held) const {
  const auto part = part_of(piece);
  const auto bytes = floats_in_bytes(part.size());
  const auto words = wire::encode_state(piece);
  auto out = packed(words, *queue_, blocks.size() * bytes);
  auto* to = out.payload.data() + padded_bytes(words.size());
  for (const auto& [name, block] : blocks) {
    if (bytes == 0)
      break;
    queue_->copy_to_host(to, place_in(block, part), bytes);
    held.keep(block);
    to += bytes;
  }
  return out;
}

bool shard_copies::install(const protocols::shard_piece& piece, const kernels::buffer& data, const named_buffers& blocks,
                           in_flight& held) {
  const auto part = part_of(piece);
  const auto bytes = floats_in_bytes(part.size());
  if (!here_ || bytes == 0 || data.bytes() != blocks.size() * bytes)
    return false;
  const auto* from = data.data();
  for (const auto& [name, block] : blocks) {
    queue_->copy_from_host(place_in(block, part), from, bytes);
    held.keep(block);
    from += bytes;
  }
  held.keep(data);
  here_->insert(piece.piece);
  return true;
}

} // namespace troupe::actors
