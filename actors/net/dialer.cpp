// SPDX-License-Identifier: BSD-3-Clause
// Connecting with back-off.
#include "actors/net/dialer.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "actors/sockets/socket_options.hpp"

namespace troupe::actors::net {
namespace {

using boost::asio::ip::tcp;
using boost::system::error_code;

constexpr std::chrono::milliseconds first_pause{10}, longest_pause{1000};

} // namespace

dialer::dialer(boost::asio::io_context& io, target to, events on)
    : io_(io), to_(std::move(to)), on_(std::move(on)), resolver_(io), socket_(io), deadline_(io), pause_(io),
      next_pause_(first_pause) {}

void dialer::start() {
  deadline_.expires_after(to_.deadline);
  deadline_.async_wait([self = shared_from_this()](error_code cancelled) {
    if (cancelled || self->stopped_)
      return;
    self->give_up(fmt::format("no lane to {}:{} within {} ms: {}", self->to_.host, self->to_.port, self->to_.deadline.count(),
                              self->last_reason_));
  });
  attempt();
}

void dialer::give_up(const std::string& reason) {
  const auto gave_up = std::move(on_.gave_up);
  stop();
  gave_up(reason);
}

void dialer::retry(const std::string& reason) {
  last_reason_ = reason;
  if (stopped_)
    return;
  pause_.expires_after(next_pause_);
  next_pause_ = std::min(2 * next_pause_, longest_pause);
  pause_.async_wait([self = shared_from_this()](error_code cancelled) {
    if (!cancelled && !self->stopped_)
      self->attempt();
  });
}

void dialer::stop() {
  stopped_ = true;
  resolver_.cancel();
  deadline_.cancel();
  pause_.cancel();
  error_code ignored;
  socket_.close(ignored);
  on_ = {};
}

void dialer::attempt() {
  resolver_.async_resolve(to_.host, std::to_string(to_.port),
                          [self = shared_from_this()](error_code failed, const tcp::resolver::results_type& found) {
                            if (self->stopped_)
                              return;
                            if (failed)
                              return self->retry(failed.message());
                            self->connect(found);
                          });
}

void dialer::connect(const tcp::resolver::results_type& found) {
  // One address per attempt is enough: hosts in a cluster file have one.
  const tcp::endpoint address = found.begin()->endpoint();
  error_code ignored;
  socket_.close(ignored);
  socket_.open(address.protocol(), ignored);
  try {
    set_congestion(socket_.native_handle(), to_.congestion);
  } catch (const std::system_error& e) {
    return retry(e.what());
  }
  socket_.async_connect(address, [self = shared_from_this()](error_code failed) {
    if (self->stopped_)
      return;
    if (failed == boost::asio::error::connection_refused && self->to_.refusal_is_final)
      return self->give_up(fmt::format("nobody listens at {}:{} any more", self->to_.host, self->to_.port));
    if (failed)
      return self->retry(failed.message());
    self->on_.connected(std::move(self->socket_));
  });
}

} // namespace troupe::actors::net
