// SPDX-License-Identifier: BSD-3-Clause
// Readings of a shard's parameters by actors of other programs, piece by piece.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <iterator>
#include <map>

#include <caf/actor_addr.hpp>
#include <caf/expected.hpp>
#include <caf/typed_response_promise.hpp>
#include <fmt/format.h>

#include "actors/errors.hpp"
#include "actors/messages/role.hpp"
#include "actors/roles/activity.hpp"
#include "actors/roles/holder/holder_core.hpp"
#include "kernels/backend.hpp"
#include "protocols/ids.hpp"

namespace troupe::actors {

/// Each reading is of one version, which is kept for it: a block with a holder is not overwritten.
///
/// Part of a shard's actor, and used on its thread alone.
class parameter_readings {
public:
  /// `core`, `queue`: the shard's.
  parameter_readings(measured_pointer<shard_control> self, holder_core& core, const kernels::backend& queue)
      : self_(self), core_(core), queue_(queue) {}

  /// Answers who asks with a piece of at most `most` floats, once that is in host memory: of the newest version at offset 0, then
  /// of that version.
  caf::result<parameters_piece> read(const parameters_query& query, std::uint64_t most, protocols::version newest,
                                     const kernels::buffer& parameters) {
    const auto next = piece_of(caf::actor_cast<caf::actor_addr>(self_->current_sender()), query.offset, most, newest, parameters);
    if (!next)
      return next.error();
    auto promise = self_->make_response_promise<parameters_piece>();
    const auto number = ++last_;
    unanswered_.emplace(number, promise);
    if (queue_.on_host())
      deliver({number, next->ver, next->values, next->last});
    else
      core_.download(next->values, [me = shard_control{self_}, number, ver = next->ver, last = next->last](const auto& on_host) {
        caf::anon_send(me, piece_downloaded{number, ver, on_host, last});
      });
    return promise;
  }
  void deliver(const piece_downloaded& piece) {
    auto asked = unanswered_.extract(piece.number);
    if (!asked)
      return;
    const auto values = piece.values.span<const float>();
    asked.mapped().deliver(parameters_piece{piece.ver, {values.begin(), values.end()}, piece.last});
  }

private:
  static constexpr std::size_t most_readings = 8; ///< each keeps a version alive

  /// A version that an actor of another process is reading.
  struct reading {
    caf::actor_addr who;
    protocols::version ver;
    kernels::buffer parameters;
  };
  struct piece {
    protocols::version ver;
    kernels::buffer values;
    bool last = false;
  };

  caf::expected<piece> piece_of(const caf::actor_addr& who, std::uint64_t offset, std::uint64_t most, protocols::version newest,
                                const kernels::buffer& parameters) {
    auto found = std::ranges::find(readings_, who, &reading::who);
    if (offset == 0) {
      if (found != readings_.end())
        readings_.erase(found);
      if (readings_.size() == most_readings)
        readings_.pop_front();
      readings_.push_back({who, newest, parameters});
      found = std::prev(readings_.end());
    }
    if (found == readings_.end())
      return failure("this reading was forgotten, or never begun; begin with offset 0");
    const auto floats = found->parameters.bytes() / sizeof(float);
    if (offset >= floats && floats != 0)
      return failure(fmt::format("offset {} is beyond the shard's {} parameters", offset, floats));
    const auto count = std::min<std::uint64_t>(floats - offset, most);
    piece out{found->ver, found->parameters.slice(offset * sizeof(float), count * sizeof(float)), offset + count == floats};
    if (out.last)
      readings_.erase(found);
    return out;
  }

  measured_pointer<shard_control> self_;
  holder_core& core_;
  const kernels::backend& queue_;
  std::deque<reading> readings_;                                                      ///< the newest last
  std::map<std::uint64_t, caf::typed_response_promise<parameters_piece>> unanswered_; ///< by the number of the piece
  std::uint64_t last_ = 0;
};

} // namespace troupe::actors
