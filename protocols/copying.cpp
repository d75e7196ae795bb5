// SPDX-License-Identifier: BSD-3-Clause
// Questions for pieces of a shard, and answers.
#include "protocols/copying.hpp"

#include <utility>

namespace troupe::protocols {

namespace {

/// Pieces that a backup asks for at a time: this much is under way, and waits in memory.
constexpr std::uint32_t copied_at_a_time = 4;

} // namespace

void ask_for_copies(holder_effects& out, const holder_place& place, holder_state& state) {
  if (!state.joins || !state.joins->admitted || !state.joins->asked.empty() || !state.orders.empty())
    return;
  auto& joins = *state.joins;
  for (std::uint32_t piece = 0; piece < joins.pieces && joins.asked.size() < copied_at_a_time; ++piece)
    if (!joins.here.contains(piece))
      joins.asked.insert(piece);
  ask_again(out, place, state);
}

void ask_again(holder_effects& out, const holder_place& place, const holder_state& state) {
  if (const auto& joins = state.joins; joins && !joins->asked.empty())
    out.emplace_back(ask_for_copy{*place.backup_of,
                                  {.from = place.self,
                                   .ver = state.current,
                                   .pieces = {joins->asked.begin(), joins->asked.end()},
                                   .of = joins->pieces,
                                   .view = joins->view}});
}

void answer_requests(holder_effects& out, const holder_place& place, holder_state& state) {
  if (place.backup_of)
    return;
  std::erase_if(state.asked_for, [&](const auto& entry) {
    const copy_request& asked = entry.second;
    const auto admitted = state.admitted.find(asked.from);
    if (asked.ver > state.current || admitted == state.admitted.end() || admitted->second < asked.view)
      return false;
    for (const std::uint32_t piece : asked.pieces) {
      if (asked.ver < state.current)
        break;
      shard_piece part{.from = place.self, .ver = asked.ver, .piece = piece, .squares = state.made_of};
      if (piece + 1 == asked.of)
        for (const auto& [to, order] : state.sent)
          part.sent.push_back(order);
      out.emplace_back(send_copy{asked.from, std::move(part)});
    }
    return true;
  });
}

} // namespace troupe::protocols
