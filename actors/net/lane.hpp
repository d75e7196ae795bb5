// SPDX-License-Identifier: BSD-3-Clause
// Tensor lanes: Cap'n Proto messages between two nodes, whose payloads are never copied, over one TCP connection at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/sockets/security.hpp"
#include "kernels/buffer.hpp"
#include "protocols/ids.hpp"
#include "protocols/wire/message.hpp"

namespace troupe::actors::net {

/// A node of one job's cluster, 0..nodes-1; node 0 holds the coordinator.
using node_id = protocols::strong_id<struct node_tag, std::uint32_t>;

/// Receives a hub's events. Called on the hub's own threads, never concurrently for one lane: must not block.
class lane_handler {
public:
  virtual ~lane_handler() = default;
  /// A lane to `peer` is open in both directions: from here on neither end drops what is sent. `life`: of its process; see
  /// lane_options.
  virtual void on_up(node_id peer, std::uint32_t life) = 0;
  /// The lane to `peer` is over: one end closed it, or its connection broke and no other came in time. The reason has both
  /// causes.
  virtual void on_down(node_id peer, std::uint32_t life, const std::string& reason) = 0;
  /// Nothing has come from `peer` for longer than its deadline (protocols/failure_detector.hpp), by this connection or another.
  /// Said again, a deadline later each time, until something comes. The lane stays as it is: its owner decides.
  virtual void on_silent(node_id peer, std::uint32_t life, std::chrono::nanoseconds silent) {
    (void)peer, (void)life, (void)silent;
  }
  /// Where to read the payload of `head`: memory of the receiver (a worker's next parameters), of exactly `bytes` bytes, or an
  /// empty buffer to let the hub allocate one.
  virtual kernels::buffer place(node_id from, const protocols::wire::message& head, std::size_t bytes) = 0;
  /// Why `from` may not send this, or nothing: then the lane is closed for good. Asked before `place` and `on_message`.
  virtual std::optional<std::string> fault_of(node_id from, const protocols::wire::message& head) {
    (void)from, (void)head;
    return {};
  }
  /// A complete message; `payload` is empty if it has none. Messages of one lane and priority come in the order of sending.
  virtual void on_message(node_id from, protocols::wire::message msg, kernels::buffer payload) = 0;
  /// An incoming connection was refused before it became a lane: garbage, an incomplete hello, no certificate of this authority,
  /// another job, a node that already has a lane. `reason` has the address and the cause. An existing lane of that node is not
  /// affected.
  virtual void on_refused(const std::string& reason) { (void)reason; }
};

struct lane_options {
  node_id self;
  std::uint64_t job_key = 0;      ///< both ends must agree: a lane of another job or version is refused
  std::uint32_t life = 0;         ///< how often this node was started anew; a higher one replaces the lanes of a lower
  std::string host = "127.0.0.1"; ///< address to listen on
  std::uint16_t port = 0;         ///< 0: any free port
  bool listens = true;            ///< false: it only connects, as the lowest of a job's nodes does
  std::size_t max_payload_bytes = 64U << 20U; ///< a frame that claims more closes its lane before anything is allocated
  std::size_t credit_bytes = 64U << 20U; ///< unsent bytes above which a decentralized worker skips the peer; see who_is_behind
  /// Of what is not sent yet the kernel holds no more, and a batch has no more: what waits is overtaken by what is urgent. A
  /// partition that takes more than 2 ms is cut. SIZE_MAX: the kernel decides, and nothing is cut.
  std::size_t window_bytes = 128U << 10U;
  bool narrows_loopback =
      false; ///< that holds for peers on this host, too, whom nothing is slow for: for tests and the benchmark
  /// Between processes of one user on one host, who receives a payload copies it from where it lies in the sender's memory, where
  /// the system lets a process read another's. false: payloads go through the socket.
  bool shared_memory = true;
  std::string congestion = ""; ///< TCP congestion control ("cubic", "bbr"); empty: the system's default
  std::chrono::milliseconds handshake_timeout{5000};
  std::chrono::milliseconds patience{5000}; ///< how long a lane whose connection broke may take to come back
  /// With certificates, lanes speak TLS 1.3 with peers of the same authority; without, plain TCP.
  net::security security;
  /// Names of the job's nodes, by id. A peer's certificate must be issued to the node it claims to be; without names, any
  /// certificate of the authority is accepted.
  std::vector<std::string> names;
  /// Allocates payloads that the handler did not place; thread-safe. Empty: the heap.
  std::function<kernels::buffer(std::size_t)> allocate;
};

/// Bytes of the messages that an end has sent, heads included, each counted once: pushes and sums of pushes, parameters of
/// shards, replicas of workers.
struct lane_traffic {
  std::uint64_t push = 0, params = 0, peers = 0;
};

/// What `links` shows of one lane.
struct lane_stats {
  node_id peer;
  std::uint64_t bytes_sent = 0, bytes_received = 0;
  std::uint64_t lent_bytes = 0;    ///< of bytes_sent, those that the peer copies from this process's memory
  std::uint64_t queued_bytes = 0;  ///< in this process
  std::uint64_t waiting_bytes = 0; ///< including the kernel's buffers: all that the peer's host has not taken
  std::uint64_t credit_bytes = 0;  ///< lane_options::credit_bytes
  double stalled_s = 0;            ///< for how long nothing of it was sent, or read if it is lent; 0: nothing waits
  double away_s = 0;               ///< for how long it has had no connection; 0: it has one
  double silent_s = 0;             ///< for how long nothing has come; a living peer speaks every 0.1 s
  std::uint32_t resumed = 0;       ///< how often another connection took over
  double round_trip_s = 0;         ///< of the connection, as TCP measures it
  lane_traffic sent = {};
};

/// All lanes of one node: an optional acceptor and one thread. Every member is thread-safe and none waits for a peer.
class lane_hub {
public:
  /// Listens at once. Throws std::system_error with host and port if the port is taken (or with the congestion control if the
  /// system lacks it), std::runtime_error with the file of `security` that TLS does not accept.
  static std::unique_ptr<lane_hub> open(const lane_options& options, std::shared_ptr<lane_handler> handler);
  /// Calls leave().
  virtual ~lane_hub() = default;

