// SPDX-License-Identifier: BSD-3-Clause
// Arithmetic on plans: positions in the data, ranks, membership.
#include "protocols/message.hpp"

#include <algorithm>

namespace troupe::protocols {

std::uint64_t plan::after(std::uint64_t position) const {
  return after(position, workers.size());
}

std::uint64_t plan::after(std::uint64_t position, std::uint64_t cuts) const {
  if (batch <= 0 || data_size <= 0)
    return position;
  const auto size = static_cast<std::uint64_t>(data_size);
  return std::min(position + static_cast<std::uint64_t>(batch) * cuts, (position / size + 1) * size);
}

std::uint64_t plan::before(std::uint64_t position) const {
  if (batch <= 0 || data_size <= 0 || workers.empty() || position == 0)
    return position;
  const auto size = static_cast<std::uint64_t>(data_size), whole = static_cast<std::uint64_t>(batch) * workers.size();
  const std::uint64_t last = position - 1, epoch = last / size * size;
  return epoch + (last - epoch) / whole * whole;
}

std::int64_t plan::cut_size(std::uint64_t samples, std::uint32_t cuts, std::uint32_t index) {
  return static_cast<std::int64_t>(samples / cuts + (index < samples % cuts ? 1 : 0));
}

int plan::rank_of(worker_id who) const {
  const auto found = std::ranges::lower_bound(workers, who, {}, &member::worker);
  return found != workers.end() && found->worker == who ? static_cast<int>(found - workers.begin()) : -1;
}

bool plan::has(member who) const {
  return std::ranges::binary_search(workers, who);
}

} // namespace troupe::protocols
