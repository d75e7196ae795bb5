// SPDX-License-Identifier: BSD-3-Clause
// Emulated times.
#include "protocols/emulate/inject.hpp"

#include <cmath>

#include "protocols/duration.hpp"
#include "protocols/random_stream.hpp"

namespace troupe::protocols {

namespace {

double draw(const straggler_spec& spec, worker_id worker, std::uint64_t step, random_stream random) {
  using law = straggler_spec::law;
  switch (spec.distribution) {
  case law::constant:
    return spec.prob >= 1 || random.hit(spec.prob) ? spec.factor : 1;
  case law::jitter:
    return 1 + spec.spread * (2 * random.uniform() - 1);
  case law::exponential:
    return 1 - spec.spread * std::log1p(-random.uniform());
  case law::pareto:
    return std::pow(1 - random.uniform(), -1 / spec.alpha);
  case law::trace:
    return spec.factors.empty() ? 1 : spec.factors[(worker.value + step - 1) % spec.factors.size()];
  }
  return 1;
}

} // namespace

double step_factor(const inject_spec& spec, std::uint64_t seed, worker_id worker, std::uint64_t step) {
  double factor = 1;
  for (std::size_t i = 0; i < spec.stragglers.size(); ++i)
    if (const straggler_spec& one = spec.stragglers[i]; !one.worker || *one.worker == worker)
      factor *= draw(one, worker, step, random_stream::keyed(seed, i, worker.value, step));
  return factor;
}

nanoseconds emulated_step(const inject_spec& spec, std::uint64_t seed, worker_id worker, std::uint64_t step, double share) {
  if (spec.step_ms <= 0)
    return 0;
  return duration(spec.step_ms * 1e6 * share * step_factor(spec, seed, worker, step));
}

nanoseconds transmission(const link_spec& link, std::uint64_t bytes) {
  return link.mbit <= 0 ? 0 : duration(static_cast<double>(bytes) * 8e3 / link.mbit);
}

} // namespace troupe::protocols
