// SPDX-License-Identifier: BSD-3-Clause
// Frames over one non-blocking socket.
#include "actors/net/connection.hpp"

#include <cerrno>
#include <cstdlib>
#include <new>
#include <utility>

#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "actors/sockets/socket_options.hpp"
#include "actors/sockets/socket_owner.hpp"
#include "kernels/assert.hpp"

namespace troupe::actors::net {
namespace {

namespace asio = boost::asio;
namespace wire = protocols::wire;
using boost::system::error_code;

// How much a TLS lane reads before other lanes get their turn.
constexpr std::size_t turn_bytes = 1U << 20U;

wire::frame_limits greeting_limits() {
  return {.head_bytes = wire::max_hello_bytes, .payload_bytes = 0};
}

kernels::buffer heap_buffer(std::size_t bytes) {
  const std::size_t padded = (bytes + kernels::alignment - 1) / kernels::alignment * kernels::alignment;
  void* const data = std::aligned_alloc(kernels::alignment, padded);
  if (data == nullptr)
    throw std::bad_alloc();
  return {std::shared_ptr<void>(data, &std::free), data, bytes};
}

/// Writes what the socket takes; -1 with errno as sendmsg.
ssize_t write_some(int descriptor, std::span<const std::span<const std::byte>> parts) {
  std::array<iovec, 2 * send_queue::batch_frames> gathered;
  TROUPE_ASSERT(parts.size() <= gathered.size());
  std::size_t count = 0;
  for (const auto part : parts)
    gathered[count++] = {const_cast<std::byte*>(part.data()), part.size()};
  msghdr message{};
  message.msg_iov = gathered.data();
  message.msg_iovlen = count;
  ssize_t written = 0;
  do
    written = ::sendmsg(descriptor, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  while (written < 0 && errno == EINTR);
  return written;
}

/// Whether both ends of a connection are on this host, as far as its addresses tell.
bool stays_on_host(const asio::ip::tcp::socket& socket) {
  error_code failed;
  const auto peer = socket.remote_endpoint(failed);
  if (failed)
    return false;
  const auto self = socket.local_endpoint(failed);
  return peer.address().is_loopback() || (!failed && peer.address() == self.address());
}

bool is_of_this_user(int descriptor) {
  auto user = user_at_other_end(descriptor, owner_source::kernel);
  if (!user)
    user = user_at_other_end(descriptor, owner_source::table);
  return user == ::geteuid();
}

} // namespace

connection::connection(asio::ip::tcp::socket socket, const lane_options& options, const tls_context* tls, owner& hub,
                       wire::hello::role as)
    : socket_(std::move(socket)), descriptor_(socket_.native_handle()),
      tls_(tls == nullptr
               ? nullptr
               : std::make_unique<tls_session>(
                   *tls, descriptor_, as == wire::hello::role::dials ? tls_session::role::dials : tls_session::role::accepts)),
      options_(options), hub_(hub), as_(as), address_(remote_address(socket_)), greeting_limit_(socket_.get_executor()),
      reader_(greeting_limits()) {
  tune(socket_, window_bytes());
}

/// See lane_options.
std::size_t connection::window_bytes() const {
  return stays_on_host(socket_) && !options_.narrows_loopback ? SIZE_MAX : options_.window_bytes;
}

// -- opening

void connection::start() {
  greeting_limit_.expires_after(options_.handshake_timeout);
  greeting_limit_.async_wait([self = shared_from_this()](error_code stopped) {
    if (!stopped && self->state_ == state::greeting)
      self->close({.reason = fmt::format("no hello within {} ms", self->options_.handshake_timeout.count()), .retry = true});
  });
  if (!tls_)
    return greet_and_read();
  if (as_ == wire::hello::role::dials)
    return shake_hands();
  socket_.async_wait(asio::ip::tcp::socket::wait_read, [self = shared_from_this()](error_code) {
    if (self->state_ != state::closed)
      self->hub_.wants_handshake(*self);
  });
}

void connection::greet_and_read() {
  if (as_ == wire::hello::role::dials)
    if (const auto [first, received] = hub_.hello_to(*this); !say(first, received))
      return;
  read();
}

/// With strangers on a thread of its own, so that lanes do not wait for it.
void connection::shake_hands() {
  if (state_ == state::closed)
    return;
  if (as_ == wire::hello::role::dials)
    return has_shaken_hands(tls_->shake_hands());
  hub_.aside([self = shared_from_this(), here = socket_.get_executor()] {
    const auto how = self->tls_->shake_hands();
    asio::post(here, [self, how] {
      if (self->state_ != state::closed)
        self->has_shaken_hands(how);
    });
  });
}

void connection::has_shaken_hands(tls_session::outcome how) {
  using outcome = tls_session::outcome;
  const auto again = [self = shared_from_this()](error_code) {
    if (self->state_ != state::closed)
      self->shake_hands();
  };
  switch (how) {
  case outcome::done:
    return greet_and_read();
  case outcome::wants_read:
    return socket_.async_wait(asio::ip::tcp::socket::wait_read, again);
  case outcome::wants_write:
    return socket_.async_wait(asio::ip::tcp::socket::wait_write, again);
  case outcome::ended:
  case outcome::refused:
    if (tls_->met_plain_peer())
      say_plainly({.reason = "this lane takes TLS with a certificate of the cluster's authority only"});
    return end(tls_->fault(), how == outcome::refused);
  }
}

// -- reading

void connection::read() {
  if (tls_)
    return read_secured();
  const auto room = reader_.room();
  const std::array<asio::mutable_buffer, 2> into{asio::buffer(room[0].data(), room[0].size()),
                                                 asio::buffer(room[1].data(), room[1].size())};
  socket_.async_read_some(into, [self = shared_from_this()](error_code failed, std::size_t bytes) {
    if (self->state_ == state::closed)
      return;
    if (failed)
      return self->end(failed == asio::error::eof ? self->where_it_ended() : failed.message(), false);
    if (self->take(bytes))
      self->read();
  });
}

/// The socket is readable, or OpenSSL holds what came before.
void connection::read_secured() {
  using outcome = tls_session::outcome;
  std::size_t come = 0;
  while (come < turn_bytes) {
    const auto room = reader_.room();
    const auto [how, bytes] = tls_->read(room[0]);
    come += bytes;
    if (how == outcome::wants_read)
      return socket_.async_wait(asio::ip::tcp::socket::wait_read, [self = shared_from_this()](error_code) {
        if (self->state_ != state::closed)
          self->read_secured();
      });
    if (how != outcome::done)
      return end(how == outcome::ended ? where_it_ended() : tls_->fault(), how == outcome::refused);
    if (!take(bytes))
      return;
  }
  // Other lanes must not wait for a peer that never pauses.
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    if (self->state_ != state::closed)
      self->read_secured();
  });
}

