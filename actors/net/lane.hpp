// SPDX-License-Identifier: BSD-3-Clause
// Tensor lanes: one TCP connection between two nodes that carries Cap'n Proto messages whose payloads are never copied.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/sockets/security.hpp"
#include "kernels/buffer.hpp"
#include "protocols/ids.hpp"
#include "protocols/wire/message.hpp"

namespace troupe::actors::net {

/// A node of one job's cluster, 0..nodes-1; node 0 holds the coordinator.
using node_id = protocols::strong_id<struct node_tag, std::uint32_t>;

/// What a hub does with what comes in. Called on the hub's own threads, for one lane never concurrently: must not block.
class lane_handler {
public:
  virtual ~lane_handler() = default;
  /// A lane to `peer` is open in both directions.
  virtual void on_up(node_id peer) = 0;
  /// The lane to `peer` closed: reset, end of file, a bad frame (the reason says what and at which byte), or a local close.
  virtual void on_down(node_id peer, const std::string& reason) = 0;
  /// Where the payload of `head` shall be read to: memory that the receiver owns (a worker's next parameters), of exactly
  /// `bytes` bytes, or an empty buffer to let the hub take one from its pool.
  virtual kernels::buffer place(node_id from, const protocols::wire::message& head, std::size_t bytes) = 0;
  /// A complete message; `payload` is empty for those without. For one lane in the order of sending within a priority.
  virtual void on_message(node_id from, protocols::wire::message msg, kernels::buffer payload) = 0;
  /// A lane over whose credit `send` returned false holds less than half of it again.
  virtual void on_drained(node_id peer) { (void)peer; }
  /// An incoming connection was turned away before it became a lane: garbage, half a hello, nothing at all, no
  /// certificate of this authority, another job, a node that has a lane. `reason` says from which address and why. A lane that
  /// the same node has is not touched.
  virtual void on_refused(const std::string& reason) { (void)reason; }
};

struct lane_options {
  node_id self;
  std::uint64_t job_key = 0;                  ///< both ends must agree: a lane of another job or version is refused
  std::string host = "127.0.0.1";             ///< address to listen on
  std::uint16_t port = 0;                     ///< 0: any free port
  bool listens = true;                        ///< false: it only connects, as the lowest of a job's nodes, to which nobody does
  std::size_t max_payload_bytes = 64U << 20U; ///< a frame that claims more closes its lane before anything is allocated
  std::size_t credit_bytes = 64U << 20U;      ///< unsent bytes above which send returns false
  std::string congestion = "";                ///< TCP congestion control ("cubic", "bbr"); empty: the system's default
  std::chrono::milliseconds handshake_timeout{5000};
  /// With certificates lanes speak TLS 1.3, to peers that show one of the same authority; without, plain TCP.
  net::security security;
  /// What the nodes of the job are called, by id. With certificates a peer's has to be issued to the node that it says it is;
  /// without names any of the authority's will do.
  std::vector<std::string> names;
  /// Where payloads come from that nobody placed; thread-safe. Empty: the heap.
  std::function<kernels::buffer(std::size_t)> allocate;
};

/// What `links` shows of one lane.
struct lane_stats {
  node_id peer;
  std::uint64_t bytes_sent = 0, bytes_received = 0, messages_sent = 0, messages_received = 0;
  std::uint64_t queued_bytes = 0;  ///< in this process
  std::uint64_t waiting_bytes = 0; ///< the same with what this host holds: all that the peer's host has not taken
  std::uint64_t credit_bytes = 0;  ///< lane_options::credit_bytes
  double stalled_s = 0;            ///< since when nothing of what waits has gone; 0: nothing waits
  double round_trip_s = 0;         ///< of the connection, as TCP measures it
};

/// All lanes of one node: an acceptor, if it has one, and one thread. Every member is thread-safe and none waits for a peer.
class lane_hub {
public:
  /// Listens at once; throws std::system_error naming host and port when the port is taken (or the congestion control when
  /// the system has no such), std::runtime_error naming a file of `security` that TLS does not take.
  static std::unique_ptr<lane_hub> open(const lane_options& options, std::shared_ptr<lane_handler> handler);
  /// Leaves.
  virtual ~lane_hub() = default;

  /// Closes every lane (on_down is called for each), frees the port and joins the thread: never from the handler. What is sent
  /// from then on is dropped. For owners that may die while others hold the hub.
  virtual void leave() = 0;

  virtual std::uint16_t port() const = 0; ///< 0: it only connects
  /// Connects to a peer's hub and keeps trying with back-off until `deadline`; then on_down says why. A peer that refuses for
  /// good (another job or version) ends it at once. The lower id connects: `peer` is higher than this node.
  virtual void connect(node_id peer, const std::string& host, std::uint16_t port, std::chrono::milliseconds deadline) = 0;
  /// Queues a message; `payload` stays referenced until it is written. Lower `priority` goes first among what is queued;
  /// messages of one priority keep their order. Sending to a peer without a lane is dropped (on_down was or will be called).
  /// A small message to an idle lane is written before this returns. False: the lane now holds more than its credit, so stop
  /// until on_drained. Throws std::invalid_argument on a message that lane.capnp forbids, such as a payload that is not
  /// its range's size.
  virtual bool send(node_id peer, protocols::wire::message msg, kernels::buffer payload, int priority) = 0;
  /// Ends a lane (or the attempts to connect one); what is queued is dropped. The peer's on_down quotes `reason`.
  virtual void close(node_id peer, const std::string& reason) = 0;
  virtual std::vector<lane_stats> stats() const = 0;
};

} // namespace troupe::actors::net
