// SPDX-License-Identifier: BSD-3-Clause
// Numerics that count instead of computing: a tensor says which gradients it is the sum of.
#pragma once

#include <map>

#include "protocols/sim/numerics.hpp"

namespace troupe::protocols::sim {

/// One sample's gradient, as one step of one worker computed it.
struct tally_key {
  std::uint64_t sample = 0; ///< position: handed out since the start
  member worker{};
  std::uint64_t step = 0;
  friend auto operator<=>(const tally_key&, const tally_key&) = default;
};
using tally = std::map<tally_key, double>;

/// What a tensor of `tally_numerics` holds.
const tally& tally_of(const tensor& tensor);
/// The sum of terms that are given, not of a worker's own.
tally tally_of(std::span<const operand> sum);

/// A number that differs from that of most other sums, as the squares of this one.
squared_norm squares_of(const tally& sum);

/// The shards' parameters are empty sums at every version: what a version is made of is to be seen as it is applied. A worker's
/// own parameters are minus the sum of the gradients that moved it.
class tally_numerics final : public numerics {
public:
  std::unique_ptr<worker_numerics> make_worker(member self) override;
  std::unique_ptr<shard_numerics> make_shard(std::uint32_t index, std::uint32_t shards) override;
  tensor slice(const tensor& whole, std::uint32_t index, std::uint32_t shards) override;
  tensor join(std::span<const tensor> ranges, std::uint32_t index, std::uint32_t shards) override;
  tensor sum(std::span<const operand> terms) override;
  evaluation evaluate(const tensor&) override { return {}; }
};

} // namespace troupe::protocols::sim
