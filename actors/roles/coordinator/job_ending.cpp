// SPDX-License-Identifier: BSD-3-Clause
// One thing after the other, at a job's end.
#include "actors/roles/coordinator/job_ending.hpp"

#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "actors/errors.hpp"
#include "actors/roles/coordinator/nodes/node_questions.hpp"

namespace troupe::actors {

namespace {

/// Shards may write the last checkpoint. A scheduler's patience after SIGTERM is 30 s.
constexpr std::chrono::seconds save_deadline{60}, save_deadline_if_interrupted{10};

} // namespace

void job_ending::begin(tracer& own, std::function<void()> done) {
  done_ = std::move(done);
  ask_totals(self_, asked_nodes(setup_.nodes, lost_), [this, &own](const node_totals& all) {
    record_.add(all);
    if (!setup_.trace)
      return save();
    collect_traces(self_, asked_nodes(setup_.nodes, lost_), own.take_all(), setup_.observer, caf::actor_clock::time_point::max(),
                   [this](std::vector<node_trace> traces) {
                     record_.result.trace = std::move(traces);
                     save();
                   });
  });
}

void job_ending::save() {
  if (record_.result.failed && !record_.result.interrupted)
    return fetch(); // some shard's may never come
  self_->doing.enter("writes a checkpoint");
  checkpoints_.when_saved({record_.result.steps}, record_.result.interrupted ? save_deadline_if_interrupted : save_deadline,
                          [this] { fetch(); });
}

void job_ending::fetch() {
  const auto missing = record_.missing_parameters();
  if (!missing)
    return done_();
  self_->doing.enter("fetches the parameters");
  evaluator_.fetch(*missing, static_cast<std::uint64_t>(start_.first().floats), [this](caf::expected<kernels::buffer> got) {
    auto& result = record_.result;
    if (got) {
      result.parameters = std::move(*got);
    } else {
      const auto wanted = result.weights_step.value_or(0);
      const bool others = record_.take_newest();
      setup_.observer->on_event(fmt::format("the parameters of step {} are not here: {}{}", wanted, explain(got.error()),
                                            others ? "; the newest are taken" : ""));
      if (others)
        return fetch();
      result.weights_step.reset();
    }
    done_();
  });
}

} // namespace troupe::actors
