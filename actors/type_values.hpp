// SPDX-License-Identifier: BSD-3-Clause
// How what the layers below know of a job crosses hosts: inspection, found by argument-dependent lookup.
#pragma once

#include "actors/messages.hpp"

namespace troupe::protocols {

template <class Inspector, class Tag, class Rep>
bool inspect(Inspector& f, strong_id<Tag, Rep>& x) {
  return f.object(x).fields(f.field("value", x.value));
}
template <class Inspector>
bool inspect(Inspector& f, member& x) {
  return f.object(x).fields(f.field("worker", x.worker), f.field("life", x.life));
}
template <class Inspector>
bool inspect(Inspector& f, protocol_spec& x) {
  return f.object(x).fields(f.field("name", x.name), f.field("fan_in", x.fan_in), f.field("parameters", x.parameters));
}
/// An enumeration as its number; a number beyond `last` is refused.
template <class Inspector, class Enum>
bool inspect_enum(Inspector& f, Enum& x, Enum last) {
  auto get = [&x] { return static_cast<std::uint8_t>(x); };
  auto set = [&x, last](std::uint8_t value) {
    x = static_cast<Enum>(value);
    return value <= static_cast<std::uint8_t>(last);
  };
  return f.apply(get, set);
}
template <class Inspector>
bool inspect(Inspector& f, straggler_spec::law& x) {
  return inspect_enum(f, x, straggler_spec::law::trace);
}
template <class Inspector>
bool inspect(Inspector& f, straggler_spec& x) {
  return f.object(x).fields(f.field("distribution", x.distribution), f.field("worker", x.worker), f.field("factor", x.factor),
                            f.field("prob", x.prob), f.field("alpha", x.alpha), f.field("spread", x.spread),
                            f.field("factors", x.factors));
}
template <class Inspector>
bool inspect(Inspector& f, link_spec& x) {
  return f.object(x).fields(f.field("latency_ms", x.latency_ms), f.field("mbit", x.mbit));
}
template <class Inspector>
bool inspect(Inspector& f, fault_spec::kind& x) {
  return inspect_enum(f, x, fault_spec::kind::loss);
}
template <class Inspector>
bool inspect(Inspector& f, fault_spec& x) {
  return f.object(x).fields(f.field("what", x.what), f.field("worker", x.worker), f.field("at_s", x.at_s),
                            f.field("back_after_s", x.back_after_s), f.field("for_s", x.for_s), f.field("prob", x.prob));
}
template <class Inspector>
bool inspect(Inspector& f, inject_spec& x) {
  return f.object(x).fields(f.field("step_ms", x.step_ms), f.field("stragglers", x.stragglers), f.field("link", x.link),
                            f.field("faults", x.faults));
}
template <class Inspector>
bool inspect(Inspector& f, plan& x) {
  return f.object(x).fields(f.field("epoch", x.epoch), f.field("workers", x.workers), f.field("protocol", x.protocol),
                            f.field("period", x.period), f.field("batch", x.batch), f.field("data_size", x.data_size),
                            f.field("lr_scale", x.lr_scale));
}
template <class Inspector>
bool inspect(Inspector& f, worker_down& x) {
  return f.object(x).fields(f.field("worker", x.worker), f.field("life", x.life));
}
template <class Inspector>
bool inspect(Inspector& f, holder_down& x) {
  return f.object(x).fields(f.field("holder", x.holder), f.field("reason", x.reason));
}
template <class Inspector>
bool inspect(Inspector& f, hold_order& x) {
  return f.object(x).fields(f.field("at_samples", x.at_samples), f.field("at_version", x.at_version), f.field("now", x.now));
}
template <class Inspector>
bool inspect(Inspector& f, resume_order& x) {
  return f.object(x).fields();
}
template <class Inspector>
bool inspect(Inspector& f, fetch_order& x) {
  return f.object(x).fields(f.field("ver", x.ver));
}

} // namespace troupe::protocols

namespace troupe {

template <class Inspector>
bool inspect(Inspector& f, data_spec& x) {
  return f.object(x).fields(f.field("source", x.source), f.field("path", x.path), f.field("test_path", x.test_path),
                            f.field("batch", x.batch), f.field("scale", x.scale), f.field("partition", x.partition),
                            f.field("sorted_fraction", x.sorted_fraction), f.field("label_noise", x.label_noise),
                            f.field("train_samples", x.train_samples), f.field("test_samples", x.test_samples));
}
template <class Inspector>
bool inspect(Inspector& f, data_scaling& x) {
  return f.object(x).fields(f.field("pair_of", x.pair_of), f.field("mean", x.mean), f.field("deviation", x.deviation));
}
template <class Inspector>
bool inspect(Inspector& f, model_spec& x) {
  return f.object(x).fields(f.field("layers", x.layers));
}
template <class Inspector>
bool inspect(Inspector& f, optimizer_spec& x) {
  return f.object(x).fields(f.field("name", x.name), f.field("lr", x.lr), f.field("momentum", x.momentum),
                            f.field("nesterov", x.nesterov), f.field("weight_decay", x.weight_decay), f.field("beta1", x.beta1),
                            f.field("beta2", x.beta2), f.field("epsilon", x.epsilon), f.field("schedule", x.schedule),
                            f.field("gamma", x.gamma), f.field("step_epochs", x.step_epochs), f.field("min_lr", x.min_lr),
                            f.field("total_epochs", x.total_epochs), f.field("warmup_epochs", x.warmup_epochs),
                            f.field("scale_with_workers", x.scale_with_workers));
}

} // namespace troupe
