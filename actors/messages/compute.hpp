// SPDX-License-Identifier: BSD-3-Clause
// Messages between a worker, its loader and its compute actor, all within one process.
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
#include "protocols/collective/facts.hpp"
#include "tensor/data/batch_loader.hpp"
#include "tensor/data/partition.hpp"
#include "tensor/factored.hpp"

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
  std::optional<local_update> own; ///< instead: at the point where the replica's step with this update needs it
  std::vector<weighted_batch> parts;
  std::uint64_t seed = 0; ///< the job's
};

/// Worker to compute actor, about its replica: a step with a gradient; new parameters or dual variable; a sum, answered once it
/// has run.
struct step_request {
  kernels::buffer gradient;
  local_update how;
};

struct mix_request {
  std::vector<replica_term> terms;
  flat_range where{}; ///< only there; empty: everywhere
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

/// What the replica keeps between rounds, for the checkpoint of this version, and what its worker does, in host memory: they are
/// written once the copies that are enqueued now have run.
struct keep_request {
  protocols::version ver;
  named_buffers of_worker;
  std::vector<replica_term> replica;   ///< its parameters are this sum; none: it has none that are of use, or keeps none
  double weight = 0;                   ///< of the replica, see saved_state
  std::uint64_t position = 0;          ///< likewise
  protocols::collective::facts open{}; ///< likewise
};

/// The parameters of the step that is likely to be the next one are coming: its forward may begin, as far as it needs no others
/// than are `there`. A request for another step forgets it. Only to an actor that computes on the host.
struct ahead_request {
  kernels::buffer parameters; ///< flat; the parts that are not there may be written meanwhile
  std::vector<flat_range> there;
  batch data;
  std::uint64_t seed = 0;
};

/// Compute actor to worker, during backward: this parameter's gradient is complete.
struct gradient_ready {
  std::uint64_t step = 0;
  int slot = 0;
  kernels::buffer gradients; ///< the flat array that it is in
  copied_factors factors;
  std::int64_t rows = 0; ///< that it is the mean over, this and the next
  double ignored = 0;    ///< of these; not of a model that other code computes
};

/// Compute actor to worker: the step is done.
struct compute_result {
  std::uint64_t step = 0;
  kernels::buffer gradients; ///< the whole flat array
  copied_factors factors;    ///< of the gradients, where they travel and the step had one part
  std::int64_t rows = 0;
  std::int64_t counted = 0; ///< predictions whose label is not ignored
  double ignored = 0;       ///< rows' worth of labels that are
  double loss = 0;          ///< mean over those that are not
  bool finite = true;
  std::int64_t compute_ns = 0;
  std::int64_t ahead_ns = 0;       ///< of these: before the step was asked for
  protocols::squared_norm squares; ///< of the gradient, where it is clipped by its own norm
};

/// The device to its compute actor: a part of the step has run.
struct compute_finished {
  std::uint64_t step = 0;
  std::uint64_t mark = 0; ///< of in_flight: everything enqueued before has run too
  bool summed = false;    ///< the parts' sum
};

/// The device to its compute actor: the copies for a checkpoint have run.
struct replica_copied {};

/// Worker to a compute actor on a device: copy a block of incoming parameters, ahead of any work that uses them.
struct upload_request {
  kernels::buffer to, from;
  bool from_host = true; ///< false: from a device of the same kind
};

/// Copy the batch that a later request will name.
struct prefetch_request {
  batch data;
};

/// Copy a result to host memory; the work that wrote `from` has run. `done` is called on any thread and only sends messages.
struct download_request {
  kernels::buffer from, to;
  std::function<void()> done;
};

/// One gradient at a time; `gradient_ready` goes to the worker that asked. `compute_finished` is to itself, from the device.
using compute_actor =
    caf::typed_actor<caf::result<compute_result>(compute_request), caf::result<void>(ahead_request),
                     caf::result<void>(step_request), caf::result<void>(mix_request), caf::result<void>(dual_request),
                     caf::result<sum_result>(sum_request), caf::result<void>(keep_request), caf::result<void>(compute_finished)>;

/// The same as its node sees it, and its worker too if it computes on a device.
using device_compute_actor = compute_actor::extend<caf::result<actor_report>(inspect_query), caf::result<void>(upload_request),
                                                   caf::result<void>(prefetch_request), caf::result<void>(download_request),
                                                   caf::result<void>(replica_copied), ///< to itself
                                                   caf::result<void>(device_check)>;  ///< to itself

using loader_actor = caf::typed_actor<caf::result<loaded_batch>(slice)>;

using loader_control = loader_actor::extend<caf::result<actor_report>(inspect_query)>;

} // namespace troupe::actors

CAF_BEGIN_TYPE_ID_BLOCK(troupe_compute, caf::id_block::troupe_inspection::end)

TROUPE_LOCAL_MESSAGE(troupe_compute, (troupe::kernels::buffer))
TROUPE_LOCAL_MESSAGE(troupe_compute, (troupe::slice))
TROUPE_LOCAL_MESSAGE(troupe_compute, (troupe::actors::loaded_batch))
TROUPE_LOCAL_MESSAGE(troupe_compute, (troupe::actors::compute_request))
TROUPE_LOCAL_MESSAGE(troupe_compute, (troupe::actors::compute_result))
TROUPE_LOCAL_MESSAGE(troupe_compute, (troupe::actors::ahead_request))
TROUPE_LOCAL_MESSAGE(troupe_compute, (troupe::actors::step_request))
TROUPE_LOCAL_MESSAGE(troupe_compute, (troupe::actors::mix_request))
TROUPE_LOCAL_MESSAGE(troupe_compute, (troupe::actors::dual_request))
TROUPE_LOCAL_MESSAGE(troupe_compute, (troupe::actors::sum_request))
TROUPE_LOCAL_MESSAGE(troupe_compute, (troupe::actors::sum_result))
TROUPE_LOCAL_MESSAGE(troupe_compute, (troupe::actors::keep_request))
TROUPE_LOCAL_MESSAGE(troupe_compute, (troupe::actors::replica_copied))
TROUPE_LOCAL_MESSAGE(troupe_compute, (troupe::actors::compute_finished))
TROUPE_LOCAL_MESSAGE(troupe_compute, (troupe::actors::gradient_ready))
TROUPE_LOCAL_MESSAGE(troupe_compute, (troupe::actors::device_tensor))
TROUPE_LOCAL_MESSAGE(troupe_compute, (troupe::actors::device_check))
TROUPE_LOCAL_MESSAGE(troupe_compute, (troupe::actors::upload_request))
TROUPE_LOCAL_MESSAGE(troupe_compute, (troupe::actors::prefetch_request))
TROUPE_LOCAL_MESSAGE(troupe_compute, (troupe::actors::download_request))

CAF_END_TYPE_ID_BLOCK(troupe_compute)
