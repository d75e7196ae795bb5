// SPDX-License-Identifier: BSD-3-Clause
// The acceptor, the dialers and the lanes of one node, on one thread.
#include <algorithm>
#include <deque>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <fmt/format.h>

#include "actors/net/connection.hpp"
#include "actors/net/dialer.hpp"
#include "actors/net/lane.hpp"
#include "actors/sockets/socket_options.hpp"
#include "kernels/assert.hpp"

namespace troupe::actors::net {
namespace {

namespace asio = boost::asio;
namespace wire = protocols::wire;
using asio::ip::tcp;
using boost::system::error_code;

// Incoming connections that have not sent hello. Each costs a few KiB and a descriptor; a new one replaces the oldest.
constexpr std::size_t most_strangers = 128;
constexpr std::chrono::milliseconds pause_after_accept_error{50};

class hub final : public lane_hub, public connection::owner {
public:
  hub(const lane_options& options, std::shared_ptr<lane_handler> handler)
      : options_(options), tls_(options.security.enabled() ? std::make_unique<tls_context>(options.security) : nullptr),
        handler_(std::move(handler)), acceptor_(io_), accept_pause_(io_) {
    if (options.listens) {
      listen();
      accept();
    }
    thread_ = std::thread([this] { io_.run(); });
  }

  ~hub() override { leave(); }

  void leave() override {
    TROUPE_ASSERT(!io_.get_executor().running_in_this_thread());
    if (!thread_.joinable())
      return;
    asio::post(io_, [this] { shut_down(); });
    thread_.join();
  }

  std::uint16_t port() const override { return port_; }

  void connect(node_id peer, const std::string& host, std::uint16_t port, std::chrono::milliseconds deadline) override {
    TROUPE_ASSERT(options_.self < peer);
    asio::post(io_, [=, this] { dial({peer, host, port, deadline, options_.congestion}); });
  }

  void send(node_id peer, wire::message msg, kernels::buffer payload, int priority) override {
    if (const auto lane = find(peer))
      lane->send(std::move(msg), std::move(payload), priority);
  }

  void close(node_id peer, const std::string& reason) override {
    asio::post(io_, [=, this] {
      if (stop_dialing(peer))
        handler_->on_down(peer, reason);
      if (const auto lane = find(peer))
        lane->close({.reason = reason});
    });
  }

  std::vector<lane_stats> stats() const override {
    const std::lock_guard lock(mutex_);
    std::vector<lane_stats> all;
    for (const auto& [peer, lane] : lanes_)
      all.push_back(lane->stats());
    return all;
  }

private:
  struct dialing {
    std::shared_ptr<dialer> how;
    std::shared_ptr<connection> attempt; // connected, and not greeted yet
  };

  // -- opening

  void listen() {
    listen_at(acceptor_, options_.host, options_.port, options_.congestion);
    port_ = acceptor_.local_endpoint().port();
  }

  void accept() {
    acceptor_.async_accept([this](error_code failed, tcp::socket socket) {
      if (!acceptor_.is_open())
        return;
      if (!failed) {
        meet(std::make_shared<connection>(std::move(socket), options_, tls_.get(), *this, wire::hello::role::accepts));
        return accept();
      }
      // Out of descriptors or memory, or the peer is already gone: neither fail nor spin.
      accept_pause_.expires_after(pause_after_accept_error);
      accept_pause_.async_wait([this](error_code cancelled) {
        if (!cancelled)
          accept();
      });
    });
  }

  void meet(std::shared_ptr<connection> stranger) {
    if (strangers_.size() >= most_strangers) {
      const auto oldest = strangers_.front();
      oldest->close({.reason = "too many connections that said nothing", .retry = true});
    }
    strangers_.push_back(stranger);
    stranger->start();
  }

  void dial(const dialer::target& to) {
    const node_id peer = to.peer;
    if (dialing_.contains(peer) || find(peer))
      return;
    const auto how = std::make_shared<dialer>(io_, to,
                                              dialer::events{.connected =
                                                                 [this, peer](tcp::socket socket) {
                                                                   auto& mine = dialing_.at(peer);
                                                                   mine.attempt = std::make_shared<connection>(
                                                                       std::move(socket), options_, tls_.get(), *this,
                                                                       wire::hello::role::dials);
                                                                   mine.attempt->start();
                                                                 },
                                                             .gave_up =
                                                                 [this, peer](const std::string& reason) {
                                                                   stop_dialing(peer);
                                                                   handler_->on_down(peer, reason);
                                                                 }});
    dialing_[peer] = {how, nullptr};
    how->start();
  }

  /// False if that peer is not being dialed.
  bool stop_dialing(node_id peer) {
    const auto node = dialing_.extract(peer);
    if (node.empty())
      return false;
    node.mapped().how->stop();
    if (node.mapped().attempt)
      node.mapped().attempt->close({.reason = "no longer wanted", .retry = true});
    return true;
  }

