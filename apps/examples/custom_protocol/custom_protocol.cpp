// SPDX-License-Identifier: BSD-3-Clause
// A custom protocol: a round closes once enough of its samples have come, from any workers.
#include "apps/application.hpp"

#include "protocols/protocol.hpp"

namespace {

using namespace troupe::protocols;

/// One step on the mean gradient, once `share` of the round's samples have come. Unlike a quorum of workers, it weighs workers by
/// their samples: one with half a batch counts half.
class portion final : public round_policy {
public:
  explicit portion(double share) : share_(share) {}

  std::optional<closing> close(const open_round& round) override {
    std::int64_t come = 0;
    for (const auto& [who, part] : round.pushed)
      come += part.samples;
    const bool enough = static_cast<double>(come) >= share_ * static_cast<double>(round.samples());
    return enough || round.full() ? std::optional{by_samples(round)} : std::nullopt;
  }

private:
  double share_;
};

protocol portion_protocol() {
  const auto share =
      real_parameter("share", 0.75, {.least = 0, .most = 1, .open_least = true}, "of a round's samples that are enough");
  return round_protocol(
      {.name = "portion",
       .summary = "one step on the gradients of the workers that push the first share of a round's samples",
       .round_is_full = "pushes of `share` of its samples have come; weighted by samples, late ones discarded",
       .recipients = "those that wait; a late one at its late push",
       .takes_fan_in = true,
       .parameters = {share},
       .policy = [share](const protocol_spec& spec, std::uint64_t) { return std::make_unique<portion>(share.of(spec)); }});
}

} // namespace

int main(int argc, char** argv) {
  troupe::application app;
  app.add_protocol(portion_protocol());
  return app.main(argc, argv);
}
