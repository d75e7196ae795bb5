// SPDX-License-Identifier: BSD-3-Clause
// The values that a lane message may have.
#include "protocols/wire/check.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace troupe::protocols::wire {
namespace {

using fault = std::optional<std::string>;

template <class... Faults>
fault first_of(Faults... faults) {
  fault found;
  (void)(... || (found = std::move(faults)).has_value());
  return found;
}

fault at_least(const char* name, std::int64_t value, std::int64_t least) {
  if (value < least)
    return fmt::format("{} is {}, must be {} or more", name, value, least);
  return {};
}
fault finite(const char* name, double value) {
  if (!std::isfinite(value))
    return fmt::format("{} is {}, must be finite", name, value);
  return {};
}
fault few(const char* name, std::size_t size) {
  if (size > max_listed_workers)
    return fmt::format("{} {}, at most {} fit into a frame", size, name, max_listed_workers);
  return {};
}

fault well_formed(const range& r) {
  if (r.begin < 0 || r.begin > r.end || r.begin % 16 != 0 || r.end % 16 != 0)
    return fmt::format("range {}..{}, must be 0 <= begin <= end, both multiples of 16", r.begin, r.end);
  return {};
}
/// A range whose elements travel in one frame.
fault check(const range& r) {
  if (auto found = well_formed(r))
    return found;
  if (static_cast<std::uint64_t>(r.end - r.begin) > max_payload_bytes / sizeof(float))
    return fmt::format("range {}..{} is longer than a frame may carry ({} bytes)", r.begin, r.end, max_payload_bytes);
  return {};
}
/// Of gradients: a push, or the facts of a sum.
template <class Gradients>
fault ignores(const Gradients& g) {
  if (!(g.ignored >= 0 && g.counted() >= 0))
    return fmt::format("ignored is {}, must be 0 or more and at most the {} samples", g.ignored, g.samples);
  return {};
}
fault check(const push& p) {
  return first_of(at_least("samples", p.samples, 0), at_least("compute time", p.compute, 0), finite("weight", p.weight),
                  ignores(p));
}
fault check(const step_rule& s) {
  if (s.method > step_rule::kind::linear)
    return fmt::format("step of the unknown kind {}", static_cast<unsigned>(s.method));
  return first_of(finite("learning-rate scale", s.lr_scale), finite("outer learning rate", s.lr),
                  finite("outer momentum", s.momentum), finite("parameter weight", s.parameter_weight),
                  finite("threshold", s.threshold));
}

/// Where elements may have another form.
template <class Part>
fault check_form(const Part& m) {
  if (static_cast<std::size_t>(m.as) >= kernels::form_names.size())
    return fmt::format("elements of the unknown form {}; there are {}", static_cast<unsigned>(m.as), kernels::form_names.size());
  if (auto found = check(m.where))
    return found;
  if (kernels::says_bytes(m.as) ? m.bytes % 8 != 0 || m.bytes > kernels::encoded_bytes(m.as, m.where.elements()) : m.bytes != 0)
    return fmt::format("{} bytes of elements {}..{} as {}, which take a multiple of 8, and at most what they take as they are",
                       m.bytes, m.where.begin, m.where.end, kernels::name_of(m.as));
  return {};
}

fault check(const push_part& m) {
  return check_form(m);
}
fault check(const push_end& m) {
  return check(m.push);
}
fault check(const params_part& m) {
  return first_of(check_form(m), few("workers to deliver to", m.to.size()),
                  at_least("number of workers to deliver to", std::ssize(m.to), 1), at_least("period", m.params.period, 1));
}
fault check(const partial_part& m) {
  if (m.as != kernels::form::fp32 && m.as != kernels::form::sparse_fp32)
    return fmt::format("a sum in the form {}, which loses some of it", static_cast<unsigned>(m.as));
  return m.empty ? well_formed(m.where) : check_form(m);
}
fault check(const addressed<arrival>& m) {
  return check(m.message.push);
}
fault check(const addressed<close>& m) {
  const close& c = m.message;
  if (auto found = first_of(few("contributions", c.contributions.size()), few("workers to send to", c.send_to.size()),
                            check(c.step), at_least("workers", c.workers, 1), at_least("period", c.period, 1)))
    return found;
  if (c.compensate != delay_compensation{})
    return "terms of a rule that applies each push alone, which has no lane to its holder";
  for (const contribution& part : c.contributions)
    if (auto found = finite("a contribution's weight", part.weight))
      return found;
  return {};
}
fault check(const addressed<send_order>& m) {
  return first_of(few("workers to send to", m.message.to.size()), at_least("period", m.message.period, 1));
}
fault check(const addressed<drop_order>&) {
  return {};
}
fault check(const addressed<prepared>&) {
  return {};
}
fault check(const addressed<commit_order>&) {
  return {};
}
fault holds_words(const range& where, std::uint64_t words) {
  if (where.begin != 0 || words > static_cast<std::uint64_t>(std::max<std::int64_t>(where.end, 0)) / 2)
    return fmt::format("a message of {} words in the range {}..{}", words, where.begin, where.end);
  return check(where);
}
fault check(const decision_part& m) {
  return holds_words(m.where, m.words);
}
fault check(const addressed<admit_order>&) {
  return {};
}
fault check(const addressed<copy_request>& m) {
  for (const std::uint32_t piece : m.message.pieces)
    if (piece >= m.message.of)
      return fmt::format("piece {} of {}", piece, m.message.of);
  return few("pieces", m.message.pieces.size());
}
fault check(const copy_part& m) {
  return holds_words(m.where, m.words);
}
fault check(const segment_range& s) {
  constexpr std::uint32_t most = segment_range::most_parts * max_listed_workers;
  if (s.first >= s.last || s.last > s.of || s.of > most)
    return fmt::format("segments {} to {} of {}", s.first, s.last, s.of);
  return {};
}
fault check(const peer_part& m) {
  const peer_message& p = m.message;
  if (p.is > peer_message::kind::state)
    return fmt::format("a message between workers of the unknown kind {}", static_cast<unsigned>(p.is));
  if (p.course.limit.checkpoint > hold_order::saves::always)
    return fmt::format("a checkpoint of the unknown kind {}", static_cast<unsigned>(p.course.limit.checkpoint));
  if (m.as != kernels::form::fp32 && (p.is != peer_message::kind::chunk || kernels::is_sparse(m.as)))
    return fmt::format("a message between workers in the form {}", static_cast<unsigned>(m.as));
  return first_of(check_form(m), finite("weight", p.weight), check(p.part), at_least("samples", p.facts.samples, 0),
                  ignores(p.facts));
}

} // namespace

std::optional<std::string> find_fault(const message& msg) {
  return std::visit([](const auto& m) { return check(m); }, msg);
}

} // namespace troupe::protocols::wire
