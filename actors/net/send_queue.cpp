// SPDX-License-Identifier: BSD-3-Clause
// Priority order between whole frames.
#include "actors/net/send_queue.hpp"

#include <algorithm>
#include <utility>

#include "kernels/assert.hpp"

namespace troupe::actors::net {

void send_queue::push(int priority, outgoing frame) {
  bytes_ += frame.bytes();
  waiting_[priority].push_back(std::move(frame));
}

std::span<const std::span<const std::byte>> send_queue::gather() {
  if (batch_.empty()) {
    for (std::size_t bytes = 0; !waiting_.empty() && bytes < batch_bytes && batch_.size() < batch_frames;) {
      const auto first = waiting_.begin();
      bytes += first->second.front().bytes();
      batch_.push_back(std::move(first->second.front()));
      first->second.pop_front();
      if (first->second.empty())
        waiting_.erase(first);
    }
  }
  spans_.clear();
  std::size_t skip = written_;
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
  written_ += bytes;
  std::vector<outgoing> done;
  while (!batch_.empty() && written_ >= batch_.front().bytes()) {
    written_ -= batch_.front().bytes();
    done.push_back(std::move(batch_.front()));
    batch_.pop_front();
  }
  TROUPE_ASSERT(written_ == 0 || !batch_.empty());
  return done;
}

} // namespace troupe::actors::net