/// `bytes` were read into the reader's room. Returns whether to continue.
bool connection::take(std::size_t bytes) {
  bytes_received_.fetch_add(bytes, std::memory_order_relaxed);
  if (session_)
    session_->hear();
  if (auto fault = reader_.advance(bytes, *this))
    close({.reason = "bad frame: " + *fault, .retry = session_ && session_->forgive()});
  return state_ != state::closed;
}

std::string connection::where_it_ended() const {
  return reader_.between_frames() ? "the peer closed the connection"
                                  : fmt::format("the peer closed the connection within a frame (at byte {})", reader_.position());
}

kernels::buffer connection::place(const wire::message& head, std::size_t bytes) {
  if (kernels::buffer placed = hub_.handler().place(session_->peer(), head, bytes))
    return placed;
  return options_.allocate ? options_.allocate(bytes) : heap_buffer(bytes);
}

bool connection::borrow(std::uint64_t address, const kernels::buffer& into) {
  const auto wrong = session_->borrow(address, into.span<std::byte>());
  if (wrong)
    close({.reason = fmt::format("what it lends cannot be read: {}", *wrong), .retry = session_->forgive()});
  else
    bytes_received_.fetch_add(into.bytes(), std::memory_order_relaxed);
  return !wrong;
}

bool connection::begins(const wire::decoded& head) {
  if (state_ == state::greeting) {
    peer_received_ = head.received;
    return true;
  }
  auto wrong = session_->acknowledged(head.received);
  if (!wrong && !std::holds_alternative<wire::bye>(head.body) && session_->is_first())
    hub_.answered(*session_);
  if (const auto* message = std::get_if<wire::message>(&head.body); message != nullptr && !wrong)
    wrong = hub_.handler().fault_of(session_->peer(), *message);
  if (wrong)
    close({.reason = "bad frame: " + *wrong});
  return !wrong;
}

bool connection::accept(wire::content body, kernels::buffer payload) {
  if (const auto* last = std::get_if<wire::bye>(&body)) {
    end(fmt::format("closed by the peer: {}", last->reason), !last->retry);
  } else if (const auto* first = std::get_if<wire::hello>(&body)) {
    if (state_ == state::greeting)
      greet(*first);
    else
      close({.reason = "bad frame: a second hello"});
  } else if (state_ == state::greeting) {
    close({.reason = "bad frame: a message before hello"});
  } else if (const auto* offer = std::get_if<wire::lending>(&body)) {
    hear_offer(*offer);
  } else if (std::holds_alternative<wire::borrowing>(body)) {
    session_->lend();
  } else if (auto* message = std::get_if<wire::message>(&body)) {
    session_->came(payload.bytes());
    hub_.handler().on_message(session_->peer(), std::move(*message), std::move(payload));
  }
  return state_ != state::closed;
}

