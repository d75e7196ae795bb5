// SPDX-License-Identifier: BSD-3-Clause
// One socket between two nodes: opening, reading, writing, closing.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "actors/net/frame_reader.hpp"
#include "actors/net/lane.hpp"
#include "actors/net/send_queue.hpp"
#include "actors/sockets/tls.hpp"

namespace troupe::actors::net {

/// A lane, or a connection that may become one.
///
/// Threads: `send` and `stats` may be called on any; everything else, and every call of the owner, happens on the hub's. The
/// thread that has set `writing_` writes the socket. Only the hub's thread reads it and shuts it down. Its descriptor lives as
/// long as this object, so a writer never uses a reused descriptor.
class connection final : public std::enable_shared_from_this<connection>, frame_reader::sink {
public:
  /// The hub, as its connections see it.
  class owner {
  public:
    virtual ~owner() = default;
    /// The peer has sent hello. Returns the reason to refuse the lane, or nothing.
    virtual std::optional<protocols::wire::bye> greeted(connection& by, const protocols::wire::hello& as) = 0;
    virtual void opened(connection& lane) = 0;
    /// The last call, made once. `final`: dialing again would not help.
    virtual void closed(connection& lane, const std::string& reason, bool final) = 0;
    virtual lane_handler& handler() = 0;
  };

  /// `socket` is connected; `tls` is null for a plain lane. All of them outlive the connection: `options`, `tls` and `hub`.
  connection(boost::asio::ip::tcp::socket socket, const lane_options& options, const tls_context* tls, owner& hub,
             protocols::wire::hello::role as);

  /// Shakes hands (with TLS), says hello (when dialing) and reads.
  void start();
  /// As lane_hub::send; without effect on a lane that is not open.
  void send(protocols::wire::content body, kernels::buffer payload, int priority);
  /// Says why to the peer, if there is room for it at once, and ends the connection.
  void close(const protocols::wire::bye& why);

  node_id peer() const { return peer_; }
  bool is_open() const { return state_ == state::open; }
  const std::string& address() const { return address_; }
  /// The name in the peer's certificate; nothing on a plain lane.
  std::optional<std::string> certified_name() const { return tls_ ? std::optional{tls_->peer_name()} : std::nullopt; }
  lane_stats stats() const;

private:
  enum class state : std::uint8_t { greeting, open, closed };

  // opening
  void shake_hands();
  void greet_and_read();

  // reading
  void read();
  void read_secured();
  bool take(std::size_t bytes);
  std::string where_it_ended() const;
  kernels::buffer place(const protocols::wire::message& head, std::size_t bytes) override;
  bool accept(protocols::wire::content body, kernels::buffer payload) override;
  void greet(const protocols::wire::hello& from);

  // writing
  ssize_t transmit(std::span<const std::span<const std::byte>> parts);
  void write_failed(boost::system::error_code why);
  void write(bool inline_only);
  void resume_writing();

  void say_plainly(const protocols::wire::bye& why);
  void end(const std::string& reason, bool final);

  boost::asio::ip::tcp::socket socket_;
  const int descriptor_;
  const std::unique_ptr<tls_session> tls_; // null on a plain lane
  const lane_options& options_;
  owner& hub_;
  const protocols::wire::hello::role as_;
  const std::string address_;
  node_id peer_;
  state state_ = state::greeting; // the hub's thread only
  boost::asio::steady_timer greeting_limit_;
  frame_reader reader_;

  mutable std::mutex mutex_; // guards what follows
  send_queue queue_;
  bool writing_ = false; // a thread is writing, or waits until the socket takes more
  bool shut_ = false;

  std::atomic<std::uint64_t> bytes_sent_ = 0, bytes_received_ = 0;
};

} // namespace troupe::actors::net
