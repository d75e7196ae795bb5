// SPDX-License-Identifier: BSD-3-Clause
// The holder: keeps pushes until the lead has decided. Every shard and every aggregator runs one.
#pragma once

#include <set>

#include "protocols/effect.hpp"

namespace troupe::protocols {

/// Where a holder stands in the tree of aggregators. Without aggregators: a shard that takes every worker's pushes.
struct holder_place {
  holder_id self;
  bool is_shard = true;
  std::vector<holder_id> children; ///< aggregators whose partial sums come here, in the order of summing
  std::vector<holder_id> parents;  ///< to whom an aggregator forwards: one aggregator, or every shard
  std::set<worker_id> workers;     ///< whose pushes come here directly
  friend bool operator==(const holder_place&, const holder_place&) = default;
};

/// Reports arrivals, keeps their tickets, and maps the lead's orders to them. Never decides, never sends on its own. A close
/// that still waits for children's partial sums delays the orders behind it: they are performed in the lead's order.
class holder {
public:
  explicit holder(holder_place place);
  ~holder();

  holder_effects on(const plan& msg);
  holder_effects on(const push& msg);
  holder_effects on(const partial& msg);
  holder_effects on(const close& msg);
  holder_effects on(const send_order& msg);
  holder_effects on(const drop_order& msg);
  holder_effects on(const worker_down& msg);

  version current() const;
  std::size_t kept() const; ///< pushes held now
};

} // namespace troupe::protocols
