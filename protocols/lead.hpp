// SPDX-License-Identifier: BSD-3-Clause
// The lead: gathers arrivals from every holder, lets a rule decide once, and says it in terms that every holder understands.
#pragma once

#include <memory>

#include "protocols/rule.hpp"

namespace troupe::protocols {

/// Several shards must not close one round over different workers, so the rule runs once, here.
///
/// A push counts once every holder that takes it has reported it: with aggregators one, else every shard. The rule sees it
/// under a ticket of the lead's own; `apply{terms}` becomes a `close` that names pushes. While held, `send_to` stays empty
/// and whoever waits is remembered; `resume_order` sends to them.
class lead {
public:
  /// `holders_per_push`: how many arrivals make a push complete.
  lead(std::unique_ptr<rule> decides, std::uint32_t holders_per_push);
  ~lead();

  lead_effects on(const plan& msg);
  lead_effects on(const arrival& msg);
  lead_effects on(const worker_down& msg);
  lead_effects on(const expired& msg);
  lead_effects on(const hold_order& msg);
  lead_effects on(const resume_order& msg);
  lead_effects on(const fetch_order& msg);

  version current() const;
  std::uint64_t samples_applied() const;
  bool held() const;
  std::vector<worker_id> waiting_for() const;
};

} // namespace troupe::protocols
