// SPDX-License-Identifier: BSD-3-Clause
// The acceptor, the dialers, the connections and the lanes of one node, on one thread.
#include <algorithm>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <system_error>
#include <thread>
#include <utility>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <fmt/format.h>

#include "actors/net/connection.hpp"
#include "actors/net/dialer.hpp"
#include "actors/net/handshake_gate.hpp"
#include "actors/net/lane.hpp"
#include "actors/sockets/socket_options.hpp"
#include "actors/sockets/socket_owner.hpp"
#include "kernels/assert.hpp"
#include "protocols/failure_detector.hpp"

namespace troupe::actors::net {
namespace {

namespace asio = boost::asio;
namespace wire = protocols::wire;
using asio::ip::tcp;
using boost::system::error_code;

// Incoming connections that have not sent hello. Each costs a few KiB and a descriptor; a new one replaces the oldest.
constexpr std::size_t most_strangers = 128;
constexpr std::chrono::milliseconds pause_after_accept_error{50};
constexpr const char* started_anew = "its node was started anew";
constexpr protocols::failure_detector_options detection{};

protocols::nanoseconds ns(std::chrono::steady_clock::time_point at) {
  return std::chrono::nanoseconds{at.time_since_epoch()}.count();
}

class hub final : public lane_hub, public connection::owner {
public:
  hub(const lane_options& options, std::shared_ptr<lane_handler> handler)
      : options_(options), tls_(options.security.enabled() ? std::make_unique<tls_source>(options.security) : nullptr),
        handler_(std::move(handler)), acceptor_(io_), accept_pause_(io_), beats_(io_), handshake_pause_(io_) {
    if (options.listens) {
      listen();
      accept();
    }
    beat();
    thread_ = std::thread([this] { io_.run(); });
  }

  ~hub() override { leave(); }

  void leave() override {
    TROUPE_ASSERT(!io_.get_executor().running_in_this_thread());
    if (!thread_.joinable())
      return;
    asio::post(io_, [this] { shut_down(); });
    thread_.join();
    handshakes_.stop();
    handshakes_.join();
  }

  std::uint16_t port() const override { return port_; }

  void connect(node_id peer, const std::string& host, std::uint16_t port, std::chrono::milliseconds deadline,
               std::uint32_t life) override {
    TROUPE_ASSERT(options_.self < peer);
    asio::post(io_, [=, this] {
      end_older(peer, life);
      if (!dialing_.contains(peer) && !find(peer))
        dial({peer, host, port, deadline, options_.congestion, life, false}, random_());
    });
  }

  void send(node_id peer, wire::message msg, kernels::buffer payload, int priority) override {
    if (const auto lane = find(peer))
      lane->send(std::move(msg), std::move(payload), priority);
  }

  void close(node_id peer, const std::string& reason) override {
    asio::post(io_, [=, this] { give_up(peer, reason); });
  }

  std::vector<lane_stats> stats() const override {
    const std::lock_guard lock(mutex_);
    std::vector<lane_stats> all;
    for (const auto& [peer, lane] : lanes_)
      all.push_back(lane.is->stats());
    return all;
  }

private:
  struct dialing {
    dialer::target to;
    std::uint64_t session = 0;
    std::shared_ptr<dialer> how;
    std::shared_ptr<connection> attempt; // connected, and not greeted yet
  };
  struct lane {
    std::shared_ptr<session> is;
    // The hub's thread only.
    std::optional<dialer::target> at; // where to dial it again; nothing: the peer dials
    std::string lost_by;              // why it has no connection, while it has none
    std::unique_ptr<asio::steady_timer> patience;
  };
  /// A lane that is over. Its peer may not know, and come back in vain.
  struct ended {
    std::uint64_t session = 0;
    std::uint32_t life = 0;
    std::string reason;
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
        if (admits(socket))
          meet(
              std::make_shared<connection>(std::move(socket), options_, certificates().get(), *this, wire::hello::role::accepts));
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

  bool admits(tcp::socket& socket) {
    const auto foreign =
        options_.security.own_user && !options_.security.enabled() ? foreign_user(socket.native_handle()) : std::nullopt;
    if (foreign && !foreign->empty())
      handler_->on_refused(*foreign);
    return !foreign;
  }

  std::shared_ptr<const tls_context> certificates() const { return tls_ ? tls_->newest() : nullptr; }

