// SPDX-License-Identifier: BSD-3-Clause
// One socket between two nodes: opening, reading, writing, closing.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "actors/net/frame_reader.hpp"
#include "actors/net/lane.hpp"
#include "actors/net/session.hpp"
#include "actors/sockets/tls.hpp"

namespace troupe::actors::net {

/// Carries a session, or may come to carry one.
///
/// Threads: every member is for the hub's and every call of the owner happens there, except where it says otherwise. Whom the
/// session made its writer writes the socket. Only the hub's thread reads it and shuts it down. Its descriptor lives as long as
/// this object, so a writer never uses a reused descriptor.
class connection final : public std::enable_shared_from_this<connection>, frame_reader::sink {
public:
  /// The hub, as its connections see it.
  class owner {
  public:
    virtual ~owner() = default;
    /// What it says first, and how many messages of the peer's have come. To an incoming one, after `greeted`.
    virtual std::pair<protocols::wire::hello, std::uint64_t> hello_to(const connection& peer) = 0;
    /// The peer has sent hello. Returns the reason to refuse it, or nothing.
    virtual std::optional<protocols::wire::bye> greeted(connection& by) = 0;
    /// A stranger has begun to speak TLS: calls shake_hands when it may go on.
    virtual void wants_handshake(connection& by) = 0;
    /// Calls this on the thread for handshakes, which nothing else waits for.
    virtual void aside(std::function<void()> work) = 0;
    /// Both have said hello: gives it the session to carry, or returns the reason not to.
    virtual std::optional<std::string> opened(connection& by) = 0;
    /// The peer has a session, too: its first frame has come.
    virtual void answered(const session& of) = 0;
    /// The last call, made once. `final`: dialing again would not help.
    virtual void closed(connection& by, const std::string& reason, bool final) = 0;
    virtual lane_handler& handler() = 0;
  };

  /// `socket` is connected; `tls` is null for a plain lane. `options` and `hub` outlive the connection.
  connection(boost::asio::ip::tcp::socket socket, const lane_options& options, const tls_context* tls, owner& hub,
             protocols::wire::hello::role as);

  /// Shakes hands (with TLS; an incoming one when the owner says so), says hello (when dialing) and reads.
  void start();
  void shake_hands();
  /// Says why to the peer, if there is room for it at once, and ends the connection.
  void close(const protocols::wire::bye& why);
  /// Ends it without a word.
  void cut(const std::string& reason) { end(reason, false); }

  /// Once, when it opens.
  void adopt(std::shared_ptr<session> carries);

  // For the session. Any thread.
  /// Writes what it has, as its writer, and on this thread as long as little waits.
  void write() { write_up_to(inline_bytes); }
  /// The same on the hub's thread, to the end.
  void write_later();
  /// TLS has taken bytes that the socket has not. For the writer.
  bool holds_back() const { return tls_ && tls_->holds_back(); }
  /// Adds what is known of the socket.
  void describe(lane_stats& out) const;
  std::uint64_t bytes_sent() const { return bytes_sent_; }
  std::uint64_t bytes_received() const { return bytes_received_; }

  /// What the peer has said, and how many messages it has taken. Once it has.
  const protocols::wire::hello& peer() const { return peer_; }
  std::uint64_t peer_received() const { return peer_received_; }
  /// Null: it has not opened.
  const std::shared_ptr<session>& carried() const { return session_; }
  const std::string& address() const { return address_; }
  /// lane_options::window_bytes, or SIZE_MAX for a peer on this host.
  std::size_t window_bytes() const;
  /// Whether this end and the peer, a process of the same user on this host, may lend each other payloads.
  bool may_lend() const { return may_lend_; }
  /// Whom the peer's certificate was issued to; nothing on a plain lane.
  std::optional<certified_peer> certified() const { return tls_ ? std::optional{tls_->peer()} : std::nullopt; }
  /// Whether that certificate has been revoked, by what this context knows.
  bool is_revoked(const tls_context& by) const { return tls_ && tls_->is_revoked(by); }

  /// What a thread that sends writes itself if the lane is idle. Waking the hub's costs more than copying this much into the
  /// socket; copying more would delay the sender.
  static constexpr std::size_t inline_bytes = 32U << 10U;

private:
  enum class state : std::uint8_t { greeting, open, closed };

  // opening
  void has_shaken_hands(tls_session::outcome how);
  void greet_and_read();

  // reading
  void read();
  void read_secured();
  bool take(std::size_t bytes);
  std::string where_it_ended() const;
  kernels::buffer place(const protocols::wire::message& head, std::size_t bytes) override;
  bool borrow(std::uint64_t address, const kernels::buffer& into) override;
  bool begins(const protocols::wire::decoded& head) override;
  bool accept(protocols::wire::content body, kernels::buffer payload) override;
  void greet(const protocols::wire::hello& from);
  void hear_offer(const protocols::wire::lending& offer);
  bool say(const protocols::wire::hello& first, std::uint64_t received);

  // writing
  ssize_t transmit(std::span<const std::span<const std::byte>> parts);
  void write_up_to(std::size_t most_waiting);
  void write_failed(boost::system::error_code why);
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
  std::shared_ptr<session> session_;
  state state_ = state::greeting; // the hub's thread only
  boost::asio::steady_timer greeting_limit_;
  frame_reader reader_;
  protocols::wire::hello peer_;
  std::uint64_t peer_received_ = 0;
  bool may_lend_ = false, heard_offer_ = false;

  std::atomic<std::uint64_t> bytes_sent_ = 0, bytes_received_ = 0;
};

} // namespace troupe::actors::net
