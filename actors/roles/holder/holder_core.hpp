// SPDX-License-Identifier: BSD-3-Clause
// What shards and aggregators share: pushes and partial sums that are coming in, and memory that a device still reads.
#pragma once

#include <memory>

#include "actors/messages/role.hpp"
#include "actors/roles/holder/push_inbox.hpp"
#include "protocols/binding/operand.hpp"

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

/// The tensors of a sum: they stay alive here until the device has read them.
struct gathered_terms {
  explicit gathered_terms(const protocols::operands<kernels::buffer>& sum) {
    for (const auto& part : sum) {
      tensors.push_back(part.what);
      terms.push_back({part.what.as<const float>(), part.weight});
    }
  }
  std::vector<kernels::buffer> tensors;
  std::vector<kernels::term> terms;
};

/// Puts together what comes to a holder, for its binding to hear.
class holder_core {
public:
  holder_core(const holder_landing& landing, std::shared_ptr<kernels::backend> queue)
      : held(*queue), queue_(std::move(queue)), inbox_(inbox_of(landing.pushes)), partials_(inbox_of(landing.partials)) {}
  holder_core(const holder_core&) = delete;
  holder_core& operator=(const holder_core&) = delete;

  /// The push, once it is complete.
  template <class Payload>
  std::optional<complete<protocols::push>> add(const wire::push_part& head, const Payload& payload) {
    came.bytes += static_cast<std::uint64_t>(head.where.end - head.where.begin) * sizeof(float);
    return counted(inbox_.add(head, payload));
  }
  std::optional<complete<protocols::push>> add(const wire::push_end& end) { return counted(inbox_.add(end)); }
  /// Likewise a child's sum.
  template <class Payload>
  std::optional<complete<protocols::partial>> add(const wire::partial_part& head, const Payload& payload) {
    complete<protocols::partial> done{{head.from, head.ver, {}}};
    if (!head.empty) {
      partial_key key{head.from, head.ver};
      if (!partials_.add(key, {head.where.begin, head.where.end}, payload))
        return std::nullopt;
      done.tensor = partials_.take(key);
      if (!done.tensor)
        return std::nullopt;
    }
    return done;
  }
  void forget(const protocols::worker_down& who) { inbox_.drop(who.worker, who.life); }

  /// The tensor, or a part of it, to whoever reads host memory: `send` is called with it when it is there, on any thread. Both
  /// blocks stay alive until then; the caller need not hold `what`.
  void fetch(const kernels::buffer& what, std::function<void(const kernels::buffer&)> send) {
    auto landed = queue_->allocate_host(what.bytes());
    queue_->download(landed.data(), what.data(), what.bytes(), [what, landed, send = std::move(send)] { send(landed); });
  }

  in_flight held;
  /// What workers have pushed here, since the start.
  struct {
    std::uint64_t pushes = 0; ///< that are complete
    std::uint64_t bytes = 0;
  } came;

private:
  std::optional<complete<protocols::push>> counted(std::optional<complete<protocols::push>> push) {
    came.pushes += push ? 1 : 0;
    return push;
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
      queue_->upload(to.data(), from.data(), from.bytes());
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
