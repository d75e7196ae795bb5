// SPDX-License-Identifier: BSD-3-Clause
// Asking nodes for an evaluator, and one for what it has evaluated.
#include "actors/roles/coordinator/nodes/evaluator_seat.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "actors/errors.hpp"
#include "actors/roles/join_counter.hpp"
#include "kernels/backend.hpp"

namespace troupe::actors {

namespace {

/// It allocates its plan, perhaps on a device.
constexpr std::chrono::seconds seat_deadline{20};
constexpr std::chrono::seconds piece_deadline{20};

/// Asks for one piece after the other.
struct parameters_request {
  measured_pointer<coordinator_control> self;
  node_actor from;
  protocols::version ver;
  kernels::buffer to;
  std::function<void(caf::expected<kernels::buffer>)> take;

  void ask(std::uint64_t offset) const {
    self->request(from, piece_deadline, evaluated_query{ver, offset})
        .then([me = *this, offset](const parameters_piece& piece) { me.on(piece, offset); },
              [me = *this](const caf::error& e) { me.take(e); });
  }
  void on(const parameters_piece& piece, std::uint64_t offset) const {
    const auto all = to.span<float>();
    const auto next = offset + piece.values.size();
    if (piece.values.empty() || next > all.size() || piece.last != (next == all.size()))
      return take(failure("the evaluator's parameters are not those of this model"));
    std::ranges::copy(piece.values, all.begin() + static_cast<std::ptrdiff_t>(offset));
    piece.last ? take(to) : ask(next);
  }
};

} // namespace

void evaluator_seat::lost(const std::string& reason) {
  if (std::exchange(is_untried_, true))
    return by_.fail(fmt::format("{} is lost again: {}", name(), reason));
  const auto text = fmt::format("{} is lost: {}", name(), reason);
  self_->doing.failed(text);
  setup_.observer->on_event(text + "; a new one takes its place");
  self_->request(node(), seat_deadline, role_order{role_verb::restart, "evaluator", 0, 0})
      .then([this] { by_.evaluate_again(); }, [this](const caf::error& e) { could_not_be_replaced(e); });
}

void evaluator_seat::move() {
  const auto to = places_.holders.front().node;
  if (to == nowhere || lost_.contains(to) || !lost_.contains(places_.evaluator))
    return;
  places_.evaluator = to;
  setup_.observer->on_event(fmt::format("the evaluator is on node {} from now on", setup_.nodes[to].name));
  struct nothing {};
  const join_counter<nothing> all([this](nothing) { by_.evaluate_again(); });
  for (std::uint32_t i = 0; i < setup_.nodes.size(); ++i) {
    if (lost_.contains(i))
      continue;
    all.one_more();
    self_->request(setup_.nodes[i].actor, seat_deadline, evaluator_place{to})
        .then([all] { all.one_less(); },
              [this, all, i, to](const caf::error& e) {
                if (i == to && e == caf::sec::runtime_error) // else that node is lost, too, as will be noticed
                  return could_not_be_replaced(e);
                all.one_less();
              });
  }
  all.one_less();
}

void evaluator_seat::could_not_be_replaced(const caf::error& why) {
  by_.fail("the evaluator could not be replaced: " + explain(why));
}

void evaluator_seat::fetch(protocols::version ver, std::uint64_t floats,
                           std::function<void(caf::expected<kernels::buffer>)> take) const {
  if (lost_.contains(places_.evaluator))
    return take(failure(fmt::format("they were on node {}, which is lost", setup_.nodes[places_.evaluator].name)));
  parameters_request{self_, node(), ver, kernels::open_backend({})->allocate_host(floats * sizeof(float)), std::move(take)}.ask(
      0);
}

} // namespace troupe::actors
