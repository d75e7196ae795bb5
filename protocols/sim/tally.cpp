// SPDX-License-Identifier: BSD-3-Clause
// Sums of gradients by name.
#include "protocols/sim/tally.hpp"

#include <algorithm>
#include <bit>

namespace troupe::protocols::sim {

namespace {

struct tally_data final : tensor_data {
  explicit tally_data(tally sum) : terms(std::move(sum)) {}
  tally terms;
};

tensor tensor_of(tally terms) {
  return std::make_shared<tally_data>(std::move(terms));
}

void add_scaled(tally& to, const tally& from, double weight) {
  for (const auto& [key, value] : from)
    to[key] += weight * value;
}

tally gradients_of(member self, const batch& of, double sign) {
  tally out;
  for (const batch_part& part : of.parts)
    for (std::uint64_t sample = part.begin; sample < part.end; ++sample)
      out[{sample, self, of.step}] += sign * part.weight / static_cast<double>(part.end - part.begin);
  return out;
}

class tally_worker final : public worker_numerics {
public:
  explicit tally_worker(member self) : self_(self) {}

  gradient gradient_at(const tensor&, const batch& of) override {
    return {.value = tensor_of(gradients_of(self_, of, 1)), .loss = 1};
  }
  void adopt(const tensor&) override {}
  gradient local_step(const batch& of, const local_step_rule&) override {
    add_scaled(own_, gradients_of(self_, of, -1), 1);
    return {.value = {}, .loss = 1};
  }
  void mix(std::span<const operand> terms) override { own_ = sum_of(terms); }
  void dual(double) override {}
  tensor sum(std::span<const operand> terms) override { return tensor_of(sum_of(terms)); }
  void forget_momentum() override {}

private:
  tally sum_of(std::span<const operand> terms) const {
    tally out;
    for (const operand& part : terms)
      if (part.from == operand::source::own)
        add_scaled(out, own_, part.weight);
      else if (part.from == operand::source::given)
        add_scaled(out, tally_of(part.tensor), part.weight);
    return out;
  }

  member self_;
  tally own_;
};

class tally_shard final : public shard_numerics {
public:
  tensor parameters() const override { return {}; }
  void step(std::span<const operand> sum, const close& how, const tensor&) override {
    add(how.ver.value);
    for (const auto& [key, weight] : tally_of(sum)) {
      add(key.sample), add(key.worker.worker.value), add(key.step);
      add(std::bit_cast<std::uint64_t>(weight));
    }
    add(how.step.squares.low);
  }
  squared_norm squares_of(const tensor& sum) const override { return sim::squares_of(tally_of(sum)); }
  std::unique_ptr<shard_numerics> clone() const override { return std::make_unique<tally_shard>(*this); }
  std::uint64_t fingerprint() const override { return steps_; }

private:
  void add(std::uint64_t number) { steps_ = (steps_ ^ number) * 0x9e3779b97f4a7c15; }

  std::uint64_t steps_ = 0; ///< a hash of all
};

} // namespace

const tally& tally_of(const tensor& tensor) {
  static const tally nothing;
  return tensor ? static_cast<const tally_data&>(*tensor).terms : nothing;
}

tally tally_of(std::span<const operand> sum) {
  tally out;
  for (const operand& part : sum)
    add_scaled(out, tally_of(part.tensor), part.weight);
  return out;
}

squared_norm squares_of(const tally& sum) {
  squared_norm out;
  for (const auto& [key, weight] : sum)
    out += {0, (key.sample + 1) * 1009 + key.step * 31 + key.worker.worker.value + 1};
  return out;
}

std::unique_ptr<worker_numerics> tally_numerics::make_worker(member self) {
  return std::make_unique<tally_worker>(self);
}

std::unique_ptr<shard_numerics> tally_numerics::make_shard(std::uint32_t, std::uint32_t) {
  return std::make_unique<tally_shard>();
}

tensor tally_numerics::slice(const tensor& whole, std::uint32_t, std::uint32_t) {
  return whole;
}

/// All ranges have the same terms: where they do not, the mean of them has weights that no sum has.
tensor tally_numerics::join(std::span<const tensor> ranges, std::uint32_t, std::uint32_t) {
  const auto differs = [&](const tensor& range) { return tally_of(range) != tally_of(ranges.front()); };
  if (std::ranges::none_of(ranges, differs))
    return ranges.empty() ? tensor{} : ranges.front();
  std::vector<operand> terms;
  for (const tensor& range : ranges)
    terms.push_back({.tensor = range, .weight = 1 / static_cast<double>(ranges.size())});
  return tensor_of(tally_of(terms));
}

tensor tally_numerics::sum(std::span<const operand> terms) {
  return tensor_of(tally_of(terms));
}

} // namespace troupe::protocols::sim