  /// The peer that this attempt dials, or end() for an incoming connection.
  std::map<node_id, dialing>::iterator dialing_of(const connection& attempt) {
    return std::find_if(dialing_.begin(), dialing_.end(),
                        [&](const auto& each) { return each.second.attempt.get() == &attempt; });
  }

  // -- called by connections

  std::optional<wire::bye> greeted(connection& by, const wire::hello& as) override {
    const auto refuse = [](std::string reason) { return wire::bye{std::move(reason), false}; };
    const node_id peer{as.node};
    if (as.version != wire::protocol_version)
      return refuse(fmt::format("lane protocol version {} met version {}", wire::protocol_version, as.version));
    if (as.job_key != options_.job_key)
      return refuse(fmt::format("job key {:016x} of node {} met {:016x} of node {}: not the same run", options_.job_key,
                                options_.self.value, as.job_key, peer.value));
    if (const auto certified = by.certified_name(); certified && !options_.names.empty())
      if (peer.value >= options_.names.size() || options_.names[peer.value] != *certified)
        return refuse(fmt::format("its certificate was issued to \"{}\", and it says that it is node {}", *certified,
                                  peer.value < options_.names.size() ? options_.names[peer.value] : std::to_string(peer.value)));
    const auto mine = dialing_of(by);
    if (mine != dialing_.end()) {
      if (as.as != wire::hello::role::accepts || mine->first != peer)
        return refuse(fmt::format("dialed node {} and reached node {}", mine->first.value, peer.value));
      return {};
    }
    if (as.as != wire::hello::role::dials || peer >= options_.self)
      return refuse(fmt::format("node {} dialed node {}: the lower one dials", peer.value, options_.self.value));
    if (find(peer)) // the end of the old lane may not have been noticed here
      return wire::bye{fmt::format("node {} has a lane already", peer.value), true};
    return {};
  }

  void opened(connection& lane) override {
    const auto mine = dialing_of(lane);
    if (mine != dialing_.end()) {
      mine->second.how->stop();
      dialing_.erase(mine);
    }
    const auto self = lane.shared_from_this();
    std::erase(strangers_, self);
    {
      const std::lock_guard lock(mutex_);
      lanes_[lane.peer()] = self;
    }
    handler_->on_up(lane.peer());
  }

  void closed(connection& lane, const std::string& reason, bool final) override {
    const auto self = lane.shared_from_this();
    const auto mine = dialing_of(lane);
    if (mine != dialing_.end()) {
      mine->second.attempt = nullptr;
      if (!final)
        return mine->second.how->retry(reason);
      const node_id peer = mine->first;
      stop_dialing(peer);
      return handler_->on_down(peer, fmt::format("{} ({})", reason, lane.address()));
    }
    if (std::erase(strangers_, self) != 0)
      return handler_->on_refused(fmt::format("connection from {}: {}", lane.address(), reason));
    {
      const std::lock_guard lock(mutex_);
      const auto found = lanes_.find(lane.peer());
      if (found == lanes_.end() || found->second != self)
        return;
      lanes_.erase(found);
    }
    handler_->on_down(lane.peer(), reason);
  }

  lane_handler& handler() override { return *handler_; }

  // -- the rest

  std::shared_ptr<connection> find(node_id peer) const {
    const std::lock_guard lock(mutex_);
    const auto found = lanes_.find(peer);
    return found == lanes_.end() ? nullptr : found->second;
  }

  void shut_down() {
    error_code ignored;
    acceptor_.close(ignored);
    accept_pause_.cancel();
    const std::string leaving = fmt::format("node {} is leaving", options_.self.value);
    while (!dialing_.empty()) {
      const node_id peer = dialing_.begin()->first;
      stop_dialing(peer);
      handler_->on_down(peer, leaving);
    }
    for (const auto& stranger : std::exchange(strangers_, {}))
      stranger->close({.reason = leaving, .retry = true});
    for (;;) {
      std::shared_ptr<connection> lane;
      {
        const std::lock_guard lock(mutex_);
        if (lanes_.empty())
          break;
        lane = lanes_.begin()->second;
      }
      lane->close({.reason = leaving});
    }
    io_.stop();
  }

  asio::io_context io_{1}; // first, so that it outlives every socket
  const asio::executor_work_guard<asio::io_context::executor_type> stays_{
      io_.get_executor()}; // keeps run() from returning when idle
  const lane_options options_;
  const std::unique_ptr<const tls_context> tls_; // null: plain
  const std::shared_ptr<lane_handler> handler_;
  tcp::acceptor acceptor_;
  asio::steady_timer accept_pause_;
  std::uint16_t port_ = 0;

  // The hub's thread only.
  std::deque<std::shared_ptr<connection>> strangers_;
  std::map<node_id, dialing> dialing_;

  mutable std::mutex mutex_;
  std::map<node_id, std::shared_ptr<connection>> lanes_; // changed on the hub's thread only
  std::thread thread_;
};

} // namespace

std::unique_ptr<lane_hub> lane_hub::open(const lane_options& options, std::shared_ptr<lane_handler> handler) {
  return std::make_unique<hub>(options, std::move(handler));
}

} // namespace troupe::actors::net
