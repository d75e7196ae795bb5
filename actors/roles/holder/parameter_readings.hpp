// SPDX-License-Identifier: BSD-3-Clause
// Readings of a shard's parameters by actors of other programs, piece by piece.
#pragma once

#include <algorithm>
#include <deque>
#include <iterator>

#include <caf/actor_addr.hpp>
#include <caf/expected.hpp>
#include <fmt/format.h>

#include "actors/errors.hpp"
#include "kernels/backend.hpp"
#include "protocols/ids.hpp"

namespace troupe::actors {

/// Holding a version is enough: a block with a holder is not overwritten.
class parameter_readings {
public:
  struct piece {
    protocols::version ver;
    kernels::buffer part;
    bool last = false;
  };

  /// The piece of at most `most` floats at this offset: of the newest version at offset 0, then of that version.
  caf::expected<piece> next(const caf::actor_addr& who, std::uint64_t offset, std::uint64_t most, protocols::version newest,
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

private:
  static constexpr std::size_t most_readings = 8; ///< each keeps a version alive

  /// A version that an actor of another process is reading.
  struct reading {
    caf::actor_addr who;
    protocols::version ver;
    kernels::buffer parameters;
  };
  std::deque<reading> readings_; ///< the newest last
};

} // namespace troupe::actors
