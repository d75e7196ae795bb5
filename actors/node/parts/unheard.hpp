// SPDX-License-Identifier: BSD-3-Clause
// What a node has said of its part in a job, for a coordinator that has not heard it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "actors/messages/role.hpp"

namespace troupe::actors {

/// Of what is told once, nobody knows whether it was heard before the coordinator was lost. Used on its node's thread only.
class unheard {
public:
  void lost(const role_lost& msg) { lost_.push_back(msg); }
  /// Another one is in its place.
  void replaced(role_lost::kind role, std::uint32_t index) {
    std::erase_if(lost_, [&](const role_lost& each) { return each.role == role && each.index == index; });
  }
  /// Of the newest checkpoint; those before it are of no use.
  void saved(const file_saved& msg) {
    if (std::ranges::any_of(saved_, [&](const file_saved& each) { return each.ver > msg.ver; }))
      return;
    std::erase_if(saved_, [&](const file_saved& each) { return each.ver < msg.ver; });
    saved_.push_back(msg);
  }

  const std::vector<role_lost>& lost_roles() const { return lost_; }
  const std::vector<file_saved>& saved_files() const { return saved_; }

private:
  std::vector<role_lost> lost_;
  std::vector<file_saved> saved_;
};

} // namespace troupe::actors