  void meet(std::shared_ptr<connection> stranger) {
    if (strangers_.size() >= most_strangers) {
      const auto oldest = strangers_.front();
      oldest->close({.reason = "too many connections that said nothing", .retry = true});
    }
    strangers_.push_back(stranger);
    stranger->start();
  }

  void dial(const dialer::target& to, std::uint64_t session) {
    const node_id peer = to.peer;
    const auto connected = [this, peer](tcp::socket socket) {
      auto& mine = dialing_.at(peer);
      mine.attempt =
          std::make_shared<connection>(std::move(socket), options_, certificates().get(), *this, wire::hello::role::dials);
      mine.attempt->start();
    };
    const auto gave_up = [this, peer](const std::string& reason) { could_not_dial(peer, reason); };
    const auto how = std::make_shared<dialer>(io_, to, dialer::events{connected, gave_up});
    dialing_[peer] = {to, session, how, nullptr};
    how->start();
  }

  void could_not_dial(node_id peer, const std::string& reason) {
    const auto to = stop_dialing(peer);
    if (const auto known = find(peer))
      end_lane(known, fmt::format("{}; {}", lanes_.at(peer).lost_by, reason));
    else
      handler_->on_down(peer, to->life, reason);
  }

  void give_up(node_id peer, const std::string& reason) {
    if (const auto known = find(peer))
      end_lane(known, reason);
    else if (const auto dialed = stop_dialing(peer))
      handler_->on_down(peer, dialed->life, reason);
  }

  /// Of a process that is gone, though its end may not have been noticed here.
  void end_older(node_id peer, std::uint32_t life) {
    const auto known = find(peer);
    const auto dialed = dialing_.find(peer);
    if (known ? known->life() < life : dialed != dialing_.end() && dialed->second.to.life < life)
      give_up(peer, started_anew);
  }

  /// Returns what was dialed; nothing if that peer is not being dialed.
  std::optional<dialer::target> stop_dialing(node_id peer) {
    const auto node = dialing_.extract(peer);
    if (node.empty())
      return {};
    node.mapped().how->stop();
    if (node.mapped().attempt)
      node.mapped().attempt->close({.reason = "no longer wanted", .retry = true});
    return node.mapped().to;
  }

  /// The peer that this attempt dials, or end() for an incoming connection.
  std::map<node_id, dialing>::iterator dialing_of(const connection& attempt) {
    return std::find_if(dialing_.begin(), dialing_.end(),
                        [&](const auto& each) { return each.second.attempt.get() == &attempt; });
  }

  /// Empty: no names were given, any will do.
  std::string name_of(node_id peer) const {
    if (options_.names.empty())
      return {};
    return peer.value < options_.names.size() ? options_.names[peer.value] : std::to_string(peer.value);
  }

  // -- called by connections

  std::optional<wire::bye> greeted(connection& by) override {
    const auto refuse = [](std::string reason) { return wire::bye{std::move(reason), false}; };
    const auto& as = by.peer();
    const node_id peer{as.node};
    if (as.version != wire::protocol_version)
      return refuse(fmt::format("lane protocol version {} met version {}", wire::protocol_version, as.version));
    if (as.job_key != options_.job_key)
      return refuse(fmt::format("job key {:016x} of node {} met {:016x} of node {}: not the same run", options_.job_key,
                                options_.self.value, as.job_key, peer.value));
    if (const auto certified = by.certified())
      if (auto why = why_not_node(*certified, name_of(peer)); !why.empty())
        return refuse(std::move(why));
    const auto mine = dialing_of(by);
    if (mine != dialing_.end()) {
      if (as.as != wire::hello::role::accepts || mine->first != peer || as.session != mine->second.session)
        return refuse(fmt::format("dialed node {} and reached node {}", mine->first.value, peer.value));
      if (as.life < mine->second.to.life)
        return wire::bye{fmt::format("an older process of node {} answered", peer.value), true};
      return {};
    }
    if (as.as != wire::hello::role::dials || peer >= options_.self)
      return refuse(fmt::format("node {} dialed node {}: the lower one dials", peer.value, options_.self.value));
    if (const auto over = ended_.find(peer); over != ended_.end())
      if (as.session == over->second.session || as.life < over->second.life)
        return refuse(fmt::format("node {} gave this lane up: {}", options_.self.value, over->second.reason));
    const auto known = find(peer);
    const bool older = known && as.life < known->life();
    if (known && known->number() == as.session) { // the end of its connection may not have been noticed here
      if (const auto old = known->carrier())
        old->cut("the peer dialed again");
    } else if (known && known->life() < as.life) {
      end_lane(known, started_anew);
    } else if (known) {
      return wire::bye{fmt::format("node {} has a lane already", peer.value), !older};
    }
    return {};
  }

