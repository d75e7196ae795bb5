// SPDX-License-Identifier: BSD-3-Clause
// Sending pushes.
#include "actors/roles/worker/push_sender.hpp"

#include <utility>

#include <caf/send.hpp>

#include "protocols/wire/codec.hpp"

namespace troupe::actors {

namespace wire = protocols::wire;

void partition_slots::find(const parameter_layout& layout, const std::vector<push_target>& targets) {
  counts_.clear();
  of_slot_.assign(layout.slots.size(), {});
  for (std::size_t t = 0; t < targets.size(); ++t) {
    const auto& partitions = targets[t].partitions;
    auto& slots = counts_.emplace_back(partitions.size(), 0);
    for (std::size_t p = 0; p < partitions.size(); ++p)
      for (std::size_t s = 0; s < layout.slots.size(); ++s) {
        const auto& slot = layout.slots[s];
        if (partitions[p].begin < slot.offset + slot.elements() && slot.offset < partitions[p].end) {
          ++slots[p];
          of_slot_[s].emplace_back(t, p);
        }
      }
  }
}

std::vector<std::pair<std::size_t, std::size_t>> partition_slots::complete(int slot) {
  std::vector<std::pair<std::size_t, std::size_t>> out;
  if (!of_slot_.empty())
    for (const auto& [target, partition] : of_slot_[static_cast<std::size_t>(slot)])
      if (--missing_[target][partition] == 0)
        out.emplace_back(target, partition);
  return out;
}

push_sender::push_sender(push_setup setup, std::shared_ptr<const model> net, const training_clock& clock,
                         exchange_watch& exchange, std::shared_ptr<kernels::backend> device, device_compute_actor computes)
    : setup_(std::move(setup)), net_(std::move(net)), clock_(clock), exchange_(exchange), device_(std::move(device)),
      computes_(std::move(computes)) {
  partitions_.find(net_->layout(), setup_.targets);
}

void push_sender::begin(const protocols::plan& under, const std::optional<protocols::push>& stream_as) {
  moved_.clear();
  if (setup_.targets_under && (under.gone != without_ || under.partition_kib != cut_by_)) {
    without_ = under.gone;
    cut_by_ = under.partition_kib;
    setup_.targets = setup_.targets_under(without_, cut_by_);
    partitions_.find(net_->layout(), setup_.targets);
  }
  stream_as_ = streams() ? stream_as : std::nullopt;
  partitions_.begin();
}

/// What is clipped has to be measured first, and a device's gradient is encoded once it is complete.
bool push_sender::streams() const {
  return setup_.overlaps && !wants_on_host() && !(setup_.encoder && setup_.encoder->clips());
}

void push_sender::ready(const gradient_ready& msg) {
  for (const auto& [target, partition] : partitions_.complete(msg.slot))
    if (const push_target& to = setup_.targets[target]; stream_as_)
      send_partition(to, to.partitions[partition], msg.gradients, *stream_as_, msg.factors);
}

void push_sender::fetch(const kernels::buffer& gradient, std::function<void(const kernels::buffer& on_host)> done) const {
  auto on_host = device_->allocate_host(gradient.bytes());
  download(gradient, on_host, [on_host, done = std::move(done)] { done(on_host); });
}

push_sender::sent_parts push_sender::send_parts(const protocols::push& push, const kernels::buffer& gradient,
                                                const copied_factors& factors, bool wants_decoded) {
  const bool streamed = stream_as_ && stream_as_->id == push.id;
  sent_parts out;
  if (gradient && setup_.encoder)
    setup_.encoder->measure(gradient.span<const float>());
  for (std::size_t t = 0; gradient && t < setup_.targets.size(); ++t)
    for (std::size_t p = 0; p < setup_.targets[t].partitions.size(); ++p) {
      const push_target& to = setup_.targets[t];
      if (!streamed || !partitions_.is_complete(t, p) || moved_.contains(to.holder))
        send_partition(to, to.partitions[p], gradient, push, factors);
      out.bytes += wire::payload_bytes(head_of(to, to.partitions[p], push));
    }
  leaving_ = {};
  if (setup_.encoder && gradient) {
    setup_.encoder->settle(push);
    if (setup_.budget)
      setup_.budget->sent(out.bytes);
    if (setup_.keeps || wants_decoded)
      out.decoded = setup_.encoder->decoded();
  }
  if (setup_.keeps)
    kept_.push_back({push, out.decoded ? out.decoded : gradient, cut_by_});
  return out;
}

void push_sender::send_ends(const protocols::push& push, bool has_parts) {
  for (const auto& target : setup_.targets)
    send_end(target, push, has_parts);
}

void push_sender::send_end(const push_target& to, const protocols::push& push, bool has_parts) {
  wire::push_end end{to.holder, push, has_parts ? static_cast<std::uint32_t>(to.partitions.size()) : 0};
  end.push.gradient = {};
  caf::anon_send(peers_->holders[to.holder.value], end);
}

void push_sender::send_again(std::optional<protocols::holder_id> to) {
  for (const auto& [push, gradient, cut_by] : kept_)
    for (const push_target& target : cut_by == cut_by_ ? setup_.targets : setup_.targets_under(without_, cut_by)) {
      if (to && target.holder != *to)
        continue;
      for (const flat_range where : gradient ? target.partitions : std::vector<flat_range>{})
        // What was kept is decoded, and codes of that may be others.
        setup_.encoder ? send_floats(target, where, gradient, push) : send_partition(target, where, gradient, push);
      send_end(target, push, !gradient.empty());
    }
}

void push_sender::answered(protocols::version ver) {
  std::erase_if(kept_, [ver](const kept_push& each) { return each.push.base < ver; });
}

wire::push_part push_sender::head_of(const push_target& to, flat_range where, const protocols::push& as) const {
  const wire::push_part out{to.holder, as.epoch, as.id, {where.begin, where.end}};
  return setup_.encoder ? setup_.encoder->head_of(out) : out;
}

/// From a gradient in host memory, as it is.
void push_sender::send_floats(const push_target& to, flat_range where, const kernels::buffer& gradient,
                              const protocols::push& as) {
  auto head = head_of(to, where, as);
  head.as = kernels::form::fp32;
  head.bytes = 0;
  caf::anon_send(peers_->holders[head.to.value], head,
                 gradient.slice(static_cast<std::size_t>(head.where.begin) * sizeof(float), wire::payload_bytes(head)));
}

void push_sender::send_partition(const push_target& to, flat_range where, const kernels::buffer& gradient,
                                 const protocols::push& as, const copied_factors& factors) {
  exchange_.begins(clock_.now());
  const auto offset = static_cast<std::size_t>(where.begin) * sizeof(float),
             bytes = static_cast<std::size_t>(where.size()) * sizeof(float);
  auto piece = gradient.slice(offset, bytes);
  if (setup_.budget)
    setup_.encoder->allow(setup_.budget->density_of(as.id, clock_.now()));
  if (setup_.encoder)
    piece = setup_.encoder->encode(as, where, piece.span<const float>(), factors);
  const auto head = head_of(to, where, as);
  const auto& holder = peers_->holders[head.to.value];
  if (setup_.encoder || !device_) {
    caf::anon_send(holder, head, piece);
  } else if (auto near = peers_->local_device_holders.find(head.to); near != peers_->local_device_holders.end()) {
    caf::anon_send(near->second, head, device_tensor{piece, std::string{device_->name()}});
  } else {
    if (!leaving_.through || leaving_.id != as.id)
      leaving_ = {as.id, device_->allocate_host(gradient.bytes())};
    auto on_host = leaving_.through.slice(offset, bytes);
    download(piece, on_host, [holder, head, on_host] { caf::anon_send(holder, head, on_host); });
  }
}

void push_sender::download(const kernels::buffer& from, const kernels::buffer& to, std::function<void()> done) const {
  caf::anon_send(computes_, download_request{from, to, std::move(done)});
}

} // namespace troupe::actors