void connection::greet(const wire::hello& from) {
  peer_ = from;
  if (auto refusal = hub_.greeted(*this))
    return close(*refusal);
  if (as_ == wire::hello::role::accepts)
    if (const auto [answer, received] = hub_.hello_to(*this); !say(answer, received))
      return;
  greeting_limit_.cancel();
  may_lend_ = options_.shared_memory && !options_.narrows_loopback && stays_on_host(socket_) && is_of_this_user(descriptor_);
  reader_.raise_limits({.head_bytes = wire::max_head_bytes, .payload_bytes = options_.max_payload_bytes});
  if (const auto wrong = hub_.opened(*this))
    close({.reason = *wrong});
}

void connection::hear_offer(const wire::lending& offer) {
  if (std::exchange(heard_offer_, true))
    close({.reason = "bad frame: a second offer to lend"});
  else if (may_lend_)
    session_->offered(offer);
}

void connection::adopt(std::shared_ptr<session> carries) {
  session_ = std::move(carries);
  state_ = state::open;
}

/// The first frame goes into an empty socket, which has room for it.
bool connection::say(const wire::hello& first, std::uint64_t received) {
  const auto frame = wire::encode(first, {}, received);
  TROUPE_ASSERT(frame);
  const auto head = frame->head_bytes();
  if (transmit(std::array{head}) == static_cast<ssize_t>(head.size()) && !holds_back()) {
    bytes_sent_ += head.size();
    return true;
  }
  end("it took no hello", false);
  return false;
}

// -- writing

/// Like sendmsg: how much of `parts` the socket took, or -1 and errno.
ssize_t connection::transmit(std::span<const std::span<const std::byte>> parts) {
  if (!tls_)
    return write_some(descriptor_, parts);
  const auto [how, bytes] = tls_->write(parts);
  if (how == tls_session::outcome::done)
    return static_cast<ssize_t>(bytes);
  errno = how == tls_session::outcome::wants_write ? EAGAIN : EPIPE;
  return -1;
}

void connection::write_later() {
  asio::post(socket_.get_executor(), [self = shared_from_this()] { self->write_up_to(SIZE_MAX); });
}

/// Leaves to the hub's thread what is left once more than so many bytes wait.
void connection::write_up_to(std::size_t most_waiting) {
  while (const auto parts = session_->next_for(*this)) {
    const ssize_t written = transmit(*parts);
    if (written < 0) {
      if (errno == EAGAIN || errno == EWOULDBLOCK)
        return resume_writing();
      return asio::post(
          socket_.get_executor(),
          [self = shared_from_this(), why = error_code(errno, boost::system::system_category())] { self->write_failed(why); });
    }
    bytes_sent_.fetch_add(static_cast<std::size_t>(written), std::memory_order_relaxed);
    if (session_->wrote(static_cast<std::size_t>(written)) > most_waiting)
      return write_later();
  }
}

void connection::write_failed(error_code why) {
  if (state_ == state::closed)
    return session_->stopped(*this);
  // A peer that refuses our certificate sends an alert and hangs up; writing may fail before the alert is read.
  std::array<std::byte, 1> ignored;
  if (tls_ && tls_->read(ignored).how == tls_session::outcome::refused)
    end(tls_->fault(), true);
  else
    end(why.message(), false);
  session_->stopped(*this);
}

void connection::resume_writing() {
  // Asio's socket belongs to the hub's thread.
  asio::dispatch(socket_.get_executor(), [self = shared_from_this()] {
    if (self->state_ == state::closed)
      return self->session_->stopped(*self);
    self->socket_.async_wait(asio::ip::tcp::socket::wait_write, [self](error_code) { self->write_up_to(SIZE_MAX); });
  });
}

// -- closing

void connection::close(const wire::bye& why) {
  if (state_ == state::closed)
    return;
  // A bye in the middle of a frame would be read as its payload.
  const bool writes = session_ && session_->claim(*this);
  if ((writes || !session_) && (!tls_ || tls_->established()))
    if (const auto frame = wire::encode(why))
      (void)transmit(std::array{frame->head_bytes()});
  end(why.reason, !why.retry);
  if (writes)
    session_->stopped(*this);
}

/// For a peer that does not speak TLS.
void connection::say_plainly(const wire::bye& why) {
  if (const auto frame = wire::encode(why))
    (void)write_some(descriptor_, std::array{frame->head_bytes()});
}

void connection::end(const std::string& reason, bool final) {
  if (state_ == state::closed)
    return;
  state_ = state::closed;
  const auto self = shared_from_this();
  error_code ignored;
  greeting_limit_.cancel();
  socket_.shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  socket_.cancel(ignored);
  hub_.closed(*this, reason, final);
}

void connection::describe(lane_stats& out) const {
  const auto backlog = backlog_of(descriptor_);
  out.bytes_sent += bytes_sent_;
  out.bytes_received += bytes_received_;
  out.credit_bytes = options_.credit_bytes;
  out.waiting_bytes += backlog.bytes;
  out.stalled_s = out.waiting_bytes == 0 ? 0 : backlog.since_sent_s;
  out.round_trip_s = backlog.round_trip_s;
}

} // namespace troupe::actors::net
