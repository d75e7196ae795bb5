// SPDX-License-Identifier: BSD-3-Clause
// Writes messages as text.
#include "protocols/sim/text.hpp"

#include <fmt/format.h>

namespace troupe::protocols {

namespace {

std::string text_of(const std::vector<worker_id>& workers) {
  std::string out;
  for (const worker_id who : workers)
    out += who == evaluator ? " evaluator" : fmt::format(" {}", who.value);
  return out.empty() ? " nobody" : out;
}

} // namespace

std::string text_of(member who) {
  return who.incarnation.value == 0 ? fmt::format("{}", who.worker.value)
                                    : fmt::format("{}'{}", who.worker.value, who.incarnation.value);
}

std::string text_of(const push_id& id) {
  return fmt::format("{}#{}", text_of(member{id.worker, id.incarnation}), id.clock.value);
}

std::string text_of(const plan& next) {
  std::string out = fmt::format("plan {}:", next.epoch.value);
  for (const member who : next.workers)
    out += fmt::format(" {}", text_of(who));
  return out;
}

std::string text_of(const params& head) {
  return fmt::format("params v{} at {} under plan {}", head.ver.value, head.position, head.epoch.value);
}

std::string text_of(const push& head) {
  return fmt::format("push {} on v{}, {} samples{}", text_of(head.id), head.base.value, head.samples,
                     head.finite ? "" : ", not finite");
}

std::string text_of(const close& round) {
  std::string out = fmt::format("close v{} =", round.ver.value);
  for (const contribution& part : round.contributions)
    out += fmt::format(" {:.3f}*{}", part.weight, text_of(part.id));
  return out + fmt::format(" to{} at {} under plan {}", text_of(round.send_to), round.position, round.send_epoch.value);
}

std::string text_of(const send_order& order) {
  return fmt::format("send v{} to{} at {} under plan {}", order.ver.value, text_of(order.to), order.position, order.epoch.value);
}

std::string text_of(const hold_order& order) {
  return fmt::format("hold at {} samples, v{}{}", order.at_samples, order.at_version, order.now ? ", or now" : "");
}

std::string text_of(const report& msg) {
  switch (msg.event) {
  case report::kind::round_closed:
    return fmt::format("closed v{}: {} contributions, {} samples so far", msg.ver.value, msg.contributions, msg.samples);
  case report::kind::push_discarded:
    return fmt::format("discarded a push of {} on v{}", msg.worker.value, msg.ver.value);
  case report::kind::push_not_finite:
    return fmt::format("push of {} on v{} is not finite", msg.worker.value, msg.ver.value);
  case report::kind::push_refused:
    return fmt::format("refused a push of {} on v{}: {}", msg.worker.value, msg.ver.value, msg.text);
  case report::kind::held:
    return fmt::format("held v{}", msg.ver.value);
  case report::kind::lost:
    return "no worker has the parameters";
  case report::kind::note:
    break;
  }
  return msg.text;
}

} // namespace troupe::protocols