  void wants_handshake(connection& by) override {
    gate_.wait(by.shared_from_this());
    open_gate();
  }

  void aside(std::function<void()> work) override { asio::post(handshakes_, std::move(work)); }

  std::pair<wire::hello, std::uint64_t> hello_to(const connection& by) override {
    const auto mine = dialing_of(by);
    const bool dials = mine != dialing_.end();
    const auto known = find(dials ? mine->first : node_id{by.peer().node});
    return {{.as = dials ? wire::hello::role::dials : wire::hello::role::accepts,
             .job_key = options_.job_key,
             .node = options_.self.value,
             .life = options_.life,
             .session = dials ? mine->second.session : by.peer().session},
            known ? known->received() : 0};
  }

  std::optional<std::string> opened(connection& by) override {
    const auto self = by.shared_from_this();
    const node_id peer{by.peer().node};
    const auto mine = dialing_of(by);
    const auto at = mine == dialing_.end() ? std::nullopt : std::optional{mine->second.to};
    if (at) {
      mine->second.how->stop();
      dialing_.erase(mine);
    }
    std::erase(strangers_, self);
    auto carried = find(peer);
    const bool comes_back = carried != nullptr;
    if (!comes_back) {
      carried = std::make_shared<session>(peer, by.peer().session, by.peer().life, by.window_bytes());
      const std::lock_guard lock(mutex_);
      lanes_[peer] = {carried, at, {}, nullptr};
    }
    carried->hear();
    if (!comes_back)
      silence_.watch(peer.value, ns(carried->heard_at()));
    lanes_.at(peer).patience = nullptr;
    by.adopt(carried);
    if (auto wrong = carried->carry(self, by.peer_received()))
      return wrong;
    if (by.may_lend())
      carried->offer();
    carried->beat(); // whoever hears it knows that messages find their way here
    return {};
  }

  void answered(const session& of) override { handler_->on_up(of.peer(), of.life()); }

  void closed(connection& by, const std::string& reason, bool final) override {
    const auto self = by.shared_from_this();
    const auto mine = dialing_of(by);
    if (mine != dialing_.end()) {
      mine->second.attempt = nullptr;
      if (!final)
        return mine->second.how->retry(reason);
      return could_not_dial(mine->first, fmt::format("{} ({})", reason, by.address()));
    }
    if (std::erase(strangers_, self) != 0)
      return handler_->on_refused(fmt::format("connection from {}: {}", by.address(), reason));
    const auto carried = by.carried();
    if (!carried || find(carried->peer()) != carried)
      return; // its lane is over
    carried->let_go();
    if (final)
      return end_lane(carried, reason);
    wait_for(*carried, reason);
  }

  lane_handler& handler() override { return *handler_; }

  /// For those that may shake hands now; for the others again when they may.
  void open_gate() {
    while (const auto next = gate_.next(std::chrono::steady_clock::now()))
      next->shake_hands();
    if (gate_.is_empty() || std::exchange(gate_waits_, true))
      return;
    handshake_pause_.expires_at(gate_.due());
    handshake_pause_.async_wait([this](error_code stopped) {
      gate_waits_ = false;
      if (!stopped)
        open_gate();
    });
  }

  // -- lanes without a connection

  /// Dials the peer again, or waits until it does.
  void wait_for(const session& lost, const std::string& reason) {
    const node_id peer = lost.peer();
    auto& lane = lanes_.at(peer);
    lane.lost_by = reason;
    if (lane.at) {
      auto to = *lane.at;
      to.deadline = options_.patience;
      to.refusal_is_final = true;
      return dial(to, lost.number());
    }
    lane.patience = std::make_unique<asio::steady_timer>(io_, options_.patience);
    lane.patience->async_wait([this, peer, number = lost.number()](error_code stopped) {
      const auto known = find(peer);
      if (!stopped && known && known->number() == number && !known->carrier())
        end_lane(known, fmt::format("{}; it did not come back within {} ms", lanes_.at(peer).lost_by, options_.patience.count()));
    });
  }

