// SPDX-License-Identifier: BSD-3-Clause
// Parameters on their way from a shard to workers.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "actors/messages/role.hpp"
#include "kernels/buffer.hpp"
#include "kernels/form.hpp"
#include "protocols/message.hpp"
#include "protocols/tree.hpp"
#include "protocols/wire/message.hpp"
#include "tensor/layout.hpp"

namespace troupe::actors {

/// A partition of some version, or the code of what it differs by from that of `base`.
struct parameters_part {
  flat_range where;
  kernels::buffer data;
  protocols::version marked{}; ///< known to the lead's shard alone
  kernels::form as = kernels::form::fp32;
  protocols::version base{};

  /// That a receiver has to be told.
  std::uint32_t sparse_bytes() const { return kernels::is_sparse(as) ? static_cast<std::uint32_t>(data.bytes()) : 0; }
};

protocols::wire::params_part head_of(const protocols::send_order& order, protocols::holder_id from, const parameters_part& part,
                                     std::vector<protocols::worker_id> to);
/// Once to the workers of another node, who have one proxy. Thread-safe: a device's notification may call it.
void send_part(const role_peers& peers, const protocols::send_order& order, protocols::holder_id from,
               const parameters_part& part);
void send_parts(const role_peers& peers, const protocols::send_order& order, protocols::holder_id from,
                const std::vector<parameters_part>& parts);
std::size_t bytes_of(const std::vector<parameters_part>& parts);
/// The order to send to the evaluator, if this one is to send to it.
std::optional<protocols::send_order> evaluators_part_of(protocols::send_order order);
/// By host of an emulated link: the workers of a node's block together, all others alone.
std::vector<std::vector<protocols::worker_id>> hosts_of(const std::vector<protocols::worker_id>& to,
                                                        const std::optional<protocols::tree_shape>& tree);

} // namespace troupe::actors