  /// Closes every lane (on_down is called for each), frees the port and joins the thread; not to be called from the handler.
  /// Later messages are dropped. For owners that may die while others hold the hub.
  virtual void leave() = 0;

  virtual std::uint16_t port() const = 0; ///< 0: it only connects
  /// Connects to the hub of a peer's process of this `life` and keeps trying with back-off until `deadline`; then on_down says
  /// why. A final refusal (another job or version) ends the attempts at once. The lower id connects: `peer` is higher than this
  /// node. A lane whose connection breaks is dialed again by itself; one to an older process of the peer is ended first.
  virtual void connect(node_id peer, const std::string& host, std::uint16_t port, std::chrono::milliseconds deadline,
                       std::uint32_t life = 0) = 0;
  /// Queues a message, which arrives exactly once unless the lane goes down. `payload` must not change, and stays referenced
  /// until the peer has it. Lower `priority` goes first among what is queued; messages of one priority keep their order. Sending
  /// to a peer without a lane is dropped (on_down was or will be called). A partition may arrive as several, which cover its
  /// range in order: see lane_options::window_bytes. A small message to an idle lane is written before this returns. Throws
  /// std::invalid_argument on a message that lane.capnp forbids, such as a payload that is not its range's size.
  virtual void send(node_id peer, protocols::wire::message msg, kernels::buffer payload, int priority) = 0;
  /// Ends a lane (or the attempts to connect one); what is queued is dropped. The peer's on_down quotes `reason`.
  virtual void close(node_id peer, const std::string& reason) = 0;
  virtual std::vector<lane_stats> stats() const = 0;
};

} // namespace troupe::actors::net
