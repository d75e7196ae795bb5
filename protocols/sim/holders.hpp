// SPDX-License-Identifier: BSD-3-Clause
// The holders of a simulated cluster: who is there, whose place is taken, and who comes.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "protocols/sim/cluster.hpp"

namespace troupe::protocols::sim {

/// By number. A backup that has taken a shard's place has that number, too.
class cluster::roster {
public:
  explicit roster(cluster& in) : in_(in) {}

  void add(const holder_place& place, host_id host);
  /// It has nothing of its shard yet, and a host of its own.
  void add_backup(holder_id shard);
  void kill(holder_id who);
  void take_over(const takes_over& notice);

  bool has(holder_id who) const { return all_.contains(who.value); }
  holder_role& at(std::uint32_t number) const { return *all_.at(number); }
  /// Each once; without the dead whose place was taken.
  std::vector<holder_role*> here() const;
  /// The numbers at which nobody lives, the highest first.
  std::vector<holder_id> dead() const;
  /// Which backup was the last to take the place of each shard.
  const std::map<holder_id, holder_id>& moves() const { return moves_; }
  /// Whether what is sent there comes to who is there now, by the moves of which the sender has heard.
  bool reaches(holder_id to, const std::map<holder_id, holder_id>& heard) const;

private:
  std::size_t copies_of(holder_id shard) const;
  std::shared_ptr<holder_role> make(const holder_place& place, host_id host) const;

  cluster& in_;
  std::map<std::uint32_t, std::shared_ptr<holder_role>> all_;
  std::map<holder_id, holder_id> moves_;
};

} // namespace troupe::protocols::sim
