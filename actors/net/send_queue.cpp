// SPDX-License-Identifier: BSD-3-Clause
// Priority order between whole frames, and their numbers.
#include "actors/net/send_queue.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "kernels/assert.hpp"
#include "protocols/overloaded.hpp"

namespace troupe::actors::net {
namespace {

namespace wire = protocols::wire;

// Of the positions in a tensor; wire::range.
constexpr std::size_t unit_bytes = 16 * sizeof(float);

/// The range of a message that may travel as several, each with a part of it: a receiver joins them by their places. What is
/// encoded is small, and its scales do not lie beside its elements: it is not cut.
wire::range* range_of(wire::message& msg) {
  const auto plain = [](auto& part) { return part.as == kernels::form::fp32 ? &part.where : nullptr; };
  return std::visit(overloaded{[&](wire::push_part& part) { return plain(part); },
                               [&](wire::params_part& part) { return plain(part); },
                               [&](wire::partial_part& part) { return plain(part); },
                               [&](wire::peer_part& part) { return plain(part); }, [](auto&) -> wire::range* { return nullptr; }},
                    msg);
}

outgoing encoded(const wire::decoded& message, const kernels::buffer& payload, std::span<const std::byte> part) {
  auto frame = wire::encode(message.body, part, message.received);
  TROUPE_ASSERT(frame);
  return {*std::move(frame), payload};
}

wire::decoded decoded_head(const outgoing& of) {
  const auto table = wire::parse_table(of.frame.head_bytes(), {});
  TROUPE_ASSERT(table && *table);
  auto head = wire::decode_head(of.frame.head_bytes().subspan((*table)->table_bytes), (*table)->payload_bytes);
  TROUPE_ASSERT(head);
  return *std::move(head);
}

/// The first `bytes` of a partition and the rest; nothing if it cannot be cut.
std::optional<std::pair<outgoing, outgoing>> cut(const outgoing& whole, std::size_t bytes) {
  auto head = decoded_head(whole);
  auto* const message = std::get_if<wire::message>(&head.body);
  wire::range* const where = message != nullptr ? range_of(*message) : nullptr;
  if (where == nullptr)
    return {};
  const wire::range all = *where;
  const auto middle = all.begin + static_cast<std::int64_t>(bytes / sizeof(float));
  where->end = middle;
  auto first = encoded(head, whole.payload, whole.frame.payload.first(bytes));
  *where = {middle, all.end};
  return std::pair{std::move(first), encoded(head, whole.payload, whole.frame.payload.subspan(bytes))};
}

} // namespace

void send_queue::push(int priority, outgoing frame) {
  bytes_ += frame.bytes();
  lent_.waiting += frame.lent_bytes();
  waiting_[priority].push_back(std::move(frame));
}

std::span<const std::span<const std::byte>> send_queue::gather() {
  if (batch_.empty()) {
    for (std::size_t bytes = 0; bytes < batch_bytes_ && batch_.size() < batch_frames;) {
      if (again_.empty() && waiting_.empty())
        break;
      auto& from = again_.empty() ? waiting_.begin()->second : again_;
      if (holds_back(from.front()))
        break;
      batch_.push_back(take(from));
      bytes += batch_.back().bytes();
      if (&from != &again_ && from.empty())
        waiting_.erase(waiting_.begin());
    }
  }
  spans_.clear();
  std::size_t skip = partly_;
  for (const outgoing& each : batch_)
    for (const std::span<const std::byte> part : {each.frame.head_bytes(), each.frame.payload}) {
      const std::size_t gone = std::min(skip, part.size());
      skip -= gone;
      if (gone < part.size())
        spans_.push_back(part.subspan(gone));
    }
  return spans_;
}

bool send_queue::holds_back(const outgoing& next) const {
  return next.lent && lent_.open != 0 && lent_.open + next.lent_bytes() > most_lent;
}

/// The first of those that wait, or a piece of it. What has a number already is not cut.
outgoing send_queue::take(std::deque<outgoing>& from) {
  const auto piece = std::max(piece_bytes_ / unit_bytes, std::size_t{1}) * unit_bytes;
  if (&from != &again_ && from.front().frame.payload.size() > piece)
    if (auto parts = cut(from.front(), piece)) {
      bytes_ += parts->first.bytes() + parts->second.bytes() - from.front().bytes(); // another head
      from.front() = std::move(parts->second);
      return std::move(parts->first);
    }
  auto out = std::move(from.front());
  from.pop_front();
  lent_.waiting -= out.lent_bytes();
  lent_.open += out.lent_bytes();
  lent_.ever += out.lent_bytes();
  return out;
}

std::vector<outgoing> send_queue::consume(std::size_t bytes) {
  TROUPE_ASSERT(bytes <= bytes_);
  bytes_ -= bytes;
  partly_ += bytes;
  std::vector<outgoing> done;
  while (!batch_.empty() && partly_ >= batch_.front().bytes()) {
    auto& first = batch_.front();
    partly_ -= first.bytes();
    if (first.counted && first_ + written_.size() >= acknowledged_) {
      written_.push_back(std::move(first));
    } else {
      if (first.counted)
        ++first_;
      lent_.open -= first.lent_bytes();
      done.push_back(std::move(first));
    }
    batch_.pop_front();
  }
  TROUPE_ASSERT(partly_ == 0 || !batch_.empty());
  return done;
}

std::optional<std::vector<outgoing>> send_queue::acknowledge(std::uint64_t count) {
  std::vector<outgoing> done;
  if (count <= acknowledged_)
    return done;
  const auto in_batch = static_cast<std::uint64_t>(std::ranges::count_if(batch_, &outgoing::counted));
  if (count > first_ + written_.size() + in_batch)
    return {};
  acknowledged_ = count;
  for (; !written_.empty() && first_ < acknowledged_; ++first_) {
    lent_.open -= written_.front().lent_bytes();
    done.push_back(std::move(written_.front()));
    written_.pop_front();
  }
  return done;
}

void send_queue::rewind() {
  bytes_ += std::exchange(partly_, 0);
  auto next = std::exchange(written_, {});
  for (const auto& each : next)
    bytes_ += each.bytes();
  std::ranges::move(std::exchange(batch_, {}), std::back_inserter(next));
  std::ranges::move(std::exchange(again_, {}), std::back_inserter(next));
  for (auto& each : next) {
    if (each.counted && first_ >= acknowledged_) {
      again_.push_back(std::move(each));
      continue;
    }
    if (each.counted)
      ++first_;
    bytes_ -= each.bytes();
  }
  send_what_is_lent(again_);
  for (auto& [priority, frames] : waiting_)
    send_what_is_lent(frames);
  lent_.waiting = lent_.open = 0;
}

void send_queue::send_what_is_lent(std::deque<outgoing>& frames) {
  for (auto& each : frames)
    if (each.lent) {
      const std::size_t before = each.bytes();
      each = encoded(decoded_head(each), each.payload, each.payload.span<const std::byte>());
      bytes_ += each.bytes() - before;
    }
}

} // namespace troupe::actors::net
