// SPDX-License-Identifier: BSD-3-Clause
// The loader actor: prepares batches off the critical path.
#pragma once

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/messages.hpp"
#include "actors/type_ids.hpp"

namespace troupe::actors {

/// Turns slices into batches, in the order of asking. Spawn it detached: gathering is work, and the next batch is
/// prepared while this one computes.
class loader_state {
public:
  static inline const char* name = "troupe.loader";

  loader_state(loader_actor::stateful_pointer<loader_state>, std::shared_ptr<const data_set> data, std::uint64_t seed,
               batch_loader::host_allocator allocate, const dealing& how = {}, tracer_ptr trace = {}, std::uint32_t worker = 0)
      : trace_(std::move(trace)), worker_(worker), loader_(std::move(data), seed, std::move(allocate), how) {}

  loader_actor::behavior_type make_behavior() {
    return {[this](const slice& where) {
      const open_span span{trace_, span_kind::load, worker_, {where.size()}};
      loaded_batch out{where, loader_.load(where)};
      span.end();
      return out;
    }};
  }

private:
  tracer_ptr trace_;
  std::uint32_t worker_; ///< whose
  batch_loader loader_;
};

using loader_impl = loader_actor::stateful_impl<loader_state>;

} // namespace troupe::actors
