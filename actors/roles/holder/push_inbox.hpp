// SPDX-License-Identifier: BSD-3-Clause
// Incoming pushes.
#pragma once

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "actors/roles/tensor_inbox.hpp"
#include "kernels/codec.hpp"
#include "protocols/message.hpp"
#include "protocols/wire/codec.hpp"
#include "protocols/wire/message.hpp"

namespace troupe::actors {

/// A message whose last part has come, with its tensor, if it has one.
template <class Message>
struct complete {
  Message message;
  std::optional<kernels::buffer> tensor{};
  std::optional<std::size_t> sent{}; ///< bytes of its parts as they were sent; none: the tensor's

  std::size_t bytes() const { return sent.value_or(tensor ? tensor->bytes() : 0); }
};

/// Adds a part of a push or of a sum, and decodes it if it is encoded; of bytes that are not of the head's form, nothing is.
/// `to`: a tensor_inbox or an assembler.
template <class Inbox, class Key, class Head>
bool add_part(Inbox& to, const Key& key, const Head& head, const kernels::buffer& payload) {
  const flat_range where{head.where.begin, head.where.end};
  if (head.as == kernels::form::fp32)
    return to.add(key, where, payload);
  const auto range = head.where.elements();
  if (!kernels::is_sound(head.as, range, payload.span<const std::byte>()))
    return false;
  const auto floats = to.place(key, where);
  if (!floats)
    return false;
  kernels::decode(head.as, range, payload.span<const std::byte>(), floats.template span<float>());
  return to.add(key, where, floats);
}
template <class Key, class Head>
bool add_part(tensor_inbox<Key>& to, const Key& key, const Head& head, const device_tensor& payload) {
  return to.add(key, {head.where.begin, head.where.end}, payload);
}

using push_assembler = assembler<protocols::push_id>;

/// Joins the partitions and the trailer of each push, in any order (lanes send small messages first), and decodes those that are
/// encoded. Refuses a push whose clock is not newer than the newest complete one of the same incarnation: it has been counted.
class push_inbox {
public:
  explicit push_inbox(tensor_inbox<protocols::push_id> parts) : parts_(std::move(parts)) {}

  /// The push if it is complete now.
  template <class Payload> ///< a buffer in host memory, or a device_tensor
  std::optional<complete<protocols::push>> add(const protocols::wire::push_part& head, const Payload& payload) {
    if (is_old(head.id)) { // frees memory that a lane has placed for it
      parts_.drop_if([&](const protocols::push_id& id) { return id == head.id; });
      return std::nullopt;
    }
    if (!add_part(parts_, head.id, head, payload))
      return std::nullopt;
    if (head.as != kernels::form::fp32)
      sent_[head.id] += protocols::wire::payload_bytes(head);
    return take(head.id);
  }
  std::optional<complete<protocols::push>> add(const protocols::wire::push_end& end) {
    if (is_old(end.push.id))
      return std::nullopt;
    trailers_.insert_or_assign(end.push.id, end);
    return take(end.push.id);
  }
  /// Drops incomplete pushes of this worker, and refuses further ones of this incarnation.
  void drop(protocols::worker_id worker, protocols::incarnation incarnation) {
    auto of_the_dead = [&](const protocols::push_id& id) { return id.worker == worker && id.incarnation <= incarnation; };
    std::erase_if(trailers_, [&](const auto& item) { return of_the_dead(item.first); });
    std::erase_if(sent_, [&](const auto& item) { return of_the_dead(item.first); });
    parts_.drop_if(of_the_dead);
    auto& newest = newest_[worker];
    newest = std::max(newest, {incarnation, last_clock});
  }

  /// Forgets which pushes were complete, but for those of the dead.
  void take_again() {
    std::erase_if(newest_, [](const auto& seen) { return seen.second.second != last_clock; });
  }

private:
  static constexpr protocols::clock_tick last_clock{std::numeric_limits<std::uint64_t>::max()};

  bool is_old(const protocols::push_id& id) const {
    auto found = newest_.find(id.worker);
    return found != newest_.end() && std::pair{id.incarnation, id.clock} <= found->second;
  }

  std::optional<complete<protocols::push>> take(const protocols::push_id& id) {
    auto trailer = trailers_.find(id);
    if (trailer == trailers_.end())
      return std::nullopt;
    complete<protocols::push> done{trailer->second.push};
    if (trailer->second.parts > 0) {
      done.tensor = parts_.take(id);
      if (!done.tensor)
        return std::nullopt;
    }
    trailers_.erase(trailer);
    if (const auto sent = sent_.extract(id))
      done.sent = sent.mapped();
    newest_.insert_or_assign(id.worker, std::pair{id.incarnation, id.clock});
    return done;
  }

  tensor_inbox<protocols::push_id> parts_;
  std::map<protocols::push_id, protocols::wire::push_end> trailers_;
  std::map<protocols::push_id, std::size_t> sent_; ///< bytes of the encoded parts that have come
  std::map<protocols::worker_id, std::pair<protocols::incarnation, protocols::clock_tick>> newest_;
};

} // namespace troupe::actors
