// SPDX-License-Identifier: BSD-3-Clause
// No mathematics: every tensor is null, every loss 0. For times alone.
#pragma once

#include "protocols/sim/numerics.hpp"

namespace troupe::protocols::sim {

class null_numerics final : public numerics {
public:
  std::unique_ptr<worker_numerics> make_worker(member) override { return std::make_unique<nobody>(); }
  std::unique_ptr<shard_numerics> make_shard(std::uint32_t, std::uint32_t) override { return std::make_unique<nothing>(); }
  tensor slice(const tensor&, std::uint32_t, std::uint32_t) override { return {}; }
  tensor join(std::span<const tensor>, std::uint32_t, std::uint32_t) override { return {}; }
  tensor sum(std::span<const operand>) override { return {}; }
  evaluation evaluate(const tensor&) override { return {}; }

private:
  class nobody final : public worker_numerics {
  public:
    gradient gradient_at(const tensor&, const batch&) override { return {}; }
    void adopt(const tensor&) override {}
    gradient local_step(const batch&, const local_step_rule&) override { return {}; }
    void mix(std::span<const operand>) override {}
    void dual(double) override {}
    tensor sum(std::span<const operand>) override { return {}; }
    void forget_momentum() override {}
  };
  class nothing final : public shard_numerics {
  public:
    tensor parameters() const override { return {}; }
    void step(std::span<const operand>, const close&, const tensor&) override {}
    std::unique_ptr<shard_numerics> clone() const override { return std::make_unique<nothing>(); }
  };
};

} // namespace troupe::protocols::sim
