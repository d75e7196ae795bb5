// SPDX-License-Identifier: BSD-3-Clause
// The worker that pushes one gradient per parameters.
#include "protocols/gradient_worker.hpp"

#include <tuple>
#include <utility>

namespace troupe::protocols {

gradient_worker::gradient_worker(member self) : self_(self) {}

worker_effects gradient_worker::on(const plan& msg) {
  if (newest_ && msg.epoch < newest_->epoch)
    return {};
  plans_.try_emplace(msg.epoch, msg);
  return begin_if_ready();
}

worker_effects gradient_worker::on(const params& msg) {
  // The same version comes again under a new plan when a round began anew.
  if (newest_ && std::tie(msg.ver, msg.epoch) <= std::tie(newest_->ver, newest_->epoch))
    return {};
  newest_ = msg;
  begun_newest_ = false;
  std::erase_if(plans_, [&msg](const auto& entry) { return entry.first < msg.epoch; });
  return begin_if_ready();
}

worker_effects gradient_worker::on(const computed& msg) {
  if (!open_ || msg.step != open_->id.clock.value)
    return {};
  push done = *std::exchange(open_, std::nullopt);
  done.gradient = msg.gradient;
  done.samples = msg.samples;
  done.loss = msg.loss;
  done.compute = msg.compute;
  done.finite = msg.finite;
  worker_effects out{send_push{done}};
  for (worker_effect& effect : begin_if_ready())
    out.emplace_back(std::move(effect));
  return out;
}

worker_effects gradient_worker::on(const peer_message&) {
  return {};
}
worker_effects gradient_worker::on(const peer_down&) {
  return {};
}
worker_effects gradient_worker::on(const expired&) {
  return {};
}

worker_effects gradient_worker::begin_if_ready() {
  if (open_ || !newest_ || begun_newest_)
    return {};
  const auto known = plans_.find(newest_->epoch);
  if (known == plans_.end() || !known->second.has(self_))
    return {};
  const plan& with = known->second;
  begun_newest_ = true;
  clock_ = {clock_.value + 1};
  open_ = push{.epoch = newest_->epoch, .id = {self_.worker, self_.life, clock_}, .base = newest_->ver};
  return {adopt{newest_->ver, newest_->parameters},
          compute{.step = clock_.value,
                  .position = newest_->position,
                  .cuts = static_cast<std::uint32_t>(with.workers.size()),
                  .parts = {{static_cast<std::uint32_t>(with.rank_of(self_.worker)), 1}},
                  .stream_as = open_}};
}

} // namespace troupe::protocols
