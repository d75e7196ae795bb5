// SPDX-License-Identifier: BSD-3-Clause
// What shards and aggregators share: incoming pushes and partial sums, and memory that a device still reads.
#pragma once

#include <map>
#include <memory>

#include "actors/messages/role.hpp"
#include "actors/roles/holder/push_inbox.hpp"
#include "protocols/binding/operand.hpp"

namespace troupe::actors {

/// Names a child's partial sum of a round, or a primary's.
struct partial_key {
  protocols::holder_id from;
  protocols::version ver;
  std::uint64_t decision = 0; ///< of a primary's sum, to its backup
  friend auto operator<=>(const partial_key&, const partial_key&) = default;
};
using partial_assembler = assembler<partial_key>;

/// Where the lane's thread reads a holder's partitions to.
struct holder_receive_buffers {
  std::shared_ptr<push_assembler> pushes;
  std::shared_ptr<partial_assembler> partials;
};

/// The tensors of a sum, kept alive until the device has read them.
struct gathered_terms {
  explicit gathered_terms(const protocols::operands<kernels::buffer>& sum) {
    for (const auto& part : sum) {
      tensors.push_back(part.tensor);
      terms.push_back({part.tensor.as<const float>(), part.weight});
    }
  }
  std::vector<kernels::buffer> tensors;
  std::vector<kernels::term> terms;
};

/// Assembles a holder's incoming messages for its binding.
class holder_core {
public:
  holder_core(const holder_receive_buffers& receive_buffers, std::shared_ptr<kernels::backend> queue)
      : held(*queue), queue_(std::move(queue)), inbox_(inbox_of(receive_buffers.pushes)),
        partials_(inbox_of(receive_buffers.partials)) {}
  holder_core(const holder_core&) = delete;
  holder_core& operator=(const holder_core&) = delete;

  /// The push, once it is complete.
  template <class Payload>
  std::optional<complete<protocols::push>> add(const wire::push_part& head, const Payload& payload) {
    came.bytes += wire::payload_bytes(head);
    return counted(inbox_.add(head, payload));
  }
  std::optional<complete<protocols::push>> add(const wire::push_end& end) { return counted(inbox_.add(end)); }
  /// Likewise a child's sum.
  template <class Payload>
  std::optional<complete<protocols::partial>> add(const wire::partial_part& head, const Payload& payload) {
    complete<protocols::partial> done{{head.from, head.ver, {}, head.decision}};
    if (!head.empty) {
      partial_key key{head.from, head.ver, head.decision};
      if (!add_part(partials_, key, head, payload))
        return std::nullopt;
      if (head.as != kernels::form::fp32)
        sums_sent_[key] += wire::payload_bytes(head);
      done.tensor = partials_.take(key);
      if (!done.tensor)
        return std::nullopt;
      if (const auto sent = sums_sent_.extract(key))
        done.sent = sent.mapped();
    }
    return done;
  }
  void forget(const protocols::worker_down& who) { inbox_.drop(who.worker, who.incarnation); }
  /// Pushes that have come may come again: a new lead does not know what the last one has decided about them.
  void take_again() { inbox_.take_again(); }
  /// Sums that nobody completes any more.
  void forget_sums_before(protocols::version ver) {
    const auto older = [ver](const partial_key& key) { return key.ver < ver; };
    partials_.drop_if(older);
    std::erase_if(sums_sent_, [&](const auto& item) { return older(item.first); });
  }

  /// Copies a block to host memory and calls `send` with the copy, on any thread. Both blocks are kept alive until then.
  void download(const kernels::buffer& block, std::function<void(const kernels::buffer&)> send) {
    auto on_host = queue_->allocate_host(block.bytes());
    queue_->download(on_host.data(), block.data(), block.bytes(), [block, on_host, send = std::move(send)] { send(on_host); });
  }

  /// Likewise, once all work that is enqueued has run.
  void copy_out(const kernels::buffer& block, std::function<void(const kernels::buffer&)> send) {
    auto on_host = queue_->allocate_host(block.bytes());
    queue_->copy_to_host(on_host.data(), block.data(), block.bytes());
    queue_->notify([block, on_host, send = std::move(send)] { send(on_host); });
  }

  /// Enqueues the sum of these floats; none of nothing. The terms are kept until it has run.
  std::optional<kernels::buffer> sum_of(const protocols::operands<kernels::buffer>& terms, std::int64_t floats) {
    const gathered_terms gathered(terms);
    if (gathered.terms.empty())
      return std::nullopt;
    auto out = queue_->allocate(static_cast<std::size_t>(floats) * sizeof(float));
    queue_->enqueue(kernels::weighted_sum{.terms = gathered.terms, .y = out.as<float>(), .count = floats});
    for (const auto& each : gathered.tensors)
      held.keep(each);
    return out;
  }

  in_flight held;
  /// Pushes received here since the start.
  struct {
    std::uint64_t pushes = 0; ///< complete ones
    std::uint64_t bytes = 0;
  } came;

private:
  std::optional<complete<protocols::push>> counted(std::optional<complete<protocols::push>> push) {
    came.pushes += push ? 1 : 0;
    return push;
  }
  template <class Key>
  tensor_inbox<Key> inbox_of(const std::shared_ptr<assembler<Key>>& receive_buffers) {
    if (queue_->on_host())
      return receive_buffers;
    return {receive_buffers,
            {.name = std::string{queue_->name()},
             .allocate = [queue = queue_](std::size_t bytes) { return queue->allocate(bytes); },
             .upload = [this](const auto& to, const auto& from, bool from_host) { upload(to, from, from_host); }}};
  }
  void upload(const kernels::buffer& to, const kernels::buffer& from, bool from_host) {
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
  std::map<partial_key, std::size_t> sums_sent_; ///< bytes of the encoded parts that have come
};

} // namespace troupe::actors