  /// Its peer is told, and told again if it comes back.
  void end_lane(const std::shared_ptr<session>& over, const std::string& reason) {
    const node_id peer = over->peer();
    {
      const std::lock_guard lock(mutex_);
      lanes_.erase(peer);
    }
    silence_.forget(peer.value);
    ended_[peer] = {over->number(), over->life(), reason};
    stop_dialing(peer);
    if (const auto by = over->carrier()) {
      by->close({.reason = reason});
      over->let_go();
    }
    handler_->on_down(peer, over->life(), reason);
  }

  void beat() {
    beats_.expires_after(std::chrono::nanoseconds{detection.interval});
    beats_.async_wait([this](error_code stopped) {
      if (stopped)
        return;
      for (const auto& each : lanes()) {
        each->beat();
        silence_.heard(each->peer().value, ns(each->heard_at()));
      }
      for (const auto& [peer, silent] : silence_.tick(ns(std::chrono::steady_clock::now())))
        handler_->on_silent(node_id{peer}, lanes_.at(node_id{peer}).is->life(), std::chrono::nanoseconds{silent});
      end_revoked();
      beat();
    });
  }

  /// Lanes are opened once and live for long: where files have changed, whoever is at their other ends is looked at again.
  void end_revoked() {
    const auto newest = certificates();
    if (newest == reviewed_)
      return;
    reviewed_ = newest;
    for (const auto& each : lanes())
      if (const auto by = each->carrier(); by && by->is_revoked(*newest))
        end_lane(each, fmt::format("the certificate of node {} has been revoked", by->certified()->name));
  }

  // -- the rest

  std::shared_ptr<session> find(node_id peer) const {
    const std::lock_guard lock(mutex_);
    const auto found = lanes_.find(peer);
    return found == lanes_.end() ? nullptr : found->second.is;
  }

  std::vector<std::shared_ptr<session>> lanes() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<session>> all;
    for (const auto& [peer, each] : lanes_)
      all.push_back(each.is);
    return all;
  }

  void shut_down() {
    error_code ignored;
    acceptor_.close(ignored);
    accept_pause_.cancel();
    handshake_pause_.cancel();
    const std::string leaving = fmt::format("node {} is leaving", options_.self.value);
    for (const auto& each : lanes())
      end_lane(each, leaving);
    while (!dialing_.empty()) {
      const node_id peer = dialing_.begin()->first;
      handler_->on_down(peer, stop_dialing(peer)->life, leaving);
    }
    for (const auto& stranger : std::exchange(strangers_, {}))
      stranger->close({.reason = leaving, .retry = true});
    io_.stop();
  }

  asio::io_context io_{1}; // first, so that it outlives every socket
  const asio::executor_work_guard<asio::io_context::executor_type> stays_{
      io_.get_executor()}; // keeps run() from returning when idle
  const lane_options options_;
  const std::unique_ptr<tls_source> tls_;                        // null: plain
  std::shared_ptr<const tls_context> reviewed_ = certificates(); // by which every lane has been looked at; the hub's thread only
  const std::shared_ptr<lane_handler> handler_;
  tcp::acceptor acceptor_;
  asio::steady_timer accept_pause_, beats_, handshake_pause_;
  std::uint16_t port_ = 0;

  // The hub's thread only.
  std::deque<std::shared_ptr<connection>> strangers_;
  handshake_gate<connection> gate_;
  bool gate_waits_ = false; // for its timer
  std::map<node_id, dialing> dialing_;
  std::map<node_id, ended> ended_; // the newest
  protocols::failure_detector silence_{detection};
  std::mt19937_64 random_{std::random_device{}()};

  mutable std::mutex mutex_;
  std::map<node_id, lane> lanes_; // changed on the hub's thread only
  std::thread thread_;
  asio::thread_pool handshakes_{1}; // last: it uses what is above
};

} // namespace

std::unique_ptr<lane_hub> lane_hub::open(const lane_options& options, std::shared_ptr<lane_handler> handler) {
  return std::make_unique<hub>(options, std::move(handler));
}

} // namespace troupe::actors::net
