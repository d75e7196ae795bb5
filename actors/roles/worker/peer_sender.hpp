// SPDX-License-Identifier: BSD-3-Clause
// What a worker sends to other workers, and its replica to the evaluator.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <caf/send.hpp>

#include "actors/messages/compute.hpp"
#include "actors/messages/role.hpp"
#include "actors/roles/emulated_link.hpp"
#include "kernels/backend.hpp"

namespace troupe::actors {

/// Chunks and replicas go to peers by the worker's emulated link, if there is one. From a device tensors go through host memory,
/// unless the peer is on a device of this process. One thread.
class peer_sender {
public:
  /// `device`: null on the host; else `computes` owns its queue.
  peer_sender(const protocols::link_spec& link, training_clock& clock, training_timers& timers,
              std::shared_ptr<kernels::backend> device, device_compute_actor computes)
      : link_(link, clock, timers), device_(std::move(device)), computes_(std::move(computes)) {}

  void introduce(peers_ptr peers) { peers_ = std::move(peers); }
  /// Whether a peer is there, and the way to it free.
  bool reaches(protocols::worker_id who) const { return !peers_->is_behind(who) && !link_.busy(); }

  /// All of a tensor; it stays as it is.
  void send(const protocols::send_peer& effect, const kernels::buffer& whole) {
    send({effect.to, effect.message, {0, static_cast<std::int64_t>(whole.bytes() / sizeof(float))}}, whole);
  }
  /// A part of a tensor.
  void send(const protocols::wire::peer_part& head, const kernels::buffer& data) {
    using kind = protocols::peer_message::kind;
    const bool exchange = head.message.is == kind::chunk || head.message.is == kind::replica;
    if (exchange && head.to != protocols::evaluator && link_.delays())
      link_.send(data.bytes(), [this, head, data] { deliver(head, data); });
    else
      deliver(head, data);
  }

private:
  void deliver(const protocols::wire::peer_part& head, const kernels::buffer& data) {
    const auto& to = head.to == protocols::evaluator ? peers_->evaluator : peers_->workers[head.to.value];
    if (!device_ || data.empty())
      caf::anon_send(to, head, data);
    else if (auto near = peers_->local_device_workers.find(head.to); near != peers_->local_device_workers.end())
      caf::anon_send(near->second, head, device_tensor{data, std::string{device_->name()}});
    else {
      auto on_host = device_->allocate_host(data.bytes());
      caf::anon_send(computes_, download_request{data, on_host, [to, head, on_host] { caf::anon_send(to, head, on_host); }});
    }
  }

  emulated_link link_;
  std::shared_ptr<kernels::backend> device_;
  device_compute_actor computes_;
  peers_ptr peers_;
};

} // namespace troupe::actors
