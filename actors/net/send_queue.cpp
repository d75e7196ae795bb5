// SPDX-License-Identifier: BSD-3-Clause
// Priority order between whole frames, and their numbers.
#include "actors/net/send_queue.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "kernels/assert.hpp"

namespace troupe::actors::net {

void send_queue::push(int priority, outgoing frame) {
  bytes_ += frame.bytes();
  waiting_[priority].push_back(std::move(frame));
}

std::span<const std::span<const std::byte>> send_queue::gather() {
  if (batch_.empty()) {
    for (std::size_t bytes = 0; bytes < batch_bytes && batch_.size() < batch_frames;) {
      if (again_.empty() && waiting_.empty())
        break;
      auto& from = again_.empty() ? waiting_.begin()->second : again_;
      bytes += from.front().bytes();
      batch_.push_back(std::move(from.front()));
      from.pop_front();
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
}

} // namespace troupe::actors::net
