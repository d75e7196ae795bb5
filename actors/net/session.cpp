// SPDX-License-Identifier: BSD-3-Clause
// From one connection to the next.
#include "actors/net/session.hpp"

#include <algorithm>
#include <climits>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "actors/net/connection.hpp"
#include "kernels/assert.hpp"
#include "protocols/overloaded.hpp"

namespace troupe::actors::net {
namespace {

namespace wire = protocols::wire;

// A peer that only listens hears of what has come after this much, so that it need not keep more.
constexpr std::size_t silent_bytes = 1U << 20U;

// An urgent message waits for the piece that is under way, and for no more of its partition.
constexpr std::chrono::milliseconds time_of_piece{2};
constexpr std::size_t least_piece = 64U << 10U, first_piece = 256U << 10U;
// More at once is not written anyway.
constexpr std::size_t most_of_batch = 256U << 10U;

void count(lane_traffic& in, const wire::content& body, std::size_t bytes) {
  const auto* msg = std::get_if<wire::message>(&body);
  if (msg == nullptr)
    return;
  std::visit(overloaded{[&](const wire::push_part&) { in.push += bytes; }, [&](const wire::push_end&) { in.push += bytes; },
                        [&](const wire::partial_part&) { in.push += bytes; },
                        [&](const wire::params_part&) { in.params += bytes; }, [&](const wire::peer_part&) { in.peers += bytes; },
                        [](const auto&) {}},
             *msg);
}

} // namespace

session::session(node_id peer, std::uint64_t number, std::uint32_t life, std::size_t window_bytes)
    : peer_(peer), number_(number), life_(life), queue_(std::min(window_bytes, most_of_batch)), cuts_(window_bytes != SIZE_MAX) {}

void session::send(wire::content body, kernels::buffer payload, int priority) {
  unsaid_bytes_.store(0, std::memory_order_relaxed);
  const bool lends = lends_ && payload.bytes() >= least_lent;
  auto frame = (lends ? wire::encode_lent : wire::encode)(body, payload.span<const std::byte>(), received());
  if (!frame)
    throw std::invalid_argument(frame.error().text);
  outgoing ready{*std::move(frame), std::move(payload), std::holds_alternative<wire::message>(body), lends};
  const bool small = ready.bytes() <= connection::inline_bytes;
  std::shared_ptr<connection> by;
  {
    const std::lock_guard lock(mutex_);
    spoke_ = true;
    count(sent_, body, ready.bytes() + ready.lent_bytes());
    queue_.push(priority, std::move(ready));
    if (writer_ != nullptr || !carrier_)
      return;
    by = carrier_;
    writer_ = by.get();
  }
  if (small)
    by->write();
  else
    by->write_later();
}

std::optional<std::span<const std::span<const std::byte>>> session::next_for(const connection& by) {
  {
    const std::lock_guard lock(mutex_);
    TROUPE_ASSERT(writer_ == &by);
    if (carrier_.get() == &by) {
      if (cuts_)
        queue_.cut_at(std::max(rate_.in(time_of_piece).value_or(first_piece), least_piece));
      const bool lent = queue_.lent().open != 0;
      const auto parts = queue_.gather();
      if (!lent && queue_.lent().open != 0)
        borrowed_at_ = std::chrono::steady_clock::now();
      if (!parts.empty() || by.holds_back())
        return parts;
      writer_ = nullptr;
      return {};
    }
  }
  stopped(by);
  return {};
}

std::size_t session::wrote(std::size_t bytes) {
  std::vector<outgoing> done; // returned to its pool without the lock
  const std::lock_guard lock(mutex_);
  done = queue_.consume(bytes);
  const auto waiting = queue_.bytes();
  if (cuts_ && (waiting > 0 || rate_.measures()))
    rate_.took(bytes, waiting > 0, std::chrono::steady_clock::now());
  return waiting;
}

void session::stopped(const connection& by) {
  std::shared_ptr<connection> next;
  {
    const std::lock_guard lock(mutex_);
    if (writer_ != &by)
      return;
    writer_ = nullptr;
    if (!carrier_ || carrier_.get() == &by)
      return;
    queue_.rewind(); // the spans that it wrote from are free now
    if (queue_.bytes() == 0)
      return;
    next = carrier_;
    writer_ = next.get();
  }
  next->write_later();
}

bool session::claim(const connection& by) {
  const std::lock_guard lock(mutex_);
  if (writer_ != nullptr)
    return false;
  writer_ = &by;
  return true;
}

std::optional<std::string> session::acknowledged(std::uint64_t count) {
  std::optional<std::vector<outgoing>> done;
  std::shared_ptr<connection> by;
  {
    const std::lock_guard lock(mutex_);
    done = queue_.acknowledge(count);
    if (done && !done->empty())
      borrowed_at_ = std::chrono::steady_clock::now();
    if (done && writer_ == nullptr && queue_.bytes() != 0) // it held back what it would lend
      writer_ = (by = carrier_).get();
  }
  if (!done)
    return fmt::format("it has taken {} messages, and fewer were sent", count);
  if (by)
    by->write_later();
  return {};
}

void session::came(std::size_t bytes) {
  received_.fetch_add(1, std::memory_order_relaxed);
  if (unsaid_bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes > silent_bytes)
    send(wire::beat{}, {}, INT_MIN);
}

void session::offered(const wire::lending& offer) {
  borrows_from_ = cannot_borrow_ ? std::nullopt : peer_memory::open(offer);
  if (borrows_from_)
    send(wire::borrowing{}, {}, INT_MIN);
}

void session::lend() {
  const std::lock_guard lock(mutex_);
  lends_ = carrier_ != nullptr;
}

std::optional<std::string> session::borrow(std::uint64_t address, std::span<std::byte> to) {
  if (!borrows_from_)
    return "nobody asked for it";
  auto wrong = borrows_from_->read(address, to);
  if (wrong) {
    borrows_from_ = {};
    cannot_borrow_ = true;
  }
  return wrong;
}

std::shared_ptr<connection> session::carrier() const {
  const std::lock_guard lock(mutex_);
  return carrier_;
}

std::optional<std::string> session::carry(std::shared_ptr<connection> by, std::uint64_t count) {
  if (auto wrong = acknowledged(count))
    return wrong;
  {
    const std::lock_guard lock(mutex_);
    TROUPE_ASSERT(!carrier_);
    carrier_ = by;
    if (away_since_ != std::chrono::steady_clock::time_point{})
      ++resumed_;
    if (writer_ != nullptr)
      return {}; // it will see that it carries no longer
    queue_.rewind();
    if (queue_.bytes() == 0)
      return {};
    writer_ = by.get();
  }
  by->write_later();
  return {};
}

void session::let_go() {
  const std::lock_guard lock(mutex_);
  if (!carrier_)
    return;
  sent_before_ += carrier_->bytes_sent();
  received_before_ += carrier_->bytes_received();
  carrier_ = nullptr;
  lends_ = false;
  away_since_ = std::chrono::steady_clock::now();
}

void session::beat() {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(spoke_, false) || !carrier_ || writer_ != nullptr)
      return;
  }
  send(wire::beat{}, {}, INT_MIN);
  const std::lock_guard lock(mutex_);
  spoke_ = false;
}

bool session::forgive() {
  if (std::exchange(received_at_bad_frame_, received()) != received())
    bad_frames_ = 0;
  return ++bad_frames_ < most_bad_frames;
}

lane_stats session::stats() const {
  const std::lock_guard lock(mutex_);
  lane_stats out{.peer = peer_,
                 .bytes_sent = sent_before_ + queue_.lent().ever,
                 .bytes_received = received_before_,
                 .lent_bytes = queue_.lent().ever,
                 .queued_bytes = queue_.bytes() + queue_.lent().waiting,
                 .waiting_bytes = queue_.bytes() + queue_.lent().waiting + queue_.lent().open,
                 .silent_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - heard_at()).count(),
                 .resumed = resumed_,
                 .sent = sent_};
  if (carrier_) {
    carrier_->describe(out);
    // A peer that is not heard may have counted it.
    if (queue_.lent().open != 0)
      out.stalled_s = std::max(0.0, std::chrono::duration<double>(heard_at() - borrowed_at_).count());
  } else {
    const std::chrono::duration<double> away = std::chrono::steady_clock::now() - away_since_;
    out.away_s = away.count();
  }
  return out;
}

} // namespace troupe::actors::net
