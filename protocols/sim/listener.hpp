// SPDX-License-Identifier: BSD-3-Clause
// What happens in a simulated cluster, for those that watch: checkers, traces, statistics.
#pragma once

#include <map>
#include <set>
#include <span>
#include <vector>

#include "protocols/lead.hpp"
#include "protocols/sim/message.hpp"

namespace troupe::protocols::sim {

/// What is left of a job that has ended.
struct aftermath {
  struct holder_left {
    holder_id self{};
    bool alive = true;
    std::vector<push_id> kept{}; ///< pushes whose tensors its driver keeps
    std::size_t machine_keeps = 0;
    std::size_t retained = 0; ///< parameters kept under tickets of its lead's
  };
  bool drained = false; ///< it ended held, and everything that was under way has come
  std::vector<holder_left> holders{};
  std::vector<std::size_t> open{}; ///< at each lead: pushes not decided, those that came while it held apart
  std::set<push_id> parked{};      ///< whose arrival came while a lead held
};

/// Hears what happens, in its order; changes nothing. Times are virtual.
class listener {
public:
  virtual ~listener() = default;
  /// A message is about to be heard by `to`, or a machine's local call.
  virtual void heard(nanoseconds at, endpoint from, endpoint to, const message& msg) {
    (void)at, (void)from, (void)to, (void)msg;
  }
  /// A worker computes: `until` moves on where it is paused meanwhile.
  virtual void computing(nanoseconds at, nanoseconds until, member who, const batch& of) {
    (void)at, (void)until, (void)who, (void)of;
  }
  /// A worker has put these parts of all shards, in their order, together.
  virtual void joining(member who, std::span<const params> parts) { (void)who, (void)parts; }
  /// A worker sends a push.
  virtual void pushed(nanoseconds at, const push& head) { (void)at, (void)head; }
  /// A lead has decided; its effects have not been performed yet.
  virtual void decided(nanoseconds at, holder_id shard, const lead& by, const lead_effects& effects) {
    (void)at, (void)shard, (void)by, (void)effects;
  }
  /// A shard makes a version from these terms; it takes until `until`.
  virtual void applying(nanoseconds at, nanoseconds until, holder_id shard, const close& round, std::span<const operand> sum) {
    (void)at, (void)until, (void)shard, (void)round, (void)sum;
  }
  /// A worker makes a version of its own parameters from this sum (allreduce).
  virtual void stepping(member who, const close& round, std::span<const operand> sum) { (void)who, (void)round, (void)sum; }
  /// It has made that version, or was given it (shard_numerics::fingerprint).
  virtual void has(member who, version ver, std::uint64_t fingerprint) { (void)who, (void)ver, (void)fingerprint; }
  /// A copy of this shard has made a version: what each piece of it that is there holds now (shard_numerics::fingerprint).
  virtual void made(holder_id shard, version ver, std::span<const std::uint64_t> fingerprints) {
    (void)shard, (void)ver, (void)fingerprints;
  }
  /// A shard keeps this many old parameters now.
  virtual void retaining(holder_id shard, std::size_t count) { (void)shard, (void)count; }
  /// A role's driver was asked for what it cannot do: a ticket that it does not have.
  virtual void broken(const std::string& text) { (void)text; }
  virtual void stopped(nanoseconds at, const stop& how) { (void)at, (void)how; }
  virtual void finished(const aftermath& left) { (void)left; }
};

} // namespace troupe::protocols::sim
