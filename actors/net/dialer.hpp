// SPDX-License-Identifier: BSD-3-Clause
// Keeps trying to connect to one peer until a lane is open or time is up.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "actors/net/lane.hpp"

namespace troupe::actors::net {

/// Lives on the hub's thread. An attempt resolves, connects and hands the socket to `connected`. The caller makes a lane of it;
/// if that fails, it calls `retry` or drops the dialer.
class dialer final : public std::enable_shared_from_this<dialer> {
public:
  struct target {
    node_id peer;
    std::string host;
    std::uint16_t port = 0;
    std::chrono::milliseconds deadline{};
    std::string congestion;
    std::uint32_t life = 0;        ///< of the peer's process
    bool refusal_is_final = false; ///< it listened once: where nobody does any more, its process has ended
  };
  struct events {
    std::function<void(boost::asio::ip::tcp::socket)> connected;
    std::function<void(const std::string& reason)> gave_up; ///< at the deadline, or by a final refusal; once
  };

  dialer(boost::asio::io_context& io, target to, events on);

  void start();
  /// The attempt failed: another one after a pause.
  void retry(const std::string& reason);
  /// No call of `events` from now on.
  void stop();

private:
  void attempt();
  void give_up(const std::string& reason);
  void connect(const boost::asio::ip::tcp::resolver::results_type& found);

  boost::asio::io_context& io_;
  const target to_;
  events on_;
  boost::asio::ip::tcp::resolver resolver_;
  boost::asio::ip::tcp::socket socket_;
  boost::asio::steady_timer deadline_, pause_;
  std::chrono::milliseconds next_pause_;
  std::string last_reason_ = "no answer";
  bool stopped_ = false;
};

} // namespace troupe::actors::net
