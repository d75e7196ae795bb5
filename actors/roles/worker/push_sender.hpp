// SPDX-License-Identifier: BSD-3-Clause
// What a worker pushes, partition by partition, to those that take it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "actors/messages/compute.hpp"
#include "actors/messages/role.hpp"
#include "actors/roles/codec/push_encoder.hpp"
#include "actors/roles/training_clock.hpp"
#include "actors/roles/worker/worker_meter.hpp"
#include "kernels/backend.hpp"
#include "tensor/layout.hpp"

namespace troupe::actors {

/// One holder that takes a worker's pushes: its number and the partitions that it takes.
struct push_target {
  protocols::holder_id holder;
  std::vector<flat_range> partitions;
};

/// Which parameters each partition of a gradient waits for. A partition is complete once backward has completed every slot that
/// has elements in it.
class partition_slots {
public:
  void find(const parameter_layout& layout, const std::vector<push_target>& targets);
  /// Of another gradient: nothing is complete.
  void begin() { missing_ = counts_; }
  /// This one is: (target, partition) of those that are complete with it.
  std::vector<std::pair<std::size_t, std::size_t>> complete(int slot);
  bool is_complete(std::size_t target, std::size_t partition) const { return missing_[target][partition] == 0; }

private:
  std::vector<std::vector<int>> counts_, missing_;                        ///< slots of each partition of each target
  std::vector<std::vector<std::pair<std::size_t, std::size_t>>> of_slot_; ///< none: nothing was found
};

struct push_setup {
  std::vector<push_target> targets;
  /// Of a push under other plans: when these aggregators are gone, by plan::partition_kib. None: they are always the same.
  std::function<std::vector<push_target>(const std::set<protocols::holder_id>& gone, std::uint32_t kib)> targets_under = {};
  bool overlaps = true;                         ///< with its backward
  bool keeps = false;                           ///< until it is answered: shards have backups, which may need it
  std::shared_ptr<push_encoder> encoder;        ///< none: pushes travel as they are
  std::optional<protocols::push_budget> budget; ///< of the encoder's codes
};

/// Sends each partition of a gradient as soon as backward has completed the parameters in it, and the rest when the protocol
/// says so; where pushes are encoded, it does that here, beside backward.
///
/// From a device, gradients are downloaded partition by partition, or as a whole to be encoded. A tensor for a role on a device
/// of this process goes there directly, unless it is encoded. Used by one thread.
class push_sender {
public:
  /// `device`: null on the host; else `computes` owns its queue. `exchange`: is told when a push begins to leave, in training
  /// time.
  push_sender(push_setup setup, std::shared_ptr<const model> net, const training_clock& clock, exchange_watch& exchange,
              std::shared_ptr<kernels::backend> device, device_compute_actor computes);

  void introduce(peers_ptr peers) { peers_ = std::move(peers); }
  push_encoder* encoder() const { return setup_.encoder.get(); } ///< or null
  bool overlaps() const { return setup_.overlaps; }              ///< exchange_spec::overlap

  /// A step begins under this plan. Its gradient may leave during backward, as this push.
  void begin(const protocols::plan& under, const std::optional<protocols::push>& stream_as);
  /// The shard is elsewhere now: what has left for it is lost.
  void moved(protocols::holder_id shard) { moved_.insert(shard); }
  /// During backward of the step: sends what is complete with it.
  void ready(const gradient_ready& msg);

  /// Whether a gradient has to be in host memory before it is sent.
  bool wants_on_host() const { return setup_.encoder && device_; }
  void fetch(const kernels::buffer& gradient, std::function<void(const kernels::buffer& on_host)> done) const;
  struct sent_parts {
    std::size_t bytes = 0;
    kernels::buffer decoded{}; ///< what its receivers make of it, in host memory; where it is encoded, and wanted
  };
  /// The partitions that have not left. `gradient`: none of a push without one; `factors`: its, if it has any.
  sent_parts send_parts(const protocols::push& push, const kernels::buffer& gradient, const copied_factors& factors,
                        bool wants_decoded);
  /// After them, to all of its takers: the push is complete.
  void send_ends(const protocols::push& push, bool has_parts);
  /// Those that are kept, to one of their takers or to all.
  void send_again(std::optional<protocols::holder_id> to);
  /// Workers have this version: earlier pushes need not be kept.
  void answered(protocols::version ver);

private:
  bool streams() const;
  /// `to` takes it, and of its partitions this is one.
  protocols::wire::push_part head_of(const push_target& to, flat_range where, const protocols::push& as) const;
  void send_partition(const push_target& to, flat_range where, const kernels::buffer& gradient, const protocols::push& as,
                      const copied_factors& factors = {});
  void send_floats(const push_target& to, flat_range where, const kernels::buffer& gradient, const protocols::push& as);
  void send_end(const push_target& to, const protocols::push& push, bool has_parts);
  void download(const kernels::buffer& from, const kernels::buffer& to, std::function<void()> done) const;

  push_setup setup_;
  std::shared_ptr<const model> net_;
  const training_clock& clock_;
  exchange_watch& exchange_;
  std::shared_ptr<kernels::backend> device_;
  device_compute_actor computes_;
  peers_ptr peers_;
  // of the targets
  std::set<protocols::holder_id> without_; ///< these aggregators
  std::uint32_t cut_by_ = 0;               ///< plan::partition_kib
  partition_slots partitions_;
  // of the step
  std::optional<protocols::push> stream_as_; ///< what is complete has left
  std::set<protocols::holder_id> moved_;     ///< since it began
  struct kept_push {
    protocols::push push;
    kernels::buffer gradient;
    std::uint32_t cut_by = 0; ///< some of its partitions may be there, so the others have to fit
  };
  std::vector<kept_push> kept_; ///< the newest last
  /// A push that is being downloaded, and the host memory for it.
  struct {
    protocols::push_id id;
    kernels::buffer through;
  } leaving_;
};

} // namespace troupe::actors
