// SPDX-License-Identifier: BSD-3-Clause
// Backup workers: a round closes with its first k gradients (Chen et al. 2016, section 3, "Revisiting Distributed Synchronous
// SGD").
#pragma once

#include <algorithm>
#include <string>

#include "protocols/protocol.hpp"

namespace troupe::protocols {

/// How many gradients close a round of `live` workers: k, but at most all of them; k = 0: all but one.
inline std::size_t quorum_of(std::size_t k, std::size_t live) {
  return k == 0 ? std::max<std::size_t>(live - 1, 1) : std::min(k, live);
}

/// One step on the mean gradient over the samples of the k that came first; the others' pushes are late, discarded and counted. A
/// push that is not finite, or has no samples, does not count as a gradient. A round closes with fewer than k if no more can
/// come. The default for k is ours; the paper finds it by trials.
class backup_workers final : public round_policy {
public:
  explicit backup_workers(std::size_t k) : k_(k) {}

  std::optional<closing> close(const open_round& round) override {
    const std::size_t quorum = quorum_of(k_, round.live.size());
    const bool enough = round.pushed.size() >= quorum && round.gradients() >= quorum;
    return enough || round.settled() ? std::optional{by_samples(round)} : std::nullopt;
  }

private:
  std::size_t k_;
};

inline protocol backup_protocol() {
  const auto quorum = integer_parameter(
      "quorum", 0, 0, "k: gradients that close a round, at most one per live worker; 0: all live workers but one");
  const auto k_of = [quorum](const protocol_spec& spec) { return static_cast<std::size_t>(quorum.of(spec)); };
  return round_protocol(
      {.name = "backup",
       .summary = "backup workers: one step on the gradients of the first k",
       .round_is_full = "the first k gradients have come; weighted by samples, late ones discarded",
       .recipients = "those that wait; a late one at its late push",
       .pays_when = "one worker is slow, and a few samples may be lost",
       .takes_fan_in = true,
       .resumable = true,
       .parameters = {quorum},
       .validate = [k_of](const protocol_spec& spec, std::uint32_t workers) -> std::string {
         const std::size_t k = k_of(spec);
         return k > workers ? "quorum " + std::to_string(k) + " is more than the " + std::to_string(workers)
                                  + " workers; a round would never be full"
                            : "";
       },
       .cost = [k_of](const protocol_spec& spec, const plan&,
                      round_times times) { return cost_of_first(times, quorum_of(k_of(spec), times.size())); },
       .policy = [k_of](const protocol_spec& spec, std::uint64_t) { return std::make_unique<backup_workers>(k_of(spec)); }});
}

} // namespace troupe::protocols
