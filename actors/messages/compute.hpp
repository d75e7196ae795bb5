// SPDX-License-Identifier: BSD-3-Clause
// What a worker and its loader and compute actor say to each other, all within one process.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <caf/type_id.hpp>
#include <caf/typed_actor.hpp>

#include "actors/messages/fields.hpp"
#include "actors/messages/inspection.hpp"
#include "actors/roles/device.hpp"
#include "actors/roles/worker/replica.hpp"
#include "kernels/backend.hpp"
#include "tensor/data/batch_loader.hpp"
#include "tensor/data/partition.hpp"

namespace troupe::actors {

/// A prepared batch and the slice that it holds.
struct loaded_batch {
  slice where;
  batch data;
};

/// A part of a gradient: the mean gradient over a batch, times a weight.
struct weighted_batch {
  batch data;
  double weight = 1;
};

/// Worker to compute actor: one gradient, the sum of its parts.
struct compute_request {
  std::uint64_t step = 0;
  kernels::buffer parameters;      ///< the whole flat array
  std::optional<local_update> own; ///< instead: where a step of the replica with this update takes it
  std::vector<weighted_batch> parts;
  std::uint64_t seed = 0; ///< the job's
};

/// Worker to compute actor, about its replica: a step at such a gradient; parameters or dual variable anew; a sum, answered
/// once it has run.
struct step_request {
  kernels::buffer gradient;
  local_update how;
};

struct mix_request {
  std::vector<replica_term> terms;
};

struct dual_request {
  kernels::buffer anchor;
  double rho = 1;
};

struct sum_request {
  std::vector<replica_term> terms;
};

struct sum_result {
  kernels::buffer sum;
  bool finite = true;
};

/// Compute actor to worker, during backward: this parameter's gradient is complete.
struct gradient_ready {
  std::uint64_t step = 0;
  int slot = 0;
  kernels::buffer gradients; ///< the flat array that it is in
};

/// Compute actor to worker: the step is done.
struct compute_result {
  std::uint64_t step = 0;
  kernels::buffer gradients; ///< the whole flat array
  std::int64_t rows = 0;
  double loss = 0; ///< mean over the rows
  bool finite = true;
  std::int64_t compute_ns = 0;
};

/// The device to its compute actor: a part of the step has run.
struct compute_finished {
  std::uint64_t step = 0;
  std::uint64_t mark = 0; ///< of in_flight: what was enqueued before has run too
  bool summed = false;    ///< the parts' sum
};

/// Worker to a compute actor whose memory is not the host's: parameters that have come, block by block, ahead of whatever uses
/// them.
struct bring_request {
  kernels::buffer to, from;
  bool from_host = true; ///< else from a device of the same kind
};

/// The batch that a later request will name.
struct stage_request {
  batch data;
};

/// What it computed, to host memory. What wrote `from` has run. `done` is called on any thread and only sends messages.
struct fetch_request {
  kernels::buffer from, to;
  std::function<void()> done;
};

/// One gradient after the other; `gradient_ready` goes to whoever asked. The second message is the device's, to itself.
using compute_actor = caf::typed_actor<caf::result<compute_result>(compute_request), caf::result<void>(step_request),
                                       caf::result<void>(mix_request), caf::result<void>(dual_request),
                                       caf::result<sum_result>(sum_request), caf::result<void>(compute_finished)>;

/// The same as its node sees it; where its memory is not the host's, as its worker does, too.
using device_compute_actor = compute_actor::extend<caf::result<actor_report>(inspect_query), caf::result<void>(bring_request),
                                                   caf::result<void>(stage_request), caf::result<void>(fetch_request),
                                                   caf::result<void>(device_check)>; ///< to itself

using loader_actor = caf::typed_actor<caf::result<loaded_batch>(slice)>;

using loader_control = loader_actor::extend<caf::result<actor_report>(inspect_query)>;

} // namespace troupe::actors

CAF_BEGIN_TYPE_ID_BLOCK(troupe_compute, caf::id_block::troupe_inspection::end)

TROUPE_LOCAL_MESSAGE(troupe_compute, (troupe::kernels::buffer))
TROUPE_LOCAL_MESSAGE(troupe_compute, (troupe::slice))
TROUPE_LOCAL_MESSAGE(troupe_compute, (troupe::actors::loaded_batch))
TROUPE_LOCAL_MESSAGE(troupe_compute, (troupe::actors::compute_request))
TROUPE_LOCAL_MESSAGE(troupe_compute, (troupe::actors::compute_result))
TROUPE_LOCAL_MESSAGE(troupe_compute, (troupe::actors::step_request))
TROUPE_LOCAL_MESSAGE(troupe_compute, (troupe::actors::mix_request))
TROUPE_LOCAL_MESSAGE(troupe_compute, (troupe::actors::dual_request))
TROUPE_LOCAL_MESSAGE(troupe_compute, (troupe::actors::sum_request))
TROUPE_LOCAL_MESSAGE(troupe_compute, (troupe::actors::sum_result))
TROUPE_LOCAL_MESSAGE(troupe_compute, (troupe::actors::compute_finished))
TROUPE_LOCAL_MESSAGE(troupe_compute, (troupe::actors::gradient_ready))
TROUPE_LOCAL_MESSAGE(troupe_compute, (troupe::actors::device_tensor))
TROUPE_LOCAL_MESSAGE(troupe_compute, (troupe::actors::device_check))
TROUPE_LOCAL_MESSAGE(troupe_compute, (troupe::actors::bring_request))
TROUPE_LOCAL_MESSAGE(troupe_compute, (troupe::actors::stage_request))
TROUPE_LOCAL_MESSAGE(troupe_compute, (troupe::actors::fetch_request))

CAF_END_TYPE_ID_BLOCK(troupe_compute)
