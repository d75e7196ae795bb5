// SPDX-License-Identifier: BSD-3-Clause
// The aggregator's handlers.
#include "actors/roles/holder/aggregator_actor.hpp"

#include "actors/errors.hpp"
#include "actors/roles/operator_pause.hpp"

#include <utility>
#include <vector>

#include <fmt/format.h>

#include "kernels/sparse.hpp"

namespace troupe::actors {

namespace {

/// Exactly this part of a sum; none where that takes no fewer bytes.
std::optional<std::pair<wire::partial_part, kernels::buffer>> sparse_sum(wire::partial_part head, const kernels::buffer& part) {
  const auto range = head.where.elements();
  const auto values = part.span<const float>();
  const auto places = kernels::choose_nonzero(values);
  head.as = kernels::form::sparse_fp32;
  const std::size_t bytes = kernels::sparse_bytes(head.as, range, places);
  if (bytes >= part.bytes())
    return std::nullopt;
  head.bytes = static_cast<std::uint32_t>(bytes);
  auto block = std::make_shared<std::vector<std::uint64_t>>(bytes / sizeof(std::uint64_t));
  kernels::buffer out{block, block->data(), bytes};
  kernels::encode_sparse(head.as, range, places, values, out.span<std::byte>());
  return std::pair{head, out};
}

} // namespace

aggregator_state::aggregator_state(measured_pointer<holder_control> self, aggregator_setup setup)
    : self_(self), setup_(std::move(setup)), core_(setup_.receive_buffers, setup_.queue), bound_(*this, setup_.place),
      clock_(setup_.wall), timers_(clock_,
                                   [this](protocols::timer_id timer, protocols::nanoseconds delay) {
                                     self_->delayed_send(self_, std::chrono::nanoseconds{delay}, protocols::expired{timer});
                                   }),
      incoming_(setup_.link, clock_, timers_) {
  end_with_reason(*self, std::string{setup_.queue->name()});
  bound_.replace(protocols::holder_state{.current = setup_.start, .ordered = setup_.start, .committed = setup_.start});
  self->doing.enter("collects");
}

holder_control::behavior_type aggregator_state::make_behavior() {
  self_->name_thread(fmt::format("aggregator {}", setup_.place.self.value));
  return {
      [this](const wire::push_part& head, const kernels::buffer& payload) { arrive(core_.add(head, payload)); },
      [this](const wire::push_end& end) { arrive(core_.add(end)); },
      [this](const wire::partial_part& head, const kernels::buffer& payload) { arrive(core_.add(head, payload)); },
      [](const protocols::arrival&) {}, // the lead's
      [](const protocols::prepared&) {},
      [this](const protocols::close& msg) { bound_.on(msg); },
      [this](const protocols::send_order& msg) { bound_.on(msg); },
      [this](const protocols::drop_order& msg) { bound_.on(msg); },
      [this](const protocols::commit_order& msg) { bound_.on(msg); },
      [](const wire::decision_part&, const kernels::buffer&) {}, // this and the next three: of shards and backups
      [](const protocols::admit_order&) {},
      [](const protocols::copy_request&) {},
      [](const wire::copy_part&, const kernels::buffer&) {},
      [this](const peers_ptr& peers) { peers_ = peers; },
      [this](const protocols::plan& msg) {
        if (bound_.machine().state().plan.epoch == protocols::plan_epoch{}) // it is the first
          run(clock_, timers_, true);
        bound_.on(msg);
      },
      [this](const protocols::worker_down& msg) {
        core_.forget(msg);
        bound_.on(msg);
      },
      [this](const protocols::holder_down& msg) { bound_.on(msg); },
      [this](const protocols::takes_over& msg) {
        if (msg.shard == protocols::holder_id{0})
          core_.take_again();
        bound_.on(msg);
      },
      [this](pause_order) { run(clock_, timers_, false); },
      [this](const protocols::resume_order&) { run(clock_, timers_, true); },
      [](const protocols::hold_order&) {}, // this and the next four: not an aggregator's
      [](const protocols::new_backup&) {},
      [](const protocols::checkpoint_order&) {},
      [](const protocols::fetch_order&) {},
      [](waiting_query) { return awaited{}; },
      [](lead_query) { return std::optional<lead_word>{}; },
      [this](const inspect_query&) { return report(); },
      [this](const operator_pause& msg) { handle_pause(self_, msg, [this] { return report(); }); },
      [this](const protocols::expired& msg) { timers_.fire(msg.timer); },
      [this](protocols::version ver) { summed(ver); },
      [this](device_check) { watch_.check(&*self_, *setup_.queue, !pending_.empty()); },
      [this](const wire::push_part& head, const device_tensor& payload) { arrive(core_.add(head, payload)); },
      [this](const wire::partial_part& head, const device_tensor& payload) { arrive(core_.add(head, payload)); },
  };
}

/// Once it has all that its round needs, it waits for the lead to close the round.
actor_report aggregator_state::report() const {
  auto out = self_->report();
  const auto round = bound_.machine().current().value + 1;
  const auto children = bound_.machine().children_missing();
  const auto workers = bound_.machine().workers_missing();
  if (!pending_.empty()) {
    out.state = "sums";
  } else if (incoming_.carries()) {
    out.state = "is behind a slow link";
    out.waits_on = "what is under way on its emulated link";
  } else if (!children.empty()) {
    for (auto child : children)
      out.waits_for.push_back(fmt::format("aggregator {}", child.value));
    out.waits_on = fmt::format("sums of round {}", round);
  } else if (!workers.empty()) {
    for (auto worker : workers)
      out.waits_for.push_back(fmt::format("worker {}", worker.value));
    out.waits_on = fmt::format("gradients of round {}", round);
  } else {
    out.waits_for.emplace_back("shard 0");
    out.waits_on = fmt::format("the end of round {}", round);
  }
  out.fields = {{"pushes", std::to_string(core_.came.pushes)}, {"bytes_received", std::to_string(core_.came.bytes)}};
  return out;
}

/// A push or a child's sum arrives when it is through the emulated link, if there is one.
template <class Message>
void aggregator_state::arrive(std::optional<complete<Message>> done) {
  if (!done)
    return;
  const auto bytes = done->bytes();
  auto hear = [this, done = *std::move(done)] { bound_.on(done.message, done.tensor); };
  if (incoming_.delays())
    incoming_.send(bytes, std::move(hear));
  else
    hear();
}

void aggregator_state::apply(const protocols::close&, const protocols::operands<tensor>&, const std::optional<tensor>&) {
  throw std::logic_error("an aggregator was asked to apply");
}

void aggregator_state::measure(const protocols::measured&, const tensor&) {
  throw std::logic_error("an aggregator was asked to measure");
}

void aggregator_state::broken(const std::string& why) {
  self_->doing.failed(why);
}

std::optional<kernels::buffer> aggregator_state::sum_up(const protocols::close& round, const protocols::operands<tensor>& sum,
                                                        const std::vector<protocols::holder_id>&) {
  auto span = open_span{setup_.trace, span_kind::sum, setup_.place.self.value, {signed_of(round.ver), std::ssize(sum)}};
  const std::optional<tensor> out = core_.sum_of(sum, setup_.floats);
  if (!out)
    return std::nullopt;
  pending_.push_back({.ver = round.ver, .mark = core_.held.mark()});
  watch_.begin(&*self_, *setup_.queue);
  setup_.queue->notify([me = holder_control{self_}, ver = round.ver, span = std::move(span)] {
    span.end();
    caf::anon_send(me, ver);
  });
  return out;
}

void aggregator_state::summed(protocols::version ver) {
  if (pending_.empty() || pending_.front().ver != ver)
    return;
  core_.held.passed(pending_.front().mark);
  pending_.pop_front();
  core_.forget_sums_before(ver);
  self_->doing.again("collects");
}

void aggregator_state::forward(const protocols::partial& head, const std::optional<tensor>& sum,
                               const std::vector<protocols::holder_id>& parents) {
  for (const auto parent : parents) {
    wire::partial_part part{parent, head.from, head.ver, {}, !sum.has_value(), head.decision};
    if (!sum) {
      caf::anon_send(peers_->holders[parent.value], part, kernels::buffer{});
      continue;
    }
    for (const auto where : is_shard(parent) ? setup_.shard_partitions[parent.value] : setup_.partitions) {
      part.where = {where.begin, where.end};
      send_part(part, sum->slice(static_cast<std::size_t>(where.begin) * sizeof(float),
                                 static_cast<std::size_t>(where.size()) * sizeof(float)));
    }
  }
}

/// Once the sum is computed. A sum of sparse pushes is sent sparse where that is shorter.
void aggregator_state::send_part(const wire::partial_part& head, const kernels::buffer& part) {
  const auto& parent = peers_->holders[head.to.value];
  const auto send = [parent, head, sparse = setup_.sparse](const kernels::buffer& on_host) {
    const auto coded = sparse ? sparse_sum(head, on_host) : std::nullopt;
    coded ? caf::anon_send(parent, coded->first, coded->second) : caf::anon_send(parent, head, on_host);
  };
  if (setup_.queue->on_host())
    setup_.queue->notify([send, part] { send(part); });
  else if (auto near = peers_->local_device_holders.find(head.to); near != peers_->local_device_holders.end())
    setup_.queue->notify([to = near->second, head, part, device = std::string{setup_.queue->name()}] {
      caf::anon_send(to, head, device_tensor{part, device});
    });
  else
    core_.copy_out(part, send);
}

} // namespace troupe::actors
