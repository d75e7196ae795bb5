// SPDX-License-Identifier: BSD-3-Clause
// A lane as its ends know it: what outlives the connections that carry it.
#pragma once

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "actors/net/delivery_rate.hpp"
#include "actors/net/lane.hpp"
#include "actors/net/lending/peer_memory.hpp"
#include "actors/net/send_queue.hpp"

namespace troupe::actors::net {

class connection;

/// Everything for one peer that a broken connection must not lose: what the peer may lack, and how much of its own has come.
/// A message is sent again until the peer has counted it, and counted once: it arrives exactly once.
///
/// Threads: any, except where the hub's is named. Of the connections that carry it one after the other, one at a time writes: the
/// `writer`, from the call that makes it so to `stopped`. The last one may still be busy when the next begins to carry.
class session {
public:
  /// `number` is drawn by the node that dials; `life` is the peer's. `window_bytes`: lane_options.
  session(node_id peer, std::uint64_t number, std::uint32_t life, std::size_t window_bytes);
  session(const session&) = delete;
  session& operator=(const session&) = delete;
  ~session() { lent_.wipe(); }

  node_id peer() const { return peer_; }
  std::uint64_t number() const { return number_; }
  std::uint32_t life() const { return life_; }

  /// As lane_hub::send. Without a connection, the message waits for one.
  void send(protocols::wire::content body, kernels::buffer payload, int priority);

  // -- for connections

  /// What `by` may write now. Nothing: it has to stop, or has nothing to write; it is not the writer any more.
  std::optional<std::span<const std::span<const std::byte>>> next_for(const connection& by);
  /// The writer wrote `bytes` of them; what a lost connection did not bring is written again. Returns the bytes that wait.
  std::size_t wrote(std::size_t bytes);
  /// `by` will not write again. Does nothing if it is not the writer.
  void stopped(const connection& by);
  /// Makes `by` the writer if nobody writes, for a last frame between two frames.
  bool claim(const connection& by);

  /// The peer has taken `count` messages. Returns what is wrong with that, if anything.
  std::optional<std::string> acknowledged(std::uint64_t count);
  /// Another message has come, with a payload of so many bytes. The hub's thread.
  void came(std::size_t bytes);
  /// Some bytes have come. The hub's thread.
  void hear() { heard_at_.store(std::chrono::steady_clock::now(), std::memory_order_relaxed); }
  /// Whether a frame is the first of the peer's: by any connection. The hub's thread.
  bool is_first() { return !std::exchange(heard_, true); }
  std::chrono::steady_clock::time_point heard_at() const { return heard_at_.load(std::memory_order_relaxed); }
  std::uint64_t received() const { return received_.load(std::memory_order_relaxed); }

  /// Would lend payloads to the peer.
  void offer() { send(lent_.offer(), {}, INT_MIN); }
  /// The peer would lend payloads: accepts that if this process can read them. The hub's thread.
  void offered(const protocols::wire::lending& offer);
  /// The peer can read what is lent.
  void lend();
  /// Copies what the peer has lent at this address, and returns why not, if so: then it is not asked to lend any more. The hub's
  /// thread.
  std::optional<std::string> borrow(std::uint64_t address, std::span<std::byte> to);

  // -- for the hub, on its thread

  std::shared_ptr<connection> carrier() const;
  /// `by` is open, and the peer has taken `count` messages. Returns what is wrong with that, if anything.
  std::optional<std::string> carry(std::shared_ptr<connection> by, std::uint64_t count);
  /// The connection is lost, or is to be replaced. Nothing is lent any more.
  void let_go();
  /// A beat, if nothing was sent since the last call.
  void beat();
  /// A connection ended by a frame that made no sense. Returns whether the session may go on: not after `most_bad_frames` in a
  /// row that brought no message.
  bool forgive();
  lane_stats stats() const;

private:
  static constexpr int most_bad_frames = 3;
  /// What is smaller costs no less to read than to take from a socket.
  static constexpr std::size_t least_lent = 32U << 10U;

  const node_id peer_;
  const std::uint64_t number_;
  const std::uint32_t life_;

  lent_memory lent_; // wiped before queue_ lets go of anything

  mutable std::mutex mutex_; // guards what follows
  send_queue queue_;
  delivery_rate rate_;
  const bool cuts_;
  std::shared_ptr<connection> carrier_; // null: being dialed again
  const connection* writer_ = nullptr;
  bool spoke_ = false; // since the last beat
  std::uint32_t resumed_ = 0;
  std::uint64_t sent_before_ = 0, received_before_ = 0; // bytes, by earlier connections
  lane_traffic sent_;
  std::chrono::steady_clock::time_point away_since_{};
  std::chrono::steady_clock::time_point borrowed_at_{}; // when the peer last counted a message, or was first lent one since

  std::atomic<bool> lends_ = false; // the peer reads what is lent; not while there is no connection
  std::atomic<std::uint64_t> received_ = 0;
  std::atomic<std::chrono::steady_clock::time_point> heard_at_ = std::chrono::steady_clock::now();
  std::atomic<std::size_t> unsaid_bytes_ = 0; // that have come since the last frame told the peer

  // The hub's thread only.
  bool heard_ = false;
  std::optional<peer_memory> borrows_from_;
  bool cannot_borrow_ = false; // it has failed
  int bad_frames_ = 0;
  std::uint64_t received_at_bad_frame_ = 0;
};

} // namespace troupe::actors::net
