// SPDX-License-Identifier: BSD-3-Clause
// Asking the roles that know what a coordinator has missed.
#include "actors/node/parts/adoption_answer.hpp"

#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "actors/roles/join_counter.hpp"

namespace troupe::actors {

namespace {

/// A shard may compute, and an evaluator evaluate a batch. A coordinator waits longer for its nodes (job_takeover.cpp).
constexpr std::chrono::seconds role_deadline{5};

} // namespace

caf::result<adopted_part> answer_adoption(measured_pointer<node_control> self, const local_roles& roles, adopted_part known) {
  auto promise = self->make_response_promise<adopted_part>();
  const join_counter<adopted_part> all([promise](adopted_part whole) mutable { promise.deliver(std::move(whole)); });
  *all = std::move(known);
  for (const auto& [number, holder] : roles.holders) {
    all.one_more();
    self->request(holder, role_deadline, lead_query{})
        .then(
            [all](const std::optional<lead_word>& said) {
              if (said && (!all->lead || said->leads))
                all->lead = said;
              all.one_less();
            },
            [all](const caf::error&) { all.one_less(); });
  }
  if (roles.evaluator) {
    all.one_more();
    self->request(roles.evaluator, role_deadline, evaluations_query{})
        .then(
            [all](const std::vector<evaluation>& said) {
              all->evaluations = said;
              all.one_less();
            },
            [all](const caf::error&) { all.one_less(); });
  }
  all.one_less();
  return promise;
}

} // namespace troupe::actors
