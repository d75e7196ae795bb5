// SPDX-License-Identifier: BSD-3-Clause
// A schedule, performed.
#include "protocols/collective/reduction.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "kernels/assert.hpp"

namespace troupe::protocols::collective {

namespace {

using course = reduction_state::course;
using kind = step::kind;

constexpr std::uint8_t waits = 0, merges = 1, is_over = 2; // progress of a step

facts operator+(const facts& a, const facts& b) {
  return {a.samples + b.samples, a.loss + b.loss, a.finite && b.finite, a.ignored + b.ignored, a.saves || b.saves};
}

} // namespace

reduction_effects reduction::on(const begin& msg) {
  TROUPE_ASSERT(state_.is != course::runs && state_.is != course::done);
  if (state_.is == course::abandoned)
    return {};
  state_.is = course::runs;
  state_.rank = msg.rank;
  state_.own = msg.own;
  state_.steps = schedule(which_, msg.among, msg.rank);
  state_.progress.assign(state_.steps.size(), waits);
  state_.known.assign(segments(which_, msg.among), msg.own);
  reduction_effects out;
  for (auto& [id, early] : std::exchange(state_.came, {}))
    if (auto why = fault_of(early); why.empty())
      state_.came.emplace(id, early);
    else
      out.emplace_back(refuse_chunk{id, early.data, std::move(why)});
  advance(out);
  return out;
}

reduction_effects reduction::on(const chunk& msg) {
  if (state_.is == course::abandoned)
    return {drop_chunk{msg.data}};
  if (auto why = fault_of(msg); !why.empty())
    return {refuse_chunk{msg.id, msg.data, std::move(why)}};
  state_.came.emplace(msg.id, msg);
  reduction_effects out;
  if (state_.is == course::runs)
    advance(out);
  return out;
}

/// Empty: it is expected, or may be.
std::string reduction::fault_of(const chunk& msg) const {
  const auto named = fmt::format("segment {} of stage {} from rank {}", msg.id.first, msg.id.stage, msg.id.from);
  if (state_.came.contains(msg.id))
    return named + " came twice";
  if (state_.is == course::waits)
    return {};
  const auto at = std::ranges::find_if(state_.steps, [&](const step& each) {
    return each.does != kind::send && each.peer == msg.id.from && each.stage == msg.id.stage && each.first == msg.id.first;
  });
  if (at == state_.steps.end() || msg.id.from == state_.rank)
    return named + " is not in the schedule";
  if (at->last != msg.last)
    return fmt::format("{} ends with {}, and the schedule says {}", named, msg.last, at->last);
  if (state_.progress[static_cast<std::size_t>(at - state_.steps.begin())] != waits)
    return named + " came twice";
  return {};
}

reduction_effects reduction::on(const merged& msg) {
  reduction_effects out;
  if (state_.is != course::runs)
    return out;
  for (std::size_t i = 0; i < state_.steps.size(); ++i)
    if (const step& each = state_.steps[i]; state_.progress[i] == merges && each.stage == msg.stage && each.first == msg.first)
      state_.progress[i] = is_over;
  advance(out);
  return out;
}

reduction_effects reduction::on(const abandon&) {
  reduction_effects out;
  if (state_.is == course::done)
    return out;
  state_.is = course::abandoned;
  for (const auto& [id, unused] : std::exchange(state_.came, {}))
    out.emplace_back(drop_chunk{unused.data});
  return out;
}

std::vector<std::uint32_t> reduction::waiting_for() const {
  std::vector<std::uint32_t> out;
  for (std::size_t i = 0; i < state_.steps.size(); ++i)
    if (const step& each = state_.steps[i]; state_.progress[i] == waits && each.peer != state_.rank && is_free(i)
                                            && !state_.came.contains({each.peer, each.stage, each.first}))
      out.push_back(each.peer);
  std::ranges::sort(out);
  out.erase(std::ranges::unique(out).begin(), out.end());
  return out;
}

/// No step before it that shares a segment is still to be done. Terms of one sum do not wait for each other.
bool reduction::is_free(std::size_t at) const {
  const step& one = state_.steps[at];
  for (std::size_t i = 0; i < at; ++i) {
    const step& other = state_.steps[i];
    const bool shares = other.first < one.last && one.first < other.last;
    const bool same_sum = one.does == kind::add && other.does == kind::add && other.stage == one.stage;
    if (shares && !same_sum && state_.progress[i] != is_over)
      return false;
  }
  return true;
}

/// The terms of its sum; a `take` has itself alone.
std::vector<std::size_t> reduction::group_of(std::size_t at) const {
  const step& one = state_.steps[at];
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < state_.steps.size(); ++i)
    if (const step& other = state_.steps[i];
        i == at || (one.does == kind::add && other.does == kind::add && other.stage == one.stage && other.first == one.first))
      out.push_back(i);
  return out;
}

bool reduction::start(std::size_t at, reduction_effects& out) {
  const step one = state_.steps[at];
  if (one.does == kind::send) {
    state_.progress[at] = is_over;
    out.emplace_back(send_chunk{one.peer, one.stage, one.first, one.last, state_.known[one.first]});
    return true;
  }
  const auto group = group_of(at);
  for (const std::size_t i : group)
    if (const step& term = state_.steps[i];
        term.peer != state_.rank && !state_.came.contains({term.peer, term.stage, term.first}))
      return false;
  merge merging{one.stage, one.first, one.last, {}};
  facts sum;
  for (const std::size_t i : group) {
    const step& term = state_.steps[i];
    state_.progress[i] = merges;
    const auto found = state_.came.extract({term.peer, term.stage, term.first});
    const facts more = found ? found.mapped().of : state_.known[one.first];
    sum = merging.terms.empty() ? more : sum + more;
    merging.terms.push_back(found ? found.mapped().data : ticket{});
  }
  for (std::uint32_t segment = one.first; segment < one.last; ++segment)
    state_.known[segment] = sum;
  out.emplace_back(std::move(merging));
  return true;
}

void reduction::advance(reduction_effects& out) {
  for (std::size_t i = 0; i < state_.steps.size(); ++i)
    if (state_.progress[i] == waits && is_free(i))
      start(i, out);
  if (std::ranges::all_of(state_.progress, [](std::uint8_t each) { return each == is_over; })) {
    state_.is = course::done;
    TROUPE_ASSERT(state_.came.empty());
    out.emplace_back(reduced{state_.known.front()});
  }
}

} // namespace troupe::protocols::collective
