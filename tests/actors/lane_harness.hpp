// SPDX-License-Identifier: BSD-3-Clause
// A handler that remembers what a hub told it, and waits for it.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "actors/net/lane.hpp"

namespace troupe::actors::net::test {

namespace wire = protocols::wire;

/// How long a test waits for what must happen: long enough for a loaded machine, and only ever used up by a failure.
inline constexpr std::chrono::seconds patience{30};

inline kernels::buffer make_buffer(std::size_t bytes, std::uint32_t seed = 1) {
  const auto owner = std::shared_ptr<void>(::operator new (bytes + 64, std::align_val_t{64}),
                                           [](void* p) { ::operator delete (p, std::align_val_t{64}); });
  kernels::buffer made(owner, owner.get(), bytes);
  for (std::size_t i = 0; i < bytes / 4; ++i)
    made.as<std::uint32_t>()[i] = seed + static_cast<std::uint32_t>(i) * 2654435761U;
  return made;
}

inline bool same_bytes(const kernels::buffer& a, const kernels::buffer& b) {
  return std::ranges::equal(a.span<std::byte>(), b.span<std::byte>());
}

/// A part of a push from worker 0; the clock numbers it.
inline wire::message part(std::uint64_t clock, std::size_t bytes) {
  return wire::push_part{{0}, {1}, {{0}, {0}, {clock}}, {0, static_cast<std::int64_t>(bytes / sizeof(float))}};
}
inline wire::message order(std::uint64_t clock) {
  return wire::addressed<protocols::drop_order>{{0}, {{{0}, {0}, {clock}}}};
}
inline std::uint64_t clock_of(const wire::message& msg) {
  if (const auto* of_part = std::get_if<wire::push_part>(&msg))
    return of_part->id.clock.value;
  return std::get<wire::addressed<protocols::drop_order>>(msg).message.id.clock.value;
}

class recorder : public lane_handler {
public:
  struct received {
    node_id from;
    wire::message msg;
    kernels::buffer payload;
  };

  void on_up(node_id peer, std::uint32_t) override {
    note([&] { up.push_back(peer); });
  }
  void on_down(node_id peer, std::uint32_t, const std::string& reason) override {
    note([&] { down.emplace_back(peer, reason); });
  }
  void on_silent(node_id peer, std::uint32_t, std::chrono::nanoseconds silence) override {
    note([&] { silent.emplace_back(peer, silence); });
  }
  std::optional<std::string> fault_of(node_id from, const wire::message& head) override {
    return objection ? objection(from, head) : std::nullopt;
  }
  kernels::buffer place(node_id, const wire::message& head, std::size_t bytes) override {
    return placement ? placement(head, bytes) : kernels::buffer{};
  }
  void on_message(node_id from, wire::message msg, kernels::buffer payload) override {
    if (reaction)
      reaction(from, msg);
    note([&] { messages.push_back({from, std::move(msg), std::move(payload)}); });
  }
  void on_refused(const std::string& reason) override {
    note([&] { refused.push_back(reason); });
  }

  /// Waits until `seen` is true of what was recorded.
  [[nodiscard]] bool wait(const std::function<bool()>& seen) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, patience, seen);
  }
  [[nodiscard]] bool wait_up(std::size_t lanes = 1) {
    return wait([&] { return up.size() >= lanes; });
  }
  [[nodiscard]] bool wait_messages(std::size_t count) {
    return wait([&] { return messages.size() >= count; });
  }
  [[nodiscard]] bool wait_down(std::size_t lanes = 1) {
    return wait([&] { return down.size() >= lanes; });
  }
  [[nodiscard]] bool wait_refused(std::size_t count = 1) {
    return wait([&] { return refused.size() >= count; });
  }

  std::function<kernels::buffer(const wire::message&, std::size_t)> placement; // on the hub's thread; set before lanes open
  std::function<void(node_id, const wire::message&)> reaction;
  std::function<std::optional<std::string>(node_id, const wire::message&)> objection;

  std::mutex mutex; // guards what follows
  std::condition_variable changed;
  std::vector<node_id> up;
  std::vector<std::pair<node_id, std::string>> down;
  std::vector<std::string> refused;
  std::vector<std::pair<node_id, std::chrono::nanoseconds>> silent;
  std::vector<received> messages;

private:
  template <class Change>
  void note(const Change& change) {
    {
      const std::lock_guard lock(mutex);
      change();
    }
    changed.notify_all();
  }
};

/// A hub and what it told.
struct node {
  explicit node(std::uint32_t id, lane_options options = {}) {
    options.self = node_id{id};
    if (options.job_key == 0)
      options.job_key = 0x7eed;
    hub = lane_hub::open(options, seen);
  }
  std::shared_ptr<recorder> seen = std::make_shared<recorder>();
  std::unique_ptr<lane_hub> hub;
};

/// Opens a lane from the lower to the higher node.
inline void join(node& low, node& high, std::uint32_t high_id = 1) {
  const std::size_t before_low = low.seen->up.size(), before_high = high.seen->up.size();
  low.hub->connect(node_id{high_id}, "127.0.0.1", high.hub->port(), patience);
  ASSERT_TRUE(low.seen->wait_up(before_low + 1));
  ASSERT_TRUE(high.seen->wait_up(before_high + 1));
}

/// Threads that send from one node to another at once, each at a priority of its own: everything comes once, each thread's in its
/// order.
inline void expect_every_senders_order(node& zero, node& one, std::uint64_t threads, std::uint64_t each) {
  {
    std::vector<std::jthread> senders;
    for (std::uint64_t t = 0; t < threads; ++t)
      senders.emplace_back([&, t] {
        const auto payload = make_buffer(4096);
        for (std::uint64_t i = 0; i < each; ++i)
          if (i % 7 == 0)
            zero.hub->send(node_id{1}, part(t * 10'000 + i, payload.bytes()), payload, static_cast<int>(t));
          else
            zero.hub->send(node_id{1}, order(t * 10'000 + i), {}, static_cast<int>(t));
      });
  }
  ASSERT_TRUE(one.seen->wait_messages(threads * each));
  const std::lock_guard lock(one.seen->mutex);
  EXPECT_EQ(one.seen->messages.size(), threads * each);
  EXPECT_TRUE(one.seen->down.empty());
  std::vector<std::uint64_t> next(threads, 0);
  for (const auto& got : one.seen->messages) {
    const auto t = clock_of(got.msg) / 10'000;
    EXPECT_EQ(clock_of(got.msg) % 10'000, next.at(t)++);
  }
}

} // namespace troupe::actors::net::test
