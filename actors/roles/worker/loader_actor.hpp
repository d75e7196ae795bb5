// SPDX-License-Identifier: BSD-3-Clause
// The loader actor: prepares batches off the critical path.
#pragma once

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/errors.hpp"
#include "actors/messages/compute.hpp"
#include "actors/roles/activity.hpp"

namespace troupe::actors {

/// Turns slices into batches, in the order of asking. Spawn it detached: loading is work, and the next batch is prepared while
/// this one computes.
class loader_state {
public:
  static inline const char* name = "troupe.loader";

  loader_state(measured_pointer<loader_control> self, std::shared_ptr<const data_set> data, std::uint64_t seed,
               batch_loader::host_allocator allocate, const sample_assignment& how = {}, tracer_ptr trace = {},
               std::uint32_t worker = 0)
      : self_(self), trace_(std::move(trace)), worker_(worker), loader_(std::move(data), seed, std::move(allocate), how) {
    end_with_reason(*self_); // its file may be gone
  }

  loader_control::behavior_type make_behavior() {
    self_->name_thread("loader " + std::to_string(worker_));
    return {
        [this](const slice& where) {
          self_->doing.again("loads a batch");
          const open_span span{trace_, span_kind::load, worker_, {where.size()}};
          loaded_batch loaded{where, loader_.load(where)};
          span.end();
          self_->doing.enter("idle");
          ++batches_;
          return loaded;
        },
        [this](const inspect_query&) {
          auto out = self_->report();
          out.fields = {{"batches", std::to_string(batches_)}};
          return out;
        },
    };
  }

private:
  measured_pointer<loader_control> self_;
  tracer_ptr trace_;
  std::uint32_t worker_; ///< for which it loads
  batch_loader loader_;
  std::uint64_t batches_ = 0;
};

using loader_impl = measured_impl<loader_control, loader_state>;

} // namespace troupe::actors
