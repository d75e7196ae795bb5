// SPDX-License-Identifier: BSD-3-Clause
// What shards and aggregators share: incoming pushes and partial sums, the holder machine, arrivals.
#pragma once

#include <memory>

#include "actors/messages/role.hpp"
#include "actors/push_inbox.hpp"
#include "protocols/holder.hpp"

namespace troupe::actors {

/// Names a child's partial sum of a round.
struct partial_key {
  protocols::holder_id from;
  protocols::version ver;
  friend auto operator<=>(const partial_key&, const partial_key&) = default;
};
using partial_assembler = assembler<partial_key>;

/// Where the lane's thread reads a holder's partitions to.
struct holder_landing {
  std::shared_ptr<push_assembler> pushes;
  std::shared_ptr<partial_assembler> partials;
};

/// The tensors of a sum, out of the store: they stay alive here until the device has read them.
struct gathered_terms {
  std::vector<kernels::buffer> tensors;
  std::vector<kernels::term> terms;
};

/// Translates what a holder hears into what its machine hears. The driver performs the effects.
class holder_core {
public:
  holder_core(protocols::holder_place place, const holder_landing& landing, std::shared_ptr<kernels::backend> queue)
      : machine(place), held(*queue), queue_(std::move(queue)), inbox_(inbox_of(landing.pushes)),
        partials_(inbox_of(landing.partials)) {}
  holder_core(const holder_core&) = delete;
  holder_core& operator=(const holder_core&) = delete;

  /// The push, once it is complete: what the machine is to hear.
  template <class Payload>
  std::optional<protocols::push> add(const wire::push_part& head, const Payload& payload) {
    came.bytes += static_cast<std::uint64_t>(head.where.end - head.where.begin) * sizeof(float);
    return counted(inbox_.add(head, payload, store));
  }
  std::optional<protocols::push> add(const wire::push_end& end) { return counted(inbox_.add(end, store)); }
  /// Likewise a child's sum.
  template <class Payload>
  std::optional<protocols::partial> add(const wire::partial_part& head, const Payload& payload) {
    protocols::partial done{head.from, head.ver, {}};
    if (!head.empty) {
      partial_key key{head.from, head.ver};
      if (!partials_.add(key, {head.where.begin, head.where.end}, payload))
        return std::nullopt;
      auto sum = partials_.take(key);
      if (!sum)
        return std::nullopt;
      done.sum = store.keep(std::move(*sum));
    }
    return done;
  }
  protocols::holder_effects on(const protocols::worker_down& msg) {
    inbox_.drop(msg.worker, msg.life);
    return machine.on(msg);
  }

  /// `keep`: the store keeps them as well, for a later sum.
  gathered_terms take(const std::vector<protocols::term>& sum, bool keep = false) {
    gathered_terms taken;
    for (const auto& part : sum) {
      taken.tensors.push_back(store.find(part.what));
      taken.terms.push_back({taken.tensors.back().as<const float>(), part.weight});
      if (!keep)
        store.drop(part.what);
    }
    return taken;
  }

  /// The tensor, or a part of it, to whoever reads host memory: `send` is called with it when it is there, on any thread. Both
  /// blocks stay alive until then; the caller need not hold `what`.
  void fetch(const kernels::buffer& what, std::function<void(const kernels::buffer&)> send) {
    auto landed = queue_->allocate_host(what.bytes());
    queue_->fetch(landed.data(), what.data(), what.bytes(), [what, landed, send = std::move(send)] { send(landed); });
  }

  /// What it brought takes on a link: 0 where that is a trailer alone.
  std::size_t bytes_of(const protocols::push& what) const { return store.find(what.gradient).bytes(); }
  std::size_t bytes_of(const protocols::partial& what) const { return store.find(what.sum).bytes(); }

  protocols::holder machine;
  ticket_store store;
  in_flight held;
  /// What workers have pushed here, since the start.
  struct {
    std::uint64_t pushes = 0; ///< that are complete
    std::uint64_t bytes = 0;
  } came;

private:
  std::optional<protocols::push> counted(std::optional<protocols::push> complete) {
    came.pushes += complete ? 1 : 0;
    return complete;
  }
  template <class Key>
  tensor_inbox<Key> inbox_of(const std::shared_ptr<assembler<Key>>& landing) {
    if (queue_->on_host())
      return landing;
    return {landing,
            {.name = std::string{queue_->name()},
             .allocate = [queue = queue_](std::size_t bytes) { return queue->allocate(bytes); },
             .bring = [this](const auto& to, const auto& from, bool from_host) { bring(to, from, from_host); }}};
  }
  void bring(const kernels::buffer& to, const kernels::buffer& from, bool from_host) {
    if (from_host)
      queue_->stage(to.data(), from.data(), from.bytes());
    else
      queue_->copy(to.data(), from.data(), from.bytes());
    held.keep(to);
    held.keep(from);
  }

  std::shared_ptr<kernels::backend> queue_;
  push_inbox inbox_;
  tensor_inbox<partial_key> partials_;
};

} // namespace troupe::actors
