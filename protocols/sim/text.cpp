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

std::string text_of(const plan& what) {
  std::string out = fmt::format("plan {}:", what.epoch.value);
  for (const member who : what.workers)
    out += fmt::format(" {}", text_of(who));
  return out;
}

std::string text_of(const params& what) {
  return fmt::format("params v{} at {} under plan {}", what.ver.value, what.position, what.epoch.value);
}

std::string text_of(const push& what) {
  return fmt::format("push {} on v{}, {} samples{}", text_of(what.id), what.base.value, what.samples,
                     what.finite ? "" : ", not finite");
}

std::string text_of(const close& what) {
  std::string out = fmt::format("close v{} =", what.ver.value);
  for (const contribution& part : what.contributions)
    out += fmt::format(" {:.3f}*{}", part.weight, text_of(part.id));
  return out + fmt::format(" to{} at {} under plan {}", text_of(what.send_to), what.position, what.send_epoch.value);
}

std::string text_of(const send_order& what) {
  return fmt::format("send v{} to{} at {} under plan {}", what.ver.value, text_of(what.to), what.position, what.epoch.value);
}

std::string text_of(const hold_order& what) {
  return fmt::format("hold at {} samples, v{}{}", what.at_samples, what.at_version, what.now ? ", or now" : "");
}

std::string text_of(const report& what) {
  switch (what.event) {
  case report::kind::round_closed:
    return fmt::format("closed v{}: {} contributions, {} samples so far", what.ver.value, what.contributions, what.samples);
  case report::kind::push_discarded:
    return fmt::format("discarded a push of {} on v{}", what.worker.value, what.ver.value);
  case report::kind::push_not_finite:
    return fmt::format("push of {} on v{} is not finite", what.worker.value, what.ver.value);
  case report::kind::push_refused:
    return fmt::format("refused a push of {} on v{}: {}", what.worker.value, what.ver.value, what.text);
  case report::kind::held:
    return fmt::format("held v{}", what.ver.value);
  case report::kind::note:
    break;
  }
  return what.text;
}

} // namespace troupe::protocols
